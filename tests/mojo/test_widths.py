"""What the library computes by instructions of whole registers: the same bits at every width, and the reference's where it is exact."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from eqkir.base.dtypes import NUMPY
from eqkir.emit.mojo import ops, toolchain
from tests.mojo.opsuite import Case, functions
from tests.mojo.test_accuracy import TABULATED
from tests.mojo.test_operations import different, reference, values

pytestmark = [pytest.mark.compile, pytest.mark.skipif(not toolchain.available(), reason="no Mojo compiler")]
Array = np.ndarray[Any, Any]
WIDTHS = (1, 4, 8, 16, 32)
EXTREMES = [Case("Bin", (fn,), (d, d), d) for fn in ("maximum", "minimum") for d in ("f32", "f64")]
NARROWING = [Case("Cast", ("bf16",), ("f32",), "bf16")]
PIECES = [Case("Un", (fn,), ("f32",), "f32") for fn in TABULATED]
CASES = [*EXTREMES, *NARROWING, *PIECES]


def loop(case: Case, width: int) -> list[str]:
    """The body of a function of the words ``args…, result`` and a number of elements."""
    lines = []
    for k, d in enumerate((*case.args, case.dtype)):
        pointer = f"Pointer[Scalar[{ops.mojo_dtype(d)}], MutAnyOrigin]"
        lines.append(f"    var p{k} = {pointer}(unsafe_from_address=w[unsafe_offset={k}])")
    lines += ["    var i = 0", "    while i < n:"]
    lines += [f"        var a{k} = p{k}.unsafe_load[width={width}](i)" for k in range(len(case.args))]
    e = ops.expression(case.op, case.attrs, [f"a{k}" for k in range(len(case.args))], case.args, case.dtype, width)
    return [*lines, f"        p{len(case.args)}.unsafe_store(i, {e})", f"        i += {width}"]


@pytest.fixture(scope="module")
def compiled() -> dict[Any, Any]:
    return functions({(c, w): loop(c, w) for c in CASES for w in WIDTHS})


def operands(case: Case) -> list[Array]:
    """Borders, subnormal numbers, NaNs of both kinds and ordinary numbers, each beside all kinds of others; a whole number of registers."""
    x, r = values(case.args[0]), np.random.default_rng(3)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], x.dtype)
    signalling = (np.array([np.inf], x.dtype).view(f"u{x.dtype.itemsize}") + 1).view(x.dtype)
    pairs = np.array([(a, b) for a in (*special, signalling[0]) for b in (*special, signalling[0])], x.dtype)
    mixed = r.permutation(np.concatenate([x, np.repeat(special, 500)]))
    columns = [np.concatenate([pairs[:, k], x, r.permutation(mixed)]) for k in range(2)]
    size = columns[0].size // 64 * 64
    return [np.ascontiguousarray(c[:size]) for c in columns[: len(case.args)]]


def run(f: Any, case: Case, xs: list[Array]) -> Array:
    out = np.zeros(xs[0].shape, NUMPY[case.dtype])
    words = (ctypes.c_int64 * (len(xs) + 1))(*(a.ctypes.data for a in (*xs, out)))
    f(ctypes.addressof(words), xs[0].size)
    return out


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_width_changes_no_bit(compiled: dict[Any, Any], case: Case) -> None:
    xs = operands(case)
    want = run(compiled[case, 16], case, xs)
    with np.errstate(all="ignore"):
        for w in WIDTHS:
            assert not different(run(compiled[case, w], case, xs), want, case.dtype).any(), w


@pytest.mark.parametrize("case", [*EXTREMES, *NARROWING], ids=str)
def test_whole_registers_are_exact(compiled: dict[Any, Any], case: Case) -> None:
    """NaN propagates, the sign of a zero counts, and subnormal numbers are kept."""
    xs = operands(case)
    with np.errstate(all="ignore"):
        want = reference(case, xs)
        assert not different(run(compiled[case, 16], case, xs), want, case.dtype).any()


@pytest.mark.slow
def test_all_of_f32_to_bf16(compiled: dict[Any, Any]) -> None:
    case, part = NARROWING[0], 1 << 24
    for start in range(0, 1 << 32, part):
        x = np.arange(start, start + part, dtype=np.uint32).view(np.float32)
        with np.errstate(all="ignore"):
            want = x.astype(NUMPY["bf16"])
        assert not different(run(compiled[case, 16], case, [x]), want, "bf16").any(), hex(start)
