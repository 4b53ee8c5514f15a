"""What types are: of tensors, domains, records, buffers; of the resources of an access; of helpers."""

from __future__ import annotations

from dataclasses import dataclass

from eqkir.base.expr import Expr
from eqkir.kir.model import Helper


@dataclass(frozen=True, slots=True)
class TensorType:
    """A ranked tensor; rank 0 is a scalar."""

    dtype: str
    shape: tuple[Expr, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class DomainType:
    """``begin, begin + step, … < end``; `length` is their number. `source` is the domain that this one is a part of."""

    begin: Expr
    end: Expr
    step: int
    length: Expr
    source: str | None = None

    def __str__(self) -> str:
        return f"domain({self.begin}, {self.end}, {self.step})"


@dataclass(frozen=True, slots=True)
class RecordType:
    """Named fields in order; a tuple has the names _0, _1, …"""

    fields: tuple[tuple[str, TensorType | RecordType], ...]

    def __str__(self) -> str:
        return "{" + ", ".join(f"{n}: {t}" for n, t in self.fields) + "}"


@dataclass(frozen=True, slots=True)
class BufferType:
    """Mutable memory of the kernel; not a value: `view` of a load or store names it."""

    dtype: str
    shape: tuple[Expr, ...]

    def __str__(self) -> str:
        return f"buffer {self.dtype}[{', '.join(map(str, self.shape))}]"


Type = TensorType | DomainType | RecordType | BufferType


@dataclass(frozen=True, slots=True)
class Resource:
    """What a load or store names: a view or a buffer."""

    dtype: str
    shape: tuple[Expr, ...]
    role: str
    buffer: bool = False


@dataclass(frozen=True, slots=True)
class HelperType:
    """A helper's arguments and results, in its own symbols."""

    helper: Helper
    args: tuple[Type, ...]
    views: tuple[Resource, ...]
    results: tuple[Type, ...]
