"""From a structured program to a task program: each segment is a stage's group, each instance a run through its phases.

Fragments live in registers, unrolled (`fragments`); which label runs along vectors is decided once a phase (`layout`). Three bodies may
stand beside each other in one instance, chosen by tests that it makes itself: blocks that lie inside their axes, without masks; blocks at
the end of an axis; and views whose last stride is not 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from eqkir.base.diagnostics import fail
from eqkir.base.dtypes import itemsize
from eqkir.base.expr import Expr, product
from eqkir.cpu import codes
from eqkir.cpu.ahead import flows_of
from eqkir.cpu.blocking import Part, blocking, pieces
from eqkir.cpu.builder import Builder
from eqkir.cpu.context import Context, Lanes
from eqkir.cpu.forms import Forms, expand_supply
from eqkir.cpu.implementations import of_let
from eqkir.cpu.instead import avoided
from eqkir.cpu.kept import KEPT, LIMIT, Kept, fits, keep, kept_in, wanted
from eqkir.cpu.layout import Layout
from eqkir.cpu.loops import expand_loop, written_by
from eqkir.cpu.memory import expand_load, expand_store
from eqkir.cpu.model import INDEX, STREAM_ALIGN, Alloc, Atomic, Group, Load, Op, Resource, Statement, TaskProgram, Type, Write, statements
from eqkir.cpu.rectangles import rectangle
from eqkir.program.abi import axis_of, parameter, traversal
from eqkir.program.model import Item, Let, Loop, Order, Program, Segment, Store, order_labels
from eqkir.program.ops import label_of

#: statements of one group beyond which an expansion is refused: compilation would take minutes
MAX_STATEMENTS = 8_000
#: instances that one task should have at least, where a row does not say
GRAIN = 1


def expand(
    program: Program, vector_bytes: int = 32, stream_bytes: int = 0, prefetch_bytes: int = 0, ahead_bytes: int = 0,
    next_bytes: int = 0, hopes: bool = False,
) -> TaskProgram:
    """The task program of a structured program, on a machine with vector registers of `vector_bytes`. Views of `stream_bytes` and more that
    a segment only writes are stored past the caches; loops that walk over rows fetch `prefetch_bytes` ahead, loads that go on along memory
    `ahead_bytes`, second loads of what lies at most `next_bytes` before the next instance's fetch that (0: none of these). `hopes`: loops
    of maxima and minima look for NaN beside these, and are repeated with care where there was one.

    Raises EqkirError: EQK-MOJ-STAGE for a legal program, EQK-MOJ-LARGE, EQK-MOJ-UNSUPPORTED.
    """
    if program.stage != "structured":
        raise fail(codes.STAGE, program.stage, accepted="structured", stage="expand")
    abi = program.abi
    resources = tuple(Resource(v.name, v.dtype, product(v.shape)) for v in abi.views if v.role == "workspace")
    forms = Forms(program)
    machine = Machine(vector_bytes, stream_bytes, prefetch_bytes, ahead_bytes, next_bytes, hopes)
    stages: tuple[tuple[Group, ...], ...] = (tuple(_group(program, s, machine, forms) for s in program.segments),)  # unordered
    if forms.groups:
        stages, resources = (tuple(forms.groups), *stages), (*resources, *forms.resources)
    used = {p for st in stages for g in st for p in g.params}
    params = [s.name for s in abi.symbols]
    params += [f"stride({v.name},{k})" for v in abi.views if v.role != "workspace" for k in range(len(v.shape))]
    limits = {n: v for n, v in {STREAM: stream_bytes, LIMIT: KEPT}.items() if n in used}
    params += limits
    assert used <= set(params)
    return TaskProgram(abi, tuple(params), resources, stages, program.preconditions, dict(program.options), limits)


@dataclass(frozen=True, slots=True)
class Machine:
    """What an expansion knows of the machine."""

    vector_bytes: int
    stream_bytes: int = 0
    prefetch_bytes: int = 0
    ahead_bytes: int = 0
    next_bytes: int = 0
    hopes: bool = False


def only_written(program: Program, segment: Segment) -> list[str]:
    """Outputs that a segment stores to and no load of the program can see."""
    read: set[int] = set()
    stored: dict[str, None] = {}

    def walk(items: tuple[Item, ...], mine: bool) -> None:
        for i in items:
            if isinstance(i, Let) and i.op == "Load":
                read.add(program.abi.view(i.attrs[0]).alias)
            elif isinstance(i, Store) and mine and not i.atomic:
                stored[i.view] = None
            elif isinstance(i, Loop):
                walk(i.body, mine)

    for s in program.segments:
        for ph in s.phases:
            walk(ph, s is segment)
    return [v for v in stored if program.abi.view(v).role == "out" and program.abi.view(v).alias not in read]


#: index parameter: bytes from which a view is stored past the caches
STREAM = "limit(stream)"


def large(k: Context, view: str) -> int:
    """Whether a view has at least as many bytes as the machine's limit and all its rows begin at multiples of `STREAM_ALIGN`: a bool
    scalar."""
    v, b = k.program.abi.view(view), k.b
    item, zero, align = b.const(itemsize(v.dtype)), b.const(0), b.const(STREAM_ALIGN)
    out = b.bin("ge", b.bin("mul", k.launch(product(v.shape)), item), b.op("Param", (STREAM,), (), INDEX))
    starts = [b.op("Address", (view,), (), INDEX)]
    starts += [b.bin("mul", b.op("Param", (f"stride({view},{n})",), (), INDEX), item) for n in range(len(v.shape) - 1)]
    for x in starts:
        out = b.bin("and", out, b.bin("eq", b.bin("mod", x, align), zero))
    return out


def _may_be_large(program: Program, view: str, least: int) -> bool:
    v = program.abi.view(view)
    n = product(v.shape).value
    return least > 0 and (n is None or n * itemsize(v.dtype) >= least)


# ------------------------------------------------------------------------------------------------ one segment
def _group(program: Program, segment: Segment, machine: Machine, forms: Forms) -> Group:
    b = Builder()
    digits: list[tuple[int, Expr]] = []
    layouts = [Layout(program, ph, machine.vector_bytes) for ph in segment.phases]
    origins, (loads, left) = _origins(program, segment), flows_of(program, segment.phases)

    def context(unit: bool, split: bool) -> Context:
        k = Context(program, segment, b, layouts[0], unit, split, forms, flows=loads, slack=left)
        k.prefetch_bytes, k.ahead_bytes, k.next_bytes = machine.prefetch_bytes, machine.ahead_bytes, machine.next_bytes
        k.hopes = machine.hopes and unit and split
        return k

    first = context(True, True)
    plan = blocking(program, segment)
    first.tiles = dict(plan.tiles) if plan else {}
    found = _decode(first, segment.order, None, digits)
    whole = list(_whole(program, segment))
    covering = [d for d in whole if parameter(d) and not _exact(program, d)]
    assumed: dict[tuple[str, int], None] = {}
    kept: list[dict[int, Kept]] = []
    for ph in segment.phases:
        kept.append(kept_in(program, ph, sum(map(len, kept))) if plan is None else {})
    if sum(map(len, kept)) != sum(map(wanted, segment.phases)):
        raise fail(codes.UNSUPPORTED, "a value is read as kept", accepted="an earlier loop of the block keeps it", stage="expand")
    streams = tuple(v for v in only_written(program, segment) if _may_be_large(program, v, machine.stream_bytes))

    def tile(found: Mapping[str, int], part: Part | None = None) -> None:
        """One block of every label: its bodies, and the test between them."""
        owned = {d: b.bin("mul", i, b.const(program.lanes(d))) for d, i in found.items()}
        counts = {d: b.bin("sub", first.extent(axis_of(d)), at) for d, at in owned.items() if parameter(d) and not _exact(program, d)}
        counts = {d: c for d, c in counts.items() if program.lanes(d) > 1}
        inside = b.const(True, "bool")
        for d, c in counts.items():
            inside = b.bin("and", inside, b.bin("ge", c, b.const(program.lanes(d))))
        for d in covering:  # fragments that cover their axis hold nothing else where it is as long as they are
            inside = b.bin("and", inside, b.bin("ge", first.extent(axis_of(d)), b.const(program.lanes(d))))

        def body(unit: bool, full: bool, flows: bool = False, keeps: bool = False) -> list[Statement]:
            out: list[Statement] = []
            with b.block(out):
                k = context(unit, unit and full)
                k.assumed, k.streams, k.cut = assumed, streams if flows else (), part
                for d, at in owned.items():
                    k.labels[d] = Lanes(at, -1 if full else counts.get(d, -1))
                for d in whole:
                    k.labels[d] = Lanes(b.const(0), k.extent(axis_of(d)) if d in covering and not full else -1)
                for phase, layout, origin, held in zip(segment.phases, layouts, origins, kept, strict=True):
                    k.layout, k.values, k.pending, k.supplied, k.origins = layout, {}, {}, {}, origin  # ids are a phase's own
                    k.kept, k.flows, k.slack = held if keeps else {}, loads, left
                    k.unmade = frozenset(avoided(phase, program.axis, {s: v.source for s, v in held.items()}) if k.kept else ())
                    if k.unmade:
                        k.flows, k.slack = flows_of(program, segment.phases, phase, k.unmade)
                    if part is None or plan is None:
                        _block(k, phase)
                        continue
                    _block(k, phase[: plan.at + 1])
                    with b.when(part.last):
                        _block(k, phase[plan.at + 1 :])
            return out

        def whole_blocks(keeps: bool = False) -> list[Statement]:
            """The body of blocks that lie inside their axes, with stores past the caches beside it."""
            fast = body(True, True, keeps=keeps)
            flowing = body(True, True, True, keeps) if streams else []
            used = {s.place for s in statements(tuple(flowing)) if isinstance(s, Write) and s.stream}
            if not used:
                return fast
            both, cond = list[Statement](), b.const(True, "bool")
            for v in streams:
                cond = b.bin("and", cond, large(first, v)) if v in used else cond
            with b.block(both):
                b.branch(cond, flowing, fast)
            return both

        fast = whole_blocks()
        if any(kept):
            keeping, again, short = whole_blocks(True), fast, b.const(True, "bool")
            for held in kept:
                first.kept = held
                short = b.bin("and", short, fits(first))
            fast = list[Statement]()
            with b.block(fast):
                b.branch(short, keeping, again)
        edge = body(True, False) if b.known(inside) is not True else []
        general = body(False, False) if assumed else []
        _select(b, first, assumed, inside, fast, edge, general)

    if plan is None:
        tile(found)
    else:
        rectangle(first, plan, found, tile)
    stmts = b.finish()
    every = statements(stmts)
    if len(every) > MAX_STATEMENTS:
        raise fail(codes.LARGE, f"{len(every)} statements", accepted=f"at most {MAX_STATEMENTS}", stage="expand")
    launch = product([r for _, r in digits])
    own = {s.name for s in every if isinstance(s, Alloc)}
    places = tuple(dict.fromkeys(s.place for s in every if isinstance(s, (Load, Write, Atomic)) and s.place not in own))
    params = tuple(dict.fromkeys(s.attrs[0] for s in every if isinstance(s, Op) and s.op == "Param"))
    scalars = tuple(dict.fromkeys(s.attrs[0] for s in every if isinstance(s, Op) and s.op == "Scalar"))
    return Group(segment.group, launch, tuple(digits), stmts, program.options.get("grain", GRAIN), places, params, scalars, b.origins)


def _origins(program: Program, segment: Segment) -> list[dict[int, str]]:
    """Of each phase: item -> the operation of KIR that it comes from."""
    number = next(n for n, s in enumerate(program.segments) if s is segment)
    out: list[dict[int, str]] = [{} for _ in segment.phases]
    for key, text in program.origins.items():
        n, phase, i = map(int, key.split("/"))
        if n == number:
            out[phase][i] = text
    return out


def _select(
    b: Builder, k: Context, assumed: dict[tuple[str, int], None], inside: int, fast: list[Statement], edge: list[Statement],
    general: list[Statement],
) -> None:  # fmt: skip
    """The test of an instance between its bodies."""
    dense = b.const(True, "bool")
    for view, n in assumed:
        dense = b.bin("and", dense, b.bin("eq", b.op("Param", (f"stride({view},{n})",), (), INDEX), b.const(1)))
    then: list[Statement] = []
    with b.block(then):
        b.branch(inside, fast, edge)
    b.branch(dense, then, general)


def _exact(program: Program, label: str) -> bool:
    """Whether an axis is a constant multiple of its label's lanes: every block is whole."""
    n, p = program.axis[axis_of(label)].extent.value, parameter(label)
    return n is not None and (p is None or (n % program.lanes(label) == 0 and (traversal(label)[-1] != "W" or n == program.lanes(label))))


def _whole(program: Program, segment: Segment) -> Iterator[str]:
    """Labels of fragments that cover their axis, in the order of their use."""
    seen: dict[str, None] = {}

    def note(d: str) -> None:
        if traversal(d).endswith("W"):
            seen[d] = None

    def walk(items: tuple[Item, ...]) -> None:
        for i in items:
            if isinstance(i, Let):
                for d in (*i.dims, *((label_of(i.op, i.attrs),) if label_of(i.op, i.attrs) else ())):
                    note(d)
            elif isinstance(i, Store):
                for d in i.dims:
                    note(d)
            elif isinstance(i, Loop):
                for c in i.carries:
                    for d in c.dims:
                        note(d)
                walk(i.body)

    for ph in segment.phases:
        walk(ph)
    yield from seen


def _block(k: Context, items: tuple[Item, ...]) -> None:
    for x in items:
        match x:
            case Let():
                if x.id in k.unmade:
                    continue
                with k.b.part_of(k.origins.get(x.id, "")):
                    _let(k, x)
                    keep(k, x.id)
            case Store():
                with k.b.part_of(k.origins.get(x.value, "")):
                    expand_store(k, x)
            case Loop():
                if k.unmade and not written_by(x.body) and k.unmade.issuperset(c.id for c in x.carries):
                    continue
                with k.b.part_of(next((k.origins[c.id] for c in x.carries if c.id in k.origins), "")):
                    expand_loop(k, x, _block)


def _let(k: Context, x: Let) -> None:
    b = k.b
    match x.op:
        case "Const":
            k.make(x.id, lambda p, v: b.splat(b.const(x.attrs[0], x.dtype), k.width(v)))
        case "Scalar":
            k.make(x.id, lambda p, v: b.splat(b.op("Scalar", (x.attrs[0],), (), Type(x.dtype)), k.width(v)))
        case "Index":
            k.make(x.id, lambda p, v: _index(k, x, p, v))
        case "Un" | "Bin" | "Tri" | "Cast" | "Bitcast":
            k.make(x.id, lambda p, v: k.b.splat(k.pointwise(x.op, x.attrs, tuple(k.read(a, p, v) for a in x.args), x.dtype), k.width(v)))
        case "Pick":
            k.make(x.id, lambda p, v: k.reads(x.args[0], p, v)[x.attrs[0]])
        case "Load":
            expand_load(k, x)
        case "Supply":
            expand_supply(k, x)
        case _:
            of_let(k, x).expand(k, x)


def _index(k: Context, x: Let, p: dict[str, int], v: str) -> int:
    """An index expression or predicate at a point."""
    e, b = x.attrs[0], k.b
    value = k.expression(e, lambda a: k.coordinate(a, x.dims, p, v), lambda n: k.read(x.args[n], p, v))
    return b.splat(k.cast_index(value, x.dtype), k.width(v))


# ------------------------------------------------------------------------------------------------ instances
def _decode(k: Context, t: Order, lid: int | None, digits: list[tuple[int, Expr]]) -> dict[str, int]:
    """Label -> block index. Products become digits of the instance number; other orders are arithmetic on one digit (`lid`)."""
    b, head = k.b, t[0]
    if head == "TUnit":
        return {}
    if lid is None and head == "TProd":
        return {**_decode(k, t[1], None, digits), **_decode(k, t[2], None, digits)}
    if lid is None and head == "TRev":  # every digit of a number in reverse order is reversed
        mark = len(digits)
        inner = _decode(k, t[1], None, digits)
        if all(i in {d for d, _ in digits[mark:]} for i in inner.values()):
            size = {d: k.launch(_bound(k, r)) for d, r in digits[mark:]}
            return {x: b.bin("sub", b.bin("sub", size[i], b.const(1)), i) for x, i in inner.items()}
        del digits[mark:]
    if lid is None:
        lid = b.fresh(INDEX)
        digits.append((lid, _bound(k, _size(k, t))))
    match head:
        case "TAx":
            return {t[1]: lid}
        case "TRev":
            n = k.launch(_bound(k, _size(k, t[1])))
            return _decode(k, t[1], b.bin("sub", b.bin("sub", n, b.const(1)), lid), digits)
        case "TInter":
            n = k.launch(_bound(k, _size(k, t[1])))
            evens = b.bin("floordiv", b.bin("add", n, b.const(1)), b.const(2))
            two = b.const(2)
            odd = b.bin("add", b.bin("mul", two, b.bin("sub", lid, evens)), b.const(1))
            return _decode(k, t[1], b.select(b.bin("lt", lid, evens), b.bin("mul", two, lid), odd), digits)
        case "TProd":
            n = b.bin("maximum", k.launch(_bound(k, _size(k, t[2]))), b.const(1))
            return {**_decode(k, t[1], b.bin("floordiv", lid, n), digits), **_decode(k, t[2], b.bin("mod", lid, n), digits)}
    rows, columns = (k.launch(_bound(k, _size(k, x))) for x in t[1:])
    columns = b.bin("maximum", columns, b.const(1))
    g = b.const(k.program.bindings[f"G:{k.segment.group}"])
    area = b.bin("mul", g, columns)
    band, inside = b.bin("floordiv", lid, area), b.bin("mod", lid, area)
    top = b.bin("mul", band, g)
    height = b.bin("maximum", b.bin("minimum", g, b.bin("sub", rows, top)), b.const(1))
    row = b.bin("add", top, b.bin("mod", inside, height))
    return {**_decode(k, t[1], row, digits), **_decode(k, t[2], b.bin("floordiv", inside, height), digits)}


def _size(k: Context, t: Order) -> Expr:
    return product([pieces(k.program, x, k.tiles) for x in order_labels(t)])


def _bound(k: Context, e: Expr) -> Expr:
    """A launch expression with its physical parameters bound."""
    from eqkir.base.expr import Int, Param, substitute

    return substitute(e, {Param(p): Int(n) for p, n in k.program.bindings.items()})
