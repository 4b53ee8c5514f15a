"""Legal stage: what inactive lanes hold, and that no reduction or contraction lets it count.

`Padding.of(value, label)` is the constant that a value holds in every inactive lane of a label, as a numpy scalar, or None where that is
unknown. A reduction over a padded label needs its neutral element there: a fact of the function for a built-in one. That identities are
neutral for a generic combine is the author's declaration, which a legal program no longer holds; so it is evaluated on sample states.
An accumulator with the lanes of a finished loop needs that an iteration leaves inactive lanes as they are, evaluated likewise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqkir.base.dtypes import FLOATS, NUMPY, parse
from eqkir.base.expr import Coord, lt
from eqkir.program import interp_scalar as S
from eqkir.program.abi import traversal
from eqkir.program.interp_pointwise import pointwise_function
from eqkir.program.interp_reduce import Reducer
from eqkir.program.model import Carry, Let, Loop
from eqkir.program.verify_index import Facts
from eqkir.program.verify_prove import conjuncts
from eqkir.program.verify_scope import Phase, Place, Report
from eqkir.program.verify_structure import region_of

Constant = Any  # a numpy array of one element
SAMPLES = 64
POINTWISE = ("Un", "Bin", "Tri", "Cast", "Bitcast")


class Padding:
    """Padding of the values of one phase."""

    def __init__(self, phase: Phase, facts: Facts) -> None:
        self.phase, self.facts, self.defs = phase, facts, phase.defs
        self.memo: dict[tuple[int, str], Constant | None] = {}
        self.loop_of: dict[int, Loop] = {c.id: i for at in phase.places if isinstance(i := at.item, Loop) for c in i.carries}

    def of(self, i: int, label: str) -> Constant | None:
        """The constant in the inactive lanes of `label`; of a value without that label, the constant that it is."""
        key = (i, label)
        if key not in self.memo:
            x = self.defs[i]
            if isinstance(x, Carry):
                self.memo[key] = self.carried(x, label)
            else:
                self.memo[key] = self.let(x, label)
        return self.memo[key]

    def carried(self, c: Carry, label: str) -> Constant | None:
        """A carry keeps its initial constant if its update does, given that it had it (the lanes of its own loop change roles: unknown)."""
        if c.op != "Phi" or self.loop_of[c.id].label == label:
            return None
        start = self.of(c.inits[0], label)
        if start is None:
            return None
        outer = dict(self.memo)
        self.memo[(c.id, label)] = start
        after = self.of(c.args[0], label)
        if after is not None and same(start, after):
            return start
        self.memo = outer
        return None

    def let(self, x: Let, label: str) -> Constant | None:
        match x.op:
            case "Const":
                return constant(x.attrs[0], x.dtype)
            case "Active":
                return np.array([False]) if x.attrs[0] == label else None
            case "Index" if x.dtype == "bool" and label in x.dims:
                axis = self.phase.axis(label)
                outside = lt(Coord(axis.name), axis.extent)
                return np.array([False]) if outside in conjuncts(self.facts.of(self.phase).of(x.id)) else None
            case "Splat" | "Trans":
                return self.of(x.args[0], label)
            case "LoadM":
                mask = self.of(x.args[0], label)
                return self.of(x.args[1], label) if mask is not None and not mask[0] else None
        if x.op in POINTWISE:
            return self.pointwise(x, [self.of(a, label) for a in x.args])
        return None

    def pointwise(self, x: Let, args: list[Constant | None]) -> Constant | None:
        if x.op == "Tri" and x.attrs[0] == "select":
            if args[0] is not None:
                return args[1] if args[0][0] else args[2]
            return args[1] if args[1] is not None and args[2] is not None and same(args[1], args[2]) else None
        if x.op == "Bin" and x.dtype == "bool" and x.attrs[0] in ("and", "or"):
            stop = x.attrs[0] == "or"
            if any(a is not None and bool(a[0]) == stop for a in args):
                return np.array([stop])
        if any(a is None for a in args):
            return None
        with np.errstate(all="ignore"):
            return np.asarray(pointwise_function(x, self.defs[x.args[0]].dtype)(*args))

    # -------------------------------------------------------------------------------------------- sample states
    def active(self, i: int, env: dict[int, Constant], seed: int) -> Constant:
        """Value `i` in active lanes on sample data: what is no pointwise function of `env` and constants takes arbitrary values."""
        if i not in env:
            x = self.defs[i]
            if isinstance(x, Let) and x.op == "Const":
                env[i] = np.broadcast_to(constant(x.attrs[0], x.dtype), (SAMPLES,))
            elif isinstance(x, Let) and x.op in ("Splat", "Trans"):
                env[i] = self.active(x.args[0], env, seed)
            elif isinstance(x, Let) and (x.op == "Active" or self.within_extents(x)):
                env[i] = np.ones(SAMPLES, bool)
            elif isinstance(x, Let) and x.op == "LoadM":
                mask, other = (self.active(a, env, seed) for a in x.args[:2])
                env[i] = np.where(mask, samples(x.dtype, 1000 * seed + i), other)
            elif isinstance(x, Let) and x.op in POINTWISE:
                args = [self.active(a, env, seed) for a in x.args]
                env[i] = np.asarray(pointwise_function(x, self.defs[x.args[0]].dtype)(*args))
            else:
                env[i] = samples(x.dtype, 1000 * seed + i)
        return env[i]

    def within_extents(self, x: Let) -> bool:
        """Whether an index predicate says no more than that coordinates are in their extents."""
        if x.op != "Index" or x.dtype != "bool":
            return False
        axes = self.phase.program.axes
        return set(conjuncts(self.facts.of(self.phase).of(x.id))) <= {lt(Coord(a.name), a.extent) for a in axes}

    def inactive(self, i: int, label: str, env: dict[int, Constant | None]) -> Constant | None:
        """Value `i` in the inactive lanes of `label` for the states in `env`; None where it depends on anything unknown."""
        if i not in env:
            x = self.defs[i]
            env[i] = pad = self.of(i, label)
            if pad is None and isinstance(x, Let) and x.op in ("Splat", "Trans"):
                env[i] = self.inactive(x.args[0], label, env)
            elif pad is None and isinstance(x, Let) and x.op in POINTWISE:
                args = [self.inactive(a, label, env) for a in x.args]
                known = [a for a in args if a is not None]
                if len(known) == len(args):
                    env[i] = np.asarray(pointwise_function(x, self.defs[x.args[0]].dtype)(*args))
                elif x.op == "Tri" and x.attrs[0] == "select" and args[0] is not None and args[0].size == 1:
                    env[i] = args[1] if args[0][0] else args[2]
        return env[i]

    def reached(self, carries: list[Carry], label: str) -> list[tuple[Constant, ...]]:
        """Sample states of these Phis at the start and after one, two and three iterations."""
        starts = [self.of(c.inits[0], label) for c in carries]
        out = [tuple(samples(c.dtype, 0) if v is None else np.broadcast_to(v, (SAMPLES,)) for v, c in zip(starts, carries))]
        with np.errstate(all="ignore"):
            for step in range(3):
                env = dict(zip((c.id for c in carries), out[-1]))
                out.append(tuple(self.active(c.args[0], env, step) for c in carries))
        return out

    def keeps(self, carries: list[Carry], label: str) -> bool:
        """Whether an iteration leaves the inactive lanes of `label` in these Phis as they are, on sample states that iterations reach."""
        with np.errstate(all="ignore"):
            for state in self.reached(carries, label):
                env: dict[int, Constant | None] = {c.id: v for c, v in zip(carries, state)}
                after = [self.inactive(c.args[0], label, env) for c in carries]
                known = [v for v in after if v is not None]
                if len(known) < len(after) or not unchanged(state, known):
                    return False
        return True

    def combined(self, x: Let) -> list[tuple[Constant, ...]]:
        """Sample states of a generic reduction: its elements, and combinations of them."""
        r = region_of(x)
        assert r is not None
        env: dict[int, Constant] = {}
        with np.errstate(all="ignore"):
            out = [tuple(self.active(a, env, 0) for a in x.args)]
            for _ in range(2):
                out.append(Reducer().apply(r, out[-1], tuple(np.roll(v, 1) for v in out[-1])))
        return out


def constant(text: str, dtype: str) -> Constant:
    return np.array([parse(text, dtype)]).astype(NUMPY[dtype])


def same(a: Constant, b: Constant) -> bool:
    """Equal values: NaN equals NaN, -0 equals +0."""
    a, b = (x.astype(np.float64) if x.dtype.kind not in "biu" else x for x in (a, b))
    a, b = np.broadcast_arrays(a, b)
    return bool(((a == b) | ((a != a) & (b != b))).all())


def samples(dtype: str, seed: int) -> Constant:
    """Arbitrary values of a dtype, special ones among them."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, SAMPLES).astype(bool)
    if dtype in FLOATS:
        special = [0.0, -0.0, np.inf, -np.inf, np.nan]
        with np.errstate(all="ignore"):
            return rng.permutation(np.array(special + list(rng.standard_normal(SAMPLES - len(special)) * 8))).astype(NUMPY[dtype])
    info = np.iinfo(NUMPY[dtype])
    return rng.integers(max(info.min, -100), min(info.max, 100), SAMPLES).astype(NUMPY[dtype])


def unchanged(before: Sequence[Constant], after: Sequence[Constant]) -> bool:
    """Whether a combine left states as they were, up to rounding. A NaN made of a state without one (``inf - inf`` in an author's
    combine) says nothing about the padding; most states must be clean."""
    equal = same_lanes(before, after)
    stale, fresh = (np.logical_or.reduce([np.broadcast_to(x != x, (SAMPLES,)) for x in xs]) for xs in (before, after))
    return bool((equal | (fresh & ~stale)).all() and equal.mean() > 0.5)


def same_lanes(before: Sequence[Constant], after: Sequence[Constant]) -> Constant:
    """Where all components are equal up to rounding."""
    equal = np.ones(SAMPLES, bool)
    for b, a in zip(before, after):
        a = np.broadcast_to(a, b.shape)
        if b.dtype.kind in "biu":
            equal &= a == b
            continue
        tolerance = {8: 1e-12, 4: 1e-5}.get(b.dtype.itemsize, 0.05)
        x, y = b.astype(np.float64), a.astype(np.float64)
        with np.errstate(invalid="ignore"):
            equal &= (x == y) | (np.abs(x - y) <= tolerance * np.abs(x)) | (np.isnan(x) & np.isnan(y))
    return equal


def neutral(fn: str, dtype: str, pad: Constant) -> bool:
    """Whether a constant is neutral for a built-in reduction (either zero is, for a sum)."""
    return same(pad, np.array([S.identity(fn, dtype)], NUMPY[dtype]))


def neutral_n(x: Let, pads: list[Constant], states: list[tuple[Constant, ...]]) -> bool:
    """Whether constants are neutral on both sides of a generic combine, on sample states."""
    r = region_of(x)
    assert r is not None
    fill = tuple(np.broadcast_to(p, (SAMPLES,)) for p in pads)
    with np.errstate(all="ignore"):
        return all(unchanged(state, Reducer().apply(r, left, right)) for state in states for left, right in ((state, fill), (fill, state)))


def mostly_neutral(x: Let, pads: list[Constant]) -> bool:
    """Whether constants are neutral on most arbitrary states. (States that start from a wrong identity never leave its shadow; arbitrary
    ones do, but a few of them, such as a mean of no elements, no fold could reach.)"""
    r = region_of(x)
    assert r is not None
    state = tuple(samples(d, 7 + k) for k, d in enumerate(r.dtypes))
    with np.errstate(all="ignore"):
        after = Reducer().apply(r, state, tuple(np.broadcast_to(p, (SAMPLES,)) for p in pads))
    return float(same_lanes(state, after).mean()) >= 0.75


def check_padding(phase: Phase, facts: Facts, say: Report) -> None:
    """No inactive lane counts in a reduction or contraction."""
    if phase.program.stage != "legal":
        return
    p = Padding(phase, facts)
    for at in phase.places:
        x = at.item
        if isinstance(x, Let) and x.op in ("FragRed", "FragRedN", "Dot"):
            wrong = _fault(p, x, at, facts)
            if wrong:
                say(f"{x.op}: {wrong}", at.pointer)


def _fault(p: Padding, x: Let, at: Place, facts: Facts) -> str:
    label = str(x.attrs[-1] if x.op != "FragRedN" else x.attrs[0])
    inside = traversal(label) != "LC" or label in {i.label for i in at.loops}
    operands = x.args[:2] if x.op == "Dot" else x.args
    if not inside:
        return _lanes_fault(p, x, operands, label, facts)
    if facts.full(label):
        return ""
    pads = [p.of(a, label) for a in operands]
    if any(v is None for v in pads):
        first = operands[[v is None for v in pads].index(True)]
        return f"operand %{first} holds unknown values in the inactive lanes of {label}"
    known = [v for v in pads if v is not None]
    held = " ".join(str(v[0]) for v in known)
    return "" if _neutral(p, x, operands, known) else f"the operands hold {held} in the inactive lanes of {label}"


def _neutral(p: Padding, x: Let, operands: tuple[int, ...], pads: list[Constant]) -> bool:
    if x.op == "FragRed":
        return neutral(x.attrs[0], x.dtype, pads[0])
    if x.op == "FragRedN":
        return neutral_n(x, pads, p.combined(x))
    with np.errstate(all="ignore"):
        a, b = (S.cast(v, p.defs[i].dtype, x.dtype) for v, i in zip(pads, operands))
        return same(S.binary("mul", a, b, x.dtype), np.zeros(1, NUMPY[x.dtype]))


def _lanes_fault(p: Padding, x: Let, operands: tuple[int, ...], label: str, facts: Facts) -> str:
    """A fragment over the lanes of a finished loop: accumulators that start neutral and keep inactive lanes."""
    carries = [p.defs[a] for a in operands]
    phis = [c for c in carries if isinstance(c, Carry) and c.op == "Phi" and p.loop_of[c.id].label == label]
    if len(phis) < len(carries) or len({id(p.loop_of[c.id]) for c in phis}) != 1 or x.op == "Dot":
        return f"its operands are not accumulators of one loop over {label}"
    starts = [p.of(c.inits[0], label) for c in phis]
    known = [v for v in starts if v is not None]
    clean = len(known) == len(starts)
    if clean and x.op == "FragRed":
        clean = neutral(x.attrs[0], x.dtype, known[0])
    elif clean:
        clean = neutral_n(x, known, p.reached(phis, label)) and mostly_neutral(x, known)
    if not clean:
        return f"the accumulators over {label} do not start neutral"
    if not facts.full(label) and not p.keeps(phis, label):
        return f"an iteration changes the inactive lanes of the accumulators over {label}"
    return ""


__all__ = ["Padding", "check_padding"]
