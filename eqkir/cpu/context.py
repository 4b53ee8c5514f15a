"""State of the expansion of one segment: values of the phase, coordinates and active lanes of labels, index expressions as operations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Union

from eqkir.base.expr import Expr
from eqkir.cpu.blocking import Part
from eqkir.cpu.builder import Builder
from eqkir.cpu.fragments import Fragment, Point, Shape, read
from eqkir.cpu.kept import Kept
from eqkir.cpu.layout import Layout
from eqkir.cpu.model import INDEX, Type
from eqkir.program.abi import axis_of, parameter
from eqkir.program.model import Let, Loop, Program, Region, Segment

Value = Union[Fragment, tuple[Fragment, ...]]
_BINARY = {"min": "minimum", "max": "maximum"}
_INT = ("add", "sub", "mul", "floordiv", "mod", "min", "max")


@dataclass(slots=True)
class Lanes:
    """A label while its block or chunk is expanded: the coordinate of lane 0, and how many lanes are active (-1: all)."""

    base: int
    count: int = -1


@dataclass(frozen=True, slots=True)
class Flow:
    """A load as what is fetched ahead needs to know it: `dims` of its lanes, `size` bytes of an element."""

    view: str
    ixs: tuple[Expr, ...]
    dims: tuple[str, ...]
    size: int


@dataclass
class Context:
    """`unit`: whether last strides may be taken as 1 (each such assumption is recorded in `assumed`); `split`: whether chunked loops have a
    main part without masks."""

    program: Program
    segment: Segment
    b: Builder
    layout: Layout
    unit: bool
    split: bool
    forms: Any = None  # `eqkir.cpu.forms.Forms` of the launch
    assumed: dict[tuple[str, int], None] = field(default_factory=dict)
    values: dict[int, Value] = field(default_factory=dict)
    labels: dict[str, Lanes] = field(default_factory=dict)
    pending: dict[int, int] = field(default_factory=dict)  # values not yet whole -> alias class of a load, or -1
    supplied: dict[int, Callable[[Mapping[str, int]], int]] = field(default_factory=dict)  # supply -> its element at a point
    features: frozenset[str] = frozenset()  # of the machine
    loops: list[Loop] = field(default_factory=list)  # around what is expanded
    running: list[Fragment] = field(default_factory=list)  # where the while loops around still run
    streams: tuple[str, ...] = ()  # views whose rows are aligned, and whose content is too large for a cache
    prefetch_bytes: int = 0  # how far ahead of a loop that walks over rows they are fetched; 0: not at all
    ahead_bytes: int = 0  # how far ahead of a load that goes on along memory; 0: not at all
    next_bytes: int = 0  # how far away what the next instance loads may lie to be fetched while this one computes
    flows: Mapping[tuple[int, ...], tuple[Flow, ...]] = field(default_factory=dict)  # loads by the loops (ids) around them, in order
    slack: Mapping[tuple[int, ...], float] = field(default_factory=dict)  # of the same places: what they leave memory (`ahead.slack`)
    origins: Mapping[int, str] = field(default_factory=dict)  # of the phase's items
    hopes: bool = False  # whether maxima may first be taken as if there were no NaN (`Machine.hopes`)
    sure: int = -1  # variable, lanes in which no operand of such maxima was NaN so far; -1: they are taken as they are
    tiles: Mapping[str, int] = field(default_factory=dict)  # blocks of a label in one instance, where it has several
    cut: Part | None = None  # the block of a loop's axis that is expanded
    kept: Mapping[int, Kept] = field(default_factory=dict)  # supply -> what an earlier loop keeps for it; none: all is made again
    unmade: frozenset[int] = frozenset()  # values that nobody reads, since what they define has been kept

    # ---------------------------------------------------------------------------------------------- values
    def read(self, i: int, p: Mapping[str, int], vector: str) -> int:
        """Value `i` at a point, as a vector along `vector` or as a scalar where that is empty."""
        f = self.values[i]
        assert isinstance(f, Fragment)
        return read(self.b, f, p, vector, self.layout.width[vector] if vector else 1)

    def reads(self, i: int, p: Mapping[str, int], vector: str) -> tuple[int, ...]:
        """The components of a tuple value, or a value alone."""
        f, w = self.values[i], self.layout.width[vector] if vector else 1
        return tuple(read(self.b, x, p, vector, w) for x in (f if isinstance(f, tuple) else (f,)))

    def shape(self, i: int) -> Shape:
        return self.layout.shape(i)

    def make(self, i: int, part: Callable[[Point, str], int], alias: int = -1) -> None:
        """Value `i` from a function of point and vector label, whose parts are made when they are read. `alias`: of a load, the class of
        its view; the value is made before anything of that class is written."""
        s, origin = self.shape(i), self.b.origin

        def source(p: Point) -> int:
            with self.b.part_of(origin):
                return part(p, s.vector)

        self.values[i] = Fragment(s, source=source)
        self.pending[i] = alias

    @contextmanager
    def inside(self) -> Iterator[None]:
        """A block inside the present one: what waits for a reader there ends with it."""
        saved = dict(self.pending)
        try:
            yield
        finally:
            self.pending = {i: a for i, a in saved.items() if i in self.pending}

    def force(self, ids: Iterable[int]) -> None:
        """Make values whole, here: those among `ids` that wait for a reader."""
        for i in ids:
            if i in self.pending:
                f = self.values[i]
                assert isinstance(f, Fragment)
                f.force()
                del self.pending[i]

    def force_class(self, alias: int, but: Collection[int] = ()) -> None:
        """Make the loads of an alias class whole, those in `but` left out."""
        self.force([i for i, a in self.pending.items() if a == alias and i not in but])

    def local(self, name: str, default: int) -> int:
        """The value of a local parameter (``implementation.parameter``) that the row binds."""
        return self.program.options.get(name, default)

    def width(self, vector: str) -> int:
        return self.layout.width[vector] if vector else 1

    # ---------------------------------------------------------------------------------------------- lanes
    def active(self, dims: tuple[str, ...], p: Mapping[str, int], vector: str) -> int:
        """Where all lanes of `dims` at a point take part: a bool of the vector's width, a scalar one, or -1 (everywhere)."""
        out = -1
        for d in dims:
            if parameter(d) and self.labels[d].count >= 0:
                out = self.b.conj(out, self.part(d, p, vector))
        return out

    def part(self, d: str, p: Mapping[str, int], vector: str) -> int:
        """Whether lanes of label `d` are active."""
        count = self.labels[d].count
        if count < 0:
            return self.b.const(True, "bool")
        if d == vector:
            return self.b.op("Lanes", (), (self.b.bin("sub", count, self.b.const(p[d])),), Type("bool", self.width(d)))
        return self.b.bin("lt", self.b.const(p[d]), count)

    def going(self, dims: tuple[str, ...], p: Mapping[str, int], vector: str) -> int:
        """Where the while loops around still run; -1: everywhere."""
        out = -1
        for f in self.running:
            out = self.b.conj(out, self.going_of(f, dims, p, vector))
        return out

    def going_of(self, f: Fragment, dims: tuple[str, ...], p: Mapping[str, int], vector: str) -> int:
        """Where one while loop still runs; over dims that `dims` lacks: where it runs anywhere."""
        extra = tuple(d for d in f.shape.dims if d not in dims)
        any_ = -1
        for q in Shape(extra, tuple(self.program.lanes(d) for d in extra)).points():
            v = vector if vector in f.shape.dims else ""
            x = read(self.b, f, {**p, **q}, v, self.width(v))
            any_ = x if any_ < 0 else self.b.bin("or", any_, x)
        return any_

    @contextmanager
    def label(self, d: str, lanes: Lanes) -> Iterator[None]:
        """A label's coordinates inside a loop."""
        saved = self.labels.get(d)
        self.labels[d] = lanes
        try:
            yield
        finally:
            if saved is None:
                self.labels.pop(d, None)
            else:
                self.labels[d] = saved

    def coordinate(self, axis: str, dims: tuple[str, ...], p: Mapping[str, int], vector: str) -> int:
        """The coordinate of an axis: an index scalar, or a vector where the axis is that of `vector`."""
        d = next(d for d in dims if axis_of(d) == axis)
        b, base = self.b, self.labels[d].base
        at = b.bin("add", base, b.const(p.get(d, 0)))
        if d != vector:
            return at
        w = self.width(d)
        return b.bin("add", b.splat(at, w), b.op("Iota", (), (), Type("index", w)))

    # ---------------------------------------------------------------------------------------------- launch expressions
    def launch(self, e: Expr) -> int:
        """A launch expression as an index (or bool) scalar."""
        return self.expression(e, lambda _: -1, lambda _: -1)

    def extent(self, axis: str) -> int:
        return self.launch(self.program.axis[axis].extent)

    def expression(self, e: Expr, coord: Callable[[str], int], dep: Callable[[int], int]) -> int:
        """An expression as operations; scalars and vectors mix, the result is a vector where an operand is one. Predicates are bools."""
        b = self.b
        match e.op:
            case "int":
                return b.const(e.args[0])
            case "sym":
                return self.symbol(e.args[0])
            case "param":
                return b.const(self.program.bindings[e.args[0]])
            case "coord":
                return coord(e.args[0])
            case "dep":
                return self.index(dep(e.args[0]))
            case "not":
                return b.negation(self.truth(self.expression(e.args[0], coord, dep)))
            case "select":
                c, x, y = (self.expression(a, coord, dep) for a in e.args)
                if b.types[x].dtype != b.types[y].dtype:
                    x, y = self.index(x), self.index(y)
                c, x, y = self.level(self.truth(c), x, y)
                return b.select(c, x, y)
        if e.op == "lt" and self._inside(*e.args):
            return b.const(True, "bool")
        x, y = (self.expression(a, coord, dep) for a in e.args)
        if e.op in ("and", "or"):
            return b.bin(e.op, *self.level(self.truth(x), self.truth(y)))
        return b.bin(_BINARY.get(e.op, e.op), *self.level(self.index(x), self.index(y)))

    def _inside(self, x: Expr, y: Expr) -> bool:
        """Whether `x` is a coordinate and `y` the extent of its axis, where all lanes take part and so lie inside."""
        if x.op != "coord" or y != self.program.axis[x.args[0]].extent:
            return False
        held = [lanes for d, lanes in self.labels.items() if axis_of(d) == x.args[0]]
        return bool(held) and all(lanes.count < 0 for lanes in held) and self.split

    def level(self, *xs: int) -> tuple[int, ...]:
        """Operands of one width."""
        w = max(self.b.types[x].width for x in xs)
        return tuple(self.b.splat(x, w) for x in xs)

    def symbol(self, name: str) -> int:
        """An extent symbol, or an integer scalar of the ABI as an index."""
        for s in self.program.abi.scalars:
            if s.name == name:
                return self.index(self.b.op("Scalar", (name,), (), Type(s.dtype)))
        return self.b.op("Param", (name,), (), INDEX)

    def index(self, x: int) -> int:
        """A bool or integer as an index."""
        t = self.b.types[x]
        return x if t.dtype == "index" else self.b.op("Cast", ("index",), (x,), Type("index", t.width))

    def truth(self, x: int) -> int:
        """An integer as a bool: whether it is not zero."""
        t = self.b.types[x]
        if t.dtype == "bool":
            return x
        known = self.b.known(x)
        if known is not None:
            return self.b.const(bool(known), "bool")
        return self.b.bin("ne", x, self.b.splat(self.b.const(0, t.dtype), t.width))

    # ---------------------------------------------------------------------------------------------- operations
    def pointwise(self, op: str, attrs: tuple[Any, ...], args: tuple[int, ...], dtype: str) -> int:
        """A pointwise let on parts (of any widths)."""
        args = self.level(*args)
        return self.b.op(op, attrs, args, Type(dtype, self.b.types[args[0]].width))

    def combine(self, fn: str, x: int, y: int) -> int:
        """One step of a built-in reduction."""
        return self.b.bin(
            {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}[fn], *self.level(x, y)
        )

    def apply(self, region: Region, left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
        """A combine region on parts of any widths."""
        env: dict[int, int] = {}
        for x in region.body:
            env[x.id] = self._region_let(x, env, left, right)
        out = [env[y] for y in region.yields]
        w = max(self.b.types[x].width for x in (*left, *right))
        return tuple(self.b.splat(x, w) for x in out)

    def _region_let(self, x: Let, env: Mapping[int, int], left: tuple[int, ...], right: tuple[int, ...]) -> int:
        args = tuple(env[a] for a in x.args)
        match x.op:
            case "Arg":
                return (left if x.attrs[0] == "l" else right)[int(x.attrs[1])]
            case "Const":
                return self.b.const(x.attrs[0], x.dtype)
            case "Index":
                return self.cast_index(self.expression(x.attrs[0], lambda _: -1, lambda k: args[k]), x.dtype)
        return self.pointwise(x.op, x.attrs, args, x.dtype)

    def cast_index(self, x: int, dtype: str) -> int:
        """An index expression's value as the dtype of its let (bool or index)."""
        return self.truth(x) if dtype == "bool" else self.index(x)

    def product_sum(self, acc: int, x: int, y: int, dtype: str) -> int:
        """acc + x·y in `dtype`, one rounding where the hardware has it (a freedom of contractions)."""
        x, y = (self.b.op("Cast", (dtype,), (v,), Type(dtype, t.width)) if (t := self.b.types[v]).dtype != dtype else v for v in (x, y))
        acc, x, y = self.level(acc, x, y)
        if dtype in ("f32", "f64"):
            return self.b.op("Tri", ("fma",), (x, y, acc), self.b.types[acc])
        return self.b.bin("add", acc, self.b.bin("mul", x, y))
