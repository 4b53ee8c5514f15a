"""State-space models by chunks: workloads 36 and 37. Chunks are an axis of the views: [.., chunks, steps of a chunk, ..]."""

from __future__ import annotations

from eqkir.kir.builder import Builder, kernel


@kernel(name="mamba2_chunk_state_bf16")
def mamba2_chunk_state(k: Builder) -> None:
    """What each chunk adds to the state: Σ_l exp(A[last] - A[l]) dt[l] x[l] ⊗ b[l]; A is the running sum of dt·a in the chunk."""
    B, C, H, P, N = k.symbols("B", "C", "H", "P", "N")
    L = k.symbol("L", min=1)
    X, Bm = k.view("X", "in", "bf16", (B, C, L, H, P)), k.view("Bm", "in", "bf16", (B, C, L, N))
    A, DT = k.view("A", "in", "f32", (B, H, C, L)), k.view("DT", "in", "f32", (B, H, C, L))
    Y = k.view("Y", "out", "f32", (B, C, H, P, N))
    k.noalias(X, Bm, A, DT, Y)
    last = A[:, :, :, k.domain(L - 1, L)]
    w = ((last - A[:, :, :, :]).exp() * DT[:, :, :, :]).transpose(0, 2, 3, 1)
    x = (X[:, :, :, :, :].cast("f32") * w[..., None]).cast("bf16")
    Y[:, :, :, :, :] = k.contract(x, Bm[:, :, :, :], [(2, 2)], [(0, 0), (1, 1)])


@kernel(name="mamba2_state_passing_f32")
def mamba2_state_passing(k: Builder) -> None:
    """The state before each chunk, chunk after chunk, and the last one."""
    B, C, H, P, N = k.symbols("B", "C", "H", "P", "N")
    X, G = k.view("X", "in", "f32", (B, C, H, P, N)), k.view("G", "in", "f32", (B, H, C))
    Y, F = k.view("Y", "out", "f32", (B, C, H, P, N)), k.view("F", "out", "f32", (B, H, P, N))
    k.noalias(X, G, Y, F)
    with k.for_(C, k.full((B, H, P, N), 0.0, "f32")) as loop:
        (state,) = loop.carried
        Y[:, loop.i, :, :, :] = state
        decay = G[:, :, loop.i].exp()
        loop.yield_(state * decay[:, :, None, None] + X[:, loop.i, :, :, :])
    F[:, :, :, :] = loop.result


@kernel(name="mamba2_chunk_scan_bf16")
def mamba2_chunk_scan(k: Builder) -> None:
    """y = c·(state before the chunk) exp(A) + Σ_{m <= l} (c[l]·b[m]) exp(A[l] - A[m]) dt[m] x[m]."""
    B, C, L, H, P, N = k.symbols("B", "C", "L", "H", "P", "N")
    X, Y = k.view("X", "in", "bf16", (B, C, L, H, P)), k.view("Y", "out", "bf16", (B, C, L, H, P))
    Bm, Cm = k.view("Bm", "in", "bf16", (B, C, L, N)), k.view("Cm", "in", "bf16", (B, C, L, N))
    A, DT = k.view("A", "in", "f32", (B, H, C, L)), k.view("DT", "in", "f32", (B, H, C, L))
    S = k.view("S", "in", "bf16", (B, C, H, P, N))
    k.noalias(X, Bm, Cm, A, DT, S, Y)
    a, both = A[:, :, :, :].transpose(0, 2, 1, 3), [(0, 0), (1, 1)]  # [B, C, H, L]
    scores = k.contract(Cm[:, :, :, :], Bm[:, :, :, :], [(3, 3)], both)  # [B, C, L, L]
    step = k.indices(L)
    seen = step <= step[:, None]
    gap = k.where(seen, a[..., None] - a[:, :, :, None, :], 0.0)
    weight = k.where(seen, scores[:, :, None] * gap.exp() * DT[:, :, :, :].transpose(0, 2, 1, 3)[:, :, :, None, :], 0.0)
    inside = k.contract(weight.cast("bf16"), X[:, :, :, :, :], [(4, 2)], [(0, 0), (1, 1), (2, 3)])  # [B, C, H, L, P]
    before = k.contract(S[:, :, :, :, :], Cm[:, :, :, :], [(4, 3)], both)  # [B, C, H, P, L]
    y = inside + before.transpose(0, 1, 2, 4, 3) * a.exp()[..., None]
    Y[:, :, :, :, :] = y.transpose(0, 1, 3, 2, 4).cast("bf16")


@kernel(name="gated_delta_prepare_f32")
def gated_delta_prepare(k: Builder) -> None:
    """The inverse of I + strictly lower (beta k·kᵀ decay) of each chunk, by forward substitution, applied to keys and values."""
    B, H, C, D, E = k.symbols("B", "H", "C", "D", "E")
    L = k.symbol("L", min=1)
    K, V = k.view("K", "in", "f32", (B, H, C, L, D)), k.view("V", "in", "f32", (B, H, C, L, E))
    beta, G = k.view("beta", "in", "f32", (B, H, C, L)), k.view("G", "in", "f32", (B, H, C, L))
    W, U = k.view("W", "out", "f32", (B, H, C, L, D)), k.view("U", "out", "f32", (B, H, C, L, E))
    k.noalias(K, V, beta, G, W, U)
    with k.parallel(B, H, C) as (b, h, c):
        key, g, rate = K[b, h, c, :, :], G[b, h, c, :], beta[b, h, c, :]
        step = k.indices(L)
        below = step < step[:, None]
        decay = k.where(below, (k.where(below, g[:, None] - g, 0.0)).exp(), 0.0)
        m = k.contract(key, key, [(1, 1)]) * decay * rate[:, None]
        inverse = k.buffer("f32", (L, L), 0.0)
        rows = k.domain(L)
        with k.for_(rows) as loop:
            i = loop.i
            before = rows[0:i]
            known = k.contract(m.gather((i, k.indices(before))), inverse[before, :], [(0, 0)])
            inverse[i, :] = k.where(step == i, 1.0, 0.0) - known
        t = inverse[:, :] * rate
        W[b, h, c, :, :] = k.contract(t, key * g.exp()[:, None], [(1, 0)])
        U[b, h, c, :, :] = k.contract(t, V[b, h, c, :, :], [(1, 0)])


@kernel(name="gated_delta_rule_f32")
def gated_delta_rule(k: Builder) -> None:
    """Chunk after chunk: u = U - W s; o = (q exp g) s + (q kᵀ decay, lower) u; s = exp(g last) s + (k exp(g last - g))ᵀ u."""
    B, H, C, D, E = k.symbols("B", "H", "C", "D", "E")
    L = k.symbol("L", min=1)
    Q, K, W = (k.view(n, "in", "f32", (B, H, C, L, D)) for n in "QKW")
    U, O = k.view("U", "in", "f32", (B, H, C, L, E)), k.view("O", "out", "f32", (B, H, C, L, E))
    G, F = k.view("G", "in", "f32", (B, H, C, L)), k.view("F", "out", "f32", (B, H, D, E))
    k.noalias(Q, K, W, U, G, O, F)
    step = k.indices(L)
    seen = step <= step[:, None]
    with k.parallel(B, H) as (b, h):
        with k.for_(C, k.full((D, E), 0.0, "f32")) as loop:
            c, (state,) = loop.i, loop.carried
            q, key, g = Q[b, h, c, :, :], K[b, h, c, :, :], G[b, h, c, :]
            last = G[b, h, c, L - 1]
            u = U[b, h, c, :, :] - k.contract(W[b, h, c, :, :], state, [(1, 0)])
            decay = k.where(seen, k.where(seen, g[:, None] - g, 0.0).exp(), 0.0)
            inside = k.contract(k.contract(q, key, [(1, 1)]) * decay, u, [(1, 0)])
            O[b, h, c, :, :] = k.contract(q * g.exp()[:, None], state, [(1, 0)]) + inside
            loop.yield_(state * last.exp() + k.contract(key * (last - g).exp()[:, None], u, [(0, 0)]))
        F[b, h, :, :] = loop.result


KERNELS = [mamba2_chunk_state, mamba2_state_passing, mamba2_chunk_scan, gated_delta_prepare, gated_delta_rule]
