"""Kernels written as plain data, and exact rounding to compare with."""

from __future__ import annotations

import bisect
import json
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.base.dtypes import NUMPY
from eqkir.kir.envelope import Envelope, compare, envelope
from eqkir.kir.memory import ViewArg, clone
from eqkir.kir.model import Kernel
from eqkir.kir.reference import Choices, run


def kernel(params: list[dict[str, Any]], body: list[dict[str, Any]], symbols: str = "", **more: Any) -> Kernel:
    """A kernel from dicts; `symbols` are space separated names."""
    d = {"name": "k", "symbols": [{"id": s} for s in symbols.split()], "params": params, "body": body, **more}
    return Kernel.model_validate_json(json.dumps(d))


def view(name: str, role: str, dtype: str, *shape: int | str) -> dict[str, Any]:
    return {"kind": "view", "id": name, "role": role, "dtype": dtype, "shape": list(shape)}


def op(name: str, results: str = "", /, **fields: Any) -> dict[str, Any]:
    return {"op": name, "results": results.split(), **fields}


def indices(shape: list[Any]) -> list[dict[str, Any]]:
    """Coordinates ``i0 i1 …`` of a whole tensor, each shaped to broadcast to `shape`."""
    out = []
    for k, e in enumerate(shape):
        out += [op("domain", f"d{k}", end=e), op("indices", f"j{k}", domain=f"d{k}")]
        out.append(op("reshape", f"i{k}", x=f"j{k}", shape=[e if a == k else 1 for a in range(len(shape))]))
    return out


def whole(
    ins: dict[str, str], out: tuple[str, list[Any]], body: list[dict[str, Any]], result: str, shape: list[Any], symbols: str
) -> Kernel:
    """Load every input whole (as ``x_NAME``), run `body`, store `result` to Y of (dtype, shape)."""
    coords = [f"i{k}" for k in range(len(shape))]
    params = [view(n, "in", d, *shape) for n, d in ins.items()] + [view("Y", "out", out[0], *out[1])]
    loads = [op("load", f"x_{n}", view=n, coords=coords) for n in ins]
    back = [{**o, "results": [f"o_{r}" for r in o["results"]]} for o in indices(out[1])]
    for o in back:
        for f in ("domain", "x"):
            if f in o:
                o[f] = f"o_{o[f]}"
    store = op("store", view="Y", coords=[f"o_i{k}" for k in range(len(out[1]))], value=result)
    return kernel(params, [*indices(shape), *loads, *body, *back, store], symbols)


def pointwise(ins: dict[str, str], out: str, body: list[dict[str, Any]], result: str) -> Kernel:
    """One-dimensional whole-tensor kernel over N elements."""
    return whole(ins, (out, ["N"]), body, result, ["N"], "N")


def call(k: Kernel, out: str = "Y", shape: tuple[int, ...] | None = None, **arrays: Any) -> Any:
    """Run on contiguous copies and return the output array."""
    dtype = next(p.dtype for p in k.params if p.id == out)  # type: ignore[union-attr]
    first = next(iter(arrays.values()))
    y = ViewArg.of(np.zeros(first.shape if shape is None else shape, NUMPY[dtype]))
    run(k, {**{n: ViewArg.of(a) for n, a in arrays.items()}, out: y})
    return y.array()


ORDERS = ("plain", "forward", "reversed", "pairwise")


def within(k: Kernel, args: dict[str, Any], *choices: Choices) -> dict[str, Envelope]:
    """Assert that every choice (default: every order) lies within; the envelope."""
    e = envelope(k, args)
    for c in choices or [Choices(o) for o in ORDERS]:  # type: ignore[arg-type]
        copy = clone(args)
        run(k, copy, choices=c)
        verdict = compare(e, copy)  # type: ignore[arg-type]
        assert verdict.ok, (c, verdict)
    return e


def region(args: str, body: list[dict[str, Any]], yields: str = "") -> dict[str, Any]:
    """A region; `args` are ``name:dtype`` (default index)."""
    parts = [a.split(":") for a in args.split()]
    return {"args": [{"id": p[0], "dtype": p[1] if len(p) > 1 else "index"} for p in parts], "body": body, "yields": yields.split()}


def constant(name: str, dtype: str, value: Any) -> dict[str, Any]:
    return op("constant", name, dtype=dtype, value=value)


def refuses(code: str) -> Any:
    """A context that expects exactly the diagnosis EQK-REF-`code`."""
    return pytest.raises(EqkirError, match=f"EQK-REF-{code}:")


def nearest(x: Fraction, dtype: str) -> float:
    """`x` rounded to nearest even on a 16- or 8-bit float dtype, from a list of all its values (overflow to infinity)."""
    values = _finite(dtype)
    top, step = values[-1], values[-1] - values[-2]
    k = bisect.bisect_left(values, float(x))
    cells = values[max(k - 2, 0) : k + 2] + ([top + step] if k + 2 > len(values) else []) + ([-top - step] if k < 2 else [])
    best = min(abs(Fraction(v) - x) for v in cells)
    ties = [v for v in cells if abs(Fraction(v) - x) == best]
    if len(ties) > 1:  # even last bit: the quotient by the smaller spacing is even
        spacing = Fraction(max(ties)) - Fraction(min(ties))
        ties = [v for v in ties if (Fraction(v) / spacing) % 2 == 0]
    return ties[0] if abs(ties[0]) <= top else float(np.copysign(np.inf, ties[0]))


@lru_cache
def _finite(dtype: str) -> list[float]:
    width = NUMPY[dtype].itemsize
    every = np.arange(256**width, dtype=np.uint32).astype(f"u{width}").view(NUMPY[dtype])
    with np.errstate(all="ignore"):
        wide = every.astype(np.float64)
    return [float(v) for v in np.unique(wide[np.isfinite(wide)])]
