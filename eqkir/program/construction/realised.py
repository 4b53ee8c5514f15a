"""The program against the abstract one: every store of the one is a store of the other, with the same values below it.

Both are walked together. What a loop of the program carries is a reduction, a contraction, a scan or a state of the abstract program.
"""

from __future__ import annotations

from eqkir.program.abi import axis_of, is_member
from eqkir.program.abstract import Abstract, Put, VNode
from eqkir.program.construction.codes import Fault
from eqkir.program.model import Carry, Let, Loop, Program, Region, Store
from eqkir.program.verify_scope import Phase, phases, stores

#: built-in scan -> the operation of one step
STEP = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}
LOOPS = {"Red": "RedLoop", "RedN": "RedNLoop", "Con": "ConLoop", "ConAcc": "ConAccLoop"}
WHOLE = {"Red": "RedTree", "RedN": "RedNTree", "Con": "ConWhole", "ConAcc": "ConAccWhole"}
Faults = tuple[Fault, ...]


class Realised:
    """One phase; `states` says which carry a state (or a component of a scan) is."""

    def __init__(self, a: Abstract, phase: Phase) -> None:
        self.a, self.phase = a, phase
        self.memo: set[tuple[int, int]] = set()
        self.states: dict[tuple[str, int], int] = {}
        self.scans: dict[tuple[int, int], int] = {}
        self.folds = {n.attrs[1]: n for n in a.nodes if n.op in ("State", "WState", "Fold", "While")}  # a fold where there is one
        self.faults: list[Fault] = []
        self.todo: list[tuple[int, int]] = []

    def run(self, root: int, node: int) -> None:
        self.todo.append((root, node))
        while self.todo and len(self.faults) < 8:
            pair = self.todo.pop()
            if pair not in self.memo:
                self.memo.add(pair)
                self.step(*pair)

    def say(self, check: str, i: int, what: str) -> None:
        self.faults.append(Fault(check, f"%{i} {what}", self.phase.home[i].pointer if i in self.phase.home else self.phase.pointer))

    def pairs(self, i: int, args: tuple[int, ...], nodes: tuple[int, ...], check: str = "effects-covered-once") -> None:
        if len(args) != len(nodes):
            self.say(check, i, f"has {len(args)} operands instead of {len(nodes)}")
        self.todo += zip(args, nodes, strict=False)

    def step(self, i: int, node: int) -> None:
        n = self.a.nodes[node]
        x = self.phase.defs.get(i)
        if x is None:
            self.say("self-contained", i, "is not defined")
        elif n.op == "Permit":
            self.todo.append((i, n.args[0]))
        elif n.op == "Pick" and self.a.nodes[n.args[0]].op in ("Fold", "While"):
            self.state(i, x, self.a.nodes[n.args[0]].attrs[1], n.attrs[0])
        elif n.op in ("State", "WState"):
            self.state(i, x, n.attrs[1], n.attrs[3])
        elif n.op == "Form":
            self.state(i, x, n.attrs[0], n.attrs[1])
        elif n.op == "Scan":
            self.scan(i, x, n)
        elif n.op == "Pick" and self.a.nodes[n.args[0]].op == "ScanN":
            t = self.a.nodes[n.args[0]]
            if is_member(t.attrs[0]):
                self.fragment(i, x, n.attrs[0], t)
            else:
                self.combined(i, t.args[2 * t.attrs[1] + n.attrs[0]], n.args[0])
        elif x.dtype != n.dtype:
            self.say("types-legal", i, f"has dtype {x.dtype} instead of {n.dtype}")
        elif n.op in LOOPS:
            self.reduction(i, x, n)
        else:
            self.plain(i, x, n)

    def plain(self, i: int, x: Let | Carry, n: VNode) -> None:
        if x.op != n.op:
            check = "structured-complete" if n.op in LOOPS or x.op in (*LOOPS.values(), *WHOLE.values()) else "effects-covered-once"
            return self.say(check, i, f"is {x.op} instead of {n.op}")
        if n.op != "Load":
            if x.attrs != n.attrs:
                check = "coordinates-equivalent" if n.op == "Index" else "effects-covered-once"
                self.say(check, i, f"is {x.op} {' '.join(map(str, x.attrs))} instead of {' '.join(map(str, n.attrs))}")
            return self.pairs(i, x.args, n.args)
        if x.attrs[1] != n.attrs[1]:
            self.say("order-kept", i, f"loads version {x.attrs[1]} instead of {n.attrs[1]}")
        if (x.attrs[0], x.attrs[2]) != (n.attrs[0], n.attrs[2]):
            self.say("coordinates-equivalent", i, f"loads {x.attrs[0]}{_list(x.attrs[2])} instead of {n.attrs[0]}{_list(n.attrs[2])}")
        elif len(x.args) == len(n.args):
            for k, a in ((0, "validity"), (1, "fill")):
                if not self.alike(x.args[k], n.args[k]):
                    self.say("accesses-complete", i, f"has another {a}")
        self.pairs(i, x.args[2:], n.args[2:], "accesses-complete")

    def alike(self, i: int, node: int) -> bool:
        """Whether an operand is the node; nothing is noted where it is not."""
        memo, states, scans, faults = set(self.memo), dict(self.states), dict(self.scans), self.faults
        outer, self.todo, self.faults = self.todo, [], []
        self.run(i, node)
        ok, self.faults, self.todo = not self.faults, faults, outer
        if not ok:
            self.memo, self.states, self.scans = memo, states, scans
        return ok

    # ------------------------------------------------------------------ loops
    def loop(self, i: int) -> Loop | None:
        at = self.phase.home[i].item
        return at if isinstance(at, Loop) else None

    def reduction(self, i: int, x: Let | Carry, n: VNode) -> None:
        axis = n.attrs[{"Red": 1}.get(n.op, 0)]
        loop = self.loop(i)
        if isinstance(x, Carry) and loop is not None:
            if x.op != LOOPS[n.op] or loop.axis != axis:
                return self.say("structured-complete", i, f"is {x.op} over {loop.axis} instead of {n.op} over {axis}")
        elif x.op != WHOLE[n.op] or axis_of(next(str(a) for a in x.attrs if ":" in str(a))) != axis:
            return self.say("structured-complete", i, f"is {x.op} instead of {n.op} over {axis}")
        inits: tuple[int, ...] = x.inits if isinstance(x, Carry) else ()
        if n.op == "Red" and x.attrs[0] != n.attrs[0]:
            self.say("structured-complete", i, f"reduces by {x.attrs[0]} instead of {n.attrs[0]}")
        if n.op != "RedN":
            return self.pairs(i, (*x.args, *inits), n.args, "structured-complete")
        k = n.attrs[1]
        args = (*inits, *x.args)
        self.pairs(i, args, n.args[: 2 * k], "structured-complete")
        region = next(a for a in x.attrs if isinstance(a, Region))
        if not closed(self.a, region, n.args[2 * k :]):
            self.say("structured-complete", i, "combines otherwise")

    def state(self, i: int, x: Let | Carry, name: str, k: int) -> None:
        known = self.states.setdefault((name, k), i)
        if known != i:
            # a state of a loop that is realised at several places
            if (i, -1) in self.memo:
                return
            self.memo.add((i, -1))
        n = self.folds.get(name)
        loop = self.loop(i)
        if n is None or not isinstance(x, Carry) or x.op != "Phi" or loop is None or loop.axis != n.attrs[0]:
            return self.say("folds-complete", i, f"is no state of the loop {name}")
        if known != i:
            self.states[name, k] = i
        count = n.attrs[2]
        self.pairs(i, (*x.inits, *x.args), (n.args[k], n.args[count + k]), "folds-complete")
        if n.op in ("While", "WState"):
            self.pairs(i, (loop.cond,), (n.args[2 * count],), "folds-complete")

    def scan(self, i: int, x: Let | Carry, n: VNode) -> None:
        if is_member(n.attrs[1]):  # along the members of a slice
            if x.op != "Scan" or x.attrs[0] != n.attrs[0] or axis_of(x.attrs[1]) != n.attrs[1] or x.dtype != n.dtype:
                return self.say("structured-complete", i, f"is no scan of {n.attrs[0]} over {n.attrs[1]}")
            return self.pairs(i, x.args, n.args, "structured-complete")
        phi = self.phase.defs.get(x.args[0]) if x.op == "Bin" and len(x.args) == 2 else None
        loop = self.loop(x.args[0]) if isinstance(phi, Carry) else None
        fits = isinstance(phi, Carry) and phi.op == "Phi" and phi.args == (i,) and loop is not None and loop.axis == n.attrs[1]
        if not fits or x.attrs != (STEP.get(n.attrs[0]),) or x.dtype != n.dtype:
            return self.say("structured-complete", i, f"is no scan of {n.attrs[0]} over {n.attrs[1]}")
        assert isinstance(phi, Carry)
        from eqkir.base.dtypes import identity

        start = self.phase.defs.get(phi.inits[0])
        if start is None or start.op != "Const" or start.attrs != (identity(n.attrs[0], n.dtype),):
            self.say("structured-complete", i, "starts from another identity")
        self.pairs(i, x.args[1:], n.args, "structured-complete")

    def fragment(self, i: int, x: Let | Carry, component: int, t: VNode) -> None:
        """A component of a generic scan along the members of a slice: elements and combine region are those of the node."""
        made = self.phase.defs.get(x.args[0]) if x.op == "Pick" and x.attrs == (component,) else None
        k = t.attrs[1]
        if not isinstance(made, Let) or made.op != "ScanN" or axis_of(made.attrs[0]) != t.attrs[0]:
            return self.say("structured-complete", i, f"is no component of a scan over {t.attrs[0]}")
        if not closed(self.a, made.attrs[1], t.args[2 * k :]):
            self.say("structured-complete", i, "combines otherwise")
        return self.pairs(i, made.args, t.args[k : 2 * k], "structured-complete")

    def combined(self, i: int, node: int, scan: int) -> None:
        """The inlined combine region of a scan: left formals are carries, right ones the elements."""
        t, n = self.a.nodes[scan], self.a.nodes[node]
        x, k = self.phase.defs[i], t.attrs[1]
        if n.op != "Arg":
            if x.op != n.op or x.attrs != n.attrs or len(x.args) != len(n.args):
                return self.say("structured-complete", i, f"is {x.op} instead of {n.op} in the combine region of a scan")
            for a, b in zip(x.args, n.args, strict=True):
                self.combined(a, b, scan)
            return None
        side, j = n.attrs
        if side == "r":
            return self.todo.append((i, t.args[k + j]))
        if self.scans.setdefault((scan, j), i) != i or (i, -2 - scan) in self.memo:
            return None
        self.memo.add((i, -2 - scan))
        loop = self.loop(i)
        if not isinstance(x, Carry) or x.op != "Phi" or loop is None or loop.axis != t.attrs[0]:
            return self.say("structured-complete", i, f"is no component of a scan over {t.attrs[0]}")
        self.todo.append((x.inits[0], t.args[j]))
        return self.combined(x.args[0], t.args[2 * k + j], scan)


def closed(a: Abstract, region: Region, comb: tuple[int, ...]) -> bool:
    """Whether a combine region is these nodes."""
    own = {x.id: x for x in region.body}
    memo: dict[tuple[int, int], bool] = {}

    def same(i: int, node: int) -> bool:
        if (i, node) not in memo:
            x, n = own.get(i), a.nodes[node]
            head = x is not None and (x.op, x.attrs, x.dtype, len(x.args)) == (n.op, n.attrs, n.dtype, len(n.args))
            memo[i, node] = head and x is not None and all(same(p, q) for p, q in zip(x.args, n.args, strict=True))
        return memo[i, node]

    return len(region.yields) == len(comb) and all(same(i, n) for i, n in zip(region.yields, comb, strict=True))


def realised(a: Abstract, program: Program) -> Faults:
    """What the program does otherwise than the abstract one."""
    out: list[Fault] = []
    ps = {p.number: p for p in phases(program)}
    done: set[tuple[int, str, int]] = set()
    if len(program.segments) != len(a.groups):
        out.append(Fault("effects-covered-once", f"{len(program.segments)} segments for {len(a.groups)} groups", "/segments"))
    for g, (group, segment) in enumerate(zip(a.groups, program.segments, strict=False)):
        axes = tuple(axis_of(x) for x in next((p.order for p in ps.values() if p.number[0] == g), ()))
        if axes != group.axes and segment.phases:
            out.append(
                Fault("ownership-complete", f"the instances are over {' '.join(axes)} instead of {' '.join(group.axes)}", f"/segments/{g}")
            )
        for k, puts in enumerate(group.phases):
            phase = ps.get((g, k))
            want: dict[tuple[str, int], Put] = {(p.view, p.version): p for p in puts}
            if phase is None:
                continue
            r = Realised(a, phase)
            for place, s in stores(phase):
                key = s.view, s.version
                if key not in want or (g, *key) in done:
                    out.append(
                        Fault("effects-covered-once", f"a store to {s.view} (version {s.version}) that no effect needs", place.pointer)
                    )
                    continue
                done.add((g, *key))
                out += store(want[key], s, place.pointer)
                r.run(s.value, want[key].value)
                if not r.alike(s.valid, want[key].valid):
                    out.append(Fault("accesses-complete", f"the store to {s.view} has another validity", place.pointer))
                for i, d in zip(s.deps, want[key].deps, strict=False):
                    r.run(i, d)
            out += r.faults
    for g, group in enumerate(a.groups):
        for p in (p for ph in group.phases for p in ph):
            if (g, p.view, p.version) not in done:
                out.append(Fault("effects-covered-once", f"nothing stores version {p.version} of {p.view}", f"/segments/{g}"))
    return tuple(out)


def store(put: Put, s: Store, pointer: str) -> Faults:
    out: list[Fault] = []
    have, want = ((x.mode, x.order, x.shared, x.into, x.at) for x in (s, put))
    if have != want:
        out.append(Fault("atomics-kept", f"the store to {s.view} is made {_shown(have)} instead of {_shown(want)}", pointer))
    if len(s.deps) != len(put.deps) or len(s.ixs) != len(put.ixs):
        out.append(Fault("accesses-complete", f"the store to {s.view} has not all of its coordinates", pointer))
    elif s.ixs != put.ixs:
        out.append(Fault("coordinates-equivalent", f"the store is to {s.view}{_list(s.ixs)} instead of {_list(put.ixs)}", pointer))
    return tuple(out)


def _shown(how: tuple[str, str, tuple[str, ...], str, tuple[object, ...]]) -> str:
    mode, order, shared, into, at = how
    return " ".join(x for x in (mode, order, *shared, f"{into}{_list(at)}" if into else "") if x)


def _list(ixs: tuple[object, ...]) -> str:
    return f"[{', '.join(map(str, ixs))}]"


__all__ = ["realised"]
