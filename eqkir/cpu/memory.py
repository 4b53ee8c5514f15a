"""Loads and stores of an expansion: addresses as offsets, contiguous (forwards or backwards), strided or gathered along the vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eqkir.base.dtypes import itemsize
from eqkir.base.expr import Coord, Expr, Int, atoms, coords, product
from eqkir.cpu.context import Context
from eqkir.cpu.layout import slope
from eqkir.cpu.model import INDEX, STREAM_ALIGN, Type
from eqkir.program.abi import axis_of, step_parameter, traversal
from eqkir.program.model import Let, Store, order_labels


@dataclass(frozen=True, slots=True)
class Address:
    """An element offset and how the lanes of a vector lie from it on; `same`: all lanes are one element; `back`: of a contiguous access
    whose last lane lies there."""

    at: int
    access: str = "contiguous"
    stride: int = -1
    same: bool = False
    back: bool = False


#: least bytes of a fragment's row that are worth fetching ahead, and least that may be stored past the caches
FETCHED, STREAMED = 512, 128
LINE = 64


def stride(k: Context, view: str, axis: int) -> Expr | int:
    """The stride of an axis of a view: a launch expression for a workspace (dense), else the id of its index parameter."""
    v = k.program.abi.view(view)
    if v.role == "workspace":
        return product(v.shape[axis + 1 :])
    return k.b.op("Param", (f"stride({view},{axis})",), (), INDEX)


def _scaled(k: Context, x: int, by: Expr | int) -> int:
    y = k.launch(by) if isinstance(by, Expr) else by
    if k.b.types[x].width == k.b.types[y].width == 1:
        return k.b.scaled(x, y)
    return k.b.bin("mul", *k.level(x, y))


def address(
    k: Context, view: str, ixs: tuple[Expr, ...], dims: tuple[str, ...], deps: tuple[int, ...], p: Mapping[str, int], vector: str
) -> Address:
    """The address of an access at a point, along a vector label (empty: of one element)."""
    b = k.b

    def scalars(e: Expr) -> int:
        return k.expression(e, lambda a: k.coordinate(a, dims, p, ""), lambda n: k.read(deps[n], p, ""))

    def vectors(e: Expr) -> int:
        return k.expression(e, lambda a: k.coordinate(a, dims, p, vector), lambda n: k.read(deps[n], p, vector))

    at, moving, lanes = b.const(0), b.const(0), -1
    axis = axis_of(vector) if vector else ""
    varying = frozenset(n for n, i in enumerate(deps) if vector and vector in k.layout.dims[i])
    slopes = [slope(e, axis, varying) if vector else Int(0) for e in ixs]
    last = len(ixs) - 1
    dense = bool(slopes) and slopes[last] in (Int(1), Int(-1)) and all(s == Int(0) for s in slopes[:-1])
    dense = dense and (k.unit or k.program.abi.view(view).role == "workspace")
    for n, (e, s) in enumerate(zip(ixs, slopes, strict=True)):
        st = b.const(1) if dense and n == last else stride(k, view, n)
        if s is None:
            each = _scaled(k, k.index(vectors(e)), st)
            lanes = each if lanes < 0 else b.bin("add", *k.level(lanes, each))
            continue
        at = b.bin("add", at, _scaled(k, k.index(scalars(e)), st))
        if s != Int(0):
            moving = b.bin("add", moving, _scaled(k, k.index(scalars(s)), st))
    if lanes >= 0:
        w = k.width(vector)
        if b.known(moving) != 0:
            lanes = b.bin("add", lanes, b.bin("mul", b.splat(moving, w), b.op("Iota", (), (), Type("index", w))))
        return Address(b.bin("add", *k.level(at, lanes)), "gather")
    if all(s == Int(0) for s in slopes):
        return Address(at, same=True)
    if dense:
        if k.program.abi.view(view).role != "workspace":
            k.assumed[view, last] = None
        back = slopes[last] == Int(-1)
        return Address(b.bin("add", at, b.const(1 - k.width(vector))) if back else at, back=back)
    return Address(at, "strided", moving)


def expand_load(k: Context, x: Let) -> None:
    """A load, part by part. Lanes whose coordinates do not differ load one element each (stride 0)."""
    b, (view, _, ixs, _) = k.b, x.attrs
    dtype = x.dtype

    def part(p: dict[str, int], v: str) -> int:
        where = address(k, view, ixs, x.dims, x.args[2:], p, v)
        valid, live = k.read(x.args[0], p, v), b.conj(k.active(x.dims, p, v), k.going(x.dims, p, v))
        known = _everywhere(k, valid)
        mask = live if known else b.conj(live, valid)
        if where.same and v:
            where = Address(where.at, "strided", b.const(0))
        w = k.width(v)
        mask = b.splat(mask, w) if mask >= 0 else -1
        other = -1 if known else k.read(x.args[1], p, v)
        if where.back:
            mask, other = (_reversed(k, i) if i >= 0 else -1 for i in (mask, other))
        if v and where.access == "contiguous" and mask < 0:
            _fetch_ahead(k, view, ixs, x.dims, where, p, v, itemsize(dtype))
        value = b.load(view, where.at, Type(dtype, w), where.access, where.stride, mask, other)
        return _reversed(k, value) if where.back else value

    k.make(x.id, part, k.program.abi.view(view).alias)


def _reversed(k: Context, x: int) -> int:
    return k.b.op("Reverse", (), (x,), k.b.types[x])


def _row_bytes(k: Context, dims: tuple[str, ...], vector: str, size: int) -> int:
    """Bytes that a fragment holds of one row along its vector label."""
    return k.program.lanes(vector) * size if vector in dims else size


def _fetch_ahead(
    k: Context, view: str, ixs: tuple[Expr, ...], dims: tuple[str, ...], where: Address, p: Mapping[str, int], vector: str, size: int
) -> None:
    """Fetch what will be loaded after a piece: where the loop around steps from row to row and takes a piece of each, the piece of a row
    that is so many steps ahead; where steps or instances go on along the piece, what lies so many bytes behind it (before it, where it runs
    backwards). Where a later loop of the instance loads the same again, from a cache, it fetches the next instance's, so that memory is at
    work while it computes."""
    if p[vector] * size % LINE:
        return
    at, sign = where.at, -1 if where.back else 1
    if k.prefetch_bytes and _walk(k, view, ixs, dims, at, vector, size):
        return
    passes, here = k.passes.get((view, ixs), []), tuple(id(x) for x in k.loops)
    if not k.ahead_bytes or not _once(k, ixs):
        return
    if passes[:1] == [here] and _flows_on(k, vector):
        k.b.prefetch(view, k.b.bin("add", at, k.b.const(sign * k.ahead_bytes // size)))
    elif passes[1:2] == [here] and k.next_bytes and (step := _next_instance(k, view, ixs, vector, size)) >= 0:
        k.b.prefetch(view, k.b.bin("add", at, step))


def _walk(k: Context, view: str, ixs: tuple[Expr, ...], dims: tuple[str, ...], at: int, vector: str, size: int) -> bool:
    """Fetch ahead in a loop from row to row; whether there is one."""
    row = _row_bytes(k, dims, vector, size)
    if not k.loops or row < FETCHED:
        return False
    axis, step = k.loops[-1].axis, step_parameter(k.loops[-1].label)
    chunk = k.program.bindings[step] if step else 1
    slopes = [slope(e, axis) for e in ixs]
    if slopes[-1] != Int(0) or any(s is None or any(a.op in ("coord", "dep") for a in atoms(s)) for s in slopes):
        return False
    b, moving = k.b, k.b.const(0)
    for n, s in enumerate(slopes):
        if s is not None and s != Int(0):
            moving = b.bin("add", moving, _scaled(k, k.index(k.launch(s)), stride(k, view, n)))
    if b.known(moving) == 0:
        return False
    ahead = max(1, -(-k.prefetch_bytes // (row * chunk)))
    b.prefetch(view, b.bin("add", at, b.bin("mul", moving, b.const(ahead * chunk))))
    return True


def _once(k: Context, ixs: tuple[Expr, ...]) -> bool:
    """Whether instances and steps of the loops around all load other elements."""
    named = {a for e in ixs for a in coords(e)}
    return named.issuperset(x.axis for x in k.loops) and named.issuperset(axis_of(d) for d in order_labels(k.segment.order))


def _flows_on(k: Context, vector: str) -> bool:
    """Whether what comes next in time lies next in memory: the innermost loop, or without one the order of instances, steps along."""
    walked = [x.axis for x in k.loops] or [axis_of(d) for d in order_labels(k.segment.order)]
    return not walked or walked[-1] == axis_of(vector) or traversal(vector).endswith("W")


def _next_instance(k: Context, view: str, ixs: tuple[Expr, ...], vector: str, size: int) -> int:
    """How many elements further the next instance loads; where that is too far for what lies between to stay in a near cache, how far a
    load that goes on along memory fetches ahead; -1: not known."""
    labels = order_labels(k.segment.order)
    slopes = [slope(e, axis_of(labels[-1])) for e in ixs] if labels else []
    if not labels or any(s is None or any(a.op in ("coord", "dep") for a in atoms(s)) for s in slopes):
        return -1
    b, moving = k.b, k.b.const(0)
    for n, s in enumerate(slopes):
        if s is not None and s != Int(0):
            moving = b.bin("add", moving, _scaled(k, k.index(k.launch(s)), stride(k, view, n)))
    step = b.bin("mul", moving, b.const(k.program.lanes(labels[-1])))
    near = b.bin("le", b.bin("mul", step, b.const(size)), b.const(k.next_bytes))
    return b.select(near, step, b.const(k.ahead_bytes // size if _flows_on(k, vector) else 0))


def _everywhere(k: Context, valid: int) -> bool:
    d = k.b.source(valid)
    return k.b.known(d) is True


def expand_store(k: Context, x: Store) -> None:
    """A store, part by part; an atomic operation, element by element. What it overwrites is loaded before: all of it, or part by part
    where a load reads the elements that the store writes."""
    alias = k.program.abi.view(x.view).alias
    own = [] if x.atomic else _overwritten(k, x)
    k.force_class(alias, own)
    if x.into:
        k.force_class(k.program.abi.view(x.into).alias)
    if x.atomic:
        _atomic(k, x)
        return
    b, dims = k.b, k.program.lane_dims(x.dims)
    v = k.layout.best(dims)
    for p in k.layout.shaped(dims, v).points():
        where = address(k, x.view, x.ixs, x.dims, x.places, p, v)
        valid, live = k.read(x.valid, p, v), b.conj(k.active(x.dims, p, v), k.going(x.dims, p, v))
        mask = live if _everywhere(k, valid) else b.conj(live, valid)
        value, w = k.read(x.value, p, v), k.width(v)
        for i in own:
            k.read(i, p, v)
        if where.same and v:  # one lane may be active at most
            where = Address(where.at, "strided", b.const(0))
        value, mask = b.splat(value, w), b.splat(mask, w) if mask >= 0 else -1
        if where.back:
            value, mask = _reversed(k, value), _reversed(k, mask) if mask >= 0 else -1
        size = itemsize(b.types[value].dtype)
        flows = x.view in k.streams and where.access == "contiguous" and not where.back and mask < 0 and w * size >= STREAM_ALIGN
        flows = flows and x.ixs[-1] == Coord(axis_of(v)) and _row_bytes(k, dims, v, size) >= STREAMED
        b.write(x.view, where.at, value, where.access, where.stride, mask, flows)
    for i in own:
        del k.pending[i]


def _overwritten(k: Context, x: Store) -> list[int]:
    """Loads that wait for a reader and read, part by part, the elements that a store writes: no part reads what another one writes."""
    shape = k.layout.shaped(k.program.lane_dims(x.dims), k.layout.best(k.program.lane_dims(x.dims)))
    if x.places or any(Coord(axis_of(d)) not in x.ixs for d in x.dims):
        return []
    out = []
    for i in k.pending:
        d = k.layout.defs[i]
        if isinstance(d, Let) and d.op == "Load" and (d.attrs[0], d.attrs[2], d.dims) == (x.view, x.ixs, x.dims) and k.shape(i) == shape:
            out.append(i)
    return out


def _atomic(k: Context, x: Store) -> None:
    b, dims = k.b, k.program.lane_dims(x.dims)
    for p in k.layout.shaped(dims, "").points():
        where = address(k, x.view, x.ixs, x.dims, x.places, p, "")
        valid, live = k.read(x.valid, p, ""), b.conj(k.active(x.dims, p, ""), k.going(x.dims, p, ""))
        mask = live if _everywhere(k, valid) else b.conj(live, valid)
        expected = k.read(x.expected, p, "") if x.expected >= 0 else -1
        old = b.atomic(x.view, where.at, k.read(x.value, p, ""), x.mode, x.order or "relaxed", expected, mask)
        if x.into:
            keep = address(k, x.into, x.at, x.dims, (), p, "")
            on = k.read(x.live, p, "")
            b.write(x.into, keep.at, old, mask=live if _everywhere(k, on) else b.conj(live, on))
