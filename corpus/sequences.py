"""Dynamic programs over sequences: workload 51."""

from __future__ import annotations

from eqkir.kir.builder import Builder, kernel


@kernel(name="viterbi_f32")
def viterbi(k: Builder) -> None:
    """The likeliest path of S states through T steps, in log-probabilities: scores forward, the path backward."""
    B, S = k.symbols("B", "S")
    T = k.symbol("T", min=1)
    E, A, P = k.view("E", "in", "f32", (B, T, S)), k.view("A", "in", "f32", (S, S)), k.view("P", "in", "f32", (S,))
    path, score = k.view("path", "out", "i32", (B, T)), k.view("score", "out", "f32", (B,))
    k.noalias(E, A, P, path, score)
    with k.parallel(B) as b:
        back = k.buffer("i32", (T, S), 0)
        with k.for_(k.domain(1, T), P[:] + E[b, 0, :]) as loop:
            best, at = k.argmax(loop.carried[0][:, None] + A[:, :], 0)
            back[loop.i, :] = at.cast("i32")
            loop.yield_(best + E[b, loop.i, :])
        best, at = k.argmax(loop.result, 0)
        score[b] = best
        path[b, T - 1] = at.cast("i32")
        with k.for_(k.domain(1, T), at) as walk:
            t = T - walk.i
            before = back[t, back.assume_in_bounds(walk.carried[0], 1)]
            path[b, t - 1] = before
            walk.yield_(before.cast("index"))


@kernel(name="smith_waterman_i32")
def smith_waterman(k: Builder) -> None:
    """Best local alignment: match 3, mismatch -1, gap 2 an element. Cells in row-major order on one row of scores."""
    B, M, N = k.symbols("B", "M", "N")
    X, Z, Y = k.view("X", "in", "i8", (B, M)), k.view("Z", "in", "i8", (B, N)), k.view("Y", "out", "i32", (B,))
    k.noalias(X, Z, Y)
    zero = k.const(0, "i32")
    with k.parallel(B) as b:
        above = k.buffer("i32", (N,), 0)
        with k.for_(M, zero) as rows:
            x = X[b, rows.i]
            with k.for_(N, zero, zero, rows.carried[0]) as cells:
                j, (left, diagonal, best) = cells.i, cells.carried
                up = above[j]
                matched = diagonal + k.where(Z[b, j] == x, 3, k.const(-1, "i32"))
                here = matched.maximum(up - 2).maximum(left - 2).maximum(0)
                above[j] = here
                cells.yield_(here, up, best.maximum(here))
            rows.yield_(cells.results[2])
        Y[b] = rows.result


KERNELS = [viterbi, smith_waterman]
