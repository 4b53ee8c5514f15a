"""Empty slices, groups, bins and rows: the defined result, and no NaN, the reference = P0 = P* = the emitted module."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqkir.base.dtypes import NUMPY
from eqkir.kir.builder import Builder
from eqkir.kir.load import load_file
from eqkir.kir.model import Kernel
from tests.musthold.four_ways import agree, dense

RNG = np.random.default_rng(11)
CORPUS = Path(__file__).resolve().parents[2] / "corpus" / "json"


def corpus(name: str) -> Kernel:
    return load_file(CORPUS / f"{name}.json").kernels[0]


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def finite(args: Mapping[str, Any], got: Mapping[str, Any]) -> None:
    for name, a in got.items():
        assert np.isfinite(a.astype(np.float64)).all(), name


# ------------------------------------------------------------------------------------------------ two outputs of one group
def two_slices() -> Kernel:
    """Y [M, N] and Z [M, L] share the sums of the rows of X [M, K]."""
    k = Builder("two_slices")
    M, N, L, K = k.symbols("M", "N", "L", "K")
    X, U, W = k.view("X", "in", "f32", (M, K)), k.view("U", "in", "f32", (N,)), k.view("W", "in", "f32", (L,))
    Y, Z = k.view("Y", "out", "f32", (M, N)), k.view("Z", "out", "f32", (M, L))
    k.noalias(X, U, W, Y, Z)
    s = X[:, :].sum(axis=1)
    Y[:, :] = s[:, None] + U[:]
    Z[:, :] = s[:, None] * W[:]
    return k.build()


def test_an_empty_slice_does_not_cancel_the_other_output() -> None:
    """One group, one instance a row: whichever of the two slices is empty, the other is written; so are both of empty sums."""

    def judge(args: Mapping[str, Any], got: Mapping[str, Any]) -> None:
        finite(args, got)
        s = args["X"].array().astype(np.float64).sum(axis=1)
        np.testing.assert_allclose(got["Y"], s[:, None] + args["U"].array(), atol=1e-4)
        np.testing.assert_allclose(got["Z"], s[:, None] * args["W"].array(), atol=1e-4)

    cases = []
    for m, n, l, k in ((3, 5, 0, 7), (3, 0, 4, 7), (3, 0, 0, 7), (3, 5, 4, 0), (0, 5, 4, 7), (33, 40, 0, 19), (2, 0, 130, 3)):
        args = dense(X=f32(m, k), U=f32(n), W=f32(l), Y=np.full((m, n), np.nan, np.float32), Z=np.full((m, l), np.nan, np.float32))
        cases.append((args, {"M": m, "N": n, "L": l, "K": k}))
    p0, _ = agree(two_slices(), cases, judge)
    assert len(p0.segments) == 1 and p0.segments[0].order == ("TAx", "i0:O1")


# ------------------------------------------------------------------------------------------------ ragged groups
OFFSETS = ([0, 0, 0, 0], [0, 0, 5, 5, 9, 9], [0, 9], [0, 0], [9, 9], [0, 4, 4, 4, 9])


@pytest.mark.parametrize("name", ["jagged_mean_f32", "segment_max_f32", "csr_spmv_f32"])
def test_empty_groups(name: str) -> None:
    kernel = corpus(name)
    cases = []
    for offsets in OFFSETS:
        n, g = 9, len(offsets) - 1
        o = np.asarray(offsets, np.int32)
        if name == "jagged_mean_f32":
            args, symbols = dense(offsets=o, X=f32(n, 3), Y=np.full((g, 3), np.nan, np.float32)), {"G": g, "E": g + 1, "N": n, "D": 3}
        elif name == "segment_max_f32":
            args, symbols = dense(offsets=o, X=f32(n), Y=np.full(g, np.nan, np.float32)), {"G": g, "E": g + 1, "N": n}
        else:
            columns = RNG.integers(0, 4, n).astype(np.int32)
            args = dense(offsets=o, columns=columns, A=f32(n), X=f32(4), Y=np.full(g, np.nan, np.float32))
            symbols = {"R": g, "E": g + 1, "N": n, "C": 4}
        cases.append((args, symbols))

    def judge(args: Mapping[str, Any], got: Mapping[str, Any]) -> None:
        o, y = args["offsets"].array(), got["Y"]
        assert not np.isnan(y).any()
        empty = o[1:] == o[:-1]
        want = -np.inf if name == "segment_max_f32" else 0.0
        assert (y[empty] == want).all()

    agree(kernel, cases, judge)


# ------------------------------------------------------------------------------------------------ histograms
def test_histograms_with_everything_inactive() -> None:
    def zero(args: Mapping[str, Any], got: Mapping[str, Any]) -> None:
        assert not got["Y"].any()

    outside = [np.full((p, r), v, np.int32) for p, r in ((3, 19), (2, 130), (1, 1), (2, 0), (0, 4)) for v in (-1, 256, -(2**31), 2**31 - 1)]
    cases = [(dense(X=x, Y=np.full((x.shape[0], 256), 7, np.int32)), {"P": x.shape[0], "R": x.shape[1]}) for x in outside]
    agree(corpus("histogram_parts_i32"), cases[::5], zero)


def test_counts_with_every_member_elsewhere_leave_what_was_there() -> None:
    def same(args: Mapping[str, Any], got: Mapping[str, Any]) -> None:
        assert got["counts"].tolist() == args["counts"].array().tolist()

    cases = []
    for p, r, x in ((3, 19, 5), (1, 1, 1), (2, 0, 3), (0, 4, 2)):
        args = dense(I=np.where(RNG.random((p, r)) < 0.5, -1, x).astype(np.int32), counts=np.arange(5, 5 + x, dtype=np.int32))
        cases.append((args, {"P": p, "R": r, "X": x}))
    agree(corpus("moe_count"), cases, same)


# ------------------------------------------------------------------------------------------------ attention
def qkv(b: int, h: int, s: int, t: int, d: int, **more: Any) -> tuple[dict[str, Any], dict[str, int]]:
    bf16 = NUMPY["bf16"]
    q, k, v = (RNG.standard_normal(x).astype(bf16) for x in ((b, h, s, d), (b, h, t, d), (b, h, t, d)))
    o = np.full((b, h, s, d), np.nan).astype(bf16)
    return dense(Q=q, K=k, V=v, O=o, scale=np.float32(0.35), **more), {"B": b, "H": h, "S": s, "T": t, "D": d}


@pytest.mark.parametrize("permit", [(), ("relaxed_normalization",)], ids=["strict", "relaxed"])
def test_rows_that_see_nothing_are_zero(permit: tuple[str, ...]) -> None:
    """A causal mask with more queries than keys: the first queries see no key. No keys at all."""

    def judge(args: Mapping[str, Any], got: Mapping[str, Any]) -> None:
        finite(args, got)
        s, t = args["Q"].shape[2], args["K"].shape[2]
        assert not got["O"][:, :, : max(s - t, 0)].astype(np.float32).any()

    cases = [qkv(1, 2, 7, 3, 4), qkv(1, 1, 5, 0, 4), qkv(1, 1, 1, 1, 1), qkv(1, 1, 3, 5, 4)]
    agree(corpus("attention_causal_bf16"), cases, judge, permit=permit)


def test_rows_with_infinite_bias_are_zero() -> None:
    def judge(args: Mapping[str, Any], got: Mapping[str, Any]) -> None:
        finite(args, got)
        masked = np.isneginf(args["bias"].array()).all(axis=2)
        assert not got["O"][0][masked].astype(np.float32).any()

    cases = []
    for s, t in ((5, 7), (3, 19), (2, 1)):
        bias = np.where(RNG.random((2, s, t)) < 0.5, -np.inf, 0.0)
        bias[:, 0] = -np.inf
        cases.append(qkv(1, 2, s, t, 4, bias=bias.astype(np.float32)))
    agree(corpus("attention_bias_bf16"), cases, judge)
