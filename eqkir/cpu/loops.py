"""Loops of an expansion: chunks with a main part and a tail, bounds, while loops; states in variables."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from eqkir.cpu.context import Context, Lanes
from eqkir.cpu.fragments import Fragment
from eqkir.cpu.implementations import of_carry
from eqkir.cpu.implementations.reductions import Accumulators
from eqkir.cpu.kept import finish, keep, reserve
from eqkir.cpu.model import BOOL, Statement
from eqkir.program.abi import member_labels, parameter, step_parameter
from eqkir.program.items import needed, reads
from eqkir.program.model import Carry, Item, Loop, Store

if TYPE_CHECKING:
    Block = Callable[[Context, tuple[Item, ...]], None]

TOP = 2**63 - 1
#: variables of a loop that may be written twice
MAX_HOPES = 64


class _States:
    """Phis of a loop as variables, and the structured carries' own."""

    def __init__(self, k: Context, x: Loop) -> None:
        self.k, self.x = k, x
        carries = [c for c in x.carries if c.id not in k.unmade]
        self.phis = [c for c in carries if c.op == "Phi"]
        self.folds = [(c, of_carry(k, c, x)) for c in carries if c.op != "Phi"]
        self.vars = {c.id: [k.b.var(self._part(c, c.inits[0], p)) for p in k.shape(c.id).points()] for c in self.phis}
        self.state = [f.start(k, c, x) for c, f in self.folds]

    def _part(self, c: Carry, i: int, p: dict[str, int]) -> int:
        s = self.k.shape(c.id)
        return self.k.b.splat(self.k.read(i, p, s.vector), s.width)

    def present(self) -> None:
        """The values of the phis at this place."""
        for c in self.phis:
            s = self.k.shape(c.id)
            self.k.values[c.id] = Fragment(s, {s.key(p): self.k.b.get(v) for p, v in zip(s.points(), self.vars[c.id], strict=True)})

    def advance(self, running: Fragment | None = None) -> None:
        """One step: structured carries take their chunk in, then all phis change at once (where `running` holds)."""
        k = self.k
        for (c, f), s in zip(self.folds, self.state, strict=True):
            f.step(k, c, self.x, s)
        new: list[tuple[int, int]] = []
        for c in self.phis:
            shape = k.shape(c.id)
            for p, v in zip(shape.points(), self.vars[c.id], strict=True):
                value = self._part(c, c.args[0], p)
                if running is not None:
                    on = k.level(k.going_of(running, shape.dims, p, shape.vector), value)[0]
                    value = k.b.select(on, value, k.read(c.id, p, shape.vector))
                new.append((v, value))
        for v, value in new:
            k.b.set(v, value)

    @property
    def variables(self) -> list[int]:
        """All of them."""
        return [v for vs in (*self.vars.values(), *self.state) for v in vs]

    def restart(self) -> None:
        """What the variables started as."""
        for v in self.variables:
            self.k.b.set(v, self.k.b.inits[v])

    def hope(self) -> int:
        """The variable of `Context.sure`, where every carry is a maximum or minimum that can do with it; else -1."""
        k = self.k
        if self.phis or not self.folds or len(self.variables) > MAX_HOPES:
            return -1
        widths = {f.hopes(k, c, self.x) if isinstance(f, Accumulators) else 0 for c, f in self.folds}
        return k.b.var(k.b.splat(k.b.const(True, "bool"), widths.pop())) if len(widths) == 1 and 0 not in widths else -1

    def finish(self) -> None:
        self.present()
        for (c, f), s in zip(self.folds, self.state, strict=True):
            f.finish(self.k, c, self.x, s)
        for c in self.x.carries:
            keep(self.k, c.id)


def expand_loop(k: Context, x: Loop, block: Block) -> None:
    """A loop over one axis."""
    k.force(list(dict.fromkeys(reads(x))))
    for alias in sorted({k.program.abi.view(v).alias for v in written_by(x.body)}):
        k.force_class(alias)
    around, k.sure = k.sure, -1
    with k.inside():
        (_while if x.cond >= 0 else _for)(k, x, block)
    k.sure = around


def written_by(items: tuple[Item, ...]) -> set[str]:
    """Views that a block stores to."""
    out: set[str] = set()
    for i in items:
        if isinstance(i, Store):
            out |= {i.view, *([i.into] if i.into else [])}
        elif isinstance(i, Loop):
            out |= written_by(i.body)
    return out


def _for(k: Context, x: Loop, block: Block) -> None:
    b, p = k.b, step_parameter(x.label)
    chunk, members = k.program.bindings[p] if p else 1, member_labels(x.label, k.program.axis)
    lanes = any(parameter(d) for d in (x.label, *members))
    states = _States(k, x)
    reserve(k, x)
    extent = k.extent(x.axis)
    begin, end = _bounds(k, x, extent, chunk)
    part = k.cut if k.cut is not None and k.cut.loop is x else None
    if part is not None:
        begin, end = part.bounds(b, begin, end, chunk)
        part.resume(b, states.variables)

    def body(it: int, masked: bool) -> None:
        at = b.bin("mul", it, b.const(chunk))
        count = b.bin("sub", extent, at) if masked and lanes else -1
        with ExitStack() as labels:
            labels.enter_context(k.label(x.label, Lanes(at, count if parameter(x.label) else -1)))
            for m in members:
                labels.enter_context(k.label(m, Lanes(at, count)))
            labels.enter_context(k.inside())
            states.present()
            k.loops.append(x)
            block(k, x.body)
            states.advance()
            finish(k, x)
            k.loops.pop()

    if part is None and k.hopes and not written_by(x.body) and (sure := states.hope()) >= 0:
        k.sure = sure
        _steps(k, x, (begin, end), extent, chunk, lanes, body)
        k.sure = -1
        doubt = b.op("Un", ("not",), (b.get(sure),), b.types[sure])
        with b.when(b.op("Any", (), (doubt,), BOOL)):
            states.restart()
            _steps(k, x, (begin, end), extent, chunk, lanes, body)
    else:
        _steps(k, x, (begin, end), extent, chunk, lanes, body)
    if part is not None:
        part.suspend(b, states.variables)
    states.finish()


def _steps(
    k: Context, x: Loop, bounds: tuple[int, int], extent: int, chunk: int, lanes: bool, body: Callable[[int, bool], None]
) -> None:
    """The loop itself: whole chunks apart from the last one where these need no masks."""
    b, (begin, end) = k.b, bounds
    exact = k.program.axis[x.axis].extent.value
    if not lanes or (exact is not None and exact % chunk == 0):
        with b.loop(begin, end) as it:
            body(it, False)
    elif not k.split:
        with b.loop(begin, end) as it:
            body(it, True)
    else:
        whole = b.bin("floordiv", extent, b.const(chunk))
        with b.loop(begin, b.bin("minimum", end, whole)) as it:
            body(it, False)
        with b.loop(b.bin("maximum", begin, whole), end) as it:
            body(it, True)


def _bounds(k: Context, x: Loop, extent: int, chunk: int) -> tuple[int, int]:
    """The first step and the one behind the last."""
    b, c = k.b, k.b.const(chunk)

    def steps(e: int) -> int:
        return b.bin("floordiv", b.bin("add", e, b.const(chunk - 1)), c)

    if not x.ends:
        return b.const(0), steps(extent)
    dims = tuple(dict.fromkeys(d for i in x.ends for d in k.layout.dims[i]))
    lo, hi = -1, -1
    for p in k.layout.shaped(dims, "").points():
        count = k.active(dims, p, "")
        if x.on >= 0:
            count = b.conj(count, k.read(x.on, p, ""))
        first = k.read(x.lo, p, "") if x.lo >= 0 else b.const(0)
        last = k.read(x.hi, p, "") if x.hi >= 0 else extent
        if count >= 0:
            first, last = b.select(count, first, b.const(TOP)), b.select(count, last, b.const(-TOP))
        lo = first if lo < 0 else b.bin("minimum", lo, first)
        hi = last if hi < 0 else b.bin("maximum", hi, last)
    lo, hi = (b.bin("minimum", b.bin("maximum", e, b.const(0)), extent) for e in (lo, hi))
    return b.bin("floordiv", lo, c), steps(hi)


# ------------------------------------------------------------------------------------------------ while
def _while(k: Context, x: Loop, block: Block) -> None:
    """Steps while the condition holds anywhere: what the condition needs, then, where it holds, the rest of the body."""
    b = k.b
    states = _States(k, x)
    dims = _condition_dims(k, x)
    shape = k.layout.shaped(dims, k.layout.best(dims))
    step = b.var(b.const(0))

    def everywhere(p: dict[str, int]) -> int:
        live = b.conj(k.active(dims, p, shape.vector), k.going(dims, p, shape.vector))  # what has stopped around it does not start
        return b.splat(live if live >= 0 else b.const(True, "bool"), shape.width)

    running = [b.var(everywhere(p)) for p in shape.points()]
    early = needed(x)
    first = tuple(i for n, i in enumerate(x.body) if n in early)
    rest = tuple(i for n, i in enumerate(x.body) if n not in early)

    def present() -> Fragment:
        return Fragment(shape, {shape.key(p): b.get(v) for p, v in zip(shape.points(), running, strict=True)})

    head: list[Statement] = []
    body: list[Statement] = []
    with b.block(head):
        at = b.get(step)
        with k.label(x.label, Lanes(at)):
            states.present()
            k.running += [present()] if dims else []
            block(k, first)
            if dims:
                k.running.pop()
            on = Fragment(shape)
            any_ = -1
            for p, v in zip(shape.points(), running, strict=True):
                c = k.read(x.cond, p, shape.vector)
                on.parts[shape.key(p)] = b.bin("and", b.get(v), b.splat(c, shape.width)) if dims else c
                found = on.parts[shape.key(p)]
                found = b.op("Any", (), (found,), b.types[b.const(True, "bool")]) if shape.width > 1 else found
                any_ = found if any_ < 0 else b.bin("or", any_, found)
            with b.block(body):
                for p, v in zip(shape.points(), running, strict=True):
                    b.set(v, on.parts[shape.key(p)])
                k.running += [on] if dims else []
                block(k, rest)
                if dims:
                    k.running.pop()
                states.advance(on if dims else None)
                b.set(step, b.bin("add", at, b.const(1)))
    b.while_(head, any_, body)
    states.finish()


def _condition_dims(k: Context, x: Loop) -> tuple[str, ...]:
    return tuple(d for d in k.layout.dims[x.cond] if d != x.label)
