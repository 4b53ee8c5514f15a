"""States of loops: the components that a result needs, found by demand; `Fold`, `While` and `State` nodes.

A loop's state is a set of components (carry, record path, index expressions). The component that is asked for needs the initial value
and the next value of that carry at those indices; the next value may read other carries, or this one at other indices: further
components. The set is closed under this, or the loop is refused (EQK-CON-CARRY).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from eqkir.base.diagnostics import EqkirError, fail
from eqkir.program.abstract import BOUND, Abstract, VNode
from eqkir.program.construct_codes import CARRY, STAGE, STATE_LIMIT
from eqkir.program.construct_env import Ixs, Request
from eqkir.program.construct_values import Values
from eqkir.program.construct_whole import Whole

Part = tuple[int, tuple[str, ...], Ixs]  # carry, record path, indices
#: value of one component of a kind ("init", "next", …): a request, to be sent the node
Make = Callable[[str, Part], "Generator[Request, int, int]"]


class Again(Exception):
    """Construction has to start again with a loop ordered, or to raise `why` where that cannot be."""

    def __init__(self, region: str, why: EqkirError) -> None:
        super().__init__(region)
        self.region, self.why = region, why


@dataclass
class Loop:
    """A loop being instantiated over `axis`; `make` gives the values of a component."""

    v: Values
    axis: str
    name: str
    outer: frozenset[str]  # axes that states may vary along
    dtype: Callable[[int, tuple[str, ...]], str]
    parts: list[Part] = field(default_factory=list)
    fields: dict[str, list[int]] = field(default_factory=dict)  # kind -> node of each component
    more: list[int] = field(default_factory=list)  # further values that read the formals
    vary: list[frozenset[str]] = field(default_factory=list)
    closed: bool = False
    region: str = ""  # of a `for` or `while`
    cuts: str = ""  # or the operation over slices (its first result)

    def form(self, part: Part) -> int:
        """The formal of a component, new or existing."""
        ixs = part[2]
        used = frozenset().union(*(self.v.axes_of(e) for e in ixs))
        if part not in self.parts:
            if not used <= self.outer or self.closed or len(self.parts) >= STATE_LIMIT:
                why = fail(CARRY, f"a carried tensor is read at [{', '.join(map(str, ixs))}]", stage=STAGE)
                raise Again(self.region, why) if self.region else Whole((self.cuts,), why)
            self.parts.append(part)
        i = self.parts.index(part)
        axes = tuple(sorted(used | self.outer | {self.axis}))  # provisional: `settle` finds the real ones
        return self.v.make("Form", (self.name, i, axes), (), self.dtype(part[0], part[1]))

    def close(
        self, make: Make, kinds: Sequence[str], extra: Callable[[], Generator[Request, int, list[int]]] | None = None
    ) -> Generator[Request, int, None]:
        """Values of every kind for every component that is needed; `extra` values that read the formals besides."""
        done = 0
        while True:
            while done < len(self.parts):
                part = self.parts[done]
                for kind in kinds:
                    node = yield from make(kind, part)
                    self.fields.setdefault(kind, []).append(node)
                done += 1
            if extra is not None:
                self.more = yield from extra()
            if done == len(self.parts):
                break
        self.closed = True
        self.settle()

    def settle(self) -> None:
        """Give the formals the axes along which their states really vary."""
        p, n = self.v.program, len(self.parts)
        vary = [p.free(i) for i in self.fields["init"]]
        steps = [k for k in ("next", "sum") if k in self.fields]
        while True:
            walk = _Varying(p, self.v.opened(), self.name, self.axis, vary)
            more = frozenset().union(*map(walk.free, self.more))
            new = [vary[i].union(more, *(walk.free(self.fields[k][i]) for k in steps)) - {self.axis} for i in range(n)]
            if new == vary:
                break
            vary = new
        forms = {}
        for i, part in enumerate(self.parts):
            dtype = self.dtype(part[0], part[1])
            forms[i] = self.v.make("Form", (self.name, i, tuple(sorted(vary[i] | {self.axis}))), (), dtype)
        change = {j: forms[n.attrs[1]] for j, n in enumerate(p.nodes) if n.op == "Form" and n.attrs[0] == self.name}
        for kind in steps:
            self.fields[kind] = [rebuilt(self.v, i, change) for i in self.fields[kind]]
        self.more = [rebuilt(self.v, i, change) for i in self.more]
        self.vary = vary

    def needs(self, part: Part) -> frozenset[int]:
        """Components that this one depends on, itself (and what the loop's condition reads) included."""
        p, todo = self.v.program, [self.parts.index(part)]
        roots = list(self.more)
        seen: set[int] = set()
        while todo or roots:
            if todo:
                i = todo.pop()
                seen.add(i)
                roots += [self.fields[kind][i] for kind in ("next", "sum") if kind in self.fields]
            forms = [p.nodes[j] for j in below(p, roots) if p.nodes[j].op == "Form"]
            roots = []
            todo += [n.attrs[1] for n in forms if n.attrs[0] == self.name and n.attrs[1] not in seen]
        return frozenset(seen)

    def serves(self, part: Part) -> bool:
        """Whether a loop that is made for this component alone would vary along the same axes."""
        if not self.closed or part not in self.parts:
            return False
        own = self.needs(part)
        return frozenset().union(*(self.vary[i] for i in own)) == frozenset().union(*self.vary)

    def result(self, part: Part, op: str = "Fold") -> int:
        """The component after the last step."""
        n = len(self.parts)
        args = (*self.fields["init"], *self.fields["next"], *self.fields.get("sum", ()), *self.more)
        t = self.v.make(op, (self.axis, self.name, n), args, "tuple")
        return self.v.make("Pick", (self.parts.index(part),), (t,), self.dtype(part[0], part[1]))

    def state(self, part: Part) -> int:
        """The component before the current step."""
        args = (*self.fields["init"], *self.fields["next"])
        attrs = (self.axis, self.name, len(self.parts), self.parts.index(part))
        return self.v.make("WState" if self.more else "State", attrs, (*args, *self.more), self.dtype(part[0], part[1]))


def below(p: Abstract, roots: int | Sequence[int]) -> list[int]:
    """Nodes below, ascending (children first)."""
    seen: set[int] = set()
    todo = [roots] if isinstance(roots, int) else list(roots)
    while todo:
        i = todo.pop()
        if i not in seen:
            seen.add(i)
            todo += p.nodes[i].args
    return sorted(seen)


def rebuilt(v: Values, root: int, change: dict[int, int]) -> int:
    """The value with some nodes replaced."""
    p = v.program
    new: dict[int, int] = dict(change)
    for i in below(p, root):
        if i not in new:
            n = p.nodes[i]
            args = tuple(new[a] for a in n.args)
            new[i] = i if args == n.args else copied(v, n, n.attrs, args, i)
    return new[root]


def copied(v: Values, n: VNode, attrs: tuple[Any, ...], args: tuple[int, ...], was: int) -> int:
    """A changed copy of a node; what is known of the old one holds of it."""
    i = v.make(n.op, attrs, args, n.dtype)
    if n.op == "Load" and i != was:
        v.load_scopes[i] = v.load_scopes.get(i, v.load_scopes[was]) & v.load_scopes[was]
        v.load_loops[i] = v.load_loops.get(i, frozenset()) | v.load_loops[was]
    if was in v.program.origins:
        v.program.origins.setdefault(i, v.program.origins[was])
    return i


def joined(v: Values, loops: Sequence[Loop]) -> Loop:
    """One loop with the components of several instances of it."""
    first = loops[0]
    out = Loop(v, first.axis, "+".join(x.name for x in loops), first.outer, first.dtype, closed=True, region=first.region, cuts=first.cuts)
    for x in loops:
        out.parts += [part for part in x.parts if part not in out.parts]
    home = [next((x, x.parts.index(part)) for x in loops if part in x.parts) for part in out.parts]
    out.vary = [x.vary[i] for x, i in home]
    change: dict[int, int] = {}
    for j, n in enumerate(list(v.program.nodes)):
        for x in loops:
            if n.op == "Form" and n.attrs[0] == x.name:
                change[j] = v.make("Form", (out.name, out.parts.index(x.parts[n.attrs[1]]), n.attrs[2]), (), n.dtype)
    for kind in first.fields:
        out.fields[kind] = [rebuilt(v, x.fields[kind][i], change) for x, i in home]
    return out


def shared(v: Values, roots: Sequence[int], axes: frozenset[str]) -> tuple[dict[int, int], frozenset[str]]:
    """Results of several instances of one fold that a store over `axes` reads -> the same results of one fold; and axes.

    A component that varies along fewer axes than the whole may have the others (the second result) only as instance axes: these have a
    value everywhere.
    """
    p = v.program
    direct: set[int] = set()
    todo = list(roots)
    while todo:
        i = todo.pop()
        if i not in direct:
            direct.add(i)
            todo += () if p.nodes[i].op in (*BOUND, "Scan", "ScanN", "State", "WState") else p.nodes[i].args
    picks = [i for i in sorted(direct) if p.nodes[i].op == "Pick" and p.nodes[p.nodes[i].args[0]].op == "Fold"]
    out: dict[int, int] = {}
    more: frozenset[str] = frozenset()
    for instances in v.loops.values():
        loops = [getattr(x, "loop", x) for x in instances]
        mine = {i: x for i in picks for x in loops if p.nodes[p.nodes[i].args[0]].attrs[1] == x.name}
        used = [x for x in loops if any(x is y for y in mine.values())]
        every = frozenset().union(*(f for x in used for f in x.vary))
        if len(used) < 2 or not every <= axes:
            continue
        more |= every.difference(frozenset.intersection(*(x.vary[p.nodes[i].attrs[0]] for i, x in mine.items())))
        whole = joined(v, used)
        out.update({i: whole.result(x.parts[p.nodes[i].attrs[0]]) for i, x in mine.items()})
    return out, more


class _Varying:
    """Free axes of nodes where the formals of one loop vary along `vary`."""

    def __init__(self, p: Abstract, shadow: Abstract, name: str, axis: str, vary: list[frozenset[str]]) -> None:
        self.p, self.name, self.axis, self.vary = p, name, axis, vary
        self.known: dict[int, frozenset[str]] = {}
        self.shadow = shadow

    def free(self, root: int) -> frozenset[str]:
        self.shadow.nodes = self.p.nodes
        for i in below(self.p, root):
            if i not in self.known:
                n = self.p.nodes[i]
                if n.op == "Form" and n.attrs[0] == self.name:
                    self.known[i] = self.vary[n.attrs[1]] | {self.axis}
                else:
                    self.shadow._free = self.known
                    self.known[i] = self.shadow._free_of(n)
        return self.known[root]


def open_forms(p: Abstract, root: int) -> frozenset[str]:
    """Names of the loops whose formals occur in a value outside of them."""
    out: dict[int, frozenset[str]] = {}
    for i in below(p, root):
        n = p.nodes[i]
        got = frozenset().union(*(out[a] for a in n.args))
        if n.op == "Form":
            got = frozenset((n.attrs[0],))
        elif n.op in ("Fold", "While", "State", "WState"):
            got -= {n.attrs[1]}
        out[i] = got
    return out[root]


__all__ = ["Again", "Loop", "Make", "Part", "below", "copied", "joined", "open_forms", "rebuilt", "shared"]
