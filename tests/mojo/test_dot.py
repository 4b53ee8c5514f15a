"""Four products of bytes an instruction, against integers of 64 bits, for every width."""

from __future__ import annotations

import ctypes
import random
from pathlib import Path

import numpy as np
import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.emit.mojo.artifact import emit
from eqkir.emit.mojo.build import Module, build
from eqkir.emit.mojo.call import Launch
from eqkir.targets import CpuTarget, load_target
from eqkir.targets.cpu import host_level

from ..cpu.test_dot4 import chain, product

pytest.importorskip("mojo")
VNNI = bool(host_level()) and "avx512_vnni" in load_target("mojo:native").features  # type: ignore[union-attr]
pytestmark = pytest.mark.skipif(not VNNI, reason="no such instruction here")
WIDTHS = (16, 8, 4, 2, 1)


def text(w: int) -> str:
    return f"""
@export
def kt_go(ctx: Int, lo: Int, hi: Int) abi("C"):
    var p = Pointer[Scalar[DType.int32], MutAnyOrigin](unsafe_from_address=ctx)
    p.unsafe_store(48, eqk_dot4[{w}](p.unsafe_load[width={w}](0), p.unsafe_load[width={w}](16), p.unsafe_load[width={w}](32)))
"""


def test_the_helper_at_every_width(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for w, m in zip(WIDTHS, build([Module(f"dot{w}", text(w)) for w in WIDTHS], "native", folder=tmp_path), strict=True):
        assert not isinstance(m, EqkirError), m
        f = getattr(ctypes.CDLL(str(m.library)), m.symbol("kt_go"))
        f.argtypes, f.restype = [ctypes.c_int64] * 3, None
        x = rng.integers(-(1 << 31), 1 << 31, 64).astype(np.int32)
        f(x.ctypes.data, 0, 1)
        a, b = x[16 : 16 + w].view(np.uint8).reshape(w, 4).astype(np.int64), x[32 : 32 + w].view(np.int8).reshape(w, 4).astype(np.int64)
        want = (x[:w].astype(np.int64) + (a * b).sum(1)).astype(np.uint64).astype(np.uint32).view(np.int32)
        assert np.array_equal(x[48 : 48 + w], want), w


def test_a_product_of_bytes_is_exact_for_any_extents_and_strides(tmp_path: Path) -> None:
    c = chain(product())
    assert isinstance(c.target, CpuTarget)
    artifact = emit(c.program, c.target)
    (built,) = build([artifact.module], "native", folder=tmp_path)
    assert not isinstance(built, EqkirError), built
    rng = np.random.default_rng(1)
    for m, n, k in ((1, 1, 1), (9, 33, 5), (37, 65, 63), (8, 32, 4), (2, 31, 0), (40, 70, 129)):
        b, y = rng.integers(-128, 128, (k, n)).astype(np.int8), np.zeros((m, n), np.int32)
        rows = rng.integers(-128, 128, (m, k)).astype(np.int8)
        for a in (rows, np.asfortranarray(rows), rng.integers(-128, 128, (m, 2 * k)).astype(np.int8)[:, ::2]):
            Launch(artifact.tasks, {"A": a, "B": b, "Y": y}, {}, {"M": m, "N": n, "K": k}).call(built, random.Random(m))
            assert np.array_equal(y, a.astype(np.int32) @ b.astype(np.int32))
