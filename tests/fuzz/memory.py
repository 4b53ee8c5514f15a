"""Productions of memory: loads by coordinates, gathers, stores of every kind, buffers."""

from __future__ import annotations

from typing import Any

from eqkir.kir import ops
from eqkir.kir.refs import MemoryRef
from eqkir.kir.values import Value
from tests.fuzz.state import ANY, FLOAT, INT, State, index_below, key, production, tail

SCATTER = ("add", "mul", "max", "min", "and", "or", "xor")


def coordinate(g: State, dim: Any) -> tuple[Value, Value | None]:
    """(coordinates, validity) along one extent."""
    k, i = g.k, g.k.indices(dim)
    last = k.value(dim) - 1
    return g.pick((
        lambda: (i, None), lambda: (i, None), lambda: (last - i, None), lambda: (i + 1, i + 1 < k.value(dim)), lambda: (i - 1, i >= 1),
        lambda: ((i * 2) % k.value(dim), None), lambda: (i // 2, None), lambda: (i, i % 2 == 1), lambda: (i * 2, i * 2 <= last),
    ))()  # fmt: skip


@production(4)
def load_at(g: State) -> Value:
    """A load through arithmetic on coordinates, masked where it could leave the view."""
    shape = g.shape(1)
    v = g.source(g.dtype(), shape)
    coords, valid = [], None
    for n, d in enumerate(shape):
        c, ok = coordinate(g, d)
        coords.append(c.reshape(d, *tail(shape, n)))
        if ok is not None:
            ok = ok.reshape(d, *tail(shape, n))
            valid = ok if valid is None else valid & ok
    fill = g.constant(v.dtype) if valid is not None and g.chance(0.5) else None
    return g.k.one(
        ops.Load, view=v.id, coords=tuple(c.id for c in coords), valid=valid.id if valid is not None else None,
        fill=fill.id if fill is not None else None,
    )  # fmt: skip


@production(2)
def load_by_index(g: State) -> Value:
    """Rows of a view that loaded indices name: taken as they are, masked, promised, or folded into range."""
    n, m = g.dim(), g.dim()
    inner = g.dim() if g.chance(0.4) else None
    v = g.source(g.dtype(), (n,) if inner is None else (n, inner))
    at = g.view("in", g.pick(("i32", "i64")), (m,))[:].cast("index")
    valid = None
    match g.pick(("plain", "masked", "promised", "folded")):
        case "masked":
            valid = (at >= 0) & (at < g.k.value(n))
        case "promised":
            at = v.assume_in_bounds(at, 0)
        case "folded":
            at = index_below(at, n)
            valid = at < g.k.value(n)
    coords: tuple[Value, ...] = (at,)
    if inner is not None:
        coords = (at[:, None], g.k.indices(inner))
        valid = valid[:, None] if valid is not None else None
    return v.load(coords, valid=valid)


@production(2)
def gather(g: State) -> Value:
    """Elements of a value by computed coordinates."""
    x = g.value(ANY, 1, 2)
    i = g.value(INT, 1, 1)
    coords = []
    for d in x.shape:
        coords.append(index_below(i, d))
    valid = None
    for c, d in zip(coords, x.shape, strict=True):  # of an empty axis nothing is read
        if not isinstance(d, int):
            ok = c < g.k.value(d)
            valid = ok if valid is None else valid & ok
    return x.gather(tuple(coords), valid=valid, fill=g.constant(x.dtype) if valid is not None else None)


# ------------------------------------------------------------------------------------------------ stores
def storable(g: State, x: Value) -> Value:
    """`x` with extents that a view may have: other axes are reduced."""
    odd = [a for a, d in enumerate(x.shape) if not g.plain((d,))]
    if odd:
        x = x.reduce("any" if x.dtype == "bool" else "max", odd) if not x.dtype.startswith("f8") else x.cast("f32").reduce("max", odd)
    while x.rank > 3:
        x = x.reduce("any" if x.dtype == "bool" else "min", 0) if not x.dtype.startswith("f8") else x.cast("f32").reduce("min", 0)
    return x


def sink(g: State, x: Value) -> None:
    """Store a value where its shape fits: a new output or one that is updated, plain or through coordinates."""
    x = storable(g, x)
    known = [v for v in g.views if v.view.role == "inout" and v.dtype == x.dtype and [*map(key, v.shape)] == [*map(key, x.shape)]]
    known = [v for v in known if v.id not in g.updated]
    v = g.pick(known) if known and g.chance(0.5) else g.view(g.pick(("out", "out", "out", "inout")), x.dtype, x.shape)
    k = g.k
    coords, valid = [], None
    for n, d in enumerate(v.shape):
        i = k.indices(d)
        if g.chance(0.2):
            i = k.value(d) - 1 - i
        coords.append(i.reshape(d, *tail(v.shape, n)))
        if g.chance(0.1):
            ok = (i % 2 == 0).reshape(d, *tail(v.shape, n))
            valid = ok if valid is None else valid & ok
    cls = ops.UniqueScatter if g.chance(0.1) else ops.Store
    k.emit(cls, 0, view=v.id, coords=tuple(c.id for c in coords), value=x.id, valid=valid.id if valid is not None else None)


@production(2, pure=False)
def store(g: State) -> None:
    """A store in the middle of the kernel: what comes after may read it."""
    if not g.outer():
        raise LookupError("stores of whole tensors stand outside")
    sink(g, g.value(ANY))


@production(1, pure=False)
def update_in_place(g: State) -> Value:
    """Read, change and store one view; then read it again, perhaps elsewhere."""
    if not g.outer():
        raise LookupError("stores of whole tensors stand outside")
    shape = g.shape(1, 2)
    v = g.view("inout", g.dtype((*FLOAT, "i32", "u8")), shape)
    at = (slice(None),) * len(shape)
    x = v[at]
    v[at] = g.k.binary(g.pick(("add", "mul", "maximum")), x, g.like(x))
    return v[at]


@production(2, pure=False)
def permuted_store(g: State) -> None:
    """A store through loaded indices that are distinct, declared so or not; some leave the view and are masked."""
    if not g.outer():
        raise LookupError("stores of whole tensors stand outside")
    n, m = g.dim(), g.dim()
    x = g.load(g.dtype(), (m,))
    out = g.view(g.pick(("out", "inout")), x.dtype, (n,))
    at = g.view("in", g.pick(("i32", "i64")), (m,))[:].cast("index")
    valid = (at >= 0) & (at < g.k.value(n))
    (out.unique_scatter if g.chance(0.8) else out.store)((at,), x, valid=valid)


@production(3, pure=False, wishes=[fn for fn in SCATTER if fn != "mul"])
def scatter_reduce(g: State) -> None:
    """Combine elements into a view; places coincide."""
    if not g.outer():
        raise LookupError("stores of whole tensors stand outside")
    fn = g.choose(SCATTER)
    bitwise = fn in ("and", "or", "xor")
    dtype = g.dtype(("i32", "u32", "i64", "u64", "i8", "u16") if bitwise else ("f32", "i32", "f64", "f16", "bf16", "i64", "u8"))
    n, x = g.dim(), g.value((dtype,), 1, 2)
    out = g.view("inout", dtype, (n,))
    g.updated.add(out.id)
    at = index_below(g.load("i32", x.shape) if g.plain(x.shape) and g.chance(0.6) else g.k.indices(x.shape[-1]), n)
    valid = at < g.k.value(n)
    out.scatter_reduce(fn, (at,), x if g.chance(0.8) else g.constant(dtype), valid=valid)


# ------------------------------------------------------------------------------------------------ buffers
def fill(g: State, b: MemoryRef, shape: tuple[Any, ...]) -> None:
    x = g.load(b.dtype, shape) if g.plain(shape) else g.constant(b.dtype)
    b[(slice(None),) * len(shape)] = x


@production(3, pure=False)
def buffer(g: State) -> Value:
    """Memory of the kernel: filled, written in part, and read at other places."""
    if not g.outer():
        raise LookupError("see `control`")
    shape = g.shape(1, 2)
    dtype = g.dtype((*FLOAT, "i32", "i64", "u8", "bool"))
    first = g.chance(0.6)
    init: Any = None
    if first:
        init = g.load(dtype, shape) if g.chance(0.5) else g.constant(dtype)
    b = g.k.buffer(dtype, shape, init)
    at = (slice(None),) * len(shape)
    if not first or g.chance(0.5):
        x = g.load(dtype, shape)
        b[at] = x if dtype == "bool" else g.k.binary(g.pick(("add", "maximum")), x, g.like(x))
    if g.chance(0.4):
        x = b[at]
        b[at] = ~x if dtype == "bool" else x + g.like(x)
    if g.chance(0.5):
        return b[at]
    coords = [(g.k.value(d) - 1 - g.k.indices(d)).reshape(d, *tail(shape, n)) for n, d in enumerate(shape)]
    return b.load(tuple(coords))
