"""Loads and stores of an expansion: addresses as offsets, contiguous, strided or gathered along the vector label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eqkir.base.expr import Expr, Int, product
from eqkir.cpu.context import Context
from eqkir.cpu.layout import slope
from eqkir.cpu.model import INDEX, Type
from eqkir.program.abi import axis_of
from eqkir.program.model import Let, Store


@dataclass(frozen=True, slots=True)
class Address:
    """An element offset and how the lanes of a vector lie from it on; `same`: all lanes are one element."""

    at: int
    access: str = "contiguous"
    stride: int = -1
    same: bool = False


def stride(k: Context, view: str, axis: int) -> Expr | int:
    """The stride of an axis of a view: a launch expression for a workspace (dense), else the id of its index parameter."""
    v = k.program.abi.view(view)
    if v.role == "workspace":
        return product(v.shape[axis + 1 :])
    return k.b.op("Param", (f"stride({view},{axis})",), (), INDEX)


def _scaled(k: Context, x: int, by: Expr | int) -> int:
    y = k.launch(by) if isinstance(by, Expr) else by
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
    for n, (e, s) in enumerate(zip(ixs, slopes, strict=True)):
        st = stride(k, view, n)
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
    last = len(ixs) - 1
    if slopes[last] == Int(1) and all(s == Int(0) for s in slopes[:-1]):
        if k.program.abi.view(view).role == "workspace":
            return Address(at)
        if k.unit:
            k.assumed[view, last] = None
            return Address(at)
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
        return b.load(view, where.at, Type(dtype, w), where.access, where.stride, mask, other)

    k.make(x.id, part, k.program.abi.view(view).alias)


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
        b.write(x.view, where.at, b.splat(value, w), where.access, where.stride, b.splat(mask, w) if mask >= 0 else -1)


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
