"""Task programs: what a structured `Program` becomes for a CPU before any provider sees it (docs/cpu.md).

A task program is a list of *stages*; the groups of one stage run concurrently, and all of them end before the next stage starts (a join).
A group has ``launch`` instances, which are unordered among each other; a task is a run of consecutive instances of one group. The instance
number reaches the body as mixed-radix *digits*, the last one fastest: digit k of instance n is ``n // (r[k+1] · r[k+2] · …) % r[k]``.

A value is a scalar (width 1) or a vector (a power of two of lanes) of one dtype; ``index`` is i64 and holds all coordinates, offsets and
counts. Values are SSA ids, unique in a group, visible in the block that defines them and in the blocks inside it. Mutable state is a `Var`
(a register, or several) or a resource.

Operations (`Op`) apply lane by lane, operands and result of one width, unless the table says otherwise:

=========  =============  =====================  =======================================================================
op         attrs          args                   result
=========  =============  =====================  =======================================================================
Const      (text,)                               scalar; `dtypes.literal` text
Param      (name,)                               scalar index: an index parameter of the launch (`TaskProgram.params`)
Address    (place,)                              scalar index: the address of the place's first element in bytes
Scalar     (name,)                               scalar: a run-time scalar of the ABI
Un Bin     (fn,)          a | a, b               as in `program.model`; on ``index`` too (``floordiv mod`` round down)
Tri        (fn,)          a, b, c                ``select`` (bool, x, y) and ``fma``
Cast       (dtype,)       a                      of `a`'s dtype to the result's
Bitcast    (dtype,)       a
Broadcast  ()             scalar                 vector, every lane the scalar
Iota       ()                                    index vector 0, 1, 2, …
Lanes      ()             count (index scalar)   bool vector: lane i is true where i < count
Build      ()             one scalar a lane      vector
Extract    (i,)           vector                 scalar, lane i
Slice      (at,)          vector                 lanes at … at + width - 1 of the operand
Reverse    ()             vector                 the operand's lanes, the last one first
Permute    (lanes,)       a, b                   lane i is lane lanes[i] of a's lanes and then b's (a tuple; operands of one type)
Extreme    (fn,)          a, b (f32 or f64)      ``maximum`` or ``minimum`` of numbers; any number in a lane where one is NaN
Any        ()             bool vector            scalar bool: whether any lane is true
Words      ()             i8 vector              i32, a quarter of the lanes: four bytes a lane, the first lowest
Dot4       ()             acc, a, b (i32)        i32: acc + the products of the bytes of a, unsigned, and of b, signed, modulo 2^32
=========  =============  =====================  =======================================================================

Every operation is total: a division by zero, a shift out of range or a cast out of range gives some value and nothing else happens,
because lanes that take no part hold garbage.

Memory is addressed by a *place* (a view's or resource's name) and an element offset from the place's first element; offsets are index
scalars, or index vectors for ``gather`` accesses. Access kinds of a vector: ``contiguous`` (lane i at offset + i), ``strided`` (at offset +
i·stride, an index scalar), ``gather`` (lane i at its own offset). A mask (bool, of the value's width) says which lanes touch memory;
loads give `other` in the rest (0 without one).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Union

from eqkir.base.expr import Expr
from eqkir.program.abi import Abi

#: op -> number of attributes, number of operands (None: one a lane)
OPS: dict[str, tuple[int, int | None]] = {
    "Const": (1, 0), "Param": (1, 0), "Address": (1, 0), "Scalar": (1, 0), "Un": (1, 1), "Bin": (1, 2), "Tri": (1, 3), "Cast": (1, 1),
    "Bitcast": (1, 1), "Broadcast": (0, 1), "Iota": (0, 0), "Lanes": (0, 1), "Build": (0, None), "Extract": (1, 1), "Slice": (1, 1),
    "Any": (0, 1), "Reverse": (0, 1), "Permute": (1, 2), "Words": (0, 1), "Dot4": (0, 3), "Extreme": (1, 2),
}  # fmt: skip
#: operations that a provider spells lane by lane with its table of pointwise functions
POINTWISE = ("Un", "Bin", "Tri", "Cast", "Bitcast")
ACCESSES = ("contiguous", "strided", "gather")
#: bytes that the address of a streamed store is a multiple of
STREAM_ALIGN = 16
#: who a resource of the launch belongs to (memory of a task is an `Alloc`)
OWNERS = ("invocation",)


@dataclass(frozen=True, slots=True)
class Type:
    dtype: str
    width: int = 1

    def __str__(self) -> str:
        return self.dtype if self.width == 1 else f"{self.dtype}×{self.width}"


INDEX = Type("index")
BOOL = Type("bool")


@dataclass(frozen=True, slots=True)
class Op:
    """``id = op(args)``, pure."""

    id: int
    op: str
    attrs: tuple[Any, ...]
    args: tuple[int, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Load:
    """`stride` (``strided`` only), `mask` and `other` are value ids or -1. `align`: bytes that the first element's address is known to be a
    multiple of (0: the element's size)."""

    id: int
    place: str
    at: int
    type: Type
    access: str = "contiguous"
    stride: int = -1
    mask: int = -1
    other: int = -1
    align: int = 0


@dataclass(frozen=True, slots=True)
class Write:
    """A plain store. Lanes that are written in one statement have distinct offsets. `stream`: what is written is not wanted in a cache, and
    its address is a multiple of `STREAM_ALIGN` bytes (contiguous stores without a mask). It changes no result."""

    place: str
    at: int
    value: int
    access: str = "contiguous"
    stride: int = -1
    mask: int = -1
    align: int = 0
    stream: bool = False


@dataclass(frozen=True, slots=True)
class Prefetch:
    """What lies at an offset, inside the place or not, will soon be read. It changes no result and cannot fail."""

    place: str
    at: int


@dataclass(frozen=True, slots=True)
class Atomic:
    """One atomic operation on one element where `mask` holds (-1: always); `id` is the old value, zero where the mask does not hold.

    `mode` and `order` as in `program.ops` (``STORE_MODES`` but the plain ones, ``MEMORY_ORDERS``); `expected` for
    ``compare_exchange``, which compares bits.
    """

    id: int
    place: str
    at: int
    value: int
    mode: str
    order: str
    type: Type
    expected: int = -1
    mask: int = -1


@dataclass(frozen=True, slots=True)
class Var:
    """A mutable variable of the enclosing block, starting as value `init`."""

    name: int
    init: int
    type: Type


@dataclass(frozen=True, slots=True)
class Get:
    """``id`` is the present value of a variable."""

    id: int
    var: int
    type: Type


@dataclass(frozen=True, slots=True)
class Set:
    var: int
    value: int


@dataclass(frozen=True, slots=True)
class Alloc:
    """Memory of the enclosing block, uninitialised: `size` elements, aligned to `align` bytes, owned by the task; its life ends with the
    block."""

    name: str
    dtype: str
    size: int
    align: int = 64


@dataclass(frozen=True, slots=True)
class For:
    """``for index in range(begin, end, step)``: `begin` and `end` are index values, `step` a positive number; `index` is an id that the
    body sees."""

    index: int
    begin: int
    end: int
    step: int
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class While:
    """``loop: head; if not cond: break; body``. `cond` is a bool scalar defined in `head`; `body` sees the values of `head`."""

    head: tuple[Statement, ...]
    cond: int
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class If:
    cond: int
    then: tuple[Statement, ...]
    orelse: tuple[Statement, ...] = ()


Statement = Union[Op, Load, Write, Prefetch, Atomic, Var, Get, Set, Alloc, For, While, If]


@dataclass(frozen=True, slots=True)
class Resource:
    """Memory that the runtime gives to one invocation: `size` elements (a launch expression), uninitialised, aligned to `align` bytes; the
    kernel owes a write before every read. It lives from the first stage to the last join, and no state survives a call."""

    name: str
    dtype: str
    size: Expr
    align: int = 64
    owner: str = "invocation"


@dataclass(frozen=True, slots=True)
class Group:
    """`launch`: number of instances, the product of the radices. `digits`: (value id, radix) of the instance number, the last fastest; the
    ids are index values of the body. `grain`: instances that a task should have at least. `places`: views and resources that the
    body touches; `params` and `scalars`: index parameters and scalars that it reads (its captures).
    `origins`: value id -> the operation of KIR that it is part of, for comments and diagnostics only."""

    name: str
    launch: Expr
    digits: tuple[tuple[int, Expr], ...]
    body: tuple[Statement, ...]
    grain: int = 1
    places: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    scalars: tuple[str, ...] = ()
    origins: dict[int, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class TaskProgram:
    """`params`: names of index parameters, each a symbol ``S``, a stride ``stride(V,k)`` in elements, or one of the machine's `limits`
    (name -> its value: ``limit(stream)``, in bytes), by which bodies of a group are told apart and which change no result. A view's place
    is the address of its element [0, …, 0]. Launch expressions (`launch`, radices, resource sizes, `preconditions`) are over symbols and
    integer scalars."""

    abi: Abi
    params: tuple[str, ...]
    resources: tuple[Resource, ...]
    stages: tuple[tuple[Group, ...], ...]
    preconditions: tuple[Expr, ...] = ()
    options: dict[str, int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)

    @property
    def words(self) -> tuple[tuple[str, str], ...]:
        """The table of 64-bit words that a task function reads, in order: ("view", name) an address; ("param", name) an integer;
        ("scalar", name) the scalar's bits, zero-extended; ("resource", name) an address."""
        return (
            *(("view", v.name) for v in self.abi.views if v.role != "workspace"),
            *(("param", p) for p in self.params),
            *(("scalar", s.name) for s in self.abi.scalars),
            *(("resource", r.name) for r in self.resources),
        )

    def dtype(self, place: str) -> str:
        """Element dtype of a view or resource. Raises KeyError."""
        for r in self.resources:
            if r.name == place:
                return r.dtype
        return self.abi.view(place).dtype


def defined(s: Statement) -> int:
    """The id that a statement defines in its own block, or -1."""
    return s.id if isinstance(s, (Op, Load, Atomic, Get)) else -1


def operands(s: Statement) -> tuple[int, ...]:
    """Ids that a statement reads itself (not those read by blocks inside it)."""
    match s:
        case Op():
            return s.args
        case Load():
            return tuple(i for i in (s.at, s.stride, s.mask, s.other) if i >= 0)
        case Write():
            return tuple(i for i in (s.at, s.value, s.stride, s.mask) if i >= 0)
        case Prefetch():
            return (s.at,)
        case Atomic():
            return tuple(i for i in (s.at, s.value, s.expected, s.mask) if i >= 0)
        case Var():
            return (s.init,)
        case Set():
            return (s.value,)
        case For():
            return (s.begin, s.end)
        case If():
            return (s.cond,)
    return ()


def blocks_of(s: Statement) -> tuple[tuple[Statement, ...], ...]:
    """The blocks inside a statement."""
    match s:
        case For():
            return (s.body,)
        case While():
            return (s.head, s.body)
        case If():
            return (s.then, s.orelse)
    return ()


def statements(body: tuple[Statement, ...]) -> list[Statement]:
    """All statements of a block and of the blocks inside it, in textual order."""
    out: list[Statement] = []
    for s in body:
        out.append(s)
        for b in blocks_of(s):
            out += statements(b)
    return out
