"""Values kept between passes: what a loop has computed, for a later loop of the same block over the same steps.

In a program, ``Supply("kept", label) v`` in the body of a loop is v. Where an earlier loop of the block, over the same axis by the same
label, makes the same value of the same operands (its *source*), the source is stored in memory of the task as it is made, step by step,
and the later loop loads it instead of making it again: the same bits. The memory is an `Alloc` of the block around both loops: owned by
the task, aligned to a cache line, written before it is read, dead at the end of the block.

Its size is fixed (`KEPT` bytes for all values that a phase keeps), and how long a loop is, is known at the call. So an instance has its
main bodies twice, and a test of extents chooses: in one values are kept; in the other, for axes that are too long, each pass computes
them. The size is a word of the launch (``limit(kept)``), which the checks lower so that small arguments take both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eqkir.base.dtypes import NUMPY, itemsize
from eqkir.cpu.fragments import Fragment, Point
from eqkir.cpu.model import INDEX, Type
from eqkir.program.abi import traversal
from eqkir.program.model import Carry, Item, Let, Loop, Program

if TYPE_CHECKING:
    from eqkir.cpu.context import Context

#: the form of a supply that stands for what an earlier loop has kept
FORM = "kept"
#: bytes that the kept values of one instance may take
KEPT = 1 << 16
#: index parameter of the launch: at most `KEPT`
LIMIT = "limit(kept)"
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """`supply` (a value id) reads what `source` was in the loop `writer`. `elements`: of one step; `number`: of its memory, which has
    `bytes_` bytes."""

    supply: int
    source: int
    writer: Loop
    dtype: str
    elements: int
    number: int
    bytes_: int

    @property
    def name(self) -> str:
        """Of its memory."""
        return f"kept{self.number}"

    @property
    def steps(self) -> int:
        """Steps of the loop that its memory has room for."""
        return self.bytes_ // (self.elements * itemsize(self.dtype))


def is_kept(x: object) -> bool:
    """Whether a let stands for what an earlier loop has kept."""
    return isinstance(x, Let) and x.op == "Supply" and x.attrs[0] == FORM


def kept_in(program: Program, phase: tuple[Item, ...], first: int = 0) -> dict[int, Kept]:
    """By supply: the values that loops of a phase keep for later ones, in memories numbered from `first` on. A supply without an entry has
    no source, or more to keep in one step than there is room for."""
    found: list[tuple[Let, Let | Carry, Loop]] = []

    def block(items: tuple[Item, ...]) -> None:
        before: list[tuple[Loop, dict[Key, Let | Carry]]] = []
        for x in items:
            if not isinstance(x, Loop):
                continue
            keys: dict[int, Key] = {}
            made = [v for v in _keyed(x.body, keys) if v.dtype in NUMPY and v.dtype not in ("bool", "index")]
            for s in made:
                if isinstance(s, Let) and is_kept(s):
                    for writer, known in before:
                        v = known.get(keys[s.id])
                        if v is not None and (writer.axis, writer.label) == (x.axis, x.label):
                            found.append((s, v, writer))
                            break
            if traversal(x.label) == "LC" and x.cond < 0 and not x.ends:
                before.append((x, {keys[v.id]: v for v in made if not is_kept(v) and x.label in v.dims}))
            block(x.body)

    block(phase)
    numbers = {i: n for n, i in enumerate(dict.fromkeys(v.id for _, v, _ in found))}
    out = {}
    for s, v, writer in found:
        size = 1
        for d in program.lane_dims(v.dims):
            size *= program.lanes(d)
        k = Kept(s.id, v.id, writer, v.dtype, size, first + numbers[v.id], KEPT // len(numbers))
        if k.steps > 0:
            out[s.id] = k
    return out


def wanted(items: tuple[Item, ...]) -> int:
    """How many values are read as kept."""
    return sum(wanted(x.body) if isinstance(x, Loop) else is_kept(x) for x in items)


def _keyed(items: tuple[Item, ...], keys: dict[int, Key]) -> list[Let | Carry]:
    """The values that a block of a loop's body makes, loops inside it included; `keys` gets what each is, in terms of what is made outside
    the body: equal keys are equal values. States are equal to nothing."""
    out: list[Let | Carry] = []

    def key(i: int) -> Key:
        return keys.get(i, ("outside", i))

    for x in items:
        if isinstance(x, Let):
            keys[x.id] = key(x.args[0]) if is_kept(x) else (x.op, x.attrs, x.dims, x.dtype, x.by, *map(key, x.args))
            out.append(x)
        elif isinstance(x, Loop):
            keys.update({c.id: ("state", c.id) for c in x.carries})
            _keyed(x.body, keys)
            if x.cond < 0 and not x.ends:
                for c in (c for c in x.carries if c.op != "Phi"):
                    keys[c.id] = (x.label, c.op, c.attrs, c.dims, c.dtype, c.by, *map(key, (*c.args, *c.inits)))
            out += x.carries
    return out


# ------------------------------------------------------------------------------------------------ expansion
def reserve(k: Context, x: Loop) -> None:
    """Memory for what a loop keeps, in front of it."""
    for v in {v.source: v for v in k.kept.values() if v.writer is x}.values():
        k.b.alloc(v.name, v.dtype, v.steps * v.elements)


def keep(k: Context, i: int) -> None:
    """Value `i`, where it is to be kept, is stored as it is made."""
    v = next((v for v in k.kept.values() if v.source == i), None)
    f = k.values.get(i)
    if v is None or not isinstance(f, Fragment):
        return
    make, shape = f.source, f.shape

    def write(p: Point, part: int) -> int:
        k.b.write(v.name, _place(k, v, f, p), part)
        return part

    for p in shape.points() if f.parts else ():
        write(p, f.at(p))
    f.source = (lambda p: write(p, make(p))) if make is not None else None


def finish(k: Context, x: Loop) -> None:
    """At the end of a step, all that it keeps is there."""
    for v in k.kept.values():
        if v.writer is x:
            f = k.values[v.source]
            assert isinstance(f, Fragment)
            f.force()


def recall(k: Context, x: Let) -> None:
    """A supply whose source has been kept."""
    v = k.kept[x.id]
    shape = k.layout.shape(v.source)
    f = Fragment(shape)
    f.source = lambda p: k.b.load(v.name, _place(k, v, f, p), Type(v.dtype, shape.width))
    k.values[x.id] = f
    k.pending[x.id] = -1


def _place(k: Context, v: Kept, f: Fragment, p: Mapping[str, int]) -> int:
    """Where a part lies: step by step, the parts of one step behind each other."""
    b, shape = k.b, f.shape
    at = [shape.key(q) for q in shape.points()].index(shape.key(p)) * shape.width
    each = v.elements // k.program.lanes(v.writer.label)
    return b.bin("add", b.bin("mul", k.labels[v.writer.label].base, b.const(each)), b.const(at))


def fits(k: Context) -> int:
    """Whether there is room for all steps of what is kept: a bool scalar, of extents alone."""
    b = k.b
    out = b.const(True, "bool")
    for v in k.kept.values():
        chunk = k.program.lanes(v.writer.label)
        steps = b.bin("floordiv", b.bin("add", k.extent(v.writer.axis), b.const(chunk - 1)), b.const(chunk))
        size = b.bin("mul", steps, b.const(v.elements * itemsize(v.dtype) * (KEPT // v.bytes_)))
        out = b.bin("and", out, b.bin("le", size, b.op("Param", (LIMIT,), (), INDEX)))
    return out


__all__ = ["FORM", "KEPT", "LIMIT", "Kept", "finish", "fits", "is_kept", "keep", "kept_in", "recall", "reserve", "wanted"]
