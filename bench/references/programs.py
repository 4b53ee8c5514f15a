"""Ordered programs: transforms, factorisations, dynamic programs, data-dependent loops, and the language's own kernels.

Workloads 49 to 51 and 55. Factorisations are judged by what they give back (backward error), as their error analysis is.
"""

from __future__ import annotations

import math
from typing import Any

from references.core import F32, LAMBDA, Judge, Out, Sizes, Views, accumulated, formula, total


# ------------------------------------------------------------------------------------------------ transforms
@formula("fft_radix2_f32")
def fft_radix2(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    re, im = xp.fft(v["XR"], v["XI"])
    size = xp.broadcast(xp.sum(abs(v["XR"]) + abs(v["XI"]), 1, True), re.shape)
    return {"YR": Out(re, size, s["bits"] + 1), "YI": Out(im, size, s["bits"] + 1)}


@formula("haar_f32")
def haar(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    half, tails, wide = math.sqrt(0.5), [], []
    x, size = v["X"], abs(v["X"])
    while x.shape[1] > 1:
        tails.append((x[:, 0::2] - x[:, 1::2]) * half)
        wide.append((size[:, 0::2] + size[:, 1::2]) * half)
        x, size = (x[:, 0::2] + x[:, 1::2]) * half, wide[-1]
    return {"Y": Out(xp.concat([x, *reversed(tails)], 1), xp.concat([size, *reversed(wide)], 1))}


# ------------------------------------------------------------------------------------------------ factorisations
@formula("cholesky_f32")
def cholesky(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """L Lᵀ = A within the backward error (Higham, Accuracy and Stability, theorem 10.3); zeros above the diagonal."""
    i = xp.arange(s["N"])
    lower = i <= i[:, None]

    def worst(got: Views) -> Any:
        y = got["Y"]
        error = abs(xp.einsum("bij,bkj->bik", y, y) - v["A"])
        bound = accumulated(s["N"], xp.einsum("bij,bkj->bik", abs(y), abs(y))) + abs(v["A"]) * F32
        diagonal = xp.where((i == i[:, None]) & ~(y > 0.0), math.inf, 0.0)
        return xp.where(lower, error / bound, xp.where(y == 0.0, 0.0, math.inf)) + diagonal

    return {"Y": Judge(worst)}


@formula("triangular_solve_f32")
def triangular_solve(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """L Y = X within the backward error (theorem 8.5); L is read below and on its diagonal."""
    i = xp.arange(s["N"])
    low = xp.where(i <= i[:, None], v["L"], 0.0)

    def worst(got: Views) -> Any:
        y = got["Y"]
        error = abs(xp.einsum("bij,bjr->bir", low, y) - v["X"])
        return error / (accumulated(s["N"] + 1, xp.einsum("bij,bjr->bir", abs(low), abs(y)) + abs(v["X"])) + 2.0**-149)

    return {"Y": Judge(worst)}


@formula("householder_qr_f32")
def householder_qr(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """The reflections of V and tau give A back from R, column by column in norm (theorem 19.4); R is upper triangular up to that, the
    reflections are orthogonal, and V is zero above its diagonal."""
    n, i = s["N"], xp.arange(s["N"])
    norm = xp.sqrt(xp.sum(v["A"] * v["A"], 1, True))  # of the columns
    bound = LAMBDA * max(n, 1) * F32 * norm + 2.0**-149

    def restored(got: Views) -> Any:
        a = got["A"]
        for j in reversed(range(n)):
            w = got["V"][:, :, j]
            a = a - w[:, :, None] * (got["tau"][:, j][:, None] * xp.einsum("bi,bik->bk", w, a))[:, None, :]
        error = abs(a - v["A"]) / bound
        below = xp.where(i < i[:, None], abs(got["A"]) / bound, 0.0)
        return xp.maximum(error, below)

    def reflectors(got: Views) -> Any:
        return xp.where((i[:, None] < i) & (got["V"] != 0.0), math.inf, 0.0)

    def factors(got: Views) -> Any:
        along, tau = xp.sum(got["V"] * got["V"], 1), got["tau"]
        return xp.where(tau == 0.0, xp.where(along == 0.0, 0.0, math.inf), abs(tau * along - 2.0) / (4.0 * accumulated(n + 1, 1.0)))

    return {"A": Judge(restored), "V": Judge(reflectors), "tau": Judge(factors)}


# ------------------------------------------------------------------------------------------------ dynamic programs
@formula("viterbi_f32")
def viterbi(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """The score, and a path that has it up to rounding."""
    e, a, p, t = v["E"], v["A"], v["P"], s["T"]
    score, size = p + e[:, 0], abs(p) + abs(e[:, 0])
    for i in range(1, t):
        score = xp.amax(score[:, :, None] + a, 1) + e[:, i]
        size = xp.amax(size[:, :, None] + abs(a), 1) + abs(e[:, i])
    best, bound = xp.amax(score, 1), accumulated(2 * t, xp.amax(size, 1))

    def path(got: Views) -> Any:
        states = got["path"]
        fine = (states >= 0) & (states < s["S"])
        states = xp.where(fine, states, 0)
        along = xp.sum(xp.take_along(e, states[:, :, None], 2)[:, :, 0], 1) + p[states[:, 0]] + xp.sum(a[states[:, :-1], states[:, 1:]], 1)
        lost = (best - along) / (2.0 * bound + 2.0**-149)
        return xp.where(xp.sum(xp.i64(fine), 1) == t, lost, math.inf)

    return {"path": Judge(path), "score": Out(best, xp.amax(size, 1), 2 * t)}


@formula("smith_waterman_i32")
def smith_waterman(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """Row by row; the gap along a row is a running maximum of the score plus twice the column."""
    b, n = s["B"], s["N"]
    above, best, j = xp.full((b, n), 0, "i64"), xp.full((b,), 0, "i64"), xp.arange(n) * 2
    if not n:
        return {"Y": best}
    edge = xp.full((b, 1), 0, "i64")
    for i in range(s["M"]):
        diagonal = xp.concat([edge, above[:, :-1]], 1)
        here = xp.maximum(diagonal + xp.where(v["Z"] == v["X"][:, i : i + 1], 3, -1), above - 2)
        above = xp.cummax(xp.maximum(here, 0) + j, 1) - j
        best = xp.maximum(best, xp.amax(above, 1))
    return {"Y": best}


# ------------------------------------------------------------------------------------------------ loops that depend on data
@formula("collatz_i64")
def collatz(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    n, steps = v["X"], v["X"] * 0
    for _ in range(s["limit"]):
        going = n > 1
        n = xp.where(going, xp.where((n & 1) == 0, n >> 1, n * 3 + 1), n)
        steps = steps + xp.i64(going)
    return {"Y": steps}


@formula("newton_sqrt_f32")
def newton_sqrt(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x = v["X"]
    return {"Y": Out(xp.where((x > 0.0) & (x < 1e30), xp.sqrt(xp.maximum(x, 0.0)), 0.0))}


@formula("skip_and_stop_i32")
def skip_and_stop(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x = v["X"]
    counted = (xp.cumsum(xp.i64(x == 0), 1) == 0) & (x > 0)
    return {"Y": xp.sum(xp.where(counted, xp.minimum(x, 100), 0), 1), "C": xp.sum(xp.i64(counted & (x > 100)), 1)}


# ------------------------------------------------------------------------------------------------ the language
@formula("helper_records")
def helper_records(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x = v["X"]
    re, im, peak = x * x - (1.0 + x) * (1.0 + x), 2.0 * x * (1.0 + x), xp.amax(abs(x), 1, True)
    four = x * x * x * x
    scale = x * x + (1.0 + abs(x)) * (1.0 + abs(x)) * (1.0 + 2.0 * peak) + 4.0 * four
    return {"Y": Out(re + im * peak - 2.0 * four, scale)}


@formula("helper_coordinates")
def helper_coordinates(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": Out(v["X"] * 2.0, n=0)}


@formula("helper_effects")
def helper_effects(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": total(xp, v["X"], 0)}


@formula("carried_record")
def carried_record(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x, n = v["X"], max(s["N"], 1)
    m, size = xp.sum(x, 1) / n, xp.amax(abs(x), 1)
    d = x - m[:, None]
    wide = abs(x) + size[:, None]
    return {"Y": Out(m, size, n), "Z": Out(xp.sum(d * d, 1), xp.sum(wide * wide, 1), n)}


@formula("iteration_private_buffer")
def iteration_private_buffer(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x, m, n = v["X"], s["M"], s["N"]
    wide = xp.concat([xp.full((m, 2), 0, "i64"), x], 1)
    twice = xp.where(xp.arange(n) % 2 == 0, 2, 1)
    return {"Y": x + wide[:, 1 : n + 1] * twice + wide[:, :n]}


@formula("iteration_private_unwritten")
def iteration_private_unwritten(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": xp.flip(v["X"], 1)}


@formula("private_permuted")
def private_permuted(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    y = xp.clone(v["X"])
    y[:, v["I"]] = v["X"]
    return {"Y": Out(y, n=0)}


@formula("workspace_transpose")
def workspace_transpose(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x = (v["X"] / (1.0 + xp.sum(abs(v["X"]), 1, True))).T
    top = xp.amax(x, 1, True)
    return {"Y": Out(x - top, abs(x) + abs(top), s["N"])}


@formula("split_subregions")
def split_subregions(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x, i = v["X"], xp.arange(s["N"])
    at = xp.f64(i)
    return {"Y": Out(xp.where(i < min(max(s["cut"], 0), s["N"]), x + at, x * 2.0 - at), 2.0 * abs(x) + at, 1)}


@formula("approximate_sigmoid")
def approximate_sigmoid(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """The kernel permits tanh a relative error of 2^-11, and quotient and exponential 2 units each, below 2^-11 together."""
    y = xp.tanh(1.0 / (1.0 + xp.exp2(v["X"] * -1.4426950408889634)))
    return {"Y": Out(y, 1.0 + abs(v["X"]), slack=2.0**-10 * y)}


@formula("fold_sum_rows")
def fold_sum_rows(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": total(xp, v["X"], 1)}


@formula("fold_last_place")
def fold_last_place(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": xp.amax(xp.where(v["X"] > 0.0, xp.arange(s["N"]), -1), 1)}


@formula("sign_and_fma")
def sign_and_fma(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    value = abs(v["X"] * v["Y"] + 1.0)
    return {"Y": Out(xp.where(xp.signbit(v["X"]), -value, value), abs(v["X"] * v["Y"]) + 1.0, 1)}


@formula("contract_of_scan")
def contract_of_scan(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    a, size = xp.cumsum(v["A"], 1), xp.cumsum(abs(v["A"]), 1)
    return {"Y": Out(xp.einsum("mk,kn->mn", a, v["B"]), xp.einsum("mk,kn->mn", size, abs(v["B"])), 2 * s["K"])}


@formula("fold_with_epilogue")
def fold_with_epilogue(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x, n = v["X"], s["N"]
    top = xp.maximum(xp.amax(x, 1, True), 0.0)
    at = xp.arange(n) + xp.sum(xp.i64(x > 0.0), 1, True)
    moved = xp.where(at < n, xp.take_along(x, xp.where(at < n, at, 0), 1), -1.0)
    return {"Y": Out(xp.minimum(moved, top * 0.5), n=0)}
