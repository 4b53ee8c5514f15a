"""Structural checks: interface, launch expressions, stages, scoping, structured operations."""

from __future__ import annotations

from eqkir.base.dtypes import NUMPY
from eqkir.base.expr import ATOMS, Expr, atoms, le, ne
from eqkir.program.abi import (
    KINDS,
    Axis,
    is_member,
    parameter,
    slice_axis,
)
from eqkir.program.model import Carry, Let, Loop, Program, Region, Store
from eqkir.program.ops import (
    CARRIES,
    IMPLEMENTED,
    IMPLS,
    INITS,
    LETS,
    MEMORY_ORDERS,
    MODES,
    REDUCTIONS,
    REGION_LETS,
    SCOPES,
    SIDES,
    STORE_MODES,
)
from eqkir.program.verify_labels import exists, well_formed_order
from eqkir.program.verify_prove import Prover
from eqkir.program.verify_scope import Phase, Place, Report, lets, loops


# ------------------------------------------------------------------------------------------------ interface
def check_interface(program: Program, say: Report) -> None:
    """Names are unique, roles and dtypes known, ranges not empty."""
    abi = program.abi
    groups: dict[str, list[str]] = {
        "/abi": [v.name for v in abi.views] + [x.name for x in abi.scalars],
        "/abi/symbols": [y.name for y in abi.symbols] + [x.name for x in abi.scalars],
        "/axes": [a.name for a in program.axes],
        "/segments": [s.group for s in program.segments],
    }
    for pointer, names in groups.items():
        for n in sorted({n for n in names if names.count(n) > 1}):
            say(f"{n} is named twice", pointer)
    for k, v in enumerate(abi.views):
        if v.role not in ("in", "out", "inout", "workspace") or v.dtype not in NUMPY:
            say(f"view {v.name} has role {v.role} and dtype {v.dtype}", f"/abi/views/{k}")
        if v.owed and v.role != "workspace":
            say(f"the first write of {v.name} is owed by nobody", f"/abi/views/{k}", "a buffer without initial value")
    for k, x in enumerate(abi.scalars):
        if x.dtype not in NUMPY:
            say(f"scalar {x.name} has dtype {x.dtype}", f"/abi/scalars/{k}")
    for k, y in enumerate(abi.symbols):
        if y.lo < 0 or y.multiple_of < 1 or (y.hi is not None and y.hi < y.lo):
            say(f"symbol {y.name} has no values", f"/abi/symbols/{k}")
    for k, axis in enumerate(program.axes):
        if axis.kind not in KINDS or ":" in axis.name or not axis.name:
            say(f"axis {axis.name} of kind {axis.kind}", f"/axes/{k}", ", ".join(KINDS))
        slices = program.axis.get(slice_axis(axis.name))
        if (axis.kind == "mem") != is_member(axis.name) or (axis.kind == "mem" and not _members(slices, axis)):
            say(f"axis {axis.name} of kind {axis.kind} and extent {axis.extent}", f"/axes/{k}", "the members of a seg axis, of its extent")
    for k, ((alias, version), inner) in enumerate(sorted(program.inner.items())):
        if not inner or any(a not in program.axis or program.axis[a].kind not in ("strict", "while") for a in inner):
            say(f"version {version} of alias {alias} lives in {' '.join(inner)}", f"/inner/{k}", "ordered loops")
    for k, (label, _) in enumerate(program.specializations):
        if not exists(program, label) or parameter(label) is None or program.stage != "legal":
            say(f"a specialization of {label}", f"/specializations/{k}")
    for k, s in enumerate(program.segments):
        if s.mode not in ("grid", "stride") or not s.phases or not well_formed_order(s.order):
            say(f"segment {s.group} with mode {s.mode} and {len(s.phases)} phases", f"/segments/{k}")
    known = {v.name for v in abi.views}
    for k, g in enumerate(abi.noalias):
        for n in sorted(set(g) - known):
            say(f"noalias names {n}, which is no view", f"/abi/noalias/{k}")


def _members(slices: Axis | None, axis: Axis) -> bool:
    return slices is not None and slices.kind == "seg" and slices.extent == axis.extent


def check_launch(program: Program, say: Report) -> None:
    """Extents, shapes and predicates use launch-visible atoms only: symbols and integer scalars. Extents are never negative (two negative
    ones would make a positive number of instances)."""
    integers = {s.name for s in program.abi.scalars if s.dtype in NUMPY and NUMPY[s.dtype].kind in "iu"}
    visible = {s.name for s in program.abi.symbols} | integers

    def launch(e: Expr, pointer: str) -> None:
        for a in sorted(atoms(e), key=str):
            if a.op != "sym" or a.args[0] not in visible:
                say(f"{e} uses {a.op} {a}, which is unknown before launch", pointer, " ".join(sorted(visible)))

    for k, a in enumerate(program.axes):
        launch(a.extent, f"/axes/{k}/extent")
    for k, v in enumerate(program.abi.views):
        for n, e in enumerate(v.shape):
            launch(e, f"/abi/views/{k}/shape/{n}")
    for k, e in enumerate(program.preconditions):
        launch(e, f"/preconditions/{k}")
    for k, (_, e) in enumerate(program.specializations):
        launch(e, f"/specializations/{k}/1")
    if not say.found:
        prover = Prover(program)
        for k, a in enumerate(program.axes):
            if not prover.prove(le(0, a.extent)):
                say(f"the extent {a.extent} of {a.name} may be negative", f"/axes/{k}/extent", "max(0, extent)")
        shapes = [(e, f"/abi/views/{k}/shape/{n}") for k, v in enumerate(program.abi.views) for n, e in enumerate(v.shape)]
        for e, pointer in [(a.extent, f"/axes/{k}/extent") for k, a in enumerate(program.axes)] + shapes:
            for d in divisors(e):
                if not prover.prove(ne(d, 0)):
                    say(f"{e} may divide by zero", pointer)


def divisors(e: Expr) -> list[Expr]:
    """Divisors that occur in an expression, other than constants."""
    if e.op in ATOMS:
        return []
    own = [e.args[1]] if e.op in ("floordiv", "mod") and not e.args[1].value else []
    return own + [d for a in e.args for d in divisors(a)]


# ------------------------------------------------------------------------------------------------ stage and scope
def check_stage(phase: Phase, say: Report) -> None:
    """Only operations of the program's stage; legal stores carry their whole mask."""
    stage = phase.program.stage
    for at in phase.places:
        i = at.item
        match i:
            case Let():
                if i.op not in LETS or stage not in LETS[i.op].stages:
                    say(f"{i.op} is no operation of the {stage} stage", at.pointer)
                _implemented(phase, i, i.op in IMPLEMENTED, say, at.pointer)
            case Loop():
                for c in i.carries:
                    if c.op not in CARRIES or stage not in CARRIES[c.op].stages:
                        say(f"{c.op} is no carry of the {stage} stage", at.pointer)
                    _implemented(phase, c, c.op != "Phi", say, at.pointer)
                if i.cond >= 0 and any(c.op != "Phi" for c in i.carries):
                    say("a while loop carries states alone", at.pointer, "Phi")
                if i.stages != 1 and stage != "legal" or i.stages < 1:
                    say(f"{i.stages} pipeline stages in the {stage} stage", at.pointer)
            case Store():
                if i.mode not in STORE_MODES:
                    say(f"a store of the mode {i.mode}", at.pointer, " ".join(STORE_MODES))
                if i.masked != (stage == "legal"):
                    say("a legal store is masked, a structured one is not", at.pointer)
                sharing(i, stage, say, at.pointer)


def sharing(s: Store, stage: str, say: Report, pointer: str) -> None:
    """Order, kept value and scope of an atomic operation; a plain store has none of them."""
    orders = {"get": ("relaxed", "acquire"), "put": ("relaxed", "release")}.get(s.mode, MEMORY_ORDERS) if s.atomic else ("",)
    if s.order not in orders:
        say(f"{s.mode} with the memory order {s.order or 'none'}", pointer, " ".join(orders))
    if s.scope not in (SCOPES if s.atomic and stage == "legal" else ("",)):
        say(f"{s.mode} with the scope {s.scope or 'none'} in the {stage} stage", pointer)
    if (s.into or s.at or s.shared) and not s.atomic:
        say("a plain store has no old value and is shared by nobody", pointer)
    if len(s.deps) < (s.mode == "compare_exchange") + bool(s.into) or bool(s.at) > bool(s.into):
        say(f"{s.mode} has {len(s.deps)} further operands", pointer)


def check_scope(phase: Phase, say: Report) -> None:
    """Single assignment; operands are defined before in this block or an enclosing one; carries read the body, inits the block."""
    seen: set[int] = set()

    def define(i: int, pointer: str) -> None:
        if i in seen:
            say(f"%{i} is defined twice", pointer)
        seen.add(i)

    def block(places: list[Place], visible: set[int]) -> set[int]:
        visible = set(visible)
        for at in places:
            i = at.item
            match i:
                case Let():
                    use(i.args, visible, at)
                    define(i.id, at.pointer)
                    visible.add(i.id)
                case Store():
                    use((i.value, i.valid, *i.deps), visible, at)
                case Loop():
                    use(i.ends, visible, at)
                    for c in i.carries:
                        use(c.inits, visible, at)
                    phis = {c.id for c in i.carries if c.op == "Phi"}
                    for c in i.carries:
                        define(c.id, at.pointer)
                    inner = block(children[at.path], visible | phis)
                    for c in i.carries:
                        use(c.args, inner, at)
                    use((i.cond,) if i.cond >= 0 else (), inner, at)
                    visible |= {c.id for c in i.carries}
        return visible

    def use(ids: tuple[int, ...], visible: set[int], at: Place) -> None:
        for x in ids:
            if x not in visible:
                say(f"%{x} is not defined here", at.pointer)

    children: dict[tuple[int, ...], list[Place]] = {}
    for at in phase.places:
        children.setdefault(at.path[:-1], []).append(at)
        children.setdefault(at.path, [])
    block(children.get((), []), set())


def check_names(phase: Phase, say: Report) -> None:
    """Views, scalars, symbols, parameters and axes that occur exist; ranks and data operands of index maps fit."""
    p = phase.program
    views = {v.name: v for v in p.abi.views}
    scalars = {s.name for s in p.abi.scalars}
    symbols = {s.name for s in p.abi.symbols} | scalars
    for at in phase.places:
        i = at.item
        exprs: tuple[Expr, ...] = ()
        deps = 0
        if isinstance(i, Store) or (isinstance(i, Let) and i.op in ("Load", "LoadM")):
            name, exprs = (i.view, i.ixs) if isinstance(i, Store) else (i.attrs[0], i.attrs[2])
            deps = len(i.places) if isinstance(i, Store) else len(i.args) - 2
            if name not in views:
                say(f"there is no view {name}", at.pointer, " ".join(views))
            elif len(views[name].shape) != len(exprs):
                say(f"{len(exprs)} coordinates for {name} of rank {len(views[name].shape)}", at.pointer)
            if isinstance(i, Store) and i.into:
                if i.into not in views or views[i.into].role != "workspace" or len(views[i.into].shape) != len(i.at):
                    say(f"old values are kept in {i.into} at {len(i.at)} coordinates", at.pointer, "a workspace of that rank")
                exprs = (*exprs, *i.at)
            for x in i.shared if isinstance(i, Store) else ():
                if x.split("#")[0] not in p.axis:
                    say(f"{x} is no axis", at.pointer)
        elif isinstance(i, Let) and i.op == "Scalar" and i.attrs[0] not in scalars:
            say(f"there is no scalar {i.attrs[0]}", at.pointer)
        elif isinstance(i, Let) and i.op == "Index":
            exprs, deps = (i.attrs[0],), len(i.args)
        for a in sorted({a for e in exprs for a in atoms(e)}, key=str):
            name = a.args[0]
            known = {"sym": symbols, "coord": p.axis, "param": p.bindings}.get(a.op)
            if (known is not None and name not in known) or a.op == "lid" or (a.op == "dep" and not 0 <= name < deps):
                say(f"an index expression uses {a.op} {name}, which does not exist", at.pointer)


def _implemented(phase: Phase, x: Let | Carry, structured: bool, say: Report, pointer: str) -> None:
    """An operation is done by a member of the program's set of implementations, and only a structured one is."""
    if x.by and (not structured or x.by not in phase.program.implementations):
        say(f"{x.op} by {x.by}", pointer, " ".join(phase.program.implementations) if structured else "no implementation")


# ------------------------------------------------------------------------------------------------ structured operations
def check_structured(phase: Phase, say: Report) -> None:
    """Every operation has its attributes, operands and inits; combine regions are closed, scalar and give one value a component."""
    for at, x in lets(phase):
        spec = LETS[x.op]
        low, high = spec.args
        if len(x.attrs) != len(spec.attrs) or len(x.args) < low or (high is not None and len(x.args) > high):
            say(f"{x.op} has {len(x.attrs)} attributes and {len(x.args)} operands", at.pointer)
        elif any(r for r in (region_of(x),) if r is not None and len(x.args) != len(r.dtypes) * (2 if x.op == "RedNTree" else 1)):
            say(f"{x.op} has not an operand for each component", at.pointer)
        else:
            _attributes(x, say, at.pointer)
    for at, loop in loops(phase):
        for c in loop.carries:
            spec, inits = CARRIES[c.op], INITS[c.op]
            low, high = spec.args
            r = region_of(c)
            if len(c.attrs) != len(spec.attrs) or len(c.args) < low or (high is not None and len(c.args) > high):
                say(f"{c.op} has {len(c.attrs)} attributes and {len(c.args)} operands", at.pointer)
            elif len(c.inits) != (len(c.args) if inits is None else inits) or (r is not None and len(c.args) != len(r.dtypes)):
                say(f"{c.op} has {len(c.inits)} inits", at.pointer)
            else:
                _attributes(c, say, at.pointer)


def _attributes(x: Let | Carry, say: Report, pointer: str) -> None:
    spec = LETS[x.op] if isinstance(x, Let) else CARRIES[x.op]
    for kind, a in zip(spec.attrs, x.attrs, strict=True):
        allowed = {"impl": IMPLS, "mode": MODES}.get(kind, REDUCTIONS if kind == "fn" and x.op not in ("Un", "Bin", "Tri") else None)
        if allowed is not None and a not in allowed:
            say(f"{x.op} has the {kind} {a}", pointer, " ".join(allowed))
    r = region_of(x)
    if r is not None:
        _region(r, say, pointer)


def region_of(x: Let | Carry) -> Region | None:
    return next((a for a in x.attrs if isinstance(a, Region)), None)


def _region(r: Region, say: Report, pointer: str) -> None:
    seen: dict[int, str] = {}
    for x in r.body:
        spec = REGION_LETS.get(x.op)
        if spec is None or len(x.attrs) != len(spec.attrs) or x.dims or x.id in seen or not all(a in seen for a in x.args):
            say(f"a combine region has {x.op} %{x.id}, which is not closed scalar code", pointer)
            return
        if x.op == "Arg" and (x.attrs[0] not in SIDES or not 0 <= x.attrs[1] < len(r.dtypes) or x.dtype != r.dtypes[x.attrs[1]]):
            say(f"a combine region has the formal {x.attrs}", pointer)
            return
        seen[x.id] = x.dtype
    if not r.dtypes or [seen.get(y) for y in r.yields] != list(r.dtypes):
        say("a combine region does not yield its components", pointer)
