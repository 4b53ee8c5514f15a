"""What steers is computed once: no candidate contradicts itself, and none reorders what the author ordered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from eqkir.kir import kernel
from eqkir.kir.builder import Builder
from eqkir.kir.model import Kernel
from eqkir.program.construct import construct
from eqkir.program.interp import Buffer, run
from eqkir.program.lower import conservative
from eqkir.program.model import Program
from eqkir.rules.saturate import saturate
from eqkir.terms.decode import DecodeError, decode
from tests.terms.sampling import sample

N = 70


@kernel
def self_equal(k: Builder) -> None:
    M, C = k.symbols("M", "C")
    X, Y = k.view("X", "in", "f32", (M, C)), k.view("Y", "out", "i32", (M, M))
    k.noalias(X, Y)
    s = X[:, :].sum(axis=1)
    Y[:, :] = (s.reshape((M, 1)) == s.reshape((1, M))).cast("i32")


@kernel
def gate(k: Builder) -> None:
    M, C = k.symbols("M", "C")
    X, R, Y = k.view("X", "in", "f32", (M, C)), k.view("R", "out", "i32", (M,)), k.view("Y", "out", "f32", (M, C))
    k.noalias(X, R, Y)
    x = X[:, :]
    s = x.sum(axis=1)
    R[:] = (s > 0.0).cast("i32")
    Y[:, :] = k.where(s.reshape((M, 1)) > 0.0, x, 0.0)


@kernel
def nested(k: Builder) -> None:
    A, B, C = k.symbols("A", "B", "C")
    X, Y = k.view("X", "in", "f32", (A, B, C)), k.view("Y", "out", "f32", (A,))
    k.noalias(X, Y)
    Y[:] = X[:, :, :].sum(axis=2).sum(axis=1)


def candidates(k: Kernel, n: int, lanes: int = 16) -> Iterator[Program]:
    import random

    a = construct(k)
    yield conservative(a)
    g = saturate(a).graph
    rng = random.Random(0)
    made = 0
    for _ in range(4 * n):
        size = {f"{x}:{ax.name}": rng.choice((4, lanes)) for ax in a.axes for x in "BC"} | {f"F:{ax.name}": 512 for ax in a.axes}
        try:
            yield decode(g, sample(g, rng), a, size | {f"{x}:g{i}": 3 for x in "GP" for i in range(3)}, {})
        except DecodeError:
            continue
        made += 1
        if made == n:
            return


def outputs(p: Program, x: np.ndarray[Any, Any], **shapes: tuple[tuple[int, ...], Any]) -> dict[str, np.ndarray[Any, Any]]:
    bufs = {"X": Buffer.of(x.copy())} | {n: Buffer.of(np.zeros(s, t)) for n, (s, t) in shapes.items()}
    run(p, bufs)
    return {n: bufs[n].array() for n in shapes}


def test_a_sum_equals_itself_in_every_candidate() -> None:
    x = np.random.default_rng(0).standard_normal((N, 90)).astype(np.float32)
    for p in candidates(self_equal, 25):
        assert (np.diag(outputs(p, x, Y=((N, N), np.int32))["Y"]) == 1).all()


def test_two_outputs_that_branch_on_one_sum_agree_in_every_candidate() -> None:
    rng = np.random.default_rng(1)
    a = rng.standard_normal((N, 128)).astype(np.float32)
    a[:, 64:] = -a[:, :64][:, ::-1]  # sums that cancel nearly
    x = np.take_along_axis(a, rng.random(a.shape).argsort(1), 1)
    for p in candidates(gate, 40):
        out = outputs(p, x, R=((N,), np.int32), Y=((N, 128), np.float32))
        assert ((out["Y"] != 0).any(1) == (out["R"] != 0)).all()


def test_two_sums_of_the_author_stay_two_sums() -> None:
    x = np.broadcast_to(np.array([[3e38, 3e38], [-3e38, -3e38]], np.float32), (3, 2, 2)).copy()
    for p in candidates(nested, 25):
        with np.errstate(all="ignore"):
            assert np.isnan(outputs(p, x, Y=((3,), np.float32))["Y"]).all()  # inf + -inf


@kernel
def scaled_distance(k: Builder) -> None:
    M, C = k.symbols("M", "C")
    X, S, Y = k.view("X", "in", "f32", (M, C)), k.view("S", "in", "f32", (C,)), k.view("Y", "out", "f32", (M, C))
    k.noalias(X, S, Y)
    s = X[:, :] * S[:].reshape((1, C))
    Y[:, :] = s - s.max(axis=1).reshape((M, 1))


def test_a_product_of_several_readers_is_rounded_once() -> None:
    """The greatest member is at distance zero of the maximum, not at the rounding error of its product."""
    x = (np.random.default_rng(1).standard_normal((N, 90)) * 1e15).astype(np.float32)
    s = np.linspace(0.7, 1.3, 90, dtype=np.float32)
    for p in candidates(scaled_distance, 25):
        bufs = {"X": Buffer.of(x.copy()), "S": Buffer.of(s), "Y": Buffer.of(np.zeros_like(x))}
        run(p, bufs)
        assert (bufs["Y"].array().max(axis=1) == 0).all()
