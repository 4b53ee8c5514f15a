"""Histograms, compaction, atomic counters and random numbers: workloads 42 to 44, 48 and 53. All integers are compared bit by bit."""

from __future__ import annotations

import math
from typing import Any

from references.core import Judge, Out, Sizes, Views, formula, wrapped
from references.dense import rms

BINS = 256
LOW = 0xFFFFFFFF
#: Philox4x32-10 (Salmon et al., SC 2011)
MULTIPLIERS, KEYS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
#: random points at once
POINTS = 1 << 25


@formula("histogram_global_u8")
def histogram_global(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": wrapped(xp, v["Y"] + xp.bincount(v["X"], BINS))}


@formula("histogram_parts_i32")
def histogram_parts(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x = v["X"]
    at = (xp.arange(s["P"])[:, None] * BINS + x)[(x >= 0) & (x < BINS)]
    return {"Y": xp.bincount(at, s["P"] * BINS).reshape(s["P"], BINS)}


@formula("histogram_scattered_u32")
def histogram_scattered(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": (v["Y"] + xp.bincount(v["X"] >> 24, BINS)) & LOW}


@formula("private_counts")
def private_counts(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    at = xp.arange(s["M"])[:, None] * 16 + (v["X"] & 15)
    return {"Y": xp.bincount(at, s["M"] * 16).reshape(s["M"], 16) * 2}


@formula("workspace_counts")
def workspace_counts(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": xp.bincount(v["X"] & 15, 16) * 2}


# ------------------------------------------------------------------------------------------------ compaction
def changes(xp: Any, x: Any) -> Any:
    """Where an element of the last axis differs from the one before it, and at its begin."""
    first = xp.full((*x.shape[:-1], 1), True, "bool")
    return xp.concat([first, x[..., 1:] != x[..., :-1]], -1)[..., : x.shape[-1]]


@formula("unique_consecutive_flags_i32")
def unique_consecutive_flags(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": changes(xp, v["X"])}


@formula("unique_consecutive_parts_i32")
def unique_consecutive_parts(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x, first = v["X"], changes(xp, v["X"])
    place = xp.cumsum(xp.i64(first), 1) - xp.i64(first) + xp.arange(s["P"])[:, None] * s["R"]
    y = xp.clone(v["Y"]).reshape(-1)
    y[place[first]] = x[first]
    return {"Y": y.reshape(x.shape), "C": xp.sum(xp.i64(first), 1)}


@formula("nonzero_counts_i32")
def nonzero_counts(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"C": xp.sum(xp.i64(v["X"] != 0), 1)}


@formula("nonzero_offsets_i32")
def nonzero_offsets(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"O": wrapped(xp, xp.cumsum(v["C"], 0) - v["C"])}


@formula("nonzero_positions_i32")
def nonzero_positions(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    found = v["X"] != 0
    place = v["O"][:, None] + xp.cumsum(xp.i64(found), 1) - xp.i64(found)
    flat = xp.arange(s["P"])[:, None] * s["R"] + xp.arange(s["R"])
    kept, y = found & (place < s["N"]), xp.clone(v["Y"])
    y[place[kept]] = flat[kept]
    return {"Y": y}


# ------------------------------------------------------------------------------------------------ counters
def holds(xp: Any, right: Any) -> Any:
    return xp.where(right, 0.0, math.inf)


@formula("tickets_i32")
def tickets(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """Every number once, in some order."""
    want = xp.arange(s["N"]) + v["C"]
    return {"C": wrapped(xp, v["C"] + s["N"]), "Y": Judge(lambda got: holds(xp, xp.sort(got["Y"], 0) == want))}


@formula("claim_slots_i32")
def claim_slots(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """One of those that want a free slot has it, and knows; taken slots stay."""
    n, slots, at = s["N"], s["S"], v["I"]
    fine = (at >= 0) & (at < slots)
    slot = xp.where(fine, at, 0)
    wanted = xp.bincount(at[fine], slots) > 0

    def table(got: Views) -> Any:
        mine = got["table"] - 1
        owner = xp.where((mine >= 0) & (mine < n), mine, 0)
        taken = (mine >= 0) & (mine < n) & fine[owner] & (at[owner] == xp.arange(slots)) if n else wanted
        return holds(xp, xp.where((v["table"] == 0) & wanted, taken, got["table"] == v["table"]))

    def won(got: Views) -> Any:
        if not slots:
            return holds(xp, ~got["won"])
        return holds(xp, got["won"] == (fine & (v["table"][slot] == 0) & (got["table"][slot] == xp.arange(n) + 1)))

    return {"table": Judge(table), "won": Judge(won)}


@formula("first_arrivals_u32")
def first_arrivals(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """Of those that come to a slot whose flag is 0, one is the first."""
    at, slots = v["I"], s["S"]
    fine = (at >= 0) & (at < slots)
    touched = xp.bincount(at[fine], slots) > 0

    def first(got: Views) -> Any:
        firsts = xp.bincount(at[fine & got["first"]], slots)
        right = firsts == xp.i64(touched & (v["flags"] == 0))
        return holds(xp, xp.concat([right, ~(got["first"] & ~fine)], 0))

    return {"flags": xp.where(touched, 1, v["flags"]), "first": Judge(first)}


@formula("bit_flags_u32")
def bit_flags(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    slots = s["S"]
    x = v["X"][(v["X"] >> 5) < slots]
    counts = xp.bincount(x, slots * 32).reshape(slots, 32)
    bits = xp.arange(32)
    present, odd = (xp.sum(xp.i64(c) << bits, 1) for c in (counts > 0, counts % 2))
    number = xp.arange(slots * 32).reshape(slots, 32)
    top, low = xp.amax(xp.where(counts > 0, number, 0), 1), xp.amin(xp.where(counts > 0, number, LOW), 1)
    return {
        "O": v["O"] | present, "A": v["A"] & (LOW - present), "E": v["E"] ^ odd, "H": xp.maximum(v["H"], top), "L": xp.minimum(v["L"], low),
    }  # fmt: skip


@formula("publish_i32")
def publish(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    y = wrapped(xp, v["X"] + 1)
    return {"Y": y, "Z": wrapped(xp, y * 2)}


# ------------------------------------------------------------------------------------------------ random numbers
def philox(xp: Any, seed: int, counter: Any) -> Any:
    """Word ``counter % 4`` of block ``counter // 4``, in 0 .. 2^32 - 1; the products' halves come from i64 that wrap."""
    block, word = (counter >> 2) & ((1 << 62) - 1), counter & 3
    c = [block & LOW, block >> 32, block * 0, block * 0]
    keys = [seed & LOW, (seed >> 32) & LOW]
    for i in range(10):
        (a_high, a_low), (b_high, b_low) = (halves(c[j], m) for j, m in zip((0, 2), MULTIPLIERS))
        k = [(keys[j] + i * KEYS[j]) & LOW for j in range(2)]
        c = [b_high ^ c[1] ^ k[0], b_low, a_high ^ c[3] ^ k[1], a_low]
    return xp.where(word < 2, xp.where(word == 0, c[0], c[1]), xp.where(word == 2, c[2], c[3]))


def halves(x: Any, m: int) -> tuple[Any, Any]:
    """High and low 32 bits of x·m, both below 2^32, in i64 arithmetic without a carry out: by 16-bit parts of m."""
    low, high = x * (m & 0xFFFF), x * (m >> 16)  # below 2^48
    middle = high + (low >> 16)
    return middle >> 16, ((middle & 0xFFFF) << 16) | (low & 0xFFFF)


def uniform(xp: Any, seed: int, counter: Any) -> Any:
    """f32 in [0, 1), exact."""
    return xp.f32(philox(xp, seed, counter) >> 8) * 2.0**-24


def dropped(xp: Any, x: Any, counter: Any, s: Sizes) -> Any:
    return xp.where(xp.f64(uniform(xp, s["seed"], counter)) >= s["p"], x / (1.0 - s["p"]), 0.0)


@formula("dropout_bf16")
def dropout(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": Out(dropped(xp, v["X"], xp.arange(s["N"]), s), n=1)}


@formula("dropout_add_rms_norm_bf16")
def dropout_add_rms_norm(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """The sum is rounded to bf16 before the norm. x / (1 - p) is rounded to f32 first: done likewise, so that the sum rounds alike."""
    counter = xp.arange(s["M"])[:, None] * s["N"] + xp.arange(s["N"])
    x = xp.where(xp.f64(uniform(xp, s["seed"], counter)) >= s["p"], xp.f64(xp.f32(v["X"] / (1.0 - s["p"]))), 0.0)
    r = xp.rounded(x + v["R"], "bf16")
    return {"R": Out(r, n=0), "Y": Out(rms(xp, r, v["W"], s["eps"]), n=s["N"])}


@formula("monte_carlo_pi_partials")
def monte_carlo_pi(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """x·x + y·y may be fused, so a point whose f32 sum rounds near 1 may count or not: three roundings of 2**-24 each, and one to spare."""
    parts, draws, out, near = s["P"], s["draws"], [], []
    step = max(1, POINTS // max(1, draws))
    for i in range(0, parts, step):
        point = (xp.arange(min(step, parts - i)) + i)[:, None] * draws + xp.arange(draws)
        x, y = uniform(xp, s["seed"], point * 2), uniform(xp, s["seed"], point * 2 + 1)
        squares = xp.f64(x) * xp.f64(x) + xp.f64(y) * xp.f64(y)
        out.append(xp.sum(xp.i64(squares <= 1.0), 1))
        near.append(xp.sum(xp.i64(abs(squares - 1.0) <= 4 * 2.0**-24), 1))
    inside, doubtful = (xp.concat(out, 0), xp.concat(near, 0)) if out else (xp.full((0,), 0, "i64"), xp.full((0,), 0, "i64"))
    return {"Y": Judge(lambda r: xp.f64(abs(r["Y"] - inside)) / xp.maximum(xp.f64(doubtful), 0.5))}


@formula("random_words_u32")
def random_words(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": philox(xp, s["seed"], xp.arange(s["M"])[:, None] * s["N"] + xp.arange(s["N"]))}
