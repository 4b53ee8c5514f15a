"""What every operation of KIR is built from: frozen models, ids, extents, regions, and the registry of operations."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union

from pydantic import BaseModel, ConfigDict, FailFast, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema

from eqkir.base.dtypes import DType
from eqkir.base.expr import Expr, Int, Sym, rebuild

RANK_LIMIT = 32
Id = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.$]*$", max_length=200)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=200)]
Extent = Union[int, str, list[Any]]
Literal_ = Union[bool, int, float, str]  # floats that JSON lacks are the strings "inf" "-inf" "nan"
Ids = Annotated[tuple[Id, ...], FailFast(), Field(max_length=RANK_LIMIT)]
Coords = Ids
Axes = Annotated[tuple[int, ...], FailFast(), Field(max_length=RANK_LIMIT)]
Pairs = Annotated[tuple[tuple[int, int], ...], FailFast(), Field(max_length=RANK_LIMIT)]
Shape = Annotated[tuple[Extent, ...], FailFast(), Field(max_length=RANK_LIMIT)]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


class Loc(Frozen):
    """Where the author wrote it."""

    file: str
    line: int


#: what a region may do: only pointwise operations | nothing outside itself | read memory | anything
Purity = Literal["pointwise", "pure", "read", "any"]


class Op(Frozen):
    """One operation. `results` are the ids it defines; operands are ids of earlier values."""

    op: str
    results: tuple[Id, ...] = ()
    loc: Loc | None = None
    #: names of fields that hold operand ids (an id or a tuple of ids), in order
    operand_fields: ClassVar[tuple[str, ...]] = ()
    #: names of fields that hold a resource or several: the id of a view or of a buffer
    resource_fields: ClassVar[tuple[str, ...]] = ()
    #: names of fields that hold an extent or several
    extent_fields: ClassVar[tuple[str, ...]] = ()
    #: pure and elementwise: allowed in a combine region
    pointwise: ClassVar[bool] = False
    #: reads memory: its resources, in program order with writes
    reads: ClassVar[bool] = False
    #: changes memory, allocates it, or leaves a loop
    writes: ClassVar[bool] = False
    #: regions see their own arguments and values only (a combine), not those of the enclosing blocks
    closed_regions: ClassVar[bool] = False
    #: what a region may do, by its field; a region that is not named may do anything
    purity: ClassVar[dict[str, Purity]] = {}

    def operands(self) -> list[str]:
        """Ids read by this operation itself (not by its regions)."""
        out: list[str] = []
        for f in self.operand_fields:
            v = getattr(self, f)
            out += [] if v is None else [v] if isinstance(v, str) else list(v)
        return out

    def resources(self) -> list[str]:
        """Ids of the views and buffers that this operation itself touches."""
        out: list[str] = []
        for f in self.resource_fields:
            v = getattr(self, f)
            out += [v] if isinstance(v, str) else list(v)
        return out

    def named_regions(self) -> list[tuple[str, Region]]:
        """(field, region) of the nested regions, in the order of the schema."""
        values = ((f, getattr(self, f)) for f in type(self).model_fields)
        return [(f, v) for f, v in values if isinstance(v, Region)]

    def regions(self) -> list[Region]:
        """Nested regions, in order."""
        return [r for _, r in self.named_regions()]


OPERATIONS: dict[str, type[Op]] = {}
T = TypeVar("T", bound=type[Op])


def tag(cls: type[Op]) -> str:
    """The ``op`` literal of a class."""
    return str(cls.model_fields["op"].default)


def operation(cls: T) -> T:
    """Register an operation class under its ``op`` literal (after `kir.model` is loaded, call its `refresh`)."""
    OPERATIONS[tag(cls)] = cls
    return cls


class Spec(Frozen):
    """The type of an argument: a tensor of `dtype` and `shape` (default: a scalar), a ``domain``, or a ``record`` of `fields`.

    The extent of a domain argument is a fresh symbol named by the argument's id; `shape` may name it.
    """

    dtype: DType | Literal["domain", "record"]
    shape: Shape = ()
    fields: tuple[FieldSpec, ...] = ()


class FieldSpec(Spec):
    """A field of a record."""

    name: Name


class Arg(Spec):
    """An argument of a region or of a helper."""

    id: Id


class _Operations:
    """Marks a field as "any registered operation": the union is formed when the schema is built."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        classes = tuple(OPERATIONS[k] for k in sorted(OPERATIONS))
        return handler.generate_schema(Annotated[Union[classes], Field(discriminator="op")] if len(classes) > 1 else source)


AnyOp = Annotated[Op, _Operations()]


Spec.model_rebuild()
FieldSpec.model_rebuild()


class Region(Frozen):
    """Straight-line body with arguments and yielded ids."""

    args: tuple[Arg, ...] = ()
    body: tuple[AnyOp, ...] = ()
    yields: tuple[Id, ...] = ()


#: operators of extents: JSON name -> number of operands
EXTENT_OPS = ("add", "sub", "mul", "floordiv", "mod", "min", "max")


def extent_expr(e: Any) -> Expr:
    """An extent of the JSON as an expression. Raises ValueError when it is none."""
    if isinstance(e, bool):
        raise ValueError(f"not an extent: {e!r}")
    if isinstance(e, int):
        return Int(e)
    if isinstance(e, str):
        return Sym(e)
    if isinstance(e, (list, tuple)) and len(e) == 3 and isinstance(e[0], str) and e[0] in EXTENT_OPS:
        return rebuild(e[0], (extent_expr(e[1]), extent_expr(e[2])))
    raise ValueError(f"not an extent: {str(e)[:80]}")
