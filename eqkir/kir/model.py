"""KIR as data: frozen pydantic models, one class an operation, discriminated by ``op`` (kir.md).

Adding an operation: write one subclass of `Op` with its own ``op`` literal and decorate it with `@operation`; its type rule, its
reference evaluation and its construction register themselves under the same literal elsewhere (`kir.types`, `kir.reference`,
`program.construct`). Nothing that exists needs to change.

Values are named by SSA ids (strings), unique within a kernel. Scalars and constexprs are values under their own names. Every
tensor is ranked; a scalar has shape ``[]``. Shapes hold extents: an int, the name of a symbol (or of an int constexpr), or, in
operations only, an expression in the JSON form of `base.expr` with bare names for symbols (``["mul", "M", 4]``).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from eqkir.base.dtypes import DType
from eqkir.base.expr import Expr, Int, Sym, rebuild

VERSION = 1
Id = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.$]*$", max_length=200)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=200)]
Extent = Union[int, str, list[Any]]
Literal_ = Union[bool, int, float, str]  # floats that JSON lacks are the strings "inf" "-inf" "nan"


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


class Loc(Frozen):
    """Where the author wrote it."""

    file: str
    line: int


# ------------------------------------------------------------------------------------------------ interface
class View(Frozen):
    """An external view. Strides (elements, any sign, 0 for reads), element offset and allocation are facts of the call."""

    kind: Literal["view"] = "view"
    id: Name
    role: Literal["in", "out", "inout"]
    dtype: DType
    shape: tuple[Union[int, str], ...]


class Scalar(Frozen):
    """A run-time scalar of the ABI; an integer scalar may occur in extents' expressions and domains' bounds."""

    kind: Literal["scalar"] = "scalar"
    id: Name
    dtype: DType


class Constexpr(Frozen):
    """A compile-time value; it selects hardware-independent branches or sizes."""

    kind: Literal["constexpr"] = "constexpr"
    id: Name
    type: Literal["bool", "int", "float", "enum"]
    default: Literal_
    choices: tuple[str, ...] = ()


Param = Annotated[Union[View, Scalar, Constexpr], Field(discriminator="kind")]


# ------------------------------------------------------------------------------------------------ operations
class Op(Frozen):
    """One operation. `results` are the ids it defines; operands are ids of earlier values."""

    op: str
    results: tuple[Id, ...] = ()
    loc: Loc | None = None
    #: names of fields that hold operand ids (an id or a tuple of ids), in order
    operand_fields: ClassVar[tuple[str, ...]] = ()

    def operands(self) -> list[str]:
        """Ids read by this operation itself (not by its regions)."""
        out: list[str] = []
        for f in self.operand_fields:
            v = getattr(self, f)
            out += [] if v is None else [v] if isinstance(v, str) else list(v)
        return out

    def regions(self) -> list[Region]:
        """Nested regions, in order."""
        return []


OPERATIONS: dict[str, type[Op]] = {}
T = TypeVar("T", bound=type[Op])


def operation(cls: T) -> T:
    """Register an operation class under its ``op`` literal."""
    OPERATIONS[cls.model_fields["op"].default] = cls
    return cls


class Arg(Frozen):
    """A region argument: a scalar (or domain point) of the given dtype."""

    id: Id
    dtype: DType


class Region(Frozen):
    """Straight-line body with arguments and yielded ids."""

    args: tuple[Arg, ...] = ()
    body: tuple[AnyOp, ...] = ()
    yields: tuple[Id, ...] = ()


@operation
class Constant(Op):
    """Scalar constant, `value` rounded to `dtype`."""

    op: Literal["constant"] = "constant"
    dtype: DType
    value: Literal_


@operation
class ExtentOp(Op):
    """The value of an extent as an ``index`` scalar."""

    op: Literal["extent"] = "extent"
    extent: Extent


@operation
class Domain(Op):
    """``domain(begin, end, step)``: half open, ordered, step > 0; the result is a domain value, not a tensor."""

    op: Literal["domain"] = "domain"
    begin: Extent = 0
    end: Extent
    step: int = Field(default=1, gt=0)


@operation
class Indices(Op):
    """The coordinates of a domain: ``index`` tensor of shape ``[length]`` that knows its source."""

    op: Literal["indices"] = "indices"
    domain: Id
    operand_fields: ClassVar[tuple[str, ...]] = ("domain",)


@operation
class Load(Op):
    """``view[coords]``: one integer coordinate (scalar or tensor) per axis of the view, broadcast together (and with `valid`).

    An invalid element touches nothing and yields `fill` (default: zero / false of the view's dtype).
    """

    op: Literal["load"] = "load"
    view: Name
    coords: tuple[Id, ...]
    valid: Id | None = None
    fill: Id | None = None
    operand_fields: ClassVar[tuple[str, ...]] = ("coords", "valid", "fill")


@operation
class Store(Op):
    """``view[coords] = value`` where valid; indices must be injective. `value` broadcasts to the coordinates' shape."""

    op: Literal["store"] = "store"
    view: Name
    coords: tuple[Id, ...]
    value: Id
    valid: Id | None = None
    operand_fields: ClassVar[tuple[str, ...]] = ("coords", "value", "valid")


UNARY = (
    "neg", "abs", "not", "sqrt", "rsqrt", "exp", "exp2", "log", "log2", "log1p", "expm1", "sigmoid", "tanh", "sin", "cos", "tan",
    "asin", "atan", "erf", "erfc", "i0", "lgamma", "floor", "ceil", "round_even", "isnan", "isinf", "isfinite",
)  # fmt: skip
BINARY = (
    "add", "sub", "mul", "div", "floordiv", "mod", "maximum", "minimum", "maximum_num", "minimum_num", "and", "or", "xor", "shl", "shr",
)  # fmt: skip
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


@operation
class Unary(Op):
    """Pointwise function of one operand. ``not`` is logical on bool and bitwise on integers; ``isnan`` … give bool."""

    op: Literal["unary"] = "unary"
    fn: Literal[UNARY]  # type: ignore[valid-type]
    x: Id
    operand_fields: ClassVar[tuple[str, ...]] = ("x",)


@operation
class Binary(Op):
    """Pointwise function of two operands of one dtype, with broadcasting. ``div`` is float only, ``floordiv mod`` integer only."""

    op: Literal["binary"] = "binary"
    fn: Literal[BINARY]  # type: ignore[valid-type]
    x: Id
    y: Id
    operand_fields: ClassVar[tuple[str, ...]] = ("x", "y")


@operation
class Compare(Op):
    """Pointwise comparison of two operands of one dtype; result bool. NaN compares false except under ``ne``."""

    op: Literal["compare"] = "compare"
    fn: Literal[COMPARE]  # type: ignore[valid-type]
    x: Id
    y: Id
    operand_fields: ClassVar[tuple[str, ...]] = ("x", "y")


@operation
class Fma(Op):
    """``x * y + z`` with one rounding."""

    op: Literal["fma"] = "fma"
    x: Id
    y: Id
    z: Id
    operand_fields: ClassVar[tuple[str, ...]] = ("x", "y", "z")


@operation
class Select(Op):
    """``cond ? x : y``; `cond` is bool, `x` and `y` of one dtype; broadcasting."""

    op: Literal["select"] = "select"
    cond: Id
    x: Id
    y: Id
    operand_fields: ClassVar[tuple[str, ...]] = ("cond", "x", "y")


@operation
class Cast(Op):
    op: Literal["cast"] = "cast"
    x: Id
    dtype: DType
    operand_fields: ClassVar[tuple[str, ...]] = ("x",)


@operation
class Bitcast(Op):
    """Reinterpretation between dtypes of one width."""

    op: Literal["bitcast"] = "bitcast"
    x: Id
    dtype: DType
    operand_fields: ClassVar[tuple[str, ...]] = ("x",)


@operation
class Full(Op):
    op: Literal["full"] = "full"
    value: Id
    shape: tuple[Extent, ...]
    operand_fields: ClassVar[tuple[str, ...]] = ("value",)


@operation
class Broadcast(Op):
    """To `shape`: size-1 axes repeat, aligned from the right."""

    op: Literal["broadcast"] = "broadcast"
    x: Id
    shape: tuple[Extent, ...]
    operand_fields: ClassVar[tuple[str, ...]] = ("x",)


@operation
class Reshape(Op):
    """Row-major, same count. Inserting and dropping size-1 axes is a reshape."""

    op: Literal["reshape"] = "reshape"
    x: Id
    shape: tuple[Extent, ...]
    operand_fields: ClassVar[tuple[str, ...]] = ("x",)


@operation
class Transpose(Op):
    """``result[i_0, …] = x`` with result axis j = x axis ``perm[j]``."""

    op: Literal["transpose"] = "transpose"
    x: Id
    perm: tuple[int, ...]
    operand_fields: ClassVar[tuple[str, ...]] = ("x",)


@operation
class Reduce(Op):
    """Reduction over `axes` (removed from the shape).

    Built-in: ``fn`` and one operand; ``sum`` accumulates and results in the widened dtype (`dtypes.WIDENED`), the others in the
    operand's; ``any`` / ``all`` on bool. Generic: `combine` has 2n scalar args (n of the left state, n of the right) and n
    yields, `identities` n scalar ids; declared associative and commutative with a neutral identity. Operands share a shape.
    """

    op: Literal["reduce"] = "reduce"
    xs: tuple[Id, ...]
    axes: tuple[int, ...]
    fn: Literal["sum", "max", "min", "prod", "any", "all"] | None = None
    identities: tuple[Id, ...] = ()
    combine: Region | None = None
    operand_fields: ClassVar[tuple[str, ...]] = ("xs", "identities")

    def regions(self) -> list[Region]:
        return [self.combine] if self.combine else []


@operation
class Contract(Op):
    """Sum of products over the paired axes `reduce`, elementwise over the paired axes `batch`.

    Operands share a dtype; products and sum are in `acc` (i32 for 8-bit integers, f32 for narrow floats, …); the result has dtype
    `acc` and shape: batch axes, then lhs free, then rhs free. Empty reduction gives 0.
    """

    op: Literal["contract"] = "contract"
    lhs: Id
    rhs: Id
    reduce: tuple[tuple[int, int], ...]
    batch: tuple[tuple[int, int], ...] = ()
    acc: DType
    operand_fields: ClassVar[tuple[str, ...]] = ("lhs", "rhs")


@operation
class Parallel(Op):
    """Unordered forall over the product of `domains`; `body.args` are the points (``index`` scalars), one per domain; no yields."""

    op: Literal["parallel"] = "parallel"
    domains: tuple[Id, ...]
    body: Region
    operand_fields: ClassVar[tuple[str, ...]] = ("domains",)

    def regions(self) -> list[Region]:
        return [self.body]


AnyOp = Annotated[Union[tuple(OPERATIONS.values())], Field(discriminator="op")]  # type: ignore[valid-type]


# ------------------------------------------------------------------------------------------------ kernel, module
class Symbol(Frozen):
    """A named extent. ``min`` / ``max`` are verified relations of the interface, checked at launch."""

    id: Name
    min: int = Field(default=0, ge=0)
    max: int | None = None
    multiple_of: int = Field(default=1, ge=1)


class Kernel(Frozen):
    """One kernel: one launch. `noalias` lists sets of views declared pairwise disjoint (a precondition of the caller)."""

    name: Name
    symbols: tuple[Symbol, ...] = ()
    equal: tuple[tuple[str, str], ...] = ()  # explicit equalities between symbols
    params: tuple[Param, ...]
    noalias: tuple[tuple[Name, ...], ...] = ()
    body: tuple[AnyOp, ...]
    loc: Loc | None = None


class Module(Frozen):
    kir: Literal[1]
    name: Name = "module"
    kernels: tuple[Kernel, ...]


Region.model_rebuild()
for _c in OPERATIONS.values():
    _c.model_rebuild()
Kernel.model_rebuild()
Module.model_rebuild()
MODULE = TypeAdapter(Module)


def extent_expr(e: Any) -> Expr:
    """An extent of the JSON as an expression. Raises ValueError when it is none."""
    if isinstance(e, bool):
        raise ValueError(f"not an extent: {e!r}")
    if isinstance(e, int):
        return Int(e)
    if isinstance(e, str):
        return Sym(e)
    if isinstance(e, (list, tuple)) and len(e) == 3 and e[0] in ("add", "sub", "mul", "floordiv", "mod", "min", "max"):
        return rebuild(e[0], (extent_expr(e[1]), extent_expr(e[2])))
    raise ValueError(f"not an extent: {e!r}")
