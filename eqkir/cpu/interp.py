"""The interpreter of task programs: numpy, statement by statement, a batch of instances at once.

A value is an array ``(N or 1, width)`` over the instances of a batch. Statements run in order for all instances; where control differs
between them, a set of instances that take part is carried along. Accesses are checked: elements outside a view, double writes and reads
across instances (they are unordered, whichever task they fall in), reads of what nothing wrote. Pointwise operations are those of the
program interpreter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eqkir.base.diagnostics import fail
from eqkir.base.dtypes import FLOATS, NUMPY
from eqkir.base.expr import evaluate
from eqkir.cpu.interp_control import Mask, Run, State, chosen, ranged, repeated
from eqkir.cpu.interp_ops import function
from eqkir.cpu.model import (
    INDEX,
    STREAM_ALIGN,
    Alloc,
    Atomic,
    For,
    Get,
    Group,
    If,
    Load,
    Op,
    Prefetch,
    Set,
    Statement,
    TaskProgram,
    Type,
    Var,
    While,
    Write,
)  # fmt: skip
from eqkir.program.interp import Args, bind_symbols
from eqkir.program.interp_memory import ARGS, MANY, NOBODY, OOB, UNWRITTEN, Array, Buffer, View, memories
from eqkir.program.interp_memory import Write as Mark

#: instances of one batch, and bytes that bound a value of one
BATCH = 1 << 14


class Interpreter:
    """Of one launch."""

    def __init__(self, program: TaskProgram, args: Args, symbols: Mapping[str, int], seed: int = 0) -> None:
        self.program, self.args, self.seed = program, args, seed
        self.rng = np.random.default_rng(seed)
        self.env: dict[str, int] = {**symbols, **program.limits}
        for s in program.abi.scalars:
            if s.dtype not in FLOATS:
                self.env[s.name] = int(args[s.name])  # type: ignore[arg-type]
        for e in program.preconditions:
            if not self.number(e):
                raise fail(ARGS, f"the precondition {e} does not hold", stage="interpret")
        self.time = 0
        self.types: dict[int, str] = {}
        self.widths: dict[int, int] = {}
        self.views = self._views()
        self.inside = {n: _elements(v.buffer) for n, v in self.views.items()}

    def number(self, e: Any) -> int:
        return int(evaluate(e, lambda a: self.env[a.args[0]]))

    def garbage(self, dtype: str) -> Any:
        """NaN for floats under an even seed; else some number."""
        t = NUMPY[dtype]
        if dtype in FLOATS:
            return np.asarray(np.nan if self.seed % 2 == 0 else self.rng.standard_normal() * 100).astype(t)[()]
        return t.type(bool(self.rng.integers(2))) if dtype == "bool" else np.frombuffer(self.rng.bytes(t.itemsize), t)[0]

    def _views(self) -> dict[str, View]:
        buffers: dict[str, Buffer] = {}
        written = {r.name for r in self.program.resources}
        for v in self.program.abi.views:
            if v.role == "workspace":
                continue
            a = self.args.get(v.name)
            shape = tuple(self.number(e) for e in v.shape)
            if not isinstance(a, Buffer) or tuple(a.shape) != shape or a.memory.dtype != NUMPY[v.dtype]:
                raise fail(ARGS, f"view {v.name} is missing or is not {v.dtype} {list(shape)}", stage="interpret")
            buffers[v.name] = a
            written |= {v.name} if v.role != "in" else set()
        for r in self.program.resources:
            buffers[r.name] = Buffer.dense((self.number(r.size),), NUMPY[r.dtype])
            buffers[r.name].memory[...] = self.garbage(r.dtype)
        mems = memories(buffers, written, True)
        outs = {v.name for v in self.program.abi.views if v.role == "out"} | {r.name for r in self.program.resources}
        return {n: View(n, b, mems[n], n in outs, True) for n, b in buffers.items()}

    # ---------------------------------------------------------------------------------------------- running
    def run(self) -> None:
        """All stages in order. Raises EqkirError EQK-INT-…: the first violation found."""
        first = 0
        with np.errstate(all="ignore"):
            for n, stage in enumerate(self.program.stages):
                if n:
                    self._join()
                for g in stage:
                    first += self._group(g, first)

    def _join(self) -> None:
        """What was written before may be read and overwritten by anyone."""
        for v in self.views.values():
            v.must_write = v.must_write and v.memory.tracked and bool((v.memory.writer == NOBODY).any())
        for v in self.views.values():
            v.memory.writer[...] = v.memory.reader[...] = NOBODY

    def _group(self, g: Group, first: int) -> int:
        n = self.number(g.launch)
        for i, _ in g.digits:
            self._define(i, INDEX)
        body = self.block(g.body)
        for at in range(0, n, BATCH):
            ids = np.arange(at, min(at + BATCH, n), dtype=np.int64)
            state, rest = State(ids + first), ids
            for i, radix in reversed(g.digits):
                r = max(self.number(radix), 1)
                state.values[i] = (rest % r)[:, None]
                rest = rest // r
            body(state, None)
        return n

    def _define(self, i: int, t: Type) -> None:
        self.types[i], self.widths[i] = t.dtype, t.width

    def block(self, body: tuple[Statement, ...]) -> Run:
        runs = [self.statement(s) for s in body]

        def go(s: State, m: Mask) -> None:
            for r in runs:
                r(s, m)

        return go

    def statement(self, x: Statement) -> Run:
        """A statement as a function. `types` knows the dtypes of ids defined so far."""
        match x:
            case Op():
                return self._op(x)
            case Load():
                return self._load(x)
            case Write():
                return self._write(x)
            case Prefetch():
                return lambda s, m: None
            case Atomic():
                return self._atomic(x)
            case Var():
                return self._var(x)
            case Get():
                self._define(x.id, x.type)
                i, v = x.id, x.var
                return lambda s, m: s.values.__setitem__(i, s.vars[v])
            case Set():
                return self._set(x)
            case For():
                self._define(x.index, INDEX)
                return ranged(x, self.block(x.body))
            case While():
                head = self.block(x.head)
                return repeated(x, head, self.block(x.body))
            case If():
                then = self.block(x.then)
                return chosen(x, then, self.block(x.orelse))
            case Alloc():
                return self._alloc(x)

    # ---------------------------------------------------------------------------------------------- values
    def _op(self, x: Op) -> Run:
        self._define(x.id, x.type)
        src = self.types[x.args[0]] if x.args else ""
        f, i, args = function(x, src, self._param, self.args), x.id, x.args
        if not args:
            c = f()
            return lambda s, m: s.values.__setitem__(i, c)
        if len(args) == 1:
            (a,) = args
            return lambda s, m: s.values.__setitem__(i, f(s.values[a]))
        if len(args) == 2:
            a, b = args
            return lambda s, m: s.values.__setitem__(i, f(s.values[a], s.values[b]))
        return lambda s, m: s.values.__setitem__(i, f(*(s.values[a] for a in args)))

    def _param(self, name: str) -> int:
        if name in self.env:
            return self.env[name]
        view, _, axis = name.removeprefix("stride(").removesuffix(")").partition(",")
        return int(self.views[view].buffer.strides[int(axis)])

    def _var(self, x: Var) -> Run:
        name, init = x.name, x.init
        self._define(name, x.type)
        return lambda s, m: s.vars.__setitem__(name, s.values[init])

    def _set(self, x: Set) -> Run:
        name, value = x.var, x.value

        def go(s: State, m: Mask) -> None:
            s.vars[name] = s.values[value] if m is None else np.where(m[:, None], s.values[value], s.vars[name])

        return go

    # ---------------------------------------------------------------------------------------------- memory
    def _alloc(self, x: Alloc) -> Run:
        def go(s: State, m: Mask) -> None:
            shape = (s.ids.size, x.size)
            s.scratch[x.name] = np.full(shape, self.garbage(x.dtype), NUMPY[x.dtype]), np.zeros(shape, np.bool_)

        self.inside.setdefault(x.name, np.empty(0, np.bool_))
        return go

    def _lanes(self, x: Load | Write, s: State, m: Mask) -> tuple[Array, Array | None]:
        """Offsets (N or 1, width) and where they are touched (None: everywhere)."""
        at = s.values[x.at]
        if x.access == "contiguous":
            at = at + np.arange(self._width(x), dtype=np.int64)
        elif x.access == "strided":
            at = at + np.arange(self._width(x), dtype=np.int64) * s.values[x.stride]
        mask = s.values[x.mask] if x.mask >= 0 else None
        if m is not None:
            mask = m[:, None] if mask is None else mask & m[:, None]
        return at, mask

    def _width(self, x: Load | Write) -> int:
        return x.type.width if isinstance(x, Load) else self.widths[x.value]

    def elements(self, place: str, at: Array, touched: Array | None, where: str) -> Array:
        """Flat elements of a view's memory. Raises EqkirError EQK-INT-OOB for one outside the view."""
        v = self.views[place]
        e = at + v.buffer.offset
        known = self.inside[place]
        bad = (e < 0) | (e >= known.size)
        bad |= ~known[np.where(bad, 0, e)] if known.size else True
        if touched is not None:
            bad = bad & touched
        if bad.any():
            raise fail(OOB, f"{place}: an offset outside of shape {list(v.buffer.shape)}", where, stage="interpret")
        return e

    def _tick(self) -> int:
        self.time += 1
        return self.time

    def _load(self, x: Load) -> Run:
        self._define(x.id, x.type)
        i, w, t, where = x.id, x.type.width, NUMPY[x.type.dtype], f"load {x.place} %{x.id}"

        def go(s: State, m: Mask) -> None:
            at, mask = self._lanes(x, s, m)
            if x.place in s.scratch:
                s.values[i] = self._scratch_load(x, s, at, mask, where)
                return
            rows = s.ids.size if at.shape[0] > 1 or (mask is not None and mask.shape[0] > 1) else 1
            if mask is None:
                e = self.elements(x.place, at, None, where)
                who: Any = np.repeat(s.ids, w) if rows > 1 else (int(s.ids[0]) if s.ids.size == 1 else MANY)
                s.values[i] = self.views[x.place].load(e.reshape(-1), self._tick(), who, where).reshape(e.shape)
                return
            shape = (rows, w)
            mask = np.broadcast_to(mask, shape)
            e = np.broadcast_to(self.elements(x.place, np.broadcast_to(at, shape), mask, where), shape)
            other = s.values[x.other] if x.other >= 0 else np.zeros((1, 1), t)
            out = np.array(np.broadcast_to(other, shape), t)
            who = np.broadcast_to(s.ids[:, None], shape)[mask] if rows > 1 else (int(s.ids[0]) if s.ids.size == 1 else MANY)
            out[mask] = self.views[x.place].load(e[mask], self._tick(), who, where)
            s.values[i] = out

        return go

    def _scratch_load(self, x: Load, s: State, at: Array, mask: Array | None, where: str) -> Array:
        held, written = s.scratch[x.place]
        shape = (s.ids.size, x.type.width)
        at, on = np.broadcast_to(at, shape), np.broadcast_to(True if mask is None else mask, shape)
        bad = on & ((at < 0) | (at >= held.shape[1]))
        if bad.any():
            raise fail(OOB, f"{x.place}: an offset outside of {held.shape[1]} elements", where, stage="interpret")
        safe = np.where(on, at, 0)
        if (on & ~np.take_along_axis(written, safe, 1)).any():
            raise fail(UNWRITTEN, f"{x.place}: read before it was written", where, stage="interpret")
        other = s.values[x.other] if x.other >= 0 else np.zeros((1, 1), held.dtype)
        return np.where(on, np.take_along_axis(held, safe, 1), other).astype(held.dtype)

    def _write(self, x: Write) -> Run:
        where = f"store {x.place} %{x.value}"

        def go(s: State, m: Mask) -> None:
            value = s.values[x.value]
            at, mask = self._lanes(x, s, m)
            shape = (s.ids.size, value.shape[1])
            on = np.broadcast_to(True if mask is None else mask, shape)
            at = np.broadcast_to(at, shape)
            if x.stream and (on[:, 0] & (at[:, 0] * value.dtype.itemsize % STREAM_ALIGN != 0)).any():
                raise fail(OOB, f"{x.place}: streamed to an address that is no multiple of {STREAM_ALIGN}", where, stage="interpret")
            value = np.broadcast_to(value, shape)
            if x.place in s.scratch:
                held, written = s.scratch[x.place]
                if (on & ((at < 0) | (at >= held.shape[1]))).any():
                    raise fail(OOB, f"{x.place}: an offset outside of {held.shape[1]} elements", where, stage="interpret")
                rows = np.broadcast_to(np.arange(s.ids.size)[:, None], shape)
                held[rows[on], at[on]] = value[on]
                written[rows[on], at[on]] = True
                return
            e = self.elements(x.place, at, on, where)
            ids = np.broadcast_to(s.ids[:, None], shape)
            t = self._tick()
            self.views[x.place].store(e[on], value[on], Mark(t, t, "store", where), ids[on])

        return go

    def _atomic(self, x: Atomic) -> Run:
        self._define(x.id, x.type)
        where, t = f"atomic {x.place} %{x.id}", NUMPY[x.type.dtype]

        def go(s: State, m: Mask) -> None:
            shape = (s.ids.size, 1)
            mask = s.values[x.mask] if x.mask >= 0 else np.ones((1, 1), np.bool_)
            on = np.broadcast_to(mask if m is None else mask & m[:, None], shape)
            at = np.broadcast_to(s.values[x.at], shape)
            e = self.elements(x.place, at, on, where)
            value = np.broadcast_to(s.values[x.value], shape)[on]
            expected = np.broadcast_to(s.values[x.expected], shape)[on] if x.expected >= 0 else None
            ids = np.broadcast_to(s.ids[:, None], shape)[on]
            mark = Mark(self._tick(), -2, x.mode, where, 0)
            out = np.zeros(shape, t)
            out[on] = self.views[x.place].atomic(e[on], value, expected, mark, ids, np.zeros_like(ids), (False, False))
            s.values[x.id] = out

        return go


def _elements(b: Buffer) -> Array:
    """Which elements of a buffer's memory belong to the view."""
    out = np.zeros(b.memory.size, np.bool_)
    if 0 not in b.shape:
        e = np.asarray(np.int64(b.offset))
        for n, st in zip(b.shape, b.strides, strict=True):
            e = e[..., None] + np.arange(n, dtype=np.int64) * st
        out[e.reshape(-1)] = True
    return out


def run(program: TaskProgram, args: Args, symbols: Mapping[str, int] | None = None, *, seed: int = 0) -> None:
    """Execute one launch; outputs are written into the buffers of `args` (views by name, scalars by name).

    `symbols`: extents by name (default: from the views' shapes). `seed`: of what uninitialised memory holds. Raises EqkirError EQK-INT-….
    """
    if symbols is None:
        from eqkir.program.model import Program

        symbols = bind_symbols(Program(program.abi, (), ()), args)
    Interpreter(program, args, symbols, seed).run()
