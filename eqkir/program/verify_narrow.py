"""Loops with bounds: members beyond a bound are proved to be neutral for every carry of the loop.

The proof is about one member x of the loop's axis and one point of everything else, for all values of symbols and data: under
``x >= hi`` (``x < lo``) index predicates are decided (by SMT), and values follow from them: a constant, or a state of the loop unchanged.
A structured carry then takes in a neutral element. A state must come back as it is; where an author's combine makes it from
neutral summaries, that they are neutral is the author's declaration, which a program no longer holds: it is evaluated on states that
iterations reach, as `verify_padding` does. ``0 * x`` is 0 for floats under the program's permission ``zero_products`` only.

In the legal stage a bound is one number for all lanes, the extreme of a fragment; it is beyond every active lane's own bound, and the proof
takes that of any lane. Lanes that a bound leaves out because a condition does not hold there must be observed by nothing (`observed`).
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from eqkir.base.dtypes import FLOATS, NUMPY
from eqkir.base.expr import Coord, Expr, conj, le, lt, negate
from eqkir.program.abi import axis_of, members_of, parameter, slice_axis, traversal
from eqkir.program.interp_pointwise import pointwise_function
from eqkir.program.interp_reduce import Reducer
from eqkir.program.model import Carry, Let, Loop, Store
from eqkir.program.verify_index import Facts
from eqkir.program.verify_labels import label_of
from eqkir.program.verify_memory import Memory
from eqkir.program.verify_met import lost
from eqkir.program.verify_padding import POINTWISE, Padding, constant, neutral, same, unchanged
from eqkir.program.verify_scope import Phase, Place, Report, loops
from eqkir.program.verify_structure import region_of

PERMISSION = "zero_products"


#: operations over all lanes of a fragment
ACROSS = frozenset({"RedTree", "FragRed", "RedNTree", "FragRedN", "ConWhole", "ConAccWhole", "Dot"})


class State(int):
    """The carry of the loop with this id, unchanged."""


Known = Any  # a numpy array of one element, a State, or None
#: combinations that keep a state when the other operand is the neutral element of this reduction
KEEPS = {"add": "sum", "mul": "prod", "maximum": "max", "minimum": "min", "or": "any", "and": "all"}


def check_narrow(m: Memory, say: Report) -> None:
    """Bounds are integers before the loop; what they exclude is neutral; no effect is skipped (`verify_met`)."""
    for phase in m.phases:
        for at, loop in loops(phase):
            if loop.ends:
                wrong = _fault(m, phase, at, loop)
                if wrong:
                    say(wrong, at.pointer, "bounds outside which every member is neutral")


def _fault(m: Memory, phase: Phase, at: Place, loop: Loop) -> str:
    legal = phase.program.stage == "legal"
    for i in loop.ends:
        x = phase.defs[i]
        if x.dtype != ("bool" if i == loop.on else "index"):
            return f"the bound %{i} is {x.dtype}"
        if legal and any(parameter(d) for d in x.dims):
            return f"the bound %{i} differs between lanes"
        if any(slice_axis(axis_of(d)) == loop.axis for d in x.dims):
            return f"the bound %{i} varies along the loop"
    if loop.cond >= 0:
        return "a loop with bounds that has a condition"
    if legal and loop.on >= 0:
        return "a legal loop counts in all lanes"
    skipped = lost(m, phase, loop)
    if skipped:
        return skipped
    values, conditions = m.facts.of(phase), {loop.on} - {-1}
    names = members_of(loop.axis, phase.program.axis) if traversal(loop.label)[0] == "S" else (loop.axis,)
    members = tuple(map(Coord, names))  # a slice is skipped where all of its members are beyond a bound
    for i, upper in ((loop.lo, False), (loop.hi, True)):
        if i < 0:
            continue
        bound = _element(phase, m.facts, i, "max" if upper else "min", conditions) if legal else values.of(i)
        axes = [phase.program.axis[axis_of(d)] for d in (*phase.order, *(x.label for x in at.loops))]
        within = [lt(Coord(a.name), a.extent) for a in (*axes, phase.program.axis[loop.axis])]
        for part in _parts(bound, "min" if upper else "max"):  # beyond the tightest of several is beyond one of them
            extent = phase.program.axis[loop.axis].extent
            if part == extent if upper else part.value == 0:
                continue  # excludes nothing
            beyond = [e for x in members for e in (le(part, x) if upper else lt(x, part), lt(x, extent))]
            wrong = Outside(phase, m, loop, conj(*beyond), tuple(within)).fault()
            if wrong:
                return f"{'from' if upper else 'before'} %{i}: {wrong}"
    for i in sorted(conditions):
        wrong = observed(m, phase, loop, i)
        if wrong:
            return f"where %{i} does not hold: {wrong}"
    return ""


def _parts(e: Expr, fn: str) -> list[Expr]:
    return [p for a in e.args for p in _parts(a, fn)] if e.op == fn else [e]


def _element(phase: Phase, facts: Facts, i: int, fn: str, conditions: set[int]) -> Expr:
    """A lane's own bound, of which the number `i` is the extreme over active lanes in which `conditions` (added to) hold; `i` itself where
    it is no such extreme."""
    x = phase.defs[i]
    if isinstance(x, Let):
        if x.op == "FragRed" and x.attrs[0] == fn:
            return _element(phase, facts, x.args[0], fn, conditions)
        if x.op in ("Splat", "Trans"):
            return _element(phase, facts, x.args[0], fn, conditions)
        if x.op == "Tri" and x.attrs[0] == "select":
            cond, pad = phase.defs[x.args[0]], phase.defs[x.args[2]]
            if isinstance(cond, Let) and isinstance(pad, Let) and pad.op == "Const":
                if cond.op != "Active":
                    conditions.add(x.args[0])
                return _element(phase, facts, x.args[1], fn, conditions)
    return facts.of(phase).of(i)


def observed(m: Memory, phase: Phase, loop: Loop, on: int) -> str:
    """What may observe a carry of `loop` in a lane where the bool `on` does not hold; an empty text where nothing does.

    Values are followed from the carries lane by lane, to stores whose masks imply `on`; an operation that mixes lanes of an axis that
    `on` varies with, an address, a mask or a condition ends the proof.
    """
    lanes = {axis_of(d) for d in phase.defs[on].dims}
    values = m.facts.of(phase)
    goal = values.of(on)
    seen: set[int] = set()
    todo = [c.id for c in loop.carries]
    while todo:
        i = todo.pop()
        if i in seen:
            continue
        seen.add(i)
        for at in phase.places:
            x = at.item
            if isinstance(x, Let) and i in x.args:
                label = label_of(x)
                if x.op in ("Index", "Active") or (label and axis_of(label) in lanes):
                    return f"%{x.id} reads %{i}"
                if x.op in ("Load", "LoadM") and i in (x.args[0], *x.args[2:]):
                    return f"%{x.id} reads %{i}"
                todo.append(x.id)
            elif isinstance(x, Store) and i in (x.value, x.valid, *x.deps):
                if i in (x.valid, *x.deps) or not m.prover.prove(goal, [values.of(x.valid)]):
                    return f"a store to {x.view} takes %{i}"
            elif isinstance(x, Loop):
                if i in x.ends or i == x.cond:
                    return f"a loop over {x.axis} reads %{i}"
                mine = [c.id for c in x.carries if i in (*c.args, *c.inits)]
                if mine and x.axis in lanes:
                    return f"a loop over {x.axis} takes %{i}"
                todo += mine
    return ""


class Outside:
    """Values of a loop's body at a member beyond one bound."""

    def __init__(self, phase: Phase, m: Memory, loop: Loop, beyond: Expr, within: tuple[Expr, ...]) -> None:
        self.phase, self.m, self.loop, self.beyond, self.within = phase, m, loop, beyond, within
        self.zero_products = PERMISSION in phase.program.permissions
        self.padding = Padding(phase, m.facts)
        self.home = phase.home
        self.own = {c.id for c in loop.carries}
        self.memo: dict[int, Known] = {}

    # -------------------------------------------------------------------------------------------- carries
    def fault(self) -> str:
        """Which carry such a member may change, or an empty text."""
        open_: list[Carry] = []
        for c in self.loop.carries:
            if c.op == "Phi":
                if self.of(c.args[0]) != State(c.id):
                    open_.append(c)
            elif not self.neutral(c):
                return f"the operand of %{c.id} is not neutral there"
        if open_ and not self.keeps([c for c in self.loop.carries if c.op == "Phi"]):
            return f"the state %{open_[0].id} may change there"
        return ""

    def neutral(self, c: Carry) -> bool:
        match c.op:
            case "RedLoop":
                v = self.const(c.args[0])
                return v is not None and neutral(c.attrs[0], c.dtype, v)
            case "RedNLoop":
                pads = [(self.padding.of(i, self.loop.label), self.const(a)) for i, a in zip(c.inits, c.args, strict=True)]
                return all(k is not None and v is not None and same(k, v) for k, v in pads)
            case "ConLoop" | "ConAccLoop":
                return self.product(c.args[0], c.args[1], c.dtype)
        return False

    def keeps(self, carries: list[Carry]) -> bool:
        """Whether these states come back as they are, on sample states that iterations reach."""
        with np.errstate(all="ignore"):
            for state, way in product(self.padding.reached(carries, self.loop.label), (True, False)):
                env: dict[int, Any] = {c.id: v for c, v in zip(carries, state, strict=True)}
                after = [self.sample(c.args[0], env, way) for c in carries]
                known = [v for v in after if v is not None]
                if len(known) < len(after) or not unchanged(state, known):
                    return False
        return True

    def sample(self, i: int, env: dict[int, Any], way: bool) -> Any:
        """Value `i` for the states in `env`, unknown conditions going one way; None where it depends on anything else unknown."""
        if i not in env:
            v, x = self.of(i), self.phase.defs[i]
            if isinstance(v, State):
                env[i] = env.get(int(v))
            elif v is not None:
                env[i] = v
            elif isinstance(x, Let) and x.op in ("Splat", "Trans"):
                env[i] = self.sample(x.args[0], env, way)
            elif isinstance(x, Let) and x.op in POINTWISE:
                args = [self.sample(a, env, way) for a in x.args]
                if x.op == "Tri" and x.attrs[0] == "select" and args[0] is None:
                    args[0] = np.array([way])
                ok = all(a is not None for a in args)
                env[i] = np.asarray(pointwise_function(x, self.phase.defs[x.args[0]].dtype)(*args)) if ok else None
            elif isinstance(x, Let) and x.op == "Dot" and self.product(x.args[0], x.args[1], x.dtype):
                env[i] = self.sample(x.args[2], env, way)
            else:
                env[i] = None
        return env[i]

    # -------------------------------------------------------------------------------------------- values
    def const(self, i: int) -> Any:
        v = self.of(i)
        return None if isinstance(v, State) else v

    def zero(self, i: int) -> bool:
        v = self.const(i)
        return v is not None and same(v, np.zeros(1, v.dtype))

    def product(self, a: int, b: int, dtype: str) -> bool:
        """Whether a product is zero."""
        if dtype in FLOATS and not self.zero_products:
            return self.zero(a) and self.zero(b)
        return self.zero(a) or self.zero(b)

    def of(self, i: int) -> Known:
        if i not in self.memo:
            self.memo[i] = None  # a value that depends on itself is unknown
            self.memo[i] = self._of(i)
        return self.memo[i]

    def _of(self, i: int) -> Known:
        x = self.phase.defs[i]
        if isinstance(x, Carry):
            return State(i) if i in self.own else self.carried(x)
        a = x.args
        match x.op:
            case "Const":
                return constant(x.attrs[0], x.dtype)
            case op if op in ACROSS and not self.inside(i):  # made of other members than the one that is looked at
                return None
            case "Index" if x.dtype == "bool":
                return self.decided(i) if self.inside(i) or all(axis_of(d) != self.loop.axis for d in x.dims) else None
            case "Splat" | "Trans":
                return self.of(a[0])
            case "Load" | "LoadM":
                valid = self.const(a[0])
                return self.of(a[1]) if valid is not None and not valid[0] else None
            case "RedTree" | "FragRed":
                v = self.const(a[0])
                return v if v is not None and neutral(x.attrs[0], x.dtype, v) else None
            case "RedNTree" | "FragRedN":
                return self.combined(x)
            case "Pick":
                t = self.of(a[0])
                return t[int(x.attrs[0])] if isinstance(t, tuple) else None
            case "ConWhole":
                return np.zeros(1, NUMPY[x.dtype]) if self.product(a[0], a[1], x.dtype) else None
            case "ConAccWhole" | "Dot":
                return self.of(a[2]) if self.product(a[0], a[1], x.dtype) else None
        return self.pointwise(x) if x.op in POINTWISE else None

    def decided(self, i: int) -> Known:
        """An index predicate that is false beyond the bound."""
        e = self.m.facts.of(self.phase).of(i)
        return np.array([False]) if self.m.prover.prove(negate(e), [self.beyond, *self.within]) else None

    def combined(self, x: Let) -> Known:
        """A generic reduction of one constant state, if the combine keeps it."""
        r = region_of(x)
        assert r is not None
        states = [self.const(e) for e in x.args[-len(r.dtypes) :]]
        if any(v is None for v in states):
            return None
        with np.errstate(all="ignore"):
            after = Reducer().apply(r, tuple(states), tuple(states))
        return tuple(states) if all(same(np.asarray(p), q) for p, q in zip(after, states, strict=True)) else None

    def inside(self, i: int) -> bool:
        """Whether a value is made in the loop."""
        return i in self.home and self.loop in self.home[i].loops

    def carried(self, c: Carry) -> Known:
        """The result of a loop inside: its start, if its body keeps it. Other loops have taken members that this says nothing of."""
        if not self.inside(c.id):
            return None
        if c.op == "RedLoop":
            v = self.const(c.args[0])
            return v if v is not None and neutral(c.attrs[0], c.dtype, v) else None
        if c.op in ("ConLoop", "ConAccLoop"):
            if not self.product(c.args[0], c.args[1], c.dtype):
                return None
            return self.of(c.inits[0]) if c.inits else np.zeros(1, NUMPY[c.dtype])
        if c.op != "Phi":
            return None
        start = self.const(c.inits[0])
        if start is None:
            return None
        before = dict(self.memo)
        self.memo[c.id] = start
        after = self.const(c.args[0])
        self.memo = before
        return start if after is not None and same(start, after) else None

    def pointwise(self, x: Let) -> Known:
        a = x.args
        fn = x.attrs[0]
        vs = [self.of(i) for i in a]
        if x.op == "Tri" and fn == "select":
            c = None if isinstance(vs[0], State) else vs[0]
            if c is not None:
                return vs[1] if c[0] else vs[2]
            if isinstance(vs[1], State) or isinstance(vs[2], State):
                return vs[1] if isinstance(vs[1], State) and isinstance(vs[2], State) and vs[1] == vs[2] else None
            return vs[1] if vs[1] is not None and vs[2] is not None and same(vs[1], vs[2]) else None
        if x.op == "Tri" and fn == "fma" and isinstance(vs[2], State) and self.product(a[0], a[1], x.dtype):
            return vs[2]
        if x.op == "Bin" and x.dtype == "bool" and fn in ("and", "or"):
            stop = fn == "or"
            if any(v is not None and not isinstance(v, State) and bool(v[0]) == stop for v in vs):
                return np.array([stop])
        if x.op == "Bin" and fn == "mul" and self.product(a[0], a[1], x.dtype):
            return np.zeros(1, NUMPY[x.dtype])
        if x.op == "Bin" and fn in KEEPS:
            for s, v in (vs, vs[::-1]):
                if isinstance(s, State) and v is not None and not isinstance(v, State) and neutral(KEEPS[fn], x.dtype, v):
                    return s
        if not vs or any(v is None or isinstance(v, State) for v in vs):
            return None
        with np.errstate(all="ignore"):
            return np.asarray(pointwise_function(x, self.phase.defs[a[0]].dtype)(*vs))


__all__ = ["check_narrow"]
