"""A brute-force evaluator of index-notation programs, as eager as a program may be: inside a phase, stores with one loop nest run
fused point by point, nests one after another in a shuffled order, and only what depends on instance axes alone is computed first.
Slices of a seg axis are cut at random (sometimes there is one, whose summary is the result).
Every load checks that nothing of a later version was written where it reads.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from eqkir.base.dtypes import NUMPY, parse
from eqkir.base.expr import Expr, evaluate
from eqkir.program import interp_scalar as sc
from eqkir.program.abi import is_member, slice_axis
from eqkir.program.abstract import BOUND, Abstract, Put, VNode, axes_in, bound_axis
from eqkir.program.construct_groups import reachable
from eqkir.program.lower import SCANS, scan_axis

Env = dict[str, int]


class Brute:
    def __init__(
        self, p: Abstract, arrays: Mapping[str, np.ndarray], symbols: Mapping[str, int], scalars: Mapping[str, Any], seed: int
    ) -> None:
        self.p, self.arrays, self.scalars = p, dict(arrays), scalars
        self.launch = {**symbols, **{k: int(v) for k, v in scalars.items() if isinstance(v, (int, np.integer))}}
        self.rng = random.Random(seed)
        self.extent = {a.name: evaluate(a.extent, self.launch) for a in p.axes}
        for v in p.abi.views:
            shape = tuple(evaluate(e, self.launch) for e in v.shape)
            if v.role == "workspace":
                self.arrays[v.name] = np.empty(shape, NUMPY[v.dtype])
            assert self.arrays[v.name].shape == shape, (v.name, shape)
        self.kind = {a.name: a.kind for a in p.axes}
        self.slices = {a.name: self.cut(self.extent[a.name]) for a in p.axes if a.kind == "seg"}
        self.loops: dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]] = {}  # name -> (axis, initial values, next values)
        for n in p.nodes:
            if n.op in ("Fold", "While", "State"):
                k = n.attrs[2]
                known = self.loops.setdefault(n.attrs[1], (n.attrs[0], n.args[:k], n.args[k : 2 * k]))
                assert known == (n.attrs[0], n.args[:k], n.args[k : 2 * k]), "one name for two loops"
        self.memo: dict[tuple[int, tuple[int, ...]], Any] = {}
        self.written: dict[int, tuple[int, int]] = {}  # byte address -> (version, alias)
        self.owner: dict[tuple[int, int], tuple[Any, ...]] = {}

    def cut(self, n: int) -> list[range]:
        inner = sorted(self.rng.sample(range(1, n), self.rng.randrange(n))) if n > 1 and self.rng.random() < 0.7 else []
        return [range(a, b) for a, b in itertools.pairwise([0, *inner, n])] if n else []

    def steps(self, axis: str, env: Env) -> range:
        """The coordinates of an axis: of a seg axis the numbers of its slices, of its members those of the current slice."""
        if self.kind[axis] == "mem":
            return self.slices[slice_axis(axis)][env[slice_axis(axis)]]
        return range(len(self.slices[axis])) if axis in self.slices else range(self.extent[axis])

    # ---------------------------------------------------------------- memory
    def address(self, view: str, at: tuple[int, ...]) -> int:
        a = self.arrays[view]
        assert all(0 <= i < n for i, n in zip(at, a.shape, strict=True)), f"{view}{at} outside {a.shape}"
        return a.__array_interface__["data"][0] + sum(i * s for i, s in zip(at, a.strides, strict=True))

    def load(self, view: str, version: int, at: tuple[int, ...]) -> Any:
        made = self.written.get(self.address(view, at))
        assert made is None or made[0] <= version, f"{view}{at}: version {version} was overwritten by {made[0]}"
        role = self.p.abi.view(view).role
        assert role not in ("out", "workspace") or made is not None, f"{view}{at} read before it was written"
        return self.arrays[view][at].copy()

    # ---------------------------------------------------------------- values
    def index(self, e: Expr, deps: tuple[Any, ...], env: Env) -> int:
        def atom(a: Expr) -> int:
            match a.op:
                case "coord":
                    return env[a.args[0]]
                case "dep":
                    return int(deps[a.args[0]])
            return self.launch[a.args[0]]

        return int(evaluate(e, atom))

    def value(self, i: int, env: Env) -> Any:
        key = i, tuple(env[a] for a in sorted(self.p.free(i)))
        if key not in self.memo:
            self.memo[key] = self.compute(i, env)
        return self.memo[key]

    @staticmethod
    def first(axis: str, env: Env) -> bool:
        """Whether a scan starts here: at the start of its axis, or of its slice."""
        return env[axis] == (env[slice_axis(axis)] if is_member(axis) else 0)

    def compute(self, i: int, env: Env) -> Any:
        n = self.p.nodes[i]
        dt = NUMPY.get(n.dtype)
        arg = lambda k: self.value(n.args[k], env)  # noqa: E731
        kind = lambda k: self.p.nodes[n.args[k]].dtype  # noqa: E731
        match n.op:
            case "Const":
                return np.asarray(parse(n.attrs[0], n.dtype)).astype(dt)
            case "Scalar":
                return np.asarray(self.scalars[n.attrs[0]]).astype(dt)
            case "Index":
                return np.asarray(self.index(n.attrs[0], tuple(self.value(a, env) for a in n.args), env)).astype(dt)
            case "Load":
                if not arg(0):
                    return arg(1)
                at = tuple(self.index(e, tuple(self.value(a, env) for a in n.args[2:]), env) for e in n.attrs[2])
                return self.load(n.attrs[0], n.attrs[1], at)
            case "Un":
                return sc.unary(n.attrs[0], arg(0), kind(0))
            case "Bin":
                return sc.binary(n.attrs[0], arg(0), arg(1), kind(0))
            case "Tri":
                return sc.fma(arg(0), arg(1), arg(2), kind(0)) if n.attrs[0] == "fma" else (arg(1) if arg(0) else arg(2))
            case "Cast":
                return sc.cast(arg(0), kind(0), n.dtype)
            case "Bitcast":
                return np.asarray(sc.bitcast(arg(0), n.dtype)).reshape(())
            case "Permit":
                return arg(0)
            case "Pick":
                return arg(0)[n.attrs[0]]
            case "Arg":
                return self.formal[n.attrs]
            case "Form":
                return self.before(n.attrs[0], n.attrs[1], env)
            case "State":
                return self.before(n.attrs[1], n.attrs[3], env)
            case "Scan":
                before = None if self.first(n.attrs[1], env) else self.value(i, {**env, n.attrs[1]: env[n.attrs[1]] - 1})
                x = arg(0)
                assert kind(0) == n.dtype
                return sc.combine(n.attrs[0], np.asarray(sc.identity(n.attrs[0], n.dtype)) if before is None else before, x, n.dtype)
            case "ScanN":
                axis, k = n.attrs
                first = self.first(axis, env)
                left = [self.value(a, env) for a in n.args[:k]] if first else self.value(i, {**env, axis: env[axis] - 1})
                return self.combined(left, [self.value(a, env) for a in n.args[k : 2 * k]], n.args[2 * k :])
            case "Fold" | "While":
                return self.ordered(n, env)
        return self.structured(i, env)

    def structured(self, i: int, env: Env) -> Any:
        n = self.p.nodes[i]
        axis = bound_axis(n)
        points = [{**env, axis: c} for c in self.steps(axis, env)]
        operands = n.args[n.attrs[1] : 2 * n.attrs[1]] if n.op == "RedN" else n.args
        assert n.op in ("Red", "RedN", "Con", "ConAcc"), n.op
        assert all(axis in self.p.free(a) for a in (operands if n.op != "ConAcc" else operands[:2])), (
            "the reduced axis is free in the operand"
        )
        assert n.op in ("RedN", "Con") or {self.p.nodes[a].dtype for a in operands} == {n.dtype}
        if n.op == "Red":
            acc = np.asarray(sc.identity(n.attrs[0], n.dtype))
            for e in points:
                acc = sc.combine(n.attrs[0], acc, self.value(n.args[0], e), n.dtype)
            return acc
        if n.op == "Con":
            acc = np.asarray(sc.identity("sum", n.dtype))
            for e in points:
                a, b = (sc.cast(self.value(x, e), self.p.nodes[x].dtype, n.dtype) for x in n.args)
                acc = sc.combine("sum", acc, sc.binary("mul", a, b, n.dtype), n.dtype)
            return acc
        assert n.op == "RedN"
        k = n.attrs[1]
        state = [self.value(a, env) for a in n.args[:k]]
        for e in points:
            state = self.combined(state, [self.value(a, e) for a in n.args[k : 2 * k]], n.args[2 * k :])
        return state

    def combined(self, left: list[Any], right: list[Any], region: tuple[int, ...]) -> list[Any]:
        outer = getattr(self, "formal", None)
        self.formal = {("l", j): s for j, s in enumerate(left)} | {("r", j): s for j, s in enumerate(right)}
        out = [self.closed(c) for c in region]
        self.formal = outer
        return out

    def before(self, loop: str, i: int, env: Env) -> Any:
        """A state before the current step of a loop."""
        axis, inits, nexts = self.loops[loop]
        return self.value(inits[i], env) if env[axis] == 0 else self.value(nexts[i], {**env, axis: env[axis] - 1})

    def ordered(self, n: VNode, env: Env) -> list[Any]:
        axis, loop, k = n.attrs
        if n.op == "While":
            step = 0
            while self.value(n.args[2 * k], {**env, axis: step}):
                for a in n.args[k : 2 * k]:
                    self.value(a, {**env, axis: step})
                step += 1
                assert step < 10_000
        else:
            step = len(self.steps(axis, env))
            if len(n.args) == 3 * k and step == 1 and self.rng.random() < 0.5:
                return [self.value(a, {**env, axis: 0}) for a in n.args[2 * k :]]
            for c in range(step):
                for a in n.args[k : 2 * k]:
                    self.value(a, {**env, axis: c})
        return [self.before(loop, i, {**env, axis: step}) for i in range(k)]

    def closed(self, i: int) -> Any:
        """A node of a combine region under the current formals."""
        keep, self.memo = self.memo, {}
        try:
            return self.value(i, {})
        finally:
            self.memo = keep

    # ---------------------------------------------------------------- execution
    def points(self, axes: list[str], env: Env) -> Any:
        if not axes:
            yield env
            return
        for c in self.steps(axes[0], env):
            yield from self.points(axes[1:], {**env, axes[0]: c})

    def run(self) -> None:
        for g in self.p.groups:
            instances = list(self.points(list(g.axes), {}))
            self.rng.shuffle(instances)
            for env in instances:
                for phase in g.phases:
                    self.phase(phase, list(g.axes), env)

    def phase(self, puts: tuple[Put, ...], own: list[str], env: Env) -> None:
        self.memo = {}
        roots = [r for s in puts for r in (s.value, s.valid, *s.deps)]
        inside = frozenset(own)
        for i in reachable(self.p, roots):
            n = self.p.nodes[i]
            if (n.op in BOUND or n.op == "Load") and self.p.free(i) <= inside:
                self.value(i, env)  # before any store of the phase
        nests: dict[tuple[str, ...], list[Put]] = {}
        for s in puts:
            named = dict.fromkeys(a for e in (*s.ixs, *s.at) for a in sorted(axes_in(e)) if a not in inside)
            free = set(named).union(*(self.p.free(r) for r in (s.value, s.valid, *s.deps))) - inside
            assert s.mode not in ("store", "unique") or s.deps or free == set(named), "every axis of a store is named by its index map"
            order = dict.fromkeys((*named, *sorted(free)))
            last = {scan_axis(n) for i in reachable(self.p, (s.value, s.valid, *s.deps)) if (n := self.p.nodes[i]).op in SCANS}
            nests.setdefault(tuple(sorted(order, key=lambda a: (is_member(a), a in last))), []).append(s)
        order = list(nests)
        self.rng.shuffle(order)
        for nest in order:
            for e in self.points(list(nest), env):
                ready = [(s, self.effect(s, e)) for s in nests[nest]]
                for i in reachable(self.p, [r for s in nests[nest] for r in (s.value, s.valid, *s.deps)]):
                    n = self.p.nodes[i]
                    if n.op == "State" and self.p.free(i) <= set(e):  # the step is made before the next one
                        for a in n.args[n.attrs[2] :]:
                            self.value(a, e)
                self.rng.shuffle(ready)
                for s, effect in ready:
                    if s.into:  # old values are zero where the operation does not happen
                        place = tuple(self.index(x, (), e) for x in s.at)
                        self.arrays[s.into][place] = 0
                        self.written[self.address(s.into, place)] = (1, self.p.abi.view(s.into).alias)
                    if effect is not None:
                        at, value, deps = effect
                        where = self.address(s.view, at)
                        who = tuple(sorted((a, e[a]) for a in own))
                        if s.mode in ("store", "unique"):
                            assert self.owner.setdefault((where, id(s)), (who,)) == (who,), f"two instances write {s.view}{at}"
                            self.arrays[s.view][at] = value
                        else:
                            old = self.arrays[s.view][at].copy()
                            self.arrays[s.view][at] = self.atomic(s, old, value, deps)
                            if s.into:
                                self.arrays[s.into][tuple(self.index(x, (), e) for x in s.at)] = old
                        self.written[where] = (s.version, self.p.abi.view(s.view).alias)

    def atomic(self, s: Put, old: Any, value: Any, deps: tuple[Any, ...]) -> Any:
        """The new contents."""
        if s.mode in ("exchange", "put"):
            return value
        if s.mode == "get":
            return old
        if s.mode == "compare_exchange":
            return value if old.tobytes() == deps[-1 - bool(s.into)].tobytes() else old
        fn = {"max": "maximum", "min": "minimum"}.get(s.mode, s.mode)
        return sc.binary(fn, old, value, self.p.abi.view(s.view).dtype)

    def effect(self, s: Put, env: Env) -> tuple[tuple[int, ...], Any, tuple[Any, ...]] | None:
        if not self.value(s.valid, env):
            return None
        deps = tuple(self.value(d, env) for d in s.deps)
        return tuple(self.index(e, deps, env) for e in s.ixs), self.value(s.value, env), deps


def run(p: Abstract, arrays: Mapping[str, np.ndarray], symbols: Mapping[str, int] | None = None, scalars: Mapping[str, Any] | None = None,
        seed: int = 0) -> None:  # fmt: skip
    """Execute in place."""
    env = dict(symbols or {})
    for v in p.abi.views:
        if v.role != "workspace":
            for e, n in zip(v.shape, arrays[v.name].shape, strict=True):
                if e.op == "sym":
                    assert env.setdefault(e.args[0], n) == n
    Brute(p, arrays, env, scalars or {}, seed).run()
