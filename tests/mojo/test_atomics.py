"""Atomic operations of every mode and dtype: old values, bits, masks, and no lost update with several threads."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from eqkir.base.dtypes import FLOATS, NUMPY
from eqkir.emit.mojo import atomics, ops, toolchain
from eqkir.kir import elementwise as E
from tests.mojo.opsuite import DTYPES, functions

pytestmark = [pytest.mark.compile, pytest.mark.skipif(not toolchain.available(), reason="no Mojo compiler")]
PAIRS = [(m, d) for m in atomics.MODES for d in DTYPES if not (m in ("and", "or", "xor") and d in FLOATS or m == "add" and d == "bool")]
WORD = "Pointer[Scalar[{}], MutAnyOrigin](unsafe_from_address=w[unsafe_offset={}])"


def body(mode: str, dtype: str) -> list[str]:
    """Words: elements, operands, expected values, masks, old values, offsets; n points in order."""
    memory = "DType.uint8" if dtype == "bool" else ops.mojo_dtype(dtype)
    lines = [f"    var {n} = {WORD.format(memory, k)}" for k, n in enumerate(("e", "v", "x"))]
    lines += [f"    var {n} = {WORD.format(t, k)}" for k, n, t in ((3, "m", "DType.bool"), (4, "o", memory), (5, "at", "DType.int64"))]

    def read(p: str) -> str:
        v = f"{p}.unsafe_load[width=1](i)"
        return f"eqk_ne[DType.uint8, 1]({v}, SIMD[DType.uint8, 1](0))" if dtype == "bool" else v

    old = atomics.atomic(mode, dtype, "e", "at.unsafe_load[width=1](i)", read("v"), read("x"), "m.unsafe_load[width=1](i)")
    stored = f"({old}).cast[DType.uint8]()" if dtype == "bool" else old
    return [*lines, "    for i in range(n):", f"        o.unsafe_store(i, {stored})"]


@pytest.fixture(scope="module")
def compiled() -> dict[Any, Any]:
    return functions({p: body(*p) for p in PAIRS})


def run(f: Any, *arrays: np.ndarray[Any, Any]) -> None:
    words = np.array([a.ctypes.data for a in arrays], np.uint64)
    f(words.ctypes.data, arrays[1].size)


def sample(dtype: str, n: int, seed: int) -> np.ndarray[Any, Any]:
    r = np.random.default_rng(seed)
    if dtype == "bool":
        return r.integers(0, 2, n).astype(np.bool_)
    if dtype in FLOATS:
        x = np.round(r.standard_normal(n) * 4).astype(NUMPY[dtype])
        x[:: max(1, n // 5)] = NUMPY[dtype].type(np.nan)
        return x
    return np.frombuffer(r.bytes(n * NUMPY[dtype].itemsize), NUMPY[dtype]).copy()


@pytest.mark.parametrize("mode, dtype", PAIRS)
def test_one_after_another(compiled: dict[Any, Any], mode: str, dtype: str) -> None:
    n = 60
    elements, values = sample(dtype, 7, 1), sample(dtype, n, 2)
    r = np.random.default_rng(3)
    at, mask = r.integers(0, 7, n), r.integers(0, 4, n) > 0
    expected = np.where(r.integers(0, 2, n) > 0, elements[at], sample(dtype, n, 4)).astype(NUMPY[dtype])
    want, old = elements.copy(), np.zeros(n, NUMPY[dtype])
    with np.errstate(all="ignore"):
        for i in range(n):
            if not mask[i]:
                continue
            before = want[at[i] : at[i] + 1].copy()
            old[i : i + 1] = before if mode != "put" else 0
            new = values[i : i + 1]
            if mode == "compare_exchange":
                new = new if before.tobytes() == expected[i : i + 1].tobytes() else before
            elif mode == "get":
                new = before
            elif mode in atomics._COMBINE:
                fn = atomics._COMBINE[mode]
                if dtype == "bool" and fn in ("maximum", "minimum"):
                    fn = "or" if fn == "maximum" else "and"
                new = E.binary(fn, before, new)
            want[at[i] : at[i] + 1] = new
    got_old = np.ones(n, NUMPY[dtype])
    run(compiled[mode, dtype], elements, values, expected, mask, got_old, at)

    def same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
        if dtype in FLOATS and mode in ("add", "max", "min"):
            return np.array_equal(a.astype(np.float64), b.astype(np.float64), equal_nan=True)
        return a.tobytes() == b.tobytes()

    assert same(got_old, old) and same(elements, want)


@pytest.mark.parametrize("mode, dtype", [p for p in PAIRS if p[0] in ("add", "max", "xor", "or")])
def test_no_update_is_lost(compiled: dict[Any, Any], mode: str, dtype: str) -> None:
    n = 4000
    element = np.zeros(1, NUMPY[dtype])
    values = np.ones(n, NUMPY[dtype]) if dtype in FLOATS or dtype == "bool" else np.arange(n).astype(NUMPY[dtype])
    if dtype in FLOATS and mode == "max":
        values = (np.arange(n) % 13).astype(NUMPY[dtype])
    ones, at = np.ones(n, np.bool_), np.zeros(n, np.int64)
    arguments = [(element, values, values, ones, np.zeros(n, NUMPY[dtype]), at) for _ in range(4)]
    ts = [threading.Thread(target=run, args=(compiled[mode, dtype], *a)) for a in arguments]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    want = np.zeros(1, NUMPY[dtype])
    with np.errstate(all="ignore"):
        for v in np.concatenate([a[1] for a in arguments]).reshape(-1, 1):
            fn = atomics._COMBINE[mode]
            want = E.binary("or" if dtype == "bool" and fn == "maximum" else fn, want, v)
    assert element[0] == want[0]


def test_what_does_not_exist_is_refused() -> None:
    for mode, dtype in (("and", "f32"), ("mul", "i32"), ("add", "bool")):
        with pytest.raises(ops.Unsupported):
            atomics.atomic(mode, dtype, "p", "i", "v")
