"""State-space models by chunks: workloads 36 and 37. A batch entry at a time; recurrences carry the magnitudes behind the state along."""

from __future__ import annotations

from typing import Any

from references.attention import BF16
from references.core import Out, Sizes, Views, formula, rounding


def gathered(xp: Any, parts: list[tuple[Any, ...]], n: int, axis: int = 0) -> Out:
    """(value, scale[, slack]) of slices along `axis`."""
    columns = [xp.stack([p[i] for p in parts], axis) for i in range(len(parts[0]))]
    return Out(columns[0], columns[1], n, columns[2] if len(columns) > 2 else None)


@formula("mamba2_chunk_state_bf16")
def mamba2_chunk_state(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    parts = []
    for i in range(s["B"]):
        a, x, b = v["A"][i], v["X"][i], v["Bm"][i]  # [H, C, L], [C, L, H, P], [C, L, N]
        gap = abs(a[..., -1:]) + abs(a)
        w = xp.permute(xp.exp(a[..., -1:] - a) * v["DT"][i], 1, 2, 0)[..., None]
        wx, form = x * w, "clhp,cln->chpn"
        sizes = xp.einsum(form, abs(wx) * (2.0 + xp.permute(gap, 1, 2, 0)[..., None]), abs(b))
        slack = rounding(xp, BF16, xp.einsum(form, abs(wx), abs(b)), xp.einsum(form, wx * wx, b * b))
        parts.append((xp.einsum(form, wx, b), sizes, slack))
    shape = (0, s["C"], s["H"], s["P"], s["N"])
    return {"Y": gathered(xp, parts, s["L"]) if parts else Out(xp.full(shape, 0.0))}


@formula("mamba2_state_passing_f32")
def mamba2_state_passing(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    b, c, h, p, n = v["X"].shape
    state = scale = xp.full((b, h, p, n), 0.0)
    parts = []
    for i in range(c):
        parts.append((state, scale))
        decay = xp.exp(v["G"][:, :, i])[:, :, None, None]
        state, scale = state * decay + v["X"][:, i], scale * decay * (1.0 + abs(v["G"][:, :, i])[:, :, None, None]) + abs(v["X"][:, i])
    y = gathered(xp, parts, c, 1) if parts else Out(v["X"])
    return {"Y": y, "F": Out(state, scale, max(c, 1))}


@formula("mamba2_chunk_scan_bf16")
def mamba2_chunk_scan(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    step, parts = xp.arange(s["L"]), []
    seen = step <= step[:, None]
    for i in range(s["B"]):
        c, b, x, state = v["Cm"][i], v["Bm"][i], v["X"][i], v["S"][i]  # [C, L, N], [C, L, P], [C, L, H, P], [C, H, P, N]
        a, dt = xp.permute(v["A"][i], 1, 0, 2), xp.permute(v["DT"][i], 1, 0, 2)  # [C, H, L]
        decay = xp.where(seen, xp.exp(xp.where(seen, a[..., None] - a[:, :, None, :], 0.0)), 0.0) * dt[:, :, None, :]
        gap = 2.0 + abs(a[..., None]) + abs(a[:, :, None, :])
        w = xp.einsum("cln,cmn->clm", c, b)[:, None] * decay
        size = xp.einsum("cln,cmn->clm", abs(c), abs(b))[:, None] * decay * gap
        form, near = "chlm,cmhp->clhp", xp.permute(xp.exp(a), 0, 2, 1)[..., None]
        before, wide = (xp.einsum("chpn,cln->clhp", f(state), f(c)) * near for f in (lambda y: y, abs))
        wide = wide * (2.0 + xp.permute(abs(a), 0, 2, 1)[..., None])
        slack = rounding(xp, BF16, xp.einsum(form, abs(w), abs(x)), xp.einsum(form, w * w, x * x))
        parts.append((xp.einsum(form, w, x) + before, xp.einsum(form, size, abs(x)) + wide, slack))
    return {"Y": gathered(xp, parts, s["L"] + s["N"]) if parts else Out(v["X"])}


@formula("gated_delta_prepare_f32")
def gated_delta_prepare(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """Row by row of the inverse T of I + M; the magnitudes behind T are the inverse of I - |M|, which has no cancellation."""
    rows, d = s["L"], s["D"]
    step, g, rate = xp.arange(rows), v["G"], v["beta"]
    below = step < step[:, None]
    decay = xp.where(below, xp.exp(xp.where(below, g[..., None] - g[..., None, :], 0.0)), 0.0) * rate[..., None]
    m = xp.einsum("bhcld,bhcmd->bhclm", v["K"], v["K"]) * decay
    wide = xp.einsum("bhcld,bhcmd->bhclm", abs(v["K"]), abs(v["K"])) * decay * (1.0 + abs(g)[..., None] + abs(g)[..., None, :])
    value, scale = xp.full(m.shape, 0.0), xp.full(m.shape, 0.0)
    for i in range(rows):
        known = xp.einsum("bhcm,bhcmn->bhcn", m[..., i, :i], value[..., :i, :])
        size = xp.einsum("bhcm,bhcmn->bhcn", wide[..., i, :i], scale[..., :i, :])
        unit = xp.f64(step == i)
        value[..., i, :], scale[..., i, :] = unit - known, unit + size
    value, scale = value * rate[..., None, :], scale * rate[..., None, :]
    k, k_size = v["K"] * xp.exp(g)[..., None], abs(v["K"]) * (xp.exp(g) * (1.0 + abs(g)))[..., None]
    form, n = "bhclm,bhcmd->bhcld", rows + d
    return {
        "W": Out(xp.einsum(form, value, k), xp.einsum(form, scale, k_size), n),
        "U": Out(xp.einsum(form, value, v["V"]), xp.einsum(form, scale, abs(v["V"])), n),
    }


@formula("gated_delta_rule_f32")
def gated_delta_rule(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    b, h, chunks, rows, d = v["K"].shape
    e, step = v["U"].shape[4], xp.arange(rows)
    seen = step <= step[:, None]
    state = scale = xp.full((b, h, d, e), 0.0)
    parts = []
    for c in range(chunks):
        q, k, g = v["Q"][:, :, c], v["K"][:, :, c], v["G"][:, :, c]
        decay = xp.where(seen, xp.exp(xp.where(seen, g[..., None] - g[..., None, :], 0.0)), 0.0)
        far, last, near = xp.exp(g)[..., None], xp.exp(g[..., -1])[..., None, None], xp.exp(g[..., -1:] - g)[..., None]
        grow = 1.0 + abs(g[..., :1] - g[..., -1:])[..., None] + abs(g[..., -1:])[..., None]
        results = []
        for f, state_, plus in ((lambda x: x, state, -1.0), (abs, scale, 1.0)):
            factor = 1.0 if plus < 0 else grow
            u = f(v["U"][:, :, c]) + plus * xp.einsum("bhld,bhde->bhle", f(v["W"][:, :, c]), state_)
            inside = xp.einsum("bhlm,bhme->bhle", xp.einsum("bhld,bhmd->bhlm", f(q), f(k)) * decay, u)
            o = (xp.einsum("bhld,bhde->bhle", f(q) * far, state_) + inside) * factor
            results.append((o, (state_ * last + xp.einsum("bhld,bhle->bhde", f(k) * near, u)) * factor))
        (o, state), (o_scale, scale) = results
        parts.append((o, o_scale))
    n = (chunks + 1) * (rows + d)
    return {"O": gathered(xp, parts, n, 2) if parts else Out(v["U"]), "F": Out(state, scale, n)}
