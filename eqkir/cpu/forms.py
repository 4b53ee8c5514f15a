"""Supply forms: a view that an implementation wants in another layout than memory has it.

The panel form of a load is its value in blocks: `lanes` elements along the vector label, one block for each member of the loop's axis,
and the blocks of one instance behind each other. A program says with a ``Supply`` which values are wanted so; whoever wants the same form
of the same load gets the same panels, which are filled once a launch, in a stage of their own before the first reader, and belong to the
invocation. Lanes beyond the extent hold zeros, so that readers need no mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from eqkir.base.diagnostics import fail
from eqkir.base.expr import Expr, Int, Param, atoms, ceildiv, coords, product, substitute
from eqkir.cpu import codes
from eqkir.cpu.builder import Builder
from eqkir.cpu.context import Context, Lanes
from eqkir.cpu.memory import address
from eqkir.cpu.model import INDEX, Group, Load, Op, Resource, Statement, Type, Write, statements
from eqkir.program.abi import axis_of, traversal
from eqkir.program.model import Carry, Item, Let, Loop, Program, Segment, Store

#: forms by name
FORMS = ("panels",)
#: members of the loop's axis that one instance of a packing group takes
STEP = 64


@dataclass(frozen=True, slots=True)
class Form:
    """The panels of a load: what it reads, along which label of which loop, in blocks of how many lanes."""

    view: str
    ixs: tuple[Expr, ...]
    dims: tuple[str, ...]
    dtype: str
    vector: str
    loop: str
    lanes: int


def form_of(program: Program, segment: Segment, loop: Loop, load: Let | Carry, vector: str) -> Form | None:
    """The panel form of a load of a loop's body, or None where it has none: its coordinates must be those of the loop and of the vector
    label's blocks alone, everywhere valid, of a view that nothing writes."""
    if not isinstance(load, Let) or load.op != "Load" or loop.cond >= 0 or loop.ends:
        return None
    view, _, ixs, _ = load.attrs
    if not along(vector, loop.label, ixs) or set(load.dims) != {vector, loop.label} or len(load.args) > 2:
        return None
    alias = program.abi.view(view).alias
    if program.abi.view(view).role != "in" or any(program.abi.view(s.view).alias == alias for s in _stores(program)):
        return None
    valid = _definition(segment, loop, load.args[0])
    if valid is None or valid.op != "Const" or valid.attrs[0] != "true":
        return None
    return Form(view, ixs, load.dims, load.dtype, vector, loop.label, program.lanes(vector))


def along(vector: str, loop: str, ixs: tuple[Expr, ...]) -> bool:
    """Whether an index map names the axes of a block label and of a plain loop label, and nothing else that varies."""
    if traversal(vector) != "OB" or traversal(loop) not in ("L1", "LC"):
        return False
    named = {a for e in ixs for a in coords(e)}
    return named == {axis_of(vector), axis_of(loop)} and not any(a.op == "dep" for e in ixs for a in atoms(e))


def _stores(program: Program) -> list[Store]:
    out: list[Store] = []

    def walk(items: tuple[Item, ...]) -> None:
        for i in items:
            if isinstance(i, Store):
                out.append(i)
            elif isinstance(i, Loop):
                walk(i.body)

    for s in program.segments:
        for ph in s.phases:
            walk(ph)
    return out


def _definition(segment: Segment, loop: Loop, i: int) -> Let | None:
    """The definition of a value in the phase that holds `loop`."""

    def walk(items: tuple[Item, ...]) -> Iterator[Item]:
        for x in items:
            yield x
            if isinstance(x, Loop):
                yield from walk(x.body)

    phases = (list(walk(ph)) for ph in segment.phases)
    return next((x for ph in phases if any(x is loop for x in ph) for x in ph if isinstance(x, Let) and x.id == i), None)


@dataclass
class Forms:
    """The forms of one launch: form -> resource, and the groups that fill them."""

    program: Program
    names: dict[Form, str] = field(default_factory=dict)
    resources: list[Resource] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)

    def want(self, k: Context, form: Form) -> str:
        """The resource that holds a form; the same one for everyone who wants it."""
        if form not in self.names:
            name = self.names[form] = f"panel{len(self.names)}"
            self.resources.append(Resource(name, form.dtype, self._size(form)))
            self.groups.append(self._fill(k, form, name))
        return self.names[form]

    def _bound(self, e: Expr) -> Expr:
        return substitute(e, {Param(p): Int(n) for p, n in self.program.bindings.items()})

    def _blocks(self, form: Form) -> Expr:
        return self._bound(ceildiv(self.program.axis[axis_of(form.vector)].extent, form.lanes))

    def _depth(self, form: Form) -> Expr:
        return self._bound(self.program.axis[axis_of(form.loop)].extent)

    def _size(self, form: Form) -> Expr:
        return product([self._blocks(form), self._depth(form), Int(form.lanes)])

    def _fill(self, like: Context, form: Form, name: str) -> Group:
        """Instances are blocks times steps of the loop's axis."""
        b = Builder()
        b.origin = like.b.origin
        block, step = b.fresh(INDEX), b.fresh(INDEX)
        digits = ((block, self._blocks(form)), (step, ceildiv(self._depth(form), STEP)))
        assumed: dict[tuple[str, int], None] = {}
        bodies = [self._body(like, form, name, b, (block, step), unit, assumed) for unit in (True, False)]
        dense = b.const(True, "bool")
        for view, n in assumed:
            dense = b.bin("and", dense, b.bin("eq", b.op("Param", (f"stride({view},{n})",), (), INDEX), b.const(1)))
        b.branch(dense, *bodies)
        body = b.finish()
        every = statements(body)
        params = tuple(dict.fromkeys(s.attrs[0] for s in every if isinstance(s, Op) and s.op == "Param"))
        scalars = tuple(dict.fromkeys(s.attrs[0] for s in every if isinstance(s, Op) and s.op == "Scalar"))
        places = tuple(dict.fromkeys(s.place for s in every if isinstance(s, (Load, Write))))
        return Group(f"fill_{name}", product([r for _, r in digits]), digits, body, 1, places, params, scalars, b.origins)

    def _body(
        self, like: Context, form: Form, name: str, b: Builder, at: tuple[int, int], unit: bool, assumed: dict[tuple[str, int], None]
    ) -> list[Statement]:
        k = Context(self.program, like.segment, b, like.layout, unit, False, self, assumed)
        out: list[Statement] = []
        with b.block(out):
            base = b.bin("mul", at[0], b.const(form.lanes))
            depth, extent = k.launch(self._depth(form)), k.extent(axis_of(form.vector))
            first = b.bin("mul", at[1], b.const(STEP))
            end = b.bin("minimum", b.bin("add", first, b.const(STEP)), depth)
            with b.loop(first, end) as c:
                with k.label(form.vector, Lanes(base, b.bin("sub", extent, base))), k.label(form.loop, Lanes(c)):
                    for lane in range(0, form.lanes, k.width(form.vector)):
                        p = {form.vector: lane, form.loop: 0}
                        where = address(k, form.view, form.ixs, form.dims, (), p, form.vector)
                        t = Type(form.dtype, k.width(form.vector))
                        mask = k.active((form.vector,), p, form.vector)
                        value = b.load(form.view, where.at, t, where.access, where.stride, mask)
                        b.write(name, place(k, form, p, depth, c), value)
        return out


def place(k: Context, form: Form, p: dict[str, int], depth: int, member: int) -> int:
    """The offset in a panel resource: ``base · depth + member · lanes + lane``."""
    b = k.b
    row = b.bin("add", b.bin("mul", k.labels[form.vector].base, depth), b.bin("mul", member, b.const(form.lanes)))
    return b.bin("add", row, b.const(p[form.vector]))


def expand_supply(k: Context, x: Let) -> None:
    """A load in the form in which its reader wants it. Raises EqkirError EQK-MOJ-UNSUPPORTED where it has none."""
    assert isinstance(k.forms, Forms)
    load, (kind, vector) = k.layout.defs[x.args[0]], x.attrs
    form = form_of(k.program, k.segment, k.loops[-1], load, vector) if kind in FORMS and k.loops else None
    if form is None:
        raise fail(codes.UNSUPPORTED, f"{load.op} of {load.dtype} in the form {kind!r}", accepted=" ".join(FORMS), stage="expand")
    name, wanted = k.forms.want(k, form), form

    def part(p: dict[str, int], v: str) -> int:
        b = k.b
        if v != vector:
            return k.read(load.id, p, v)
        member = k.coordinate(axis_of(wanted.loop), x.dims, p, "")
        at = place(k, wanted, p, k.extent(axis_of(wanted.loop)), member)
        mask = k.active((wanted.loop,), p, v)
        w = k.width(v)
        return b.load(name, at, Type(x.dtype, w), mask=b.splat(mask, w) if mask >= 0 else -1)

    k.make(x.id, part)
