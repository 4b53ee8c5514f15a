"""Along which label each value of a phase is a vector: demanded backwards by stores and by structured operations.

Labels are ranked once a program by their accesses: along a good label, loads and stores are contiguous. A store runs along its best
label and demands its operands so; a pointwise operation passes demands on; a structured operation picks the best label of its operands, its
own bound label included. What is demanded along a label that it does not have is demanded as scalars.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from eqkir.base.dtypes import itemsize
from eqkir.base.expr import Expr, Int, atoms, mul
from eqkir.cpu.fragments import Shape
from eqkir.cpu.kept import is_kept
from eqkir.program.abi import axis_of, parameter
from eqkir.program.model import Barrier, Carry, Item, Let, Loop, Program, Store
from eqkir.program.ops import label_of

SCALARS = ""


def slope(e: Expr, axis: str, varying: frozenset[int] = frozenset()) -> Expr | None:
    """The constant difference of `e` between neighbouring coordinates of `axis`, an expression without that axis; None: not constant.

    `varying`: data operands that differ along the axis.
    """
    if e.op == "coord":
        return Int(int(e.args[0] == axis))
    if not any((a.op == "coord" and a.args[0] == axis) or (a.op == "dep" and a.args[0] in varying) for a in atoms(e)):
        return Int(0)
    if e.op in ("add", "sub"):
        x, y = (slope(a, axis, varying) for a in e.args)
        return None if x is None or y is None else x + y if e.op == "add" else x - y
    if e.op == "mul":
        x, y = (slope(a, axis, varying) for a in e.args)
        if x is not None and y is not None:
            if x == Int(0):
                return mul(e.args[0], y)
            if y == Int(0):
                return mul(x, e.args[1])
    return None


def contiguous(ixs: tuple[Expr, ...], axis: str, varying: frozenset[int]) -> bool | None:
    """Whether an access is contiguous along an axis, forwards or backwards, if the view's last stride is 1; None where it does not move
    at all."""
    slopes = [slope(e, axis, varying) for e in ixs]
    if all(s == Int(0) for s in slopes):
        return None
    return bool(slopes) and slopes[-1] in (Int(1), Int(-1)) and all(s == Int(0) for s in slopes[:-1])


@dataclass
class Layout:
    """Of one phase. `bytes_`: bytes of a vector register of the machine."""

    program: Program
    phase: tuple[Item, ...]
    bytes_: int
    dims: dict[int, tuple[str, ...]] = field(default_factory=dict)
    dtypes: dict[int, str] = field(default_factory=dict)
    defs: dict[int, Let | Carry] = field(default_factory=dict)
    rank: dict[str, int] = field(default_factory=dict)  # the least is the best
    width: dict[str, int] = field(default_factory=dict)
    _demands: dict[int, set[str]] = field(default_factory=dict)
    _wants: dict[int, str] = field(default_factory=dict)  # what a structured operation makes, whoever asks

    def __post_init__(self) -> None:
        for x in _values(self.phase):
            self.dims[x.id], self.dtypes[x.id], self.defs[x.id] = self.program.lane_dims(x.dims), x.dtype, x
        self._ranked()
        n = -1
        while n != (n := sum(map(len, self._demands.values()))):
            self._walk(self.phase)

    # ---------------------------------------------------------------------------------------------- answers
    def shape(self, i: int) -> Shape:
        """The shape of value `i`."""
        return self.shaped(self.dims[i], self.along(i))

    def shaped(self, dims: tuple[str, ...], vector: str) -> Shape:
        lanes = tuple(self.program.lanes(d) for d in dims)
        return Shape(dims, lanes, vector, self.width[vector]) if vector else Shape(dims, lanes)

    def along(self, i: int) -> str:
        """The vector label of value `i`, or an empty text."""
        if i in self._wants:
            return self._wants[i]
        asked = [d for d in self._demands.get(i, ()) if d and d in self.dims[i]]
        v = min(asked, key=self._order) if asked else SCALARS
        return self._loaded(i, v) if v else v

    def _loaded(self, i: int, vector: str) -> str:
        """The label along which a load is made that is asked for along `vector`: its own contiguous one, where blocks of the two labels can
        be turned in registers."""
        x = self.defs[i]
        if not isinstance(x, Let) or x.op != "Load":
            return vector

        def dense(d: str) -> bool:
            return contiguous(x.attrs[2], axis_of(d), frozenset(n for n, a in enumerate(x.args[2:]) if d in self.dims[a])) is True

        if dense(vector):
            return vector
        own = [d for d in self.dims[i] if d in self.width and self.width[d] == self.width.get(vector) and dense(d)]
        return min(own, key=self._order) if own else vector

    def turned(self, i: int, vector: str) -> bool:
        """Whether blocks of value `i` are turned in registers where it is read along `vector`."""
        own = self.along(i)
        return bool(vector and own) and own != vector and vector in self.dims[i] and self.width[own] == self.width.get(vector)

    def supply(self, i: int) -> Let | None:
        """The supply of a form of its own that value `i` is, behind casts."""
        x = self.defs[i]
        while isinstance(x, Let) and x.op == "Cast":
            x = self.defs[x.args[0]]
        return x if isinstance(x, Let) and x.op == "Supply" and not is_kept(x) else None

    def best(self, dims: tuple[str, ...]) -> str:
        """The best vector label among lane dims, or an empty text."""
        wide = [d for d in dims if d in self.width]
        return min(wide, key=self._order) if wide else SCALARS

    def _order(self, d: str) -> int:
        return self.rank[d]

    # ---------------------------------------------------------------------------------------------- labels
    def _ranked(self) -> None:
        """Ranks and widths are those of the whole program: equal operations over equal labels run along the same one in every phase."""
        scores: dict[str, int] = {}
        sizes: dict[str, int] = {}
        for phase in (ph for s in self.program.segments for ph in s.phases):
            self._scored(phase, scores, sizes)
        order = list(scores)
        ranked = sorted(order, key=lambda d: (-scores[d], -order.index(d)))
        self.rank = {d: k for k, d in enumerate(ranked)}
        for d in order:
            n, w = self.program.lanes(d), max(self.bytes_ // sizes.get(d, 4), 1)
            while n % w:
                w //= 2
            if w > 1:
                self.width[d] = w

    def _scored(self, phase: tuple[Item, ...], scores: dict[str, int], sizes: dict[str, int]) -> None:
        dims_of = {x.id: self.program.lane_dims(x.dims) for x in _values(phase)}
        for x in _values(phase):
            for d in (*dims_of[x.id], *((label_of(x.op, x.attrs),) if isinstance(x, Let) and label_of(x.op, x.attrs) else ())):
                if parameter(d):
                    scores.setdefault(d, 0)
                    size = itemsize(x.dtype) if x.dtype not in ("tuple", "bool", "index") else 1
                    sizes[d] = max(sizes.get(d, 1), size)
        for weight, dims, ixs, deps in _accesses(phase):
            for d in self.program.lane_dims(dims):
                varying = frozenset(k for k, i in enumerate(deps) if d in dims_of[i])
                found = contiguous(ixs, axis_of(d), varying)
                scores[d] = scores.get(d, 0) + (0 if found is None else weight if found else -weight)

    # ---------------------------------------------------------------------------------------------- demands
    def _ask(self, ids: tuple[int, ...], vector: str) -> None:
        for i in ids:
            self._demands.setdefault(i, set()).add(vector if vector in self.dims[i] else SCALARS)

    def _walk(self, items: tuple[Item, ...]) -> None:
        for x in reversed(items):
            match x:
                case Store():
                    v = SCALARS if x.atomic else self.best(self.program.lane_dims(x.dims))
                    self._ask((x.value, x.valid, *x.deps), v)
                case Let():
                    self._let(x)
                case Loop():
                    self._loop(x)
                case Barrier():
                    pass

    def _let(self, x: Let) -> None:
        label = label_of(x.op, x.attrs)
        if not label:
            self._ask(x.args, self.along(x.id))
        elif x.op in ("Scan", "ScanN"):
            v = self._wants[x.id] = self.vector(x, label)
            self._ask(x.args, v)
        elif x.op == "Last":
            v = self.best(tuple(d for d in self.dims[x.args[0]] if d != label))
            self._wants[x.id] = v
            self._ask(x.args, v)
        else:
            self._structured(x, label)

    def _structured(self, x: Let | Carry, label: str) -> None:
        """A reduction or contraction: its operands run along their best label."""
        v = self.vector(x, label)
        self._wants[x.id] = v if v in self.dims[x.id] else SCALARS
        self._ask(x.args, v)
        if isinstance(x, Carry):
            self._ask(x.inits, v)

    def vector(self, x: Let | Carry, label: str) -> str:
        """The label along which the operands of a reduction or contraction over `label` run, or an empty text."""
        over = tuple(dict.fromkeys(d for a in x.args for d in self.dims[a]))
        bound = (label,) if parameter(label) else ()
        return self.best(tuple(dict.fromkeys((*over, *self.dims[x.id], *bound))))

    def _loop(self, x: Loop) -> None:
        for c in x.carries:
            if c.op == "Phi":
                v = self.along(c.id)
                self._ask((*c.args, *c.inits), v)
            else:
                self._structured(c, x.label)
        if x.cond >= 0:
            self._ask((x.cond,), self.best(self.dims[x.cond]))
        self._ask(x.ends, SCALARS)
        self._walk(x.body)


def _values(items: tuple[Item, ...]) -> Iterator[Let | Carry]:
    for x in items:
        if isinstance(x, Let):
            yield x
        elif isinstance(x, Loop):
            yield from x.carries
            yield from _values(x.body)


def _accesses(items: tuple[Item, ...]) -> Iterator[tuple[int, tuple[str, ...], tuple[Expr, ...], tuple[int, ...]]]:
    """Weight, dims, index map and data operands of every plain access; stores count twice."""
    for x in items:
        if isinstance(x, Let) and x.op == "Load":
            yield 1, x.dims, x.attrs[2], x.args[2:]
        elif isinstance(x, Store) and not x.atomic:
            yield 2, x.dims, x.ixs, x.places
        elif isinstance(x, Loop):
            yield from _accesses(x.body)
