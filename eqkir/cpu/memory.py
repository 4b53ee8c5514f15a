"""Loads and stores of an expansion: addresses as offsets, contiguous (forwards or backwards), strided or gathered along the vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eqkir.base.dtypes import itemsize
from eqkir.base.expr import Coord, Expr, Int, atoms, product
from eqkir.cpu.context import Context
from eqkir.cpu.layout import slope
from eqkir.cpu.model import INDEX, STREAM_ALIGN, Type
from eqkir.program.abi import axis_of, step_parameter
from eqkir.program.model import Let, Store


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
        elif v and where.access == "contiguous" and mask < 0:
            _fetch_ahead(k, view, ixs, x.dims, where.at, p, v, itemsize(dtype))
        value = b.load(view, where.at, Type(dtype, w), where.access, where.stride, mask, other)
        return _reversed(k, value) if where.back else value

    k.make(x.id, part, k.program.abi.view(view).alias)


def _reversed(k: Context, x: int) -> int:
    return k.b.op("Reverse", (), (x,), k.b.types[x])


def _row_bytes(k: Context, dims: tuple[str, ...], vector: str, size: int) -> int:
    """Bytes that a fragment holds of one row along its vector label."""
    return k.program.lanes(vector) * size if vector in dims else size


def _fetch_ahead(
    k: Context, view: str, ixs: tuple[Expr, ...], dims: tuple[str, ...], at: int, p: Mapping[str, int], vector: str, size: int
) -> None:
    """Where the loop around steps from row to row, and takes a piece of each: fetch the piece of a row that is so many steps ahead."""
    row = _row_bytes(k, dims, vector, size)
    if not (k.prefetch_bytes and k.loops and row >= FETCHED and p[vector] * size % LINE == 0):
        return
    axis, step = k.loops[-1].axis, step_parameter(k.loops[-1].label)
    chunk = k.program.bindings[step] if step else 1
    slopes = [slope(e, axis) for e in ixs]
    if slopes[-1] != Int(0) or any(s is None or any(a.op in ("coord", "dep") for a in atoms(s)) for s in slopes):
        return
    b, moving = k.b, k.b.const(0)
    for n, s in enumerate(slopes):
        if s is not None and s != Int(0):
            moving = b.bin("add", moving, _scaled(k, k.index(k.launch(s)), stride(k, view, n)))
    if b.known(moving) == 0:
        return
    ahead = max(1, -(-k.prefetch_bytes // (row * chunk)))
    b.prefetch(view, b.bin("add", at, b.bin("mul", moving, b.const(ahead * chunk))))


def _everywhere(k: Context, valid: int) -> bool:
    d = k.b.source(valid)
    return k.b.known(d) is True


def expand_store(k: Context, x: Store) -> None:
    """A store, part by part; an atomic operation, element by element."""
    k.force_class(k.program.abi.view(x.view).alias)
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
        if where.same and v:  # one lane may be active at most
            where = Address(where.at, "strided", b.const(0))
        value, mask = b.splat(value, w), b.splat(mask, w) if mask >= 0 else -1
        if where.back:
            value, mask = _reversed(k, value), _reversed(k, mask) if mask >= 0 else -1
        size = itemsize(b.types[value].dtype)
        flows = x.view in k.streams and where.access == "contiguous" and not where.back and mask < 0 and w * size >= STREAM_ALIGN
        flows = flows and x.ixs[-1] == Coord(axis_of(v)) and _row_bytes(k, dims, v, size) >= STREAMED
        b.write(x.view, where.at, value, where.access, where.stride, mask, flows)


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
