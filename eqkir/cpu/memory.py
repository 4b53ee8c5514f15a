"""Loads and stores of an expansion: addresses as offsets, contiguous (forwards or backwards), strided or gathered along the vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eqkir.base.dtypes import itemsize
from eqkir.base.expr import Coord, Expr, Int
from eqkir.cpu.ahead import fetch_ahead, row_bytes, scaled, stride
from eqkir.cpu.context import Context, Flow
from eqkir.cpu.layout import slope
from eqkir.cpu.model import STREAM_ALIGN, Type
from eqkir.program.abi import axis_of
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


#: least bytes of a fragment's row that may be stored past the caches
STREAMED = 128


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
            each = scaled(k, k.index(vectors(e)), st)
            lanes = each if lanes < 0 else b.bin("add", *k.level(lanes, each))
            continue
        at = b.bin("add", at, scaled(k, k.index(scalars(e)), st))
        if s != Int(0):
            moving = b.bin("add", moving, scaled(k, k.index(scalars(s)), st))
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
            fetch_ahead(k, Flow(view, ixs, k.program.lane_dims(x.dims), itemsize(dtype)), where.at, p, v)
        value = b.load(view, where.at, Type(dtype, w), where.access, where.stride, mask, other)
        return _reversed(k, value) if where.back else value

    k.make(x.id, part, k.program.abi.view(view).alias)


def _reversed(k: Context, x: int) -> int:
    return k.b.op("Reverse", (), (x,), k.b.types[x])


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
        flows = flows and x.ixs[-1] == Coord(axis_of(v)) and row_bytes(k, dims, v, size) >= STREAMED
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
