"""Supply forms: a view that an implementation wants in another layout than memory has it.

The panel form of a load is its value in blocks: `lanes` elements along the vector label, one block for each member of the loop's axis,
and the blocks of one instance behind each other. A program says with a ``Supply`` which values are wanted so; whoever wants the same form
of the same load gets the same panels, which are filled once a launch, in a stage of their own before the first reader, and belong to the
invocation. *Quads* are panels of bytes whose elements are four members of the loop; *words*, for the other operand, are four
adjacent members in memory, and nothing is filled for them. Lanes beyond the extent hold zeros, so that readers need no mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from eqkir.base.diagnostics import fail
from eqkir.base.expr import Expr, Int, Param, atoms, ceildiv, coords, product, substitute
from eqkir.cpu import codes
from eqkir.cpu.builder import Builder
from eqkir.cpu.context import Context, Lanes
from eqkir.cpu.instead import INSTEAD, read_instead
from eqkir.cpu.kept import is_kept, recall
from eqkir.cpu.layout import contiguous
from eqkir.cpu.memory import address
from eqkir.cpu.model import INDEX, Group, Load, Op, Resource, Statement, Type, Write, statements
from eqkir.program.abi import axis_of, traversal
from eqkir.program.model import Carry, Item, Let, Loop, Program, Segment, Store

#: forms by name
FORMS = ("panels", "quads", "words", *INSTEAD)
#: members of the loop's axis that one instance of a packing group takes
STEP = 64


@dataclass(frozen=True, slots=True)
class Form:
    """A form of a load: which one, what it reads, along which label of which loop, in blocks of how many lanes."""

    kind: str
    view: str
    ixs: tuple[Expr, ...]
    dims: tuple[str, ...]
    dtype: str
    vector: str
    loop: str
    lanes: int

    @property
    def members(self) -> int:
        """Members of the loop in one element."""
        return 1 if self.kind == "panels" else 4

    @property
    def element(self) -> str:
        """Dtype of its elements."""
        return self.dtype if self.kind == "panels" else "i32"


def form_of(program: Program, segment: Segment, loop: Loop, supply: Let, load: Let | Carry) -> Form | None:
    """The form of a load of a loop's body that a supply asks for, or None where it has none: see `admits`; besides, it must be valid
    everywhere, of a view that nothing writes."""
    if not isinstance(load, Let) or load.op != "Load" or loop.cond >= 0 or loop.ends or len(load.args) > 2:
        return None
    (view, _, ixs, _), (kind, vector) = load.attrs, supply.attrs
    if not admits(kind, vector, loop.label, load.dims, ixs, load.dtype):
        return None
    alias = program.abi.view(view).alias
    if program.abi.view(view).role != "in" or any(program.abi.view(s.view).alias == alias for s in _stores(program)):
        return None
    valid = _definition(segment, loop, load.args[0])
    if valid is None or valid.op != "Const" or valid.attrs[0] != "true":
        return None
    return Form(kind, view, ixs, load.dims, load.dtype, vector, loop.label, program.lanes(vector))


def admits(kind: str, vector: str, loop: str, labels: Sequence[str], ixs: tuple[Expr, ...], dtype: str) -> bool:
    """Whether a load has a form, as far as its types and its index map say: it varies along a block of the instance and the loop's axis
    alone. Panels and quads lie along the block, words along the loop, whose members are adjacent; words and quads are of bytes."""
    if len(labels) != 2 or loop not in labels or kind in INSTEAD:
        return False
    block = next(t for t in labels if t != loop)
    if traversal(block) != "OB" or traversal(loop) not in ("L1", "LC") or any(a.op == "dep" for e in ixs for a in atoms(e)):
        return False
    if {a for e in ixs for a in coords(e)} != {axis_of(block), axis_of(loop)} or vector != (loop if kind == "words" else block):
        return False
    if kind == "panels":
        return True
    bytes_ = dtype == "i8" and traversal(loop) == "LC"
    return bytes_ and (kind == "quads" or (kind == "words" and bool(contiguous(ixs, axis_of(loop), frozenset()))))


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
            self.resources.append(Resource(name, form.element, self._size(form)))
            self.groups.append(self._fill(k, form, name))
        return self.names[form]

    def _bound(self, e: Expr) -> Expr:
        return substitute(e, {Param(p): Int(n) for p, n in self.program.bindings.items()})

    def _blocks(self, form: Form) -> Expr:
        return self._bound(ceildiv(self.program.axis[axis_of(form.vector)].extent, form.lanes))

    def depth(self, form: Form) -> Expr:
        """Elements of a form along its loop."""
        return self._bound(ceildiv(self.program.axis[axis_of(form.loop)].extent, form.members))

    def _size(self, form: Form) -> Expr:
        return product([self._blocks(form), self.depth(form), Int(form.lanes)])

    def _fill(self, like: Context, form: Form, name: str) -> Group:
        """Instances are blocks times steps of the loop's axis."""
        b = Builder()
        b.origin = like.b.origin
        block, step = b.fresh(INDEX), b.fresh(INDEX)
        digits = ((block, self._blocks(form)), (step, ceildiv(self.depth(form), STEP)))
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
            depth, extent = k.launch(self.depth(form)), k.extent(axis_of(form.vector))
            first = b.bin("mul", at[1], b.const(STEP))
            end = b.bin("minimum", b.bin("add", first, b.const(STEP)), depth)
            members = k.extent(axis_of(form.loop))
            with b.loop(first, end) as c:
                from_ = b.bin("mul", c, b.const(form.members))
                rest = b.bin("sub", members, from_) if form.members > 1 else -1
                with k.label(form.vector, Lanes(base, b.bin("sub", extent, base))), k.label(form.loop, Lanes(from_, rest)):
                    for lane in range(0, form.lanes, k.width(form.vector)):
                        p = {form.vector: lane, form.loop: 0}
                        parts = [self._element(k, form, {**p, form.loop: j}) for j in range(form.members)]
                        b.write(name, place(k, form, p, depth, c), parts[0] if form.members == 1 else _word(k, parts))
        return out

    def _element(self, k: Context, form: Form, p: dict[str, int]) -> int:
        where = address(k, form.view, form.ixs, form.dims, (), p, form.vector)
        mask = k.active((form.vector, form.loop), p, form.vector)
        return k.b.load(form.view, where.at, Type(form.dtype, k.width(form.vector)), where.access, where.stride, mask)


def _word(k: Context, parts: list[int]) -> int:
    """Four vectors of bytes as one of words, the first lowest."""
    b, out = k.b, -1
    for j, x in enumerate(parts):
        w = b.types[x].width
        byte = b.op("Cast", ("i32",), (b.op("Bitcast", ("u8",), (x,), Type("u8", w)),), Type("i32", w))
        byte = b.bin("shl", byte, b.splat(b.const(8 * j, "i32"), w)) if j else byte
        out = byte if out < 0 else b.bin("or", out, byte)
    return out


def place(k: Context, form: Form, p: dict[str, int], depth: int, member: int) -> int:
    """The offset in a panel resource: ``base · depth + member · lanes + lane``."""
    b = k.b
    row = b.bin("add", b.bin("mul", k.labels[form.vector].base, depth), b.bin("mul", member, b.const(form.lanes)))
    return b.bin("add", row, b.const(p[form.vector]))


def expand_supply(k: Context, x: Let) -> None:
    """A load in the form in which its reader wants it. Raises EqkirError EQK-MOJ-UNSUPPORTED where it has none."""
    assert isinstance(k.forms, Forms)
    load, kind = k.layout.defs[x.args[0]], x.attrs[0]
    if x.id in k.kept:
        recall(k, x)
        return
    if is_kept(x):
        k.make(x.id, lambda p, v: k.read(load.id, p, v))
        return
    if kind in INSTEAD and read_instead(k.layout.defs, k.program.axis, x) is not None:
        k.make(x.id, lambda p, v: k.read(load.id, p, v))
        return
    form = form_of(k.program, k.segment, k.loops[-1], x, load) if kind in FORMS and k.loops else None
    if form is None:
        raise fail(codes.UNSUPPORTED, f"{load.op} of {load.dtype} in the form {kind!r}", accepted=" ".join(FORMS), stage="expand")
    k.make(x.id, lambda p, v: k.read(load.id, p, v))
    if kind == "words":
        k.supplied[x.id] = lambda p: _loaded_word(k, form, p)
        return
    name = k.forms.want(k, form)

    def part(p: Mapping[str, int]) -> int:
        """The elements of a form at a point: a vector along its label."""
        b, q = k.b, dict(p)
        assert isinstance(k.forms, Forms)
        member = b.bin("add", k.labels[form.loop].base, b.const(q.get(form.loop, 0)))
        at = place(k, form, q, k.launch(k.forms.depth(form)), b.bin("floordiv", member, b.const(form.members)))
        mask, w = k.active((form.loop,), q, form.vector), k.width(form.vector)
        return b.load(name, at, Type(form.element, w), mask=b.splat(mask, w) if mask >= 0 else -1)

    k.supplied[x.id] = part
    if kind == "panels":
        k.make(x.id, lambda p, v: part(p) if v == form.vector else k.read(load.id, p, v))


def _loaded_word(k: Context, form: Form, p: Mapping[str, int]) -> int:
    """Four members of the loop from a point on as one word; zeros beyond its end."""
    b, q = k.b, dict(p)
    where = address(k, form.view, form.ixs, form.dims, (), q, form.loop)
    mask, count = -1, k.labels[form.loop].count
    if count >= 0:
        mask = b.op("Lanes", (), (b.bin("sub", count, b.const(q[form.loop])),), Type("bool", 4))
    others = k.active(tuple(d for d in form.dims if d != form.loop), q, "")
    if others >= 0:
        mask = b.conj(mask, b.splat(others, 4))
    value = b.load(form.view, where.at, Type(form.dtype, 4), where.access, where.stride, mask)
    return b.op("Words", (), (value,), Type("i32"))
