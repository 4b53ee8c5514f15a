"""KIR as data: frozen pydantic models, one class an operation, discriminated by ``op`` (kir.md).

Adding an operation: write one subclass of `Op` with its own ``op`` literal and decorate it with `@operation`; its type rule, its
reference evaluation and its construction register themselves under the same literal elsewhere (`kir.types`, `kir.reference`,
`program.construct`). Nothing that exists needs to change. An operation registered after this module was loaded (an
extension's) joins the union by `refresh()`.

Values are named by SSA ids (strings), unique within a kernel. Scalars and constexprs are values under their own names. Every
tensor is ranked; a scalar has shape ``[]``. Shapes hold extents: an int, the name of a symbol (or of an int constexpr or integer
scalar), or, in operations only, an expression in the JSON form of `base.expr` with bare names for symbols (``["mul", "M", 4]``).
"""

from __future__ import annotations

from typing import Annotated, Literal, Union

from pydantic import FailFast, Field

from eqkir.base.dtypes import DType
from eqkir.kir.node import (
    OPERATIONS,
    RANK_LIMIT,
    AnyOp,
    Arg,
    Extent,
    FieldSpec,
    Frozen,
    Id,
    Literal_,
    Loc,
    Name,
    Op,
    Region,
    Spec,
    extent_expr,
    operation,
)
from eqkir.kir.ops import (
    BINARY,
    COMPARE,
    UNARY,
    ArgReduce,
    AssumeInBounds,
    AtomicAdd,
    AtomicAnd,
    AtomicCompareExchange,
    AtomicExchange,
    AtomicLoad,
    AtomicMax,
    AtomicMin,
    AtomicOr,
    AtomicStore,
    AtomicUpdate,
    AtomicXor,
    Binary,
    Bitcast,
    Break,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Compare,
    Constant,
    Continue,
    Contract,
    Domain,
    ExtentOp,
    Fma,
    For,
    Full,
    Gather,
    GetField,
    Histogram,
    If,
    Indices,
    Join,
    Load,
    MakeRecord,
    Parallel,
    Quantize,
    QuantizedDot,
    RandomBits,
    RandomUniform,
    Reduce,
    RegionFold,
    RegionScan,
    Reshape,
    ScaledContract,
    Scan,
    ScatterReduce,
    Select,
    SparseContract,
    Store,
    Subregion,
    Transpose,
    Unary,
    UniqueScatter,
    While,
    Write,
)

VERSION = 1


class View(Frozen):
    """An external view. Strides (elements, any sign, 0 for reads), element offset and allocation are facts of the call."""

    kind: Literal["view"] = "view"
    id: Name
    role: Literal["in", "out", "inout"]
    dtype: DType
    shape: Annotated[tuple[Union[int, str], ...], FailFast(), Field(max_length=RANK_LIMIT)]


class Scalar(Frozen):
    """A run-time scalar of the ABI; an integer scalar may occur in extents' expressions and domains' bounds."""

    kind: Literal["scalar"] = "scalar"
    id: Name
    dtype: DType


class Constexpr(Frozen):
    """A compile-time value; it selects hardware-independent branches or sizes.

    As a value it is a scalar: ``bool`` → bool, ``int`` → index, ``float`` → f64, ``enum`` → index (the position in `choices`).
    """

    kind: Literal["constexpr"] = "constexpr"
    id: Name
    type: Literal["bool", "int", "float", "enum"]
    default: Literal_
    choices: tuple[str, ...] = ()


Param = Annotated[Union[View, Scalar, Constexpr], Field(discriminator="kind")]


class Symbol(Frozen):
    """A named extent. ``min`` / ``max`` / ``multiple_of`` are verified relations of the interface, checked at launch."""

    id: Name
    min: int = Field(default=0, ge=0)
    max: int | None = None
    multiple_of: int = Field(default=1, ge=1)


class HelperView(Frozen):
    """A view argument of a helper: a view or buffer of the caller stands for it. Its role bounds what the helper does with it."""

    id: Name
    role: Literal["in", "out", "inout"]
    dtype: DType
    shape: Annotated[tuple[Union[int, str], ...], FailFast(), Field(max_length=RANK_LIMIT)]


class Helper(Frozen):
    """A typed function that kernels (and other helpers) call, without recursion.

    `symbols` are extents that a call fixes by the types of its arguments. It captures nothing but `constexprs` of the caller: the
    calling kernel has one of the same id and type. A ``pure`` helper may read views but changes nothing.
    """

    name: Name
    symbols: tuple[Name, ...] = ()
    constexprs: tuple[Constexpr, ...] = ()
    args: tuple[Arg, ...] = ()
    views: tuple[HelperView, ...] = ()
    effect: Literal["pure", "effectful"] = "pure"
    body: tuple[AnyOp, ...]
    yields: tuple[Id, ...] = ()
    loc: Loc | None = None


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
    helpers: tuple[Helper, ...] = ()
    kernels: tuple[Kernel, ...]


def refresh() -> None:
    """Rebuild the models from the registry of operations."""
    models: tuple[type[Frozen], ...] = (Region, *(OPERATIONS[k] for k in sorted(OPERATIONS)), Helper, Kernel, Module)
    for cls in models:
        for name in ("__pydantic_core_schema__", "__pydantic_validator__", "__pydantic_serializer__"):
            if name in vars(cls):
                delattr(cls, name)
        cls.__pydantic_complete__ = False
    for cls in models:
        cls.model_rebuild(force=True)


refresh()

__all__ = [
    "BINARY", "COMPARE", "OPERATIONS", "UNARY", "VERSION", "AnyOp", "Arg", "ArgReduce", "AssumeInBounds", "AtomicAdd", "AtomicAnd",
    "AtomicCompareExchange", "AtomicExchange", "AtomicLoad", "AtomicMax", "AtomicMin", "AtomicOr", "AtomicStore", "AtomicUpdate",
    "AtomicXor", "Binary", "Bitcast", "Break", "Broadcast", "Buffer", "Call", "Cast", "Compare", "Constant", "Constexpr", "Continue",
    "Contract", "Domain", "Extent", "ExtentOp", "FieldSpec", "Fma", "For", "Frozen", "Full", "Gather", "GetField", "Helper",
    "HelperView", "Histogram", "Id", "If", "Indices", "Join", "Kernel", "Literal_", "Load", "Loc", "MakeRecord", "Module", "Name", "Op",
    "Parallel", "Param", "Quantize", "QuantizedDot", "RandomBits", "RandomUniform", "Reduce", "Region", "RegionFold", "RegionScan",
    "Reshape", "Scalar", "ScaledContract", "Scan", "ScatterReduce", "Select", "SparseContract", "Spec", "Store", "Subregion", "Symbol",
    "Transpose", "Unary", "UniqueScatter", "View", "While", "Write", "extent_expr", "operation", "refresh",
]  # fmt: skip
