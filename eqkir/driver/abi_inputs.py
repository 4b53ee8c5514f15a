"""Inputs for a program from its interface alone: what `eqkir run program.json` uses where there is no KIR."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eqkir.base.diagnostics import fail
from eqkir.base.dtypes import FLOATS, INTS, NUMPY
from eqkir.base.expr import evaluate
from eqkir.driver import codes
from eqkir.driver.shapes import check, check_memory
from eqkir.program.abi import Abi
from eqkir.program.interp import Buffer

Array = np.ndarray[Any, Any]


def buffers(abi: Abi, values: Mapping[str, Any], given: Mapping[str, Array], seed: int) -> tuple[dict[str, Any], dict[str, int]]:
    """Arguments by name and the extents. `values` pins symbols and scalars (default: small primes; 1), `given` holds arrays by view.

    Normal floats, small integers; outputs poisoned. Raises EqkirError EQK-RUN-INPUTS or EQK-RUN-SHAPE for what does not fit.
    """
    check(
        values,
        [s.name for s in abi.symbols] + [s.name for s in abi.scalars if s.dtype in INTS],
        [s.name for s in abi.scalars if s.dtype not in INTS],
    )
    rng = np.random.default_rng(seed)
    symbols = _symbols(abi, values, given)
    args: dict[str, Any] = {s.name: NUMPY[s.dtype].type(values.get(s.name, 1)) for s in abi.scalars}
    env = {**{s.name: int(args[s.name]) for s in abi.scalars if s.dtype not in FLOATS}, **symbols}
    views = [v for v in abi.views if v.role != "workspace"]
    shapes = {v.name: tuple(int(evaluate(e, lambda a: env[a.args[0]])) for e in v.shape) for v in views}
    check_memory((shapes[v.name], NUMPY[v.dtype].itemsize) for v in views)
    for v in views:
        shape = shapes[v.name]
        b = Buffer.dense(shape, NUMPY[v.dtype])
        if v.name in given:
            b.array()[...] = _fitting(v.name, given[v.name], shape, v.dtype)
        elif v.role == "out":
            b.array()[...] = np.nan if v.dtype in FLOATS else 1
        elif v.dtype in FLOATS:
            b.array()[...] = rng.standard_normal(shape).astype(NUMPY[v.dtype])
        else:
            b.array()[...] = rng.integers(0, 2 if v.dtype == "bool" else 9, shape).astype(NUMPY[v.dtype])
        args[v.name] = b
    return args, symbols


def _symbols(abi: Abi, values: Mapping[str, Any], given: Mapping[str, Array]) -> dict[str, int]:
    out: dict[str, int] = {}
    for v in abi.views:
        if v.name in given:
            if given[v.name].ndim != len(v.shape):
                raise fail(codes.INPUTS, f"{v.name} has rank {given[v.name].ndim}", accepted=f"rank {len(v.shape)}", stage="options")
            out |= {e.args[0]: n for e, n in zip(v.shape, given[v.name].shape, strict=True) if e.op == "sym"}
    primes = (5, 17, 7, 11)
    for i, s in enumerate(abi.symbols):
        n = values.get(s.name, out.get(s.name, -(-max(s.lo, primes[i % 4]) // s.multiple_of) * s.multiple_of))
        if isinstance(n, bool) or not isinstance(n, int):
            raise fail(codes.SHAPE, f"{s.name} = {n!r} is no integer", stage="options")
        out[s.name] = n
    return {s.name: out[s.name] for s in abi.symbols}


def _fitting(name: str, a: Array, shape: tuple[int, ...], dtype: str) -> Array:
    want = NUMPY[dtype]
    same_bits = a.dtype.kind == "u" and a.dtype.itemsize == want.itemsize and want.isbuiltin != 1
    if a.shape != shape or not (a.dtype == want or same_bits):
        raise fail(codes.INPUTS, f"{name}: {a.dtype}{list(a.shape)}", accepted=f"{dtype}{list(shape)}", stage="options")
    return a.view(want) if same_bits else a
