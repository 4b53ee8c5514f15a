"""Fetching ahead: what a load will want some steps from now, so that memory is at work while an instance computes.

A load *flows* where steps of the loops around it and instances each load other elements. Along memory, that is what lies some bytes
further on. Where a fragment has rows beside each other, or runs backwards, what comes behind the end of a row lies elsewhere, and follows
from the levels at which the load moves, from the inside out: so many steps of the innermost loop further on, or, behind the end of that
loop, from its begin in the next step of the level around it (`_later`).

Where several loops of an instance load the same, all but the first find it in a cache. If what the next instance loads lies near, one of
them fetches that: the one behind the first that leaves memory the most time, by its operations less what it stores (`slack`). The first
one fetches nothing then. Else it fetches what it will load itself, and the second one does so from a farther cache.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from eqkir.base.dtypes import NUMPY, itemsize
from eqkir.base.expr import Expr, Int, atoms, coords, product
from eqkir.cpu.context import Context, Flow
from eqkir.cpu.layout import slope
from eqkir.cpu.model import INDEX
from eqkir.program.abi import axis_of, step_parameter, traversal
from eqkir.program.model import Item, Let, Loop, Order, Program, Store, order_labels

#: least bytes of a fragment's row that are worth fetching ahead in a loop over rows; bytes of what is fetched at once
FETCHED, LINE = 512, 64
#: operations of a vector: of widening and narrowing 16-bit floats, and of a store while memory takes each byte of an element; functions
WIDENS, NARROWS, STORED = 2.0, 4.0, 3.0
FUNCTIONS = {
    **dict.fromkeys(("div", "sqrt", "rsqrt", "exp2_fast", "div_fast"), 4.0),
    **dict.fromkeys(("exp", "exp2", "expm1", "log", "log2", "log1p", "sigmoid", "tanh", "erf", "erfc", "sin", "cos", "tan"), 10.0),
}


def stride(k: Context, view: str, axis: int) -> Expr | int:
    """The stride of an axis of a view: a launch expression for a workspace (dense), else the id of its index parameter."""
    v = k.program.abi.view(view)
    if v.role == "workspace":
        return product(v.shape[axis + 1 :])
    return k.b.op("Param", (f"stride({view},{axis})",), (), INDEX)


def scaled(k: Context, x: int, by: Expr | int) -> int:
    """An index (scalar or lanes) times a launch expression or an index."""
    y = k.launch(by) if isinstance(by, Expr) else by
    if k.b.types[x].width == k.b.types[y].width == 1:
        return k.b.scaled(x, y)
    return k.b.bin("mul", *k.level(x, y))


def row_bytes(k: Context, dims: tuple[str, ...], vector: str, size: int) -> int:
    """Bytes that a fragment holds of one row along its vector label."""
    return k.program.lanes(vector) * size if vector in dims else size


def fetch_ahead(k: Context, flow: Flow, at: int, p: Mapping[str, int], vector: str) -> None:
    """Fetch what follows on the part of a load at offset `at` (elements), a contiguous one along `vector` at point `p`."""
    if p[vector] * flow.size % LINE:
        return
    if k.prefetch_bytes and _walk(k, flow, at, vector):
        return
    here = tuple(id(x) for x in k.loops)
    passes = [place for place, flows in k.flows.items() if any((f.view, f.ixs) == (flow.view, flow.ixs) for f in flows)]
    if not k.ahead_bytes or not _once(k, flow) or here not in passes:
        return
    number, b = passes.index(here), k.b
    chosen = max(passes[1:], key=lambda place: k.slack.get(place, 0.0), default=())
    following = _following(k, flow) if len(passes) > 1 and k.next_bytes else -1
    if (number and following < 0) or (number > 1 and here != chosen):
        return
    step = _steps_on(k, flow, here, vector) if number < 2 else -1
    if following >= 0:
        near, zero = b.bin("le", b.bin("mul", following, b.const(flow.size)), b.const(k.next_bytes)), b.const(0)
        step = b.select(near, following if here == chosen else zero, step if step >= 0 else zero)
    if step >= 0 and b.known(step) != 0:
        b.prefetch(flow.view, b.bin("add", at, step))


# ------------------------------------------------------------------------------------------------ levels
@dataclass(frozen=True, slots=True)
class _Level:
    """One level at which a load moves: the axis, members a step, and the coordinate where the present step begins (an id)."""

    axis: str
    lanes: int
    base: int


def _levels(k: Context) -> list[_Level]:
    """The loops around, then the labels of the order of instances, innermost first; orders other than products have no levels."""
    out = []
    for x in reversed(k.loops):
        step = step_parameter(x.label)
        plain = x.cond < 0 and not x.ends and x.label in k.labels
        out.append(_Level(x.axis, k.program.bindings[step] if step else 1, k.labels[x.label].base if plain else -1))
    return out + _instances(k)


def _instances(k: Context) -> list[_Level]:
    def plain(t: Order) -> bool:
        return t[0] in ("TAx", "TUnit") or (t[0] == "TProd" and plain(t[1]) and plain(t[2]))

    if k.cut is not None or not plain(k.segment.order):
        return []
    return [_Level(axis_of(d), k.program.lanes(d), k.labels[d].base) for d in reversed(order_labels(k.segment.order))]


def _moving(k: Context, flow: Flow, axis: str) -> int:
    """Elements that a load moves on with its coordinate of an axis; -1: not known."""
    slopes = [slope(e, axis) for e in flow.ixs]
    if any(s is None or any(a.op in ("coord", "dep") for a in atoms(s)) for s in slopes):
        return -1
    b, out, last = k.b, k.b.const(0), len(slopes) - 1
    for n, s in enumerate(slopes):
        if s is not None and s != Int(0):
            out = b.bin("add", out, scaled(k, k.index(k.launch(s)), b.const(1) if n == last and k.unit else stride(k, flow.view, n)))
    return out


def _later(k: Context, flow: Flow, levels: list[_Level], n: int) -> int:
    """How many elements further on a load is `n` steps of the innermost level later; -1: not known."""
    if not levels:
        return -1
    b, x = k.b, levels[0]
    moving = _moving(k, flow, x.axis)
    if moving < 0:
        return -1
    on = b.bin("mul", moving, b.const(n * x.lanes))
    around = _later(k, flow, levels[1:], 1)
    if around < 0 or x.base < 0:
        return on
    extent, lanes = k.extent(x.axis), b.const(x.lanes)
    whole = b.bin("mul", b.bin("floordiv", b.bin("add", extent, b.const(x.lanes - 1)), lanes), lanes)
    back = b.bin("add", b.bin("sub", on, b.bin("mul", moving, whole)), around)
    return b.select(b.bin("lt", b.bin("add", x.base, b.const(n * x.lanes)), extent), on, back)


def _steps_on(k: Context, flow: Flow, here: tuple[int, ...], vector: str) -> int:
    """How many elements further on a load is in the steps of the innermost level in which it takes `ahead_bytes`, less where the loads of a
    place had more than twice that under way; -1: what comes next in time does not lie next in memory, or it is not known where."""
    walked = [x.axis for x in k.loops] or [axis_of(d) for d in order_labels(k.segment.order)]
    if walked and walked[-1] != axis_of(vector) and not traversal(vector).endswith("W"):
        return -1
    ahead = min(k.ahead_bytes, 2 * k.ahead_bytes // sum(_once(k, f) for f in k.flows[here]))
    levels, taken = _levels(k), flow.size * _count(k, flow.dims)
    forwards = slope(flow.ixs[-1], axis_of(vector)) == Int(1)
    if forwards and taken == row_bytes(k, flow.dims, vector, flow.size):
        return k.b.const(ahead // flow.size)
    return _later(k, flow, levels, max(1, -(-ahead // taken))) if levels else k.b.const((ahead if forwards else -ahead) // flow.size)


def _count(k: Context, dims: tuple[str, ...]) -> int:
    out = 1
    for d in dims:
        out *= k.program.lanes(d)
    return out


def _following(k: Context, flow: Flow) -> int:
    """How many elements further the instance loads that comes next, or the one behind that where the next is nearer than
    `ahead_bytes`; -1: not known."""
    levels = _instances(k)
    one, two = (_later(k, flow, levels, n) for n in (1, 2))
    if one < 0:
        return -1
    return k.b.select(k.b.bin("lt", k.b.bin("mul", one, k.b.const(flow.size)), k.b.const(k.ahead_bytes)), two, one)


# ------------------------------------------------------------------------------------------------ places
Flows = Mapping[tuple[int, ...], tuple[Flow, ...]]


def flows_of(
    program: Program, phases: Sequence[tuple[Item, ...]], here: Sequence[Item] = (), unmade: Collection[int] = ()
) -> tuple[Flows, Mapping[tuple[int, ...], float]]:
    """By the loops (ids) around a place, in order: the different loads there, and what the place leaves memory (`slack`). `unmade`: values
    of the phase `here` that are not made."""
    out: dict[tuple[int, ...], dict[Flow, None]] = {}
    left: dict[tuple[int, ...], float] = {}

    def walk(items: tuple[Item, ...], around: tuple[int, ...], dtypes: dict[int, str], absent: Collection[int]) -> None:
        made = [x for x in items if not isinstance(x, Let) or x.id not in absent]
        for x in made:
            if isinstance(x, Let):
                dtypes[x.id] = x.dtype
                if x.op == "Load":
                    out.setdefault(around, {})[Flow(x.attrs[0], x.attrs[2], program.lane_dims(x.dims), itemsize(x.dtype))] = None
            elif isinstance(x, Loop):
                dtypes |= {c.id: c.dtype for c in x.carries}
                walk(x.body, (*around, id(x)), dtypes, absent)
        left[around] = slack(made, dtypes)

    for ph in phases:
        walk(ph, (), {}, unmade if ph is here else ())
    return {k: tuple(v) for k, v in out.items()}, left


def slack(items: Iterable[Item], dtypes: Mapping[int, str]) -> float:
    """Operations of a vector that a block does while memory may do something else: what it computes, less what its stores take."""

    def size(i: int) -> int:
        return itemsize(dtypes[i]) if dtypes.get(i) in NUMPY else 4

    out = 0.0
    for x in items:
        if isinstance(x, Let) and x.op == "Cast":
            narrow = x.dtype in NUMPY and itemsize(x.dtype) == 2
            out += WIDENS if size(x.args[0]) == 2 else NARROWS if narrow else 1.0
        elif isinstance(x, Let) and x.op in ("Un", "Bin", "Tri"):
            out += FUNCTIONS.get(str(x.attrs[0]), 1.0)
        elif isinstance(x, Let):
            out += float(x.op in ("Load", "Supply"))
        elif isinstance(x, Store):
            out += 1.0 - STORED * size(x.value)
    return out


# ------------------------------------------------------------------------------------------------ helpers
def _once(k: Context, flow: Flow) -> bool:
    """Whether instances and steps of the loops around all load other elements."""
    named = {a for e in flow.ixs for a in coords(e)}
    return named.issuperset(x.axis for x in k.loops) and named.issuperset(axis_of(d) for d in order_labels(k.segment.order))


# ------------------------------------------------------------------------------------------------ rows
def _walk(k: Context, flow: Flow, at: int, vector: str) -> bool:
    """Fetch ahead in a loop from row to row: the piece of the row that is so many steps ahead; whether there is such a loop."""
    row = row_bytes(k, flow.dims, vector, flow.size)
    if not k.loops or row < FETCHED:
        return False
    axis, step = k.loops[-1].axis, step_parameter(k.loops[-1].label)
    chunk = k.program.bindings[step] if step else 1
    if slope(flow.ixs[-1], axis) != Int(0):
        return False
    b, moving = k.b, _moving(k, flow, axis)
    if moving < 0 or b.known(moving) == 0:
        return False
    ahead = max(1, -(-k.prefetch_bytes // (row * chunk)))
    b.prefetch(flow.view, b.bin("add", at, b.bin("mul", moving, b.const(ahead * chunk))))
    return True
