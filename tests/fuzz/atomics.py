"""Productions of atomics: every operation, order and dtype, at places of one's own and at places that coincide."""

from __future__ import annotations

from eqkir.kir.refs import MemoryRef
from eqkir.kir.values import Value
from tests.fuzz.state import State, index_below, production

ORDERS = ("relaxed", "relaxed", "acquire", "release", "acq_rel")
UPDATES = ("add", "max", "min", "and", "or", "xor", "exchange")
KINDS = (*UPDATES, "load", "store", "compare")


def operand(g: State, dtype: str, i: Value | None) -> Value:
    """A value to combine: of a tensor at the point, or a number."""
    if i is None or g.chance(0.2):
        return g.constant(dtype)
    return g.load(dtype, (g.symbol("M"),)).gather((i,))


def one(g: State, out: MemoryRef, at: Value, value: Value, valid: Value | None) -> list[Value]:
    """One atomic operation on `out`; its results."""
    order = g.pick(ORDERS)
    kind = g.choose(KINDS)
    if out.dtype[0] == "f" and kind in ("and", "or", "xor"):
        kind = "add"
    if kind == "load":
        return [out.atomic_load((at,), valid=valid, order="acquire" if "acq" in order else "relaxed")]
    if kind == "store":
        out.atomic_store((at,), value, valid=valid, order="release" if "rel" in order and order != "relaxed" else "relaxed")
        return []
    if kind == "compare":
        return list(out.atomic_compare_exchange((at,), g.constant(out.dtype), value, valid=valid, order=order))
    return [out._atomic(kind, (at,), value, valid, order)]


@production(3, pure=False, wishes=KINDS)
def atomic_own(g: State) -> list[Value]:
    """Atomics of a whole tensor, each element at a place of its own; old values are used."""
    if not g.outer():
        raise LookupError("atomics of whole tensors stand outside")
    d = g.dim()
    bitwise = g.wish in ("and", "or", "xor")
    out = g.view("inout", g.pick(("i32", "u32", "i64", "u64", *(() if bitwise else ("f32",)))), (d,))
    g.updated.add(out.id)
    i = g.k.indices(d)
    if g.chance(0.3):
        i = g.k.value(d) - 1 - i
    valid = g.like(i, "bool") if g.chance(0.3) else None
    return one(g, out, i, g.load(out.dtype, (d,)), valid)


@production(3, pure=False, wishes=UPDATES[:-1])
def atomic_shared(g: State) -> None:
    """Relaxed updates at places that coincide; nobody reads the old values."""
    if not g.outer():
        raise LookupError("atomics of whole tensors stand outside")
    d, n = g.dim(), g.dim()
    fn = g.choose(UPDATES[:-1])
    out = g.view("inout", g.pick(("i32", "u32", "i64", *(() if fn in ("and", "or", "xor") else ("f32", "f64")))), (n,))
    g.updated.add(out.id)
    at = index_below(g.load("i32", (d,)), n)
    out._atomic(fn, (at,), g.load(out.dtype, (d,)), at < g.k.value(n), "relaxed")


@production(3, pure=False)
def atomic_points(g: State) -> None:
    """Atomics of parallel points, several in a row on one view; results are stored at the point."""
    if not g.outer():
        raise LookupError("see `control`")
    d, n = g.symbol("M"), g.dim()
    out = g.view("inout", g.pick(("i32", "u32", "i64", "f32")), (n,))
    g.updated.add(out.id)
    own = g.chance(0.5)
    index = g.load("i32", (d,))
    x = g.load(out.dtype, (d,))
    with g.k.parallel(d) as i, g.scope(i):
        at = i % g.k.value(n).maximum(1) if own else index_below(index.gather((i,)), n)
        for _ in range(g.pick((1, 1, 2))):
            made = one(g, out, at, x.gather((i,)) if g.chance(0.8) else g.constant(out.dtype), at < g.k.value(n))
            if made and g.chance(0.6):
                g.view("out", made[0].dtype, (d,))[i] = made[0]
