"""Execution of one segment for a batch of instances at once.

A value is an array ``(N or 1, *lanes)``: N instances, then its lane labels in the order of `dims`; any of these may have size 1 when
the value does not depend on it. A ``tuple`` value is a Python tuple of such arrays. A program is compiled to closures once, then run per
batch.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from eqkir.base.dtypes import NUMPY, parse
from eqkir.base.expr import Expr
from eqkir.program import interp_scalar as S
from eqkir.program.abi import axis_of, parameter
from eqkir.program.interp_clock import Clock
from eqkir.program.interp_loop import compile_loop
from eqkir.program.interp_memory import MANY, Array, View
from eqkir.program.interp_pointwise import EXPR, pointwise_function
from eqkir.program.interp_reduce import Reducer
from eqkir.program.interp_space import Space
from eqkir.program.interp_store import meet, store
from eqkir.program.model import Barrier, Carry, Item, Let, Loop, Program, Segment, Store

Value = Any  # Array or tuple of Arrays
Run = Callable[["Batch"], None]


class Batch:
    """State of one batch: values, coordinates and active sets by label, and the ids of its instances."""

    __slots__ = ("active", "coords", "env", "ids", "running")

    def __init__(self, ids: Array) -> None:
        self.ids = ids
        self.env: dict[int, Value] = {}
        self.coords: dict[str, Array] = {}
        self.active: dict[str, Array | None] = {}
        self.running: dict[int, Array] = {}  # while loop, or loop with effects between bounds -> where it runs


def aligner(src: tuple[str, ...], dst: tuple[str, ...]) -> Callable[[Array], Array] | None:
    """A function from arrays with lane dims `src` to arrays that broadcast to lane dims `dst`; None when they do already."""
    if src == dst or not src:
        if not src and dst:
            n = len(dst)
            return lambda x: x.reshape(x.shape[:1] + (1,) * n)
        return None
    kept = [d for d in dst if d in src]
    perm = (0, *(1 + src.index(d) for d in kept))
    slots = tuple(d in src for d in dst)
    plain = perm == tuple(range(len(perm)))

    def go(x: Array) -> Array:
        y = x if plain else x.transpose(perm)
        sizes = iter(y.shape[1:])
        return y.reshape(y.shape[:1] + tuple(next(sizes) if s else 1 for s in slots))

    return go


class Compiler:
    """Compiles the phases of one segment."""

    def __init__(
        self, program: Program, segment: Segment, space: Space, views: dict[str, View], scalars: dict[str, Array], env: Any, opts: Any
    ) -> None:
        self.program, self.segment, self.space, self.views, self.scalars, self.opts = program, segment, space, views, scalars, opts
        self.symbol: Callable[[str], int] = env
        self.structured = program.stage == "structured"
        self.reducer = Reducer(opts.order)
        self.dims: dict[int, tuple[str, ...]] = {}
        self.dtypes: dict[int, str] = {}
        self.extent = {a.name: space.value(a.extent) for a in program.axes}
        self.clock = Clock(program, self.extent)
        self.whiles: list[tuple[int, tuple[str, ...]]] = []  # enclosing loops that run for some only: key, lane dims
        self.wide: dict[str, int] = {}  # labels of enclosing loops whose steps run at once -> their number
        self.widest = 1
        self.site = 0

    def lanes(self, dims: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(d for d in dims if parameter(d) or d in self.wide)

    def sizes(self, dims: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(self.wide.get(d) or self.program.lanes(d) for d in dims)

    @property
    def width(self) -> int:
        """Lanes that the steps of the enclosing loops have together."""
        return prod(self.wide.values())

    def phase(self, items: tuple[Item, ...], where: str) -> Run:
        self.dims, self.dtypes = {}, {}
        return self.block(items, where)

    def block(self, items: tuple[Item, ...], where: str) -> Run:
        runs = [self.item(i, f"{where}/{k}") for k, i in enumerate(items) if not isinstance(i, Barrier)]

        def go(b: Batch) -> None:
            for r in runs:
                r(b)

        return go

    def item(self, i: Item, where: str) -> Run:
        if isinstance(i, Let):
            f = self.let(i, where)
            self.define(i)
            name = i.id

            def go(b: Batch) -> None:
                b.env[name] = f(b)

            return go
        if isinstance(i, Store):
            return store(self, i, where)
        assert isinstance(i, Loop)
        return compile_loop(self, i, where)

    def define(self, x: Let | Carry) -> None:
        self.dims[x.id], self.dtypes[x.id] = self.lanes(x.dims), x.dtype

    # -------------------------------------------------------------------------------------------- operands
    def operand(self, i: int, dst: tuple[str, ...]) -> Callable[[Batch], Value]:
        """Value `i`, broadcastable to lane dims `dst`."""
        f = aligner(self.dims[i], dst)
        if f is None:
            return lambda b: b.env[i]
        if self.dtypes[i] == "tuple":
            return lambda b: tuple(f(x) for x in b.env[i])
        return lambda b: f(b.env[i])

    def full(self, i: int, dst: tuple[str, ...]) -> Callable[[Batch], Array]:
        """Value `i` with every lane of `dst` present."""
        f, n = self.operand(i, dst), self.sizes(dst)

        def go(b: Batch) -> Array:
            x = f(b)
            return x if x.shape[1:] == n else np.broadcast_to(x, x.shape[:1] + n)

        return go

    @staticmethod
    def aligned(src: tuple[str, ...], dst: tuple[str, ...]) -> Callable[[Array], Array]:
        """Arrays over `src` to arrays that broadcast to `dst`."""
        return aligner(src, dst) or (lambda x: x)

    def coordinate(self, axis: str, dims: tuple[str, ...], lanes: tuple[str, ...]) -> Callable[[Batch], Array]:
        label = next(d for d in dims if axis_of(d) == axis)
        f = aligner(self.lanes((label,)), lanes)
        if f is None:
            return lambda b: b.coords[label]
        return lambda b: f(b.coords[label])

    def active(self, labels: tuple[str, ...], lanes: tuple[str, ...]) -> Callable[[Batch], Array | None]:
        """Where all lane labels of `labels` are active; None: everywhere."""
        parts = [(d, aligner((d,), lanes)) for d in labels if parameter(d)]

        def go(b: Batch) -> Array | None:
            out: Array | None = None
            for d, f in parts:
                a = b.active[d]
                if a is not None:
                    a = f(a) if f else a
                    out = a if out is None else out & a
            return out

        return go

    def expression(self, e: Expr, dims: tuple[str, ...], lanes: tuple[str, ...], deps: tuple[int, ...]) -> Callable[[Batch], Any]:
        """An index expression as int64 arrays (or ints) that broadcast to `lanes`."""
        op = e.op
        if op == "int":
            n = e.args[0]
            return lambda b: n
        if op == "sym":
            n = self.symbol(e.args[0])
            return lambda b: n
        if op == "param":
            n = self.program.bindings[e.args[0]]
            return lambda b: n
        if op == "coord":
            return self.coordinate(e.args[0], dims, lanes)
        if op == "dep":
            f = self.operand(deps[e.args[0]], lanes)
            return lambda b: f(b).astype(np.int64)
        xs = [self.expression(a, dims, lanes, deps) for a in e.args]
        g = EXPR[op]
        if len(xs) == 2:
            x, y = xs
            return lambda b: g(x(b), y(b))
        return lambda b: g(*(f(b) for f in xs))

    # -------------------------------------------------------------------------------------------- lets
    def let(self, x: Let, where: str) -> Callable[[Batch], Value]:
        dims = self.lanes(x.dims)
        match x.op:
            case "Const":
                c = np.array([parse(x.attrs[0], x.dtype)]).astype(NUMPY[x.dtype]).reshape((1,) * (1 + len(dims)))
                return lambda b: c
            case "Scalar":
                s = self.scalars[x.attrs[0]].reshape((1,) * (1 + len(dims)))
                return lambda b: s
            case "Index":
                return self.index(x, dims)
            case "Un" | "Bin" | "Tri" | "Cast" | "Bitcast":
                return self.pointwise(x, dims)
            case "Pick":
                t, i = self.operand(x.args[0], dims), x.attrs[0]
                return lambda b: t(b)[i]
            case "Load" | "LoadM":
                return self.load(x, dims, where)
            case "Active":
                label = x.attrs[0]
                n = self.extent[axis_of(label)]
                f = self.coordinate(axis_of(label), (label,), dims)
                return lambda b: f(b) < n
            case "Splat" | "Trans" | "Supply":
                return self.full(x.args[0], dims)
        return self.structured_let(x, dims)

    def index(self, x: Let, dims: tuple[str, ...]) -> Callable[[Batch], Array]:
        f = self.expression(x.attrs[0], x.dims, dims, x.args)
        t, live, rank = NUMPY[x.dtype], self.active(x.dims, dims), 1 + len(dims)
        poison: Any = self.opts.poison(x.dtype) if self.structured else None

        def go(b: Batch) -> Array:
            v = np.asarray(f(b))
            v = (v if v.ndim else v.reshape((1,) * rank)).astype(t)
            a = live(b) if poison is not None else None
            return v if a is None else np.where(a, v, poison)

        return go

    def pointwise(self, x: Let, dims: tuple[str, ...]) -> Callable[[Batch], Array]:
        xs, src = [self.operand(a, dims) for a in x.args], self.dtypes[x.args[0]]
        f = pointwise_function(x, src)
        if len(xs) == 1:
            (p,) = xs
            return lambda b: f(p(b))
        if len(xs) == 2:
            p, q = xs
            return lambda b: f(p(b), q(b))
        return lambda b: f(*(v(b) for v in xs))

    def structured_let(self, x: Let, dims: tuple[str, ...]) -> Callable[[Batch], Value]:
        r = self.reducer
        if x.op in ("RedTree", "FragRed"):
            fn, label = x.attrs
            f, live, pos = self.over(x.args[0], dims, label)
            return lambda b: r.reduce(fn, f(b), pos, x.dtype, live(b))
        if x.op in ("RedNTree", "FragRedN"):
            label, region = x.attrs
            n = len(region.dtypes)
            idents = [self.operand(i, (*dims, label)) for i in x.args[:n]] if x.op == "RedNTree" else []
            parts = [self.over(i, dims, label) for i in x.args[-n:]]
            return lambda b: r.reduce_n(
                region, tuple(p[0](b) for p in parts), [i(b) for i in idents], len(dims) + 1, parts[0][1](b), has_identity=bool(idents)
            )
        if x.op in ("Scan", "ScanN", "FragScan", "FragScanN", "Last"):
            return self.scan(x, dims)
        label = x.attrs[-1]
        return self.contraction(x, dims, label, x.args[2] if len(x.args) == 3 else None)

    def scan(self, x: Let, dims: tuple[str, ...]) -> Callable[[Batch], Value]:
        r, n = self.reducer, 1 + len(dims)
        if x.op == "Last":
            f, live, pos = self.over(x.args[0], dims, x.attrs[0])
            return lambda b: last(f(b), live(b), pos)
        label, region = (x.attrs[1], None) if x.op in ("Scan", "FragScan") else x.attrs
        parts = [self.full(a, dims) for a in x.args]
        axis = 1 + dims.index(label) if label in dims else n
        if axis == n:  # one lane: its own prefix
            return (lambda b: parts[0](b)) if region is None else (lambda b: tuple(p(b) for p in parts))
        if region is None:
            return lambda b: r.scan(x.attrs[0], parts[0](b), axis, x.dtype)
        return lambda b: r.scan_n(region, tuple(p(b) for p in parts), axis)

    def over(self, i: int, dims: tuple[str, ...], label: str) -> tuple[Callable[[Batch], Array], Callable[[Batch], Array | None], int]:
        """Operand `i` with `label` last, its active set (structured stage only) and the position of that axis."""
        lanes = (*(d for d in dims if d != label), label)
        live = self.active((label,) if self.structured else (), lanes)
        return self.full(i, lanes), live, len(lanes)

    def contraction(self, x: Let | Carry, dims: tuple[str, ...], label: str, init: int | None) -> Callable[[Batch], Array]:
        """acc + sum over `label` of a*b in x.dtype; a label with one lane contributes one product."""
        a, b = x.args[:2]
        bound = self.lanes((label,))
        da, db = self.dims[a], self.dims[b]
        both = [d for d in dims if d in da and d in db]
        only_a, only_b = [d for d in dims if d in da and d not in db], [d for d in dims if d in db and d not in da]
        fa, fb = self.full(a, (*both, *only_a, *bound)), self.full(b, (*both, *only_b, *bound))
        live = self.active((label,) if self.structured else (), bound)
        out = aligner((*both, *only_a, *only_b), dims)
        acc = self.operand(init, dims) if init is not None else None
        ta, tb = self.dtypes[a], self.dtypes[b]
        nb, na = len(both), len(only_a)

        def go(e: Batch) -> Array:
            xa, xb = S.cast(fa(e), ta, x.dtype), S.cast(fb(e), tb, x.dtype)
            y = self.reducer.contract(xa, xb, nb, na, bool(bound), x.dtype, live(e))
            y = out(y) if out else y
            return y if acc is None else S.binary("add", acc(e), y, x.dtype)

        return go

    # -------------------------------------------------------------------------------------------- memory
    def place(
        self, view: View, ixs: tuple[Expr, ...], dims: tuple[str, ...], lanes: tuple[str, ...], deps: tuple[int, ...], where: str
    ) -> Callable[[Batch, Array | None], Array]:
        fs = [self.expression(e, dims, lanes, deps) for e in ixs]
        return lambda b, mask: view.locate([f(b) for f in fs], mask, where)

    def time(self, view: str, version: int) -> Callable[[Batch], int]:
        return self.clock.time(self.program.abi.view(view).alias, version)

    def going(self, dims: tuple[str, ...]) -> Callable[[Batch], Array | None]:
        """Where the while loops around still run, and those with effects take this step; None: everywhere."""
        parts = []
        for key, src in self.whiles:
            extra = tuple(1 + k for k, d in enumerate(src) if d not in dims)
            parts.append((key, extra, aligner(tuple(d for d in src if d in dims), dims)))

        def go(b: Batch) -> Array | None:
            out: Array | None = None
            for key, extra, f in parts:
                r = b.running[key]
                r = r.any(axis=extra) if extra else r
                out = meet(out, f(r) if f else r)
            return out

        return go

    def load(self, x: Let, dims: tuple[str, ...], where: str) -> Callable[[Batch], Array]:
        name, version, ixs, _ = x.attrs
        view, (valid_id, fill_id), deps = self.views[name], x.args[:2], x.args[2:]
        place = self.place(view, ixs, x.dims, dims, deps, where)
        valid, fill = self.operand(valid_id, dims), self.operand(fill_id, dims)
        live, t = self.active(x.dims if self.structured else (), dims), NUMPY[x.dtype]
        poison, time, going = self.opts.poison(x.dtype), self.time(name, version), self.going(dims)

        def go(b: Batch) -> Array:
            ok, act = valid(b), meet(live(b), going(b))
            mask = None if ok.all() else ok
            touch = mask if act is None else act if mask is None else mask & act
            e = place(b, touch)
            e = e if e.ndim else e.reshape((1,) * (1 + len(dims)))
            if touch is None:
                flat = e.reshape(-1)
                return view.load(flat, time(b), self.readers(b, e), where).reshape(e.shape)
            other = fill(b) if mask is not None else poison
            shape = np.broadcast_shapes(e.shape, touch.shape, np.shape(other))
            touch = np.broadcast_to(touch, shape)
            e = np.broadcast_to(e, shape)
            who = self.readers(b, e, touch)
            out = np.empty(shape, t)
            out[...] = other
            if act is not None and mask is not None:
                out = np.where(act, out, poison)
            out[touch] = view.load(e[touch], time(b), who, where)
            return out

        return go

    def readers(self, b: Batch, e: Array, mask: Array | None = None) -> Array | int:
        if e.shape[0] == 1:
            return int(b.ids[0]) if b.ids.size == 1 else MANY
        ids = np.broadcast_to(b.ids.reshape((-1,) + (1,) * (e.ndim - 1)), e.shape)
        return ids.reshape(-1) if mask is None else ids[mask]


def last(x: Array, active: Array | None, axis: int) -> Array:
    """The last active member along the last axis; some member where none is active."""
    if active is None:
        return x[..., -1]
    at = np.maximum(np.broadcast_to(active, x.shape).sum(axis=axis, keepdims=True) - 1, 0)
    return np.take_along_axis(x, at, axis)[..., 0]


__all__ = ["Batch", "Compiler", "aligner"]
