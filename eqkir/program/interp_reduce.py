"""Reductions and contractions of fragments. Any order is legal; the reducer has three, so that nothing may depend on one."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqkir.base.dtypes import NUMPY, parse
from eqkir.program import interp_scalar as S
from eqkir.program.interp_memory import Array
from eqkir.program.model import Region

ORDERS = ("tree", "reversed", "sequential")


def _at(x: Array, axis: int, s: Any) -> Array:
    return x[(slice(None),) * axis + (s,)]


class Reducer:
    """`order`: ``tree`` pairwise, ``reversed`` pairwise from the end, ``sequential`` left to right."""

    def __init__(self, order: str = "tree") -> None:
        self.order = order

    def reduce(self, fn: str, x: Array, axis: int, dtype: str, active: Array | None) -> Array:
        """`x` without `axis`; inactive members do not count; empty gives the identity."""
        neutral = S.identity(fn, dtype)
        if active is not None:
            x = np.where(active, x, neutral)
        if x.shape[axis] == 0:
            return np.full(x.shape[:axis] + x.shape[axis + 1 :], neutral, NUMPY[dtype])
        (y,) = self._fold((x,), axis, lambda a, b: (S.combine(fn, a[0], b[0], dtype),))
        return y

    def reduce_n(
        self, region: Region, xs: tuple[Array, ...], idents: list[Array], axis: int, active: Array | None, has_identity: bool
    ) -> tuple[Array, ...]:
        """Generic reduction of a tuple over `axis`."""
        if has_identity and active is not None:
            xs = tuple(np.where(active, x, i) for x, i in zip(xs, idents, strict=True))
        shape = np.broadcast_shapes(*(x.shape for x in xs))
        xs = tuple(np.broadcast_to(x, shape) for x in xs)
        if shape[axis] == 0:
            return tuple(np.broadcast_to(_at(i, axis, 0), shape[:axis] + shape[axis + 1 :]) for i in idents)
        return self._fold(xs, axis, lambda a, b: self.apply(region, a, b))

    def scan(self, fn: str, x: Array, axis: int, dtype: str) -> Array:
        """Inclusive forward scan along `axis`; what lies behind the last active member does not reach the members before it."""
        (y,) = self._prefixes((x,), axis, lambda a, b: (S.combine(fn, a[0], b[0], dtype),))
        return y

    def scan_n(self, region: Region, xs: tuple[Array, ...], axis: int) -> tuple[Array, ...]:
        """Generic inclusive forward scan."""
        shape = np.broadcast_shapes(*(x.shape for x in xs))
        return self._prefixes(tuple(np.broadcast_to(x, shape) for x in xs), axis, lambda a, b: self.apply(region, a, b))

    def _prefixes(self, xs: tuple[Array, ...], axis: int, f: Any) -> tuple[Array, ...]:
        """All prefixes, in order; by doubling (Hillis and Steele 1986), or one by one for the order ``sequential``."""
        n, d = xs[0].shape[axis], 1
        if self.order == "sequential":
            parts = [tuple(_at(x, axis, slice(0, 1)) for x in xs)]
            for k in range(1, n):
                parts.append(f(parts[-1], tuple(_at(x, axis, slice(k, k + 1)) for x in xs)))
            return tuple(np.concatenate([p[i] for p in parts], axis) for i in range(len(xs)))
        while d < n:
            ys = f(tuple(_at(x, axis, slice(0, n - d)) for x in xs), tuple(_at(x, axis, slice(d, n)) for x in xs))
            xs = tuple(np.concatenate([_at(x, axis, slice(0, d)), y], axis) for x, y in zip(xs, ys, strict=True))
            d *= 2
        return xs

    def _fold(self, xs: tuple[Array, ...], axis: int, f: Any) -> tuple[Array, ...]:
        if self.order == "reversed":
            xs = tuple(_at(x, axis, slice(None, None, -1)) for x in xs)
        n = xs[0].shape[axis]
        if self.order == "sequential":
            acc = tuple(_at(x, axis, 0) for x in xs)
            for k in range(1, n):
                acc = f(acc, tuple(_at(x, axis, k) for x in xs))
            return acc
        while n > 1:
            h = n // 2
            ys = f(tuple(_at(x, axis, slice(0, 2 * h, 2)) for x in xs), tuple(_at(x, axis, slice(1, 2 * h, 2)) for x in xs))
            xs = tuple(np.concatenate([y, _at(x, axis, slice(2 * h, n))], axis) for x, y in zip(xs, ys, strict=True)) if n % 2 else ys
            n = h + n % 2
        return tuple(_at(x, axis, 0) for x in xs)

    def apply(self, region: Region, left: tuple[Array, ...], right: tuple[Array, ...]) -> tuple[Array, ...]:
        """The combine function on whole arrays."""
        env: dict[int, Array] = {}
        dtypes: dict[int, str] = {}
        for x in region.body:
            dtypes[x.id] = x.dtype
            args = [env[a] for a in x.args]
            match x.op:
                case "Arg":
                    env[x.id] = (left if x.attrs[0] == "l" else right)[x.attrs[1]]
                case "Const":
                    env[x.id] = np.asarray(parse(x.attrs[0], x.dtype)).astype(NUMPY[x.dtype])
                case "Un":
                    env[x.id] = S.unary(x.attrs[0], args[0], dtypes[x.args[0]])
                case "Bin":
                    env[x.id] = S.binary(x.attrs[0], args[0], args[1], dtypes[x.args[0]])
                case "Tri" if x.attrs[0] == "select":
                    env[x.id] = np.where(args[0], args[1], args[2])
                case "Tri":
                    env[x.id] = S.fma(args[0], args[1], args[2], x.dtype)
                case "Cast":
                    env[x.id] = S.cast(args[0], dtypes[x.args[0]], x.dtype)
                case "Bitcast":
                    env[x.id] = S.bitcast(args[0], x.dtype)
                case "Index":
                    env[x.id] = _index(x.attrs[0], args).astype(NUMPY[x.dtype])
        shape = np.broadcast_shapes(*(v.shape for v in (*left, *right)))
        return tuple(np.broadcast_to(env[y], shape) for y in region.yields)

    def contract(self, a: Array, b: Array, shared: int, free_a: int, bound: bool, dtype: str, active: Array | None) -> Array:
        """``out[n, s…, x…, y…] = sum_k a[n, s…, x…, k] * b[n, s…, y…, k]`` in `dtype`; without `bound` there is no k (one product).

        `active` is over k; inactive members count nothing. Products are exact where they fit the dtype, sums round in it.
        """
        free_b = b.ndim - 1 - shared - int(bound)
        if not bound:
            return S.binary("mul", _lift(a, shared + free_a, free_b), _lift(b, shared, free_a), dtype)
        if active is not None:
            keep = np.broadcast_to(active, (1, a.shape[-1])).reshape(-1)
            a, b = a[..., keep], b[..., keep]
        k = a.shape[-1]
        if dtype in ("f32", "f64") and self.order == "tree" and k and np.isfinite(a).all() and np.isfinite(b).all():
            return _matmul(a, b, shared)
        lifts = ((a, shared + free_a, free_b), (b, shared, free_a))
        steps = range(k - 1, -1, -1) if self.order == "reversed" else range(k)
        ones = np.ones(1, np.bool_)
        shape = np.broadcast_shapes(*(_lift(np.broadcast_to(ones, x.shape[:-1]), n, m).shape for x, n, m in lifts))
        out = np.zeros(shape, NUMPY[dtype])
        for i in steps:
            x, y = _lift(a[..., i], shared + free_a, free_b), _lift(b[..., i], shared, free_a)
            out = S.binary("add", out, S.binary("mul", x, y, dtype), dtype)
        return out


def _matmul(a: Array, b: Array, shared: int) -> Array:
    head_a, head_b, k = a.shape[: 1 + shared], b.shape[: 1 + shared], a.shape[-1]
    fa, fb = a.shape[1 + shared : -1], b.shape[1 + shared : -1]
    y: Array = np.matmul(a.reshape(*head_a, -1, k), np.swapaxes(b.reshape(*head_b, -1, k), -1, -2))
    return y.reshape(*y.shape[: 1 + shared], *fa, *fb)


def _lift(x: Array, at: int, n: int) -> Array:
    """`n` axes of size 1 inserted behind the first 1 + `at`."""
    return x.reshape(x.shape[: 1 + at] + (1,) * n + x.shape[1 + at :])


def _index(e: Any, deps: list[Array]) -> Array:
    from eqkir.base.expr import evaluate

    return np.asarray(evaluate(e, lambda a: deps[a.args[0]].astype(np.int64)))
