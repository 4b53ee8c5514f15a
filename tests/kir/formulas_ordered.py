"""What the kernels of the corpus compute, in f64 numpy: scans, recurrences, sparse and ragged data, counting, loops, factorisations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

MASK = (1 << 32) - 1


def philox(seed: int, counter: int) -> int:
    """Philox4x32-10 (Salmon et al. 2011): word counter % 4 of block counter // 4."""
    block, word = divmod(counter, 4)
    c = [block & MASK, block >> 32, 0, 0]
    k0, k1 = seed & MASK, seed >> 32
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k0, q & MASK, (p >> 32) ^ c[3] ^ k1, p & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c[word]


def bits(seed: int, counters: Any) -> Any:
    flat = [philox(int(seed), int(c)) for c in np.ravel(counters)]
    return np.array(flat, np.int64).reshape(np.shape(counters))


def uniform(seed: int, counters: Any) -> Any:
    return (bits(seed, counters) >> 8) * 2.0**-24


def bf16(x: Any) -> Any:
    import ml_dtypes

    return np.asarray(x, np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)


# ------------------------------------------------------------------------------------------------ scans
def recurrence(t: Any) -> Any:
    y, h = np.zeros(t["X"].shape), np.zeros(t["X"].shape[::2])
    for i in range(t["X"].shape[1]):
        y[:, i] = h = t["A"][:, i] * h + t["X"][:, i]
    return y


def segmented(flags: Any, x: Any) -> Any:
    """Running sums of rows that restart at flags."""
    y, s = np.zeros(x.shape, x.dtype), np.zeros(len(x), x.dtype)
    for i in range(x.shape[1]):
        s = np.where(flags[:, i], x[:, i], s + x[:, i])
        y[:, i] = s
    return y


def begins(keys: Any) -> Any:
    flat = keys.reshape(-1)
    return np.concatenate([[True], flat[1:] != flat[:-1]])[: flat.size].reshape(keys.shape)


def segmented_parts(t: Any) -> Any:
    f = begins(t["K"])
    y = segmented(f, t["X"])
    return {"Y": y, "F": f.any(1), "S": y[:, -1]}


def segmented_carries(t: Any) -> Any:
    out, carry = [], 0
    for f, s in zip(t["F"], t["S"], strict=True):
        out.append(carry)
        carry = s if f else carry + s
    return {"C": np.array(out, np.int64)}


def segmented_apply(t: Any) -> Any:
    return np.where(np.logical_or.accumulate(begins(t["K"]), 1), t["Y"], t["Y"] + t["C"][:, None])


# ------------------------------------------------------------------------------------------------ state spaces
def chunk_state(t: Any) -> Any:
    a = t["A"]
    w = np.exp(a[..., -1:] - a) * t["DT"]
    return np.einsum("bhcl,bclhp,bcln->bchpn", w, t["X"], t["Bm"])


def state_passing(t: Any) -> Any:
    y, s = np.zeros(t["X"].shape), np.zeros(t["F"].shape)
    for c in range(y.shape[1]):
        y[:, c] = s
        s = s * np.exp(t["G"][:, :, c])[..., None, None] + t["X"][:, c]
    return {"Y": y, "F": s}


def chunk_scan(t: Any) -> Any:
    a, n = t["A"], t["A"].shape[-1]
    low = np.tril(np.ones((n, n)))
    decay = np.exp(np.where(low > 0, a[..., :, None] - a[..., None, :], 0)) * low
    inside = np.einsum("bcln,bcmn,bhclm,bhcm,bcmhp->bclhp", t["Cm"], t["Bm"], decay, t["DT"], t["X"])
    return inside + np.einsum("bchpn,bcln,bhcl->bclhp", t["S"], t["Cm"], np.exp(a))


def delta_prepare(t: Any) -> Any:
    k, g, beta, n = t["K"], t["G"], t["beta"], t["G"].shape[-1]
    low = np.tril(np.ones((n, n)), -1)
    m = np.einsum("...ld,...md->...lm", k, k) * np.exp(np.where(low > 0, g[..., :, None] - g[..., None, :], 0)) * low * beta[..., None]
    inverse = np.linalg.inv(np.eye(n) + m) * beta[..., None, :]
    return {"W": inverse @ (k * np.exp(g)[..., None]), "U": inverse @ t["V"]}


def delta_rule(t: Any) -> Any:
    o, s, n = np.zeros(t["U"].shape), np.zeros(t["F"].shape), t["G"].shape[-1]
    low = np.tril(np.ones((n, n)))
    for c in range(o.shape[2]):
        q, k, w, u, g = (t[x][:, :, c] for x in "QKWUG")
        u = u - w @ s
        decay = np.exp(np.where(low > 0, g[..., :, None] - g[..., None, :], 0)) * low
        o[:, :, c] = (q * np.exp(g)[..., None]) @ s + (q @ np.swapaxes(k, -1, -2) * decay) @ u
        last = g[..., -1:]
        s = s * np.exp(last)[..., None] + np.swapaxes(k * np.exp(last - g)[..., None], -1, -2) @ u
    return {"O": o, "F": s}


# ------------------------------------------------------------------------------------------------ sparse and ragged
def embedding(t: Any) -> Any:
    i, w = t["I"], t["W"]
    ok = (i >= 0) & (i < len(w))
    return np.where(ok[:, None], w[np.where(ok, i, 0)], 0) if len(w) else np.zeros((len(i), w.shape[1]))


def added(out: str, x: str) -> Any:
    def f(t: Any) -> Any:
        y = t[out].copy()
        ok = (t["I"] >= 0) & (t["I"] < len(y))
        np.add.at(y, t["I"][ok], t[x][ok])
        return {out: y}

    return f


def grouped(reduce: Any) -> Any:
    def f(t: Any) -> Any:
        out = np.zeros(t["Y"].shape)
        for g in range(len(out)):
            out[g] = reduce(t, slice(t["offsets"][g], t["offsets"][g + 1]), g)
        return out

    return f


def spmv(t: Any, m: slice, g: int) -> Any:
    x = t["X"][t["columns"][m]]
    return (t["A"][m].reshape(-1, *[1] * (x.ndim - 1)) * x).sum(0)


def jagged_softmax(t: Any) -> Any:
    out = np.asarray(t["Y"]).copy()
    for a, b in zip(t["offsets"], t["offsets"][1:], strict=False):
        x = t["X"][a:b]
        e = np.exp(x - x.max(0, initial=-np.inf))
        out[a:b] = e / e.sum(0)
    return out


def scattered_max(t: Any) -> Any:
    y = t["Y"].copy()
    ok = (t["I"] >= 0) & (t["I"] < len(y))
    np.maximum.at(y, t["I"][ok], t["X"][ok])
    return y


def grouped_gemm(t: Any) -> Any:
    out = np.zeros(t["Y"].shape)
    for e, (a, b) in enumerate(zip(t["offsets"], t["offsets"][1:], strict=False)):
        out[a:b] = t["A"][a:b] @ t["W"][e]
    return out


def moe_align(t: Any) -> Any:
    ids, n = t["I"], len(t["counts"])
    counts = np.array([(ids == e).sum() for e in range(n)], np.int64)
    begin = np.cumsum(counts) - counts
    places = [begin[e] + (ids[:i] == e).sum() if 0 <= e < n else -1 for i, e in enumerate(ids)]
    return {"counts": counts, "offsets": begin, "places": np.array(places, np.int64)}


def moe_sort(t: Any) -> Any:
    y, ok = t["Y"].copy(), t["places"] >= 0
    y[t["places"][ok]] = t["X"][ok]
    return y


# ------------------------------------------------------------------------------------------------ counting
def counts(x: Any, n: int) -> Any:
    return np.bincount(x[(x >= 0) & (x < n)].reshape(-1), minlength=n)


def unique_parts(t: Any) -> Any:
    y, n = t["Y"].copy(), []
    for row, x in enumerate(t["X"]):
        kept = x[np.concatenate([[True], x[1:] != x[:-1]])[: len(x)]]
        y[row, : len(kept)] = kept
        n.append(len(kept))
    return {"Y": y, "C": np.array(n, np.int64)}


def positions(t: Any) -> Any:
    y, at = t["Y"].copy(), np.flatnonzero(t["X"])
    y[: len(at)] = at[: len(y)]
    return y


def won(t: Any) -> Any:
    wanted = {i for i in t["I"] if 0 <= i < len(t["table"]) and t["table"][i] == 0}
    return {"won": np.sort(np.arange(len(t["I"])) >= len(t["I"]) - len(wanted))}


def first(t: Any) -> Any:
    ok = [i for i in t["I"] if 0 <= i < len(t["flags"])]
    n = sum(t["flags"][i] == 0 for i in set(ok))
    flags = t["flags"].copy()
    flags[ok] = 1
    return {"first": np.sort(np.arange(len(t["I"])) >= len(t["I"]) - n), "flags": flags}


def bit_flags(t: Any) -> Any:
    out = {n: t[n].copy() for n in "OAEHL"}
    for x in t["X"]:
        i, bit = x >> 5, 1 << (x & 31)
        if i < len(out["O"]):
            out["O"][i] |= bit
            out["A"][i] &= MASK ^ bit
            out["E"][i] ^= bit
            out["H"][i], out["L"][i] = max(out["H"][i], x), min(out["L"][i], x)
    return out


def ascending(counts_: Any) -> Any:
    return np.cumsum(counts_) - counts_


# ------------------------------------------------------------------------------------------------ random numbers
def dropout(t: Any) -> Any:
    return np.where(uniform(t["seed"], np.arange(t["X"].size)) >= 0.25, t["X"] / 0.75, 0)


def dropout_norm(t: Any) -> Any:
    m, n = t["X"].shape
    x = np.where(uniform(t["seed"], np.arange(m * n).reshape(m, n)) >= 0.25, t["X"] / 0.75, 0)
    r = bf16(x + t["R"])
    return {"R": r, "Y": r / np.sqrt((r * r).mean(1, keepdims=True) + 1e-5) * t["W"]}


def pi(t: Any) -> Any:
    at = np.arange(t["Y"].size)[:, None] * 29 + np.arange(29)
    x, y = uniform(t["seed"], 2 * at), uniform(t["seed"], 2 * at + 1)
    return (x * x + y * y <= 1).sum(1)


# ------------------------------------------------------------------------------------------------ selection, transforms
def top_k(t: Any) -> Any:
    n = t["Y"].shape[1]
    at = np.argsort(-t["X"], axis=1, kind="stable")[:, :n]
    return {"Y": np.take_along_axis(t["X"], at, 1), "I": at}


def nucleus(t: Any) -> Any:
    x = t["X"]
    needed = np.cumsum(x, 1) - x < 0.6
    return {"C": needed.sum(1), "S": np.where(needed, x, 0).sum(1)}


def fft(t: Any) -> Any:
    z = np.fft.fft(t["XR"] + 1j * t["XI"], axis=1)
    return {"YR": z.real, "YI": z.imag}


def haar(t: Any) -> Any:
    x = t["X"].copy()
    n = x.shape[1]
    while n > 1:
        a, b = x[:, 0:n:2].copy(), x[:, 1:n:2].copy()
        n //= 2
        x[:, :n], x[:, n : 2 * n] = (a + b) * math.sqrt(0.5), (a - b) * math.sqrt(0.5)
    return x


# ------------------------------------------------------------------------------------------------ factorisations, sequences
def qr(t: Any) -> Any:
    r = t["A"].copy()
    b, n = r.shape[:2]
    v_, tau = np.zeros(r.shape), np.zeros((b, n))
    for i in range(b):
        for j in range(n):
            x = r[i, j:, j].copy()
            x[0] += np.linalg.norm(x) * (1 if x[0] > 0 else -1)
            s = x @ x
            f = 2 / s if s else 0.0
            r[i, j:, j:] -= f * np.outer(x, x @ r[i, j:, j:])
            v_[i, j:, j], tau[i, j] = x, f
    return {"A": r, "V": v_, "tau": tau}


def viterbi(t: Any) -> Any:
    e, a, p = t["E"], t["A"], t["P"]
    b, steps, _ = e.shape
    path, score = np.zeros((b, steps), np.int64), np.zeros(b)
    for i in range(b):
        s, back = p + e[i, 0], []
        for k in range(1, steps):
            every = s[:, None] + a
            back.append(every.argmax(0))
            s = every.max(0) + e[i, k]
        score[i], at = s.max(), s.argmax()
        path[i, -1] = at
        for k in range(steps - 1, 0, -1):
            at = back[k - 1][at]
            path[i, k - 1] = at
    return {"path": path, "score": score}


def smith_waterman(t: Any) -> Any:
    out = []
    for x, z in zip(t["X"], t["Z"], strict=True):
        h = np.zeros((len(x) + 1, len(z) + 1), np.int64)
        for i in range(len(x)):
            for j in range(len(z)):
                match = h[i, j] + (3 if x[i] == z[j] else -1)
                h[i + 1, j + 1] = max(0, match, h[i, j + 1] - 2, h[i + 1, j] - 2)
        out.append(h.max())
    return np.array(out, np.int64)


def collatz(t: Any) -> Any:
    def steps(n: int) -> int:
        s = 0
        while n > 1 and s < 200:
            n, s = (n // 2 if n % 2 == 0 else 3 * n + 1), s + 1
        return s

    return np.array([steps(int(n)) for n in t["X"]], np.int64)


def skip_and_stop(t: Any) -> Any:
    y, c = [], []
    for row in t["X"]:
        total = large = 0
        for x in row:
            if x == 0:
                break
            total, large = (total, large) if x < 0 else (total + 100, large + 1) if x > 100 else (total + x, large)
        y.append(total)
        c.append(large)
    return {"Y": np.array(y, np.int64), "C": np.array(c, np.int64)}


# ------------------------------------------------------------------------------------------------ language
def records(t: Any) -> Any:
    x = t["X"]
    z = (x + 1j * (1 + x)) ** 2
    return z.real + z.imag * np.abs(x).max(1, keepdims=True, initial=-np.inf) + ((x + 1j * x) ** 4).real * 0.5


def spread(x: Any) -> Any:
    return x.var(1) * x.shape[1] if x.shape[1] else np.zeros(len(x))


def windows(t: Any) -> Any:
    x = np.pad(t["X"], ((0, 0), (2, 0)))
    n = t["X"].shape[1]
    one = x[:, 1 : n + 1] * np.where(np.arange(n) % 2 == 0, 2, 1)
    return x[:, 2:] + one + x[:, :n]


def workspace(t: Any) -> Any:
    b = (t["X"] / (1 + np.abs(t["X"]).sum(1, keepdims=True))).T
    return b - b.max(1, keepdims=True, initial=-np.inf)


def last_place(x: Any) -> Any:
    return np.where(x > 0, np.arange(x.shape[1]), -1).max(1, initial=-1)


def extremes(t: Any) -> Any:
    x = t["X"]
    if not x.shape[1]:
        big = np.full(len(x), 2**31 - 1)
        return {"Y": np.full(len(x), -np.inf), "I": big, "J": big}
    return {"Y": x.max(1), "I": x.argmax(1), "J": x.argmin(1)}


def reduce_then_scatter(t: Any) -> Any:
    return added("Y", "S")({**t, "S": t["X"].sum((0, 2))})


def epilogue(t: Any) -> Any:
    x = t["X"]
    top, count = x.max(1, initial=0, keepdims=True), (x > 0).sum(1, keepdims=True)
    at = np.arange(x.shape[1]) + count
    inside = at < x.shape[1]
    moved = np.where(inside, np.take_along_axis(x, np.where(inside, at, 0), 1), -1) if x.size else x
    return np.minimum(moved, top * 0.5)


def split(t: Any) -> Any:
    i = np.arange(t["X"].size)
    return np.where(i < 3, t["X"] + i, t["X"] * 2 - i)


WANT: dict[str, Any] = {
    "cumsum_f32": lambda t: np.cumsum(t["X"], 1), "cumsum_exclusive_f32": lambda t: np.cumsum(t["X"], 1) - t["X"],
    "cumsum_reverse_f32": lambda t: np.cumsum(t["X"][:, ::-1], 1)[:, ::-1], "cummax_f32": lambda t: np.maximum.accumulate(t["X"], 1),
    "linear_recurrence_f32": recurrence, "segmented_scan_rows_f32": lambda t: segmented(t["F"], t["X"]),
    "segmented_parts_i32": segmented_parts, "segmented_carries_i32": segmented_carries, "segmented_apply_i32": segmented_apply,
    "mamba2_chunk_state_bf16": chunk_state, "mamba2_state_passing_f32": state_passing, "mamba2_chunk_scan_bf16": chunk_scan,
    "gated_delta_prepare_f32": delta_prepare, "gated_delta_rule_f32": delta_rule, "embedding_bf16": embedding,
    "embedding_backward_f32": added("DW", "DY"), "index_add_f32": added("Y", "X"), "csr_spmv_f32": grouped(spmv),
    "csr_spmm_f32": grouped(spmv), "jagged_mean_f32": grouped(lambda t, m, g: t["X"][m].sum(0) / max(1, m.stop - m.start)),
    "jagged_softmax_f32": jagged_softmax, "segment_max_f32": grouped(lambda t, m, g: t["X"][m].max(0, initial=-np.inf)),
    "segment_max_scattered_i32": scattered_max, "moe_grouped_gemm_bf16": grouped_gemm, "moe_align": moe_align,
    "moe_count": lambda t: {"counts": t["counts"] + counts(t["I"], len(t["counts"]))}, "moe_sort": moe_sort,
    "histogram_global_u8": lambda t: t["Y"] + counts(t["X"], 256),
    "histogram_parts_i32": lambda t: np.array([counts(x, 256) for x in t["X"]]).reshape(-1, 256),
    "histogram_scattered_u32": lambda t: t["Y"] + counts(t["X"] >> 24, 256),
    "unique_consecutive_flags_i32": lambda t: begins(t["X"]), "unique_consecutive_parts_i32": unique_parts,
    "nonzero_counts_i32": lambda t: {"C": (t["X"] != 0).sum(1)}, "nonzero_offsets_i32": lambda t: {"O": ascending(t["C"])},
    "nonzero_positions_i32": positions, "tickets_i32": lambda t: {"Y": np.arange(t["Y"].size), "C": t["C"] + t["Y"].size},
    "claim_slots_i32": won, "first_arrivals_u32": first, "bit_flags_u32": bit_flags,
    "publish_i32": lambda t: {"Y": t["X"] + 1, "Z": (t["X"] + 1) * 2}, "dropout_bf16": dropout, "dropout_add_rms_norm_bf16": dropout_norm,
    "monte_carlo_pi_partials": pi, "random_words_u32": lambda t: bits(t["seed"], np.arange(t["Y"].size)).reshape(t["Y"].shape),
    "top_k_f32": top_k, "bitonic_sort_rows_f32": lambda t: np.sort(t["X"], 1), "nucleus_partials_f32": nucleus, "fft_radix2_f32": fft,
    "haar_f32": haar, "cholesky_f32": lambda t: np.linalg.cholesky(t["A"]),
    "triangular_solve_f32": lambda t: np.linalg.solve(t["L"], t["X"]),
    "householder_qr_f32": qr, "viterbi_f32": viterbi, "smith_waterman_i32": smith_waterman, "collatz_i64": collatz,
    "newton_sqrt_f32": lambda t: np.sqrt(np.maximum(t["X"], 0)), "skip_and_stop_i32": skip_and_stop, "helper_records": records,
    "helper_coordinates": lambda t: t["X"] * 2, "helper_effects": lambda t: t["X"].sum(0),
    "carried_record": lambda t: {"Y": t["X"].mean(1) if t["X"].shape[1] else np.zeros(len(t["X"])), "Z": spread(t["X"])},
    "fold_sum_rows": lambda t: t["X"].sum(1), "fold_last_place": lambda t: last_place(t["X"]),
    "scan_running_sum": lambda t: {"Y": np.cumsum(t["X"]), "F": t["X"].sum()},
    "sign_and_fma": lambda t: np.copysign(t["X"] * t["Y"] + 1, t["X"]), "arg_reduce_rows": extremes,
    "contract_of_scan": lambda t: np.cumsum(t["A"], 1) @ t["B"], "reduce_then_scatter": reduce_then_scatter,
    "fold_with_epilogue": epilogue,
    "iteration_private_buffer": windows, "iteration_private_unwritten": lambda t: t["X"][:, ::-1], "workspace_transpose": workspace,
    "workspace_counts": lambda t: counts(t["X"] & 15, 16) * 2, "split_subregions": split,
    "private_counts": lambda t: np.array([counts(r & 15, 16) for r in t["X"]]).reshape(-1, 16) * 2,
    "private_permuted": lambda t: t["X"][:, np.argsort(t["I"])],
}  # fmt: skip
