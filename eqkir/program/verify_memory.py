"""Checks of memory: coverage, ownership, bounds, whole fragments, effects, versions, dependences, buffers, masks, barriers."""

from __future__ import annotations

from eqkir.base.expr import Coord, Expr, Int, Sym, atoms, conj, eq, le, lt, ne, substitute
from eqkir.program.abi import axis_of, members_of, parameter, traversal
from eqkir.program.model import Let, Program, Store
from eqkir.program.verify_barriers import Barriers
from eqkir.program.verify_index import Facts, determined, injective, linear
from eqkir.program.verify_labels import label_of
from eqkir.program.verify_prove import Prover, within
from eqkir.program.verify_scope import Access, Phase, Report, lane_labels


class Memory:
    """The accesses of a program with their facts."""

    def __init__(self, program: Program, ps: list[Phase], found: list[Access]) -> None:
        self.program, self.phases, self.accesses = program, ps, found
        self.prover = Prover(program)
        self.facts = Facts(program, self.prover)
        self.extents = {a.name: a.extent for a in program.axes}

    def classes(self) -> dict[int, list[Access]]:
        """Accesses by alias class, of classes that something writes."""
        out: dict[int, list[Access]] = {}
        for a in self.accesses:
            out.setdefault(a.alias, []).append(a)
        return {k: v for k, v in out.items() if any(a.is_store for a in v)}

    def single(self, a: Access) -> bool:
        """Whether the access's segment has at most one instance for all launches."""
        return all((n := a.phase.axis(x).extent.value) is not None and n <= 1 for x in a.phase.order)


def name(a: Access) -> str:
    return f"{'store' if a.is_store else 'load'} of {a.view} version {a.version}"


# ------------------------------------------------------------------------------------------------ coverage and ownership
def check_cover(m: Memory, say: Report) -> None:
    """A store covers its axes: it depends on every instance axis and every enclosing loop, but for the ordered loops that make its version
    anew at each step, and it stands in those. (`check_labels` says that all of its labels are traversed.)"""
    for a in m.accesses:
        if tuple(x.axis for x in a.place.loops if x.axis in a.inner) != a.inner:
            say(f"{name(a)} does not stand inside {' '.join(a.inner)}", a.place.pointer)
        for d in a.around if a.is_store else ():
            if d not in a.dims and axis_of(d) not in a.inner and not _one(a.phase.axis(d).extent):
                say(f"{name(a)} is repeated by {d}", a.place.pointer)


def _one(e: Expr) -> bool:
    return e.value is not None and e.value <= 1


def check_whole(m: Memory, say: Report) -> None:
    """A whole fragment covers the extent of its axis."""
    seen: dict[str, str] = {}
    for p in m.phases:
        for at in p.places:
            i = at.item
            if isinstance(i, (Let, Store)):
                bound = label_of(i) if isinstance(i, Let) else ""
                for d in (*i.dims, *((bound,) if bound else ())):
                    if traversal(d) in ("W", "MW"):
                        seen.setdefault(d, at.pointer)
    for label, pointer in seen.items():
        lanes = m.program.lanes(label)
        if not m.prover.prove(le(m.program.axis[axis_of(label)].extent, lanes)):
            say(f"{label} has {lanes} lanes and an extent that is not known to fit", pointer, "a precondition that bounds the extent")


def check_owner(m: Memory, say: Report) -> None:
    """No two instances, iterations or lanes of a plain store write one element (those of an atomic one may meet; of a ``unique`` one
    the author says that they do not)."""
    for a in m.accesses:
        if not a.is_store or a.mode != "store":
            continue
        extents = {axis_of(d): m.program.axis[axis_of(d)].extent for d in a.dims}
        # a member's coordinate is absolute; each step of an ordered loop may write anew
        extents = {x: n for x, n in extents.items() if not members_of(x, extents) and x not in a.inner}
        ixs, given = m.facts.map(a), m.facts.given(a)
        varying = {s: bool(d) for s, d in m.facts.of(a.phase).opaque.items()}
        bad = injective(ixs, extents, given, m.prover, varying)
        if bad:
            say(f"{name(a)}: its index map is not known to be injective over {' '.join(sorted(bad))}", a.place.pointer)


def check_cross(m: Memory, say: Report) -> None:
    """Instances are independent: where a class is written, two accesses meet in one element only within one instance, or are atomic and of
    points that run concurrently. An atomic operation of the scope ``instance`` meets nobody outside its instance."""
    for members in m.classes().values():
        for k, a in enumerate(members):
            for b in members[k + 1 :]:
                if (a.is_store or b.is_store) and not _independent(m, a, b):
                    say(f"{name(a)} and {name(b)} may meet in an element of different instances", b.place.pointer)
    for a in m.accesses:
        if a.atomic and isinstance(a.place.item, Store) and a.place.item.scope == "instance" and not m.program.alone(a.alias):
            say(f"{name(a)} reaches the threads of its instance only", a.place.pointer, "the scope device")


def _independent(m: Memory, a: Access, b: Access) -> bool:
    if a.segment == b.segment and m.single(a) or a.commutes(b):
        return True
    if a.view != b.view:
        return False
    ia, ib = m.facts.map(a), m.facts.map(b)
    if a.segment == b.segment:
        free = {x.split("#")[0] for x in set(a.shared) & set(b.shared)}  # points that run concurrently: in any order
        own = [axis_of(x) for x in a.phase.order if not _one(a.phase.axis(x).extent) and axis_of(x) not in free]
        if not own:
            return True
        if all(any(x == y == Coord(o) for x, y in zip(ia, ib)) for o in own):
            return True
        if ia == ib and not m.facts.of(a.phase).opaque and set(own) <= determined(ia, m.extents, m.facts.given(a), m.prover):
            return True
    else:
        own = []
    ga, gb = m.facts.given(a), m.facts.given(b)
    prime = _prime(m, b)
    ib = tuple(substitute(e, prime) for e in ib)
    gb = [substitute(g, prime) for g in gb]
    goal = conj(*(eq(Coord(o), Coord(o + "'")) for o in own)) if own else Int(0)
    return m.prover.prove(goal, [*ga, *gb, *(eq(x, y) for x, y in zip(ia, ib))])


def _prime(m: Memory, a: Access) -> dict[Expr, Expr]:
    """Renames everything that another lane or instance may hold another value of."""
    out: dict[Expr, Expr] = {Coord(x): Coord(x + "'") for x in m.program.axis}
    for s in m.facts.of(a.phase).opaque:
        n = str(s.args[0])
        out[s] = Sym(n + "'")
        m.prover.range(n + "'", m.prover.low.get(n), m.prover.high.get(n))
    return out


# ------------------------------------------------------------------------------------------------ bounds
def check_bounds(m: Memory, say: Report) -> None:
    """Every lane that touches memory is inside the view, for all symbols and data."""
    for a in m.accesses:
        given = m.facts.given(a)
        if a.is_store:  # of these, `check_mask` says that no other lane is touched
            given += [lt(Coord(axis_of(d)), m.extents[axis_of(d)]) for d in a.dims]
        for k, (ix, extent) in enumerate(zip(m.facts.map(a), m.program.abi.view(a.view).shape)):
            if not m.prover.prove(within(ix, extent), given):
                say(f"{name(a)}: coordinate {k} = {ix} is not known to be in [0, {extent})", a.place.pointer, "a validity that implies it")


def check_mask(m: Memory, say: Report) -> None:
    """Legal stage: a store's mask implies that every lane is active."""
    if m.program.stage != "legal":
        return
    for a in m.accesses:
        if a.is_store:
            for d in lane_labels(a.dims):
                axis = m.program.axis[axis_of(d)]
                if not m.facts.full(d) and not m.prover.prove(within(Coord(axis.name), axis.extent), m.facts.given(a)):
                    say(f"{name(a)}: its mask does not exclude the inactive lanes of {d}", a.place.pointer)
    for k, (label, e) in enumerate(m.program.specializations):
        n, axis = m.program.bindings.get(parameter(label) or "", 1), m.program.axis[axis_of(label)]
        full = eq(axis.extent, n) if traversal(label) in ("W", "MW") else eq(axis.extent % n, 0)
        if not m.prover.prove(full, [e]):
            say(f"{e} does not make every lane of {label} active", f"/specializations/{k}")


# ------------------------------------------------------------------------------------------------ effects, versions, buffers
def check_effect(m: Memory, say: Report) -> None:
    """Versions 1, 2, … of an alias class are made by one store each; `in` views are not stored, every `out` view is."""
    made: dict[int, list[int]] = {}
    stored: set[str] = set()
    for a in m.accesses:
        if a.is_store:
            made.setdefault(a.alias, []).append(a.version)
            stored |= {a.view} if a.mode != "get" else set()
            if m.program.abi.view(a.view).role == "in" and a.mode != "get":
                say(f"a store to the input {a.view}", a.place.pointer)
    met = met_versions(m.program)
    for alias, versions in sorted(made.items()):
        top = max(versions)
        lost = [v for v in range(1, top + 1) if v not in versions and (alias, v) not in met]
        if lost or min(versions) < 1 or len(set(versions)) < len(versions):
            say(f"alias class {alias} has stores of the versions {sorted(versions)}", "/segments", f"1 to {top}, one store each")
    for a in m.accesses:
        if not a.is_store and a.version != 0 and (a.alias, a.version) not in met and a.version not in made.get(a.alias, []):
            say(f"{name(a)}, which no store makes", a.place.pointer)
    for k, v in enumerate(m.program.abi.views):
        if v.role == "out" and v.name not in stored:
            say(f"nothing is stored to {v.name}", f"/abi/views/{k}")


def met_versions(program: Program) -> set[tuple[int, int]]:
    """(alias class, version) that no store need make: the first in an ordered loop, what the step before left, and the first after it."""
    out: set[tuple[int, int]] = set()
    last: dict[tuple[int, tuple[str, ...]], int] = {}
    for (alias, version), axes in sorted(program.inner.items()):
        for k in range(1, len(axes) + 1):
            key = (alias, axes[:k])
            if key not in last:
                out.add((alias, version))
            last[key] = version
    return out | {(alias, version + 1) for (alias, _), version in last.items()}


def check_version(m: Memory, say: Report) -> None:
    """Loads of a version run before the store that ends it; stores of a class run in the order of their versions."""
    for members in m.classes().values():
        for s in members:
            for a in members:
                if not s.is_store or a.segment != s.segment or a is s:
                    continue
                if split(a, s):
                    say(f"{name(a)} and the {name(s)} are in different loops, whose steps belong together", a.place.pointer)
                elif a.version < s.version and not _ordered(m, a, s):
                    say(f"{name(a)} does not run before the {name(s)}", a.place.pointer)


def together(a: Access, b: Access) -> bool:
    """Whether both versions live in an ordered loop around both, whose steps order them and whose barriers divide them."""
    return bool(set(a.inner) & set(b.inner) & {x.axis for x in a.place.common(b.place)})


def split(a: Access, b: Access) -> bool:
    """Whether an ordered loop inside which both versions live goes around each of them separately."""
    return a.phase is b.phase and not set(a.inner) & set(b.inner) <= {x.axis for x in a.place.common(b.place)}


def _ordered(m: Memory, a: Access, s: Access) -> bool:
    """Whether `a` runs before the store `s` wherever both touch one element (in ordered loops: in one step)."""
    if a.phase is not s.phase:
        return a.phase.number < s.phase.number
    if a.is_store and not together(a, s):  # stores of one phase are unordered
        return a.view == s.view and (_apart(m, a, s) or a.commutes(s))
    return _aligned(m, a, s) and a.place.before(s.place)


def _aligned(m: Memory, a: Access, s: Access) -> bool:
    """Whether iterations of the loops around both, other than the ordered ones of both, touch different elements."""
    others = [x for x in a.place.common(s.place) if not (x.axis in a.inner and x.axis in s.inner)]
    same = (a.view, m.facts.map(a)) == (s.view, m.facts.map(s))
    return not others or (same and all(x.label in a.dims and x.label in s.dims for x in others))


def _apart(m: Memory, a: Access, b: Access) -> bool:
    prime = _prime(m, b)
    same = [eq(x, substitute(y, prime)) for x, y in zip(m.facts.map(a), m.facts.map(b))]
    return m.prover.prove(Int(0), [*m.facts.given(a), *(substitute(g, prime) for g in m.facts.given(b)), *same])


def check_phase(m: Memory, say: Report) -> None:
    """A load sees what an earlier phase stored, or an earlier part of the step of an ordered loop: threads meet at the end of a phase, and
    at the barriers of a step."""
    for members in m.classes().values():
        for a in members:
            for s in members:
                if not s.is_store or a.is_store or s.version > a.version or s.segment != a.segment or s.phase.number < a.phase.number:
                    continue
                if split(a, s):
                    continue  # `check_version` says so
                if s.phase is not a.phase or not together(a, s) or not s.place.before(a.place) or not _aligned(m, a, s):
                    say(f"{name(a)} sees the {name(s)} of the same or a later phase", a.place.pointer)


def check_buffer(m: Memory, say: Report) -> None:
    """Every element of a workspace or an `out` view that a load or an atomic operation reads was written in an earlier phase, or earlier
    in the step of an ordered loop. (Of an `owed` workspace the author says so.)"""
    for a in m.accesses:
        view = m.program.abi.view(a.view)
        if (a.is_store and (not a.atomic or a.mode == "put")) or view.role not in ("workspace", "out") or view.owed:
            continue
        seen = a.version - a.is_store  # an atomic operation reads the version that it ends
        plain = [s for s in m.accesses if s.is_store and (not s.atomic or s.mode == "put") and s.view == a.view]
        before = [s for s in plain if s.version <= seen and s.segment == a.segment]
        if not any(_earlier(s, a) and _covers(m, s, a) for s in before):
            say(f"{name(a)}: not every element is known to be written before", a.place.pointer)


def _earlier(s: Access, a: Access) -> bool:
    """Whether the whole store runs before the load (whether threads meet between is for `check_phase`)."""
    return s.phase.number < a.phase.number or (s.phase is a.phase and (s.place.before(a.place) or not together(s, a)))


def _covers(m: Memory, s: Access, a: Access) -> bool:
    """Whether the store wrote all that the load reads: it writes the whole view (its instance's slice, where instances own slices). A
    coordinate with weight 1 or -1 that stays in bounds (which `check_bounds` proves) runs through an extent that is its axis's own."""
    shape = m.program.abi.view(s.view).shape
    ixs, read = m.facts.map(s), m.facts.map(a)
    axes = [_runs(e) for e in ixs]
    if m.facts.valid(s).value != 1 and m.program.stage == "structured":
        return False
    named = [x for x in axes if x]
    dims = {axis_of(d) for d in s.dims} - set(s.inner)
    if len(set(named)) < len(named) or set(named) != {x for x in dims if not members_of(x, dims)}:  # a member's coordinate is absolute
        return False
    if not set(s.inner) <= {x.axis for x in a.place.common(s.place)}:  # that loop may have no step
        return False
    own = {axis_of(x) for x in s.phase.order}
    for x, e, n, r in zip(axes, ixs, shape, read):
        if not x:
            if e.value != 0 or n.value != 1:
                return False
        elif m.program.axis[x].extent != n or (x in own and r != e):
            return False
    return m.program.stage == "structured" or _only_active(m, s, a)


def _runs(e: Expr) -> str:
    """The axis whose coordinate, plus or minus what is fixed at launch, is this expression; an empty text where it is none."""
    terms = linear(e) or {}
    ((t, w),) = terms.items() if len(terms) == 1 else ((e, Int(0)),)
    return str(t.args[0]) if t.op == "coord" and w.value in (1, -1) else ""


def _only_active(m: Memory, s: Access, a: Access) -> bool:
    """Whether a legal mask is exactly: the lanes are active. In an ordered loop: and the step is one in which the instance's load `a` of
    the same step takes part."""
    every = [within(Coord(axis_of(d)), m.program.axis[axis_of(d)].extent) for d in s.dims]
    if s.inner and a.phase is s.phase:
        own = {*(axis_of(x) for x in s.phase.order), *s.inner}
        opaque = m.facts.of(s.phase).opaque
        for g in m.facts.given(a):
            every += [c for c in _conjuncts(g) if all(_axes(x, opaque) <= own for x in atoms(c))]
    return m.prover.prove(ne(m.facts.valid(s), 0), every)


def _conjuncts(e: Expr) -> list[Expr]:
    return [c for x in e.args for c in _conjuncts(x)] if e.op == "and" else [e]


def _axes(atom: Expr, opaque: dict[Expr, tuple[str, ...]]) -> set[str]:
    """Axes that a coordinate, or a value, depends on."""
    return {atom.args[0]} if atom.op == "coord" else {axis_of(d) for d in opaque.get(atom, ())}


def check_barrier(m: Memory, say: Report) -> None:
    """In ordered loops a barrier divides accesses that depend on each other through memory. Legal stage: besides, no thread overwrites an
    element that another thread of the instance has yet to load in this phase."""
    for p in m.phases:
        Barriers(m, p, say).block(p.segment.phases[p.number[1]], p.pointer, frozenset())
