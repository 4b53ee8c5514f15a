"""Random KIR kernels: pointwise, shape and structured operations, index arithmetic, and stores with every kind of memory hazard."""

from __future__ import annotations

import random
from typing import Any

from eqkir.base.diagnostics import EqkirError
from eqkir.kir.builder import Builder, ViewRef
from eqkir.kir.model import Kernel
from eqkir.kir.values import Dim, Value

UNARY = ("neg", "abs", "tanh", "sqrt", "floor")
BINARY = ("add", "sub", "mul", "maximum", "minimum")


class Draw:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.k = Builder(f"random{seed}")
        self.dims: list[Any] = [*self.k.symbols("S", "N"), 2, 1]
        self.views: list[ViewRef] = []
        self.values: list[Value] = []
        self.floor = 0

    def pick(self, xs: Any) -> Any:
        return self.rng.choice(list(xs))

    def shape(self) -> tuple[Any, ...]:
        return tuple(self.pick(self.dims) for _ in range(self.pick((1, 1, 2, 2, 2, 3))))

    def build(self) -> Kernel:
        k, rng = self.k, self.rng
        for n in range(rng.randint(2, 4)):
            self.views.append(k.view(f"V{n}", "in" if n == 0 else "inout", "f32", self.shape()))
        if rng.random() < 0.7 and len(self.views) > 1:
            k.noalias(*self.views)
        elif rng.random() < 0.3 and len(self.views) > 2:
            k.noalias(*self.views[:2])
        stores = 0
        while stores < 1:
            for _ in range(rng.randint(1, 4)):
                self.block(rng.randint(2, 7))
                stores += self.store()
        return k.build()

    # ---------------------------------------------------------------- values
    def block(self, n: int) -> None:
        self.values.append(self.load())
        for _ in range(n):
            try:
                v = self.value()
            except (EqkirError, IndexError, ValueError):
                continue
            self.values.append(v)

    def coordinate(self, dim: Any) -> tuple[Value, Value | None]:
        """(coordinates, validity) along one dimension."""
        k, i = self.k, self.k.indices(dim)
        last = k.value(dim) - 1
        return self.pick((
            lambda: (i, None), lambda: (i, None), lambda: (last - i, None), lambda: (i + 1, i + 1 < k.value(dim)),
            lambda: (i - 1, i >= 1), lambda: ((i * 2) % k.value(dim), None), lambda: (i // 2, None), lambda: (i, i % 2 == 1),
        ))()  # fmt: skip

    def load(self, view: ViewRef | None = None) -> Value:
        v = view or self.pick(self.views)
        if self.rng.random() < 0.6:
            return v[(slice(None),) * len(v.shape)]
        coords, valid = [], None
        for n, d in enumerate(v.shape):
            c, ok = self.coordinate(d)
            ones = (1,) * (len(v.shape) - 1 - n)
            coords.append(c.reshape(d, *ones))
            if ok is not None:
                ok = ok.reshape(d, *ones)
                valid = ok if valid is None else valid & ok
        return self.k.one(
            self._load(), view=v.view.id, coords=tuple(c.id for c in coords), valid=valid.id if valid is not None else None, fill=None
        )

    @staticmethod
    def _load() -> Any:
        from eqkir.kir import ops

        return ops.Load

    def operand(self) -> Value:
        return self.pick(self.values[self.floor :][-6:])

    def value(self) -> Value:
        k, x = self.k, self.operand()
        y = self.operand()
        axis = self.rng.randrange(x.rank) if x.rank else 0
        return self.pick(
            (
                lambda: x.unary(self.pick(UNARY)),
                lambda: k.binary(self.pick(BINARY), x, y),
                lambda: k.binary(self.pick(BINARY), x, y),
                lambda: k.binary(self.pick(BINARY), x, self.pick((0.5, 2.0, -1.0))),
                lambda: x.transpose(*self.rng.sample(range(x.rank), x.rank)),
                lambda: x.reshape(self.merged(x)),
                lambda: x.reshape(*x.shape[:axis], 1, *x.shape[axis:]),
                lambda: x.reshape(tuple(d for d in x.shape if d != 1)),
                lambda: x.broadcast_to((self.pick(self.dims), *x.shape)),
                lambda: x.reduce(self.pick(("sum", "max", "min")), axis, self.pick((True, False))),
                lambda: x.reduce(self.pick(("sum", "max")), axis, True),
                lambda: x - x.max(axis=axis, keepdims=True),
                lambda: k.contract(x, y, [(axis, self.rng.randrange(y.rank))]),
                lambda: k.matmul(x, x.T) if x.rank == 2 else x,
                lambda: self.masked(x),
                lambda: x * k.indices(x.shape[-1]).cast("f32"),
                lambda: k.argmax(x, axis)[1].cast("f32"),
                lambda: self.load(),
                lambda: x.cast("bf16").cast("f32"),
                lambda: self.regrouped(x),
            )
        )()

    def merged(self, x: Value) -> tuple[Any, ...]:
        s = list(x.shape)
        if len(s) < 2:
            return (*s, 1)
        a = self.rng.randrange(len(s) - 1)
        d = s[a] * s[a + 1]
        return (*s[:a], d, *s[a + 2 :])

    def regrouped(self, x: Value) -> Value:
        """The same elements in another shape: merged, split in two where a constant factor is known, or turned round."""
        flat = x.reshape(self.merged(x))
        a = self.rng.randrange(flat.rank)
        turned = x.transpose(*reversed(range(x.rank)))
        s = turned.shape
        return self.pick(
            (
                lambda: flat.reshape(*flat.shape[:a], 2, flat.shape[a] // 2, *flat.shape[a + 1 :]),
                lambda: flat.reshape(*flat.shape[:a], flat.shape[a] // 2, 2, *flat.shape[a + 1 :]),
                lambda: turned.reshape(self.merged(turned)).reshape(x.shape),
                lambda: x.reshape(s),
            )
        )()

    def masked(self, x: Value) -> Value:
        k = self.k
        i = k.indices(x.shape[-1])
        j = k.indices(x.shape[-2]).reshape(x.shape[-2], 1) if x.rank > 1 else k.const(1, "index")
        test = self.pick((lambda: i <= j, lambda: (i + j) % 2 == 0, lambda: ~(i < j) | (i == 0), lambda: i // 2 > j - 1))()
        return k.where(test, x, self.pick((0.0, 1.0)))

    # ---------------------------------------------------------------- stores
    def store(self) -> int:
        k = self.k
        targets = [v for v in self.views if v.view.role != "in"]
        self.rng.shuffle(targets)
        for v in targets:
            if self.rng.random() < 0.2 and self.parallel(v):
                return 1
            rank = len(v.shape)
            fits = [
                x
                for x in self.values
                if x.rank <= rank and all(a == 1 or self.same(a, b) for a, b in zip(x.shape[::-1], v.shape[::-1], strict=False))
            ]
            if not fits:
                continue
            coords, valid = [], None
            for n, d in enumerate(v.shape):
                i = k.indices(d)
                c = self.pick((lambda: i, lambda: i, lambda: i, lambda: k.value(d) - 1 - i))()  # noqa: B023
                ones = (1,) * (rank - 1 - n)
                coords.append(c.reshape(d, *ones))
                if self.rng.random() < 0.15:
                    ok = (i % 2 == 0).reshape(d, *ones)
                    valid = ok if valid is None else valid & ok
            from eqkir.kir import ops

            k.emit(ops.Store, 0, view=v.view.id, coords=tuple(c.id for c in coords), value=self.pick(fits[-3:]).id,
                   valid=valid.id if valid is not None else None)  # fmt: skip
            return 1
        return 0

    def parallel(self, v: ViewRef) -> bool:
        """Rows of a view of rank 2 in unordered points."""
        if len(v.shape) != 2:
            return False
        inner = [u for u in self.views if len(u.shape) == 2 and self.same(u.shape[0], v.shape[0])]
        u = self.pick(inner)
        keep, self.values, self.floor = self.values, list(self.values), 0
        with self.k.parallel(v.shape[0]) as m:
            row = u[m, :]
            self.values = [x for x in self.values if x.rank == 0] + [row]
            for _ in range(3):
                try:
                    self.values.append(self.value())
                except (EqkirError, IndexError, ValueError):
                    continue
            fits = [x for x in self.values if x.rank == 0 or (x.rank == 1 and (x.shape[0] == 1 or self.same(x.shape[0], v.shape[1])))]
            v[m, :] = self.pick(fits) if fits else 1.5
            if self.rng.random() < 0.5:
                v[m, :] = v[m, :] * 2.0
        self.values, self.floor = keep, 0
        return True

    def same(self, a: Any, b: Any) -> bool:
        a, b = (x.json if isinstance(x, Dim) else x for x in (a, b))
        return bool(a == b)


def draw(seed: int) -> Kernel:
    """The kernel of a seed."""
    return Draw(seed).build()
