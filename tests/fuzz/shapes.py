"""Productions of shape: movement without arithmetic, coordinates, extents."""

from __future__ import annotations

from typing import Any

from eqkir.kir.values import Value
from tests.fuzz.state import ANY, FLOAT, INT, MAX_RANK, State, key, production


@production(3)
def transpose(g: State) -> Value:
    x = g.value(ANY, 2)
    return x.transpose(*g.rng.sample(range(x.rank), x.rank))


@production(2)
def broadcast(g: State) -> Value:
    x = g.value(ANY, 0, MAX_RANK - 1)
    if x.rank and g.chance(0.4):
        x = x[..., None] if x.rank == 1 else x[:, None]
        a = x.rank - 1 if x.rank == 2 else 1
        return x.broadcast_to((*x.shape[:a], g.dim(), *x.shape[a + 1 :]))
    return x.broadcast_to((g.dim(), *x.shape))


@production(3)
def reshape(g: State) -> Value:
    """Merge two axes, split off a factor, insert or drop ones."""
    x = g.value(ANY, 1)
    s = list(x.shape)
    a = g.rng.randrange(len(s))
    match g.pick(("merge", "split", "insert", "drop", "flat")):
        case "merge" if len(s) > 1 and a + 1 < len(s):
            return x.reshape((*s[:a], s[a] * s[a + 1], *s[a + 2 :]))
        case "split":
            flat = x.reshape(_count(s))
            two = g.pick((2, 3, 4))
            return flat.reshape((flat.shape[0] // two, two) if g.chance(0.5) else (two, flat.shape[0] // two))
        case "insert":
            return x.reshape((*s[:a], 1, *s[a:]))
        case "drop" if any(d == 1 for d in s):
            return x.reshape(tuple(d for d in s if key(d) != "1"))
    return x.reshape(_count(s))


def _count(shape: list[Any]) -> Any:
    n: Any = 1
    for d in shape:
        n = d if n == 1 else n if d == 1 else n * d
    return n


@production(1)
def regroup(g: State) -> Value:
    """The elements of a transposed tensor in the shape of the tensor itself."""
    x = g.value(ANY, 2, 2)
    return x.T.reshape(x.shape)


@production(1)
def two_halves(g: State) -> Value:
    """An even axis as pairs, turned round."""
    d = g.symbol(g.pick(("M", "N")))
    x = g.load(g.dtype(ANY), (d, g.pick((2, 4))))
    flat = x.reshape(d * x.shape[1])
    return flat.reshape(d * (x.shape[1] // 2), 2).T if g.chance(0.5) else flat


@production(2)
def join(g: State) -> Value:
    x = g.value(ANY, 0, MAX_RANK - 1)
    return x.join(g.like(x))


@production(1)
def full(g: State) -> Value:
    v = g.take(lambda x: x.rank == 0)
    return g.k.full(g.shape(), g.constant(g.dtype()) if v is None else v)


@production(2)
def coordinates(g: State) -> Value:
    """Indices of a domain, perhaps with a step or a begin, as numbers."""
    d = g.dim()
    i = g.k.indices(d)
    if g.chance(0.2):
        i = g.k.indices(g.k.domain(0, d, 2))
    return i.cast(g.dtype((*INT, "f32"))) if g.chance(0.5) else i * g.pick((1, 2, 3)) + g.pick((0, 1, -1))


@production(1)
def extent_value(g: State) -> Value:
    """The value of an extent."""
    d = g.symbol(g.pick(("M", "N", "K")))
    v = g.k.value(g.pick((d, d + 1, d * 2, d // 2)))
    return v.cast(g.pick(("f32", "i32", "i64"))) if g.chance(0.7) else v


@production(2)
def mask(g: State) -> Value:
    """A value behind a predicate on its coordinates: triangles, bands, parities, bounds."""
    x = g.value((*FLOAT, *INT), 1)
    k = g.k
    i = k.indices(x.shape[-1])
    j = k.indices(x.shape[-2])[:, None] if x.rank > 1 else k.const(g.pick((1, 2, 4)), "index")
    test = g.pick((
        lambda: i <= j, lambda: i > j, lambda: (i <= j) & (i + 2 > j), lambda: (i + j) % 2 == 0, lambda: i != j, lambda: i // 2 == j // 2,
        lambda: i < k.value(x.shape[-1]) - 1, lambda: ~(i < j) | (i == 0),
    ))()  # fmt: skip
    other = g.pick((0.0, 1.0, float("-inf"))) if x.dtype in FLOAT else g.pick((0, 1))
    return k.where(test, x, other)


@production(2)
def sliced(g: State) -> Value:
    """Part of a tensor value: a flip, a shift, a stride, a window, by coordinates."""
    x = g.value(ANY, 1)
    k = g.k
    a = g.rng.randrange(x.rank)
    coords: list[Value] = []
    valid = None
    for n, d in enumerate(x.shape):
        i = k.indices(d)
        last = k.value(d) - 1
        if n == a:
            match g.pick(("flip", "shift", "back", "stride", "half")):
                case "flip":
                    i = last - i
                case "shift":
                    i = i + 1
                    valid = (i <= last).reshape(d, *(1,) * (x.rank - 1 - n))
                case "back":
                    i = i - 1
                    valid = (i >= 0).reshape(d, *(1,) * (x.rank - 1 - n))
                case "stride":
                    i = (i * 2) % k.value(d)
                case "half":
                    i = i // 2
        coords.append(i.reshape(d, *(1,) * (x.rank - 1 - n)))
    fill = g.constant(x.dtype) if valid is not None and g.chance(0.5) else None
    return x.gather(tuple(coords), valid=valid, fill=fill)
