"""Windows: workloads 28 and 29."""

from __future__ import annotations

from eqkir.kir.builder import Builder, kernel


@kernel(name="conv2d_direct_f16")
def conv2d_direct(k: Builder) -> None:
    """3x3, stride 1, padding 1; weights [O, C, 3, 3]."""
    B, C, H, W, O = k.symbols("B", "C", "H", "W", "O")
    X, K = k.view("X", "in", "f16", (B, C, H, W)), k.view("K", "in", "f16", (O, C, 3, 3))
    Y = k.view("Y", "out", "f16", (B, O, H, W))
    k.noalias(X, K, Y)
    b, h, w = k.indices(B)[:, None, None, None, None, None], k.indices(H)[:, None, None, None, None], k.indices(W)[:, None, None, None]
    c, i, j = k.indices(C)[:, None, None], k.indices(3)[:, None], k.indices(3)
    row, column = h + i - 1, w + j - 1
    inside = (row >= 0) & (row < H) & (column >= 0) & (column < W)
    windows = X.load((b, c, row, column), valid=inside)  # [B, H, W, C, 3, 3]
    y = k.contract(windows, K[:, :, :, :], [(3, 1), (4, 2), (5, 3)])
    Y[:, :, :, :] = y.transpose(0, 3, 1, 2).cast("f16")


@kernel(name="depthwise_causal_conv1d_bf16")
def depthwise_causal_conv1d(k: Builder) -> None:
    """Four taps, the last on the present step; steps before the first count as zero."""
    B, T, C = k.symbols("B", "T", "C")
    X, K, Y = k.view("X", "in", "bf16", (B, T, C)), k.view("K", "in", "bf16", (4, C)), k.view("Y", "out", "bf16", (B, T, C))
    k.noalias(X, K, Y)
    b, t, j, c = k.indices(B)[:, None, None, None], k.indices(T)[:, None, None], k.indices(4)[:, None], k.indices(C)
    step = t + j - 3
    x = X.load((b, step, c), valid=step >= 0).cast("f32")
    Y[:, :, :] = (x * K[:, :].cast("f32")).sum(axis=2).cast("bf16")


@kernel(name="max_pool2d_f32")
def max_pool2d(k: Builder) -> None:
    """3x3, stride 2, padding 1: the maximum and its flat position in the plane; the first wins ties, NaN wins."""
    B, C, H, W = k.symbols("B", "C", "H", "W")
    P, Q = k.symbols("P", "Q")
    X, Y, I = k.view("X", "in", "f32", (B, C, H, W)), k.view("Y", "out", "f32", (B, C, P, Q)), k.view("I", "out", "i64", (B, C, P, Q))
    k.noalias(X, Y, I)
    b, c, p, q = (k.indices(e).reshape(e, *(1,) * n) for e, n in ((B, 4), (C, 3), (P, 2), (Q, 1)))
    place = k.indices(9)
    row, column = p * 2 + place // 3 - 1, q * 2 + place % 3 - 1
    inside = (row >= 0) & (row < H) & (column >= 0) & (column < W)
    x = X.load((b, c, row, column), valid=inside, fill=float("-inf"))
    best, at = k.argmax(x, 4)
    Y[:, :, :, :] = best
    p, q = k.indices(P)[:, None], k.indices(Q)
    I[:, :, :, :] = ((p * 2 + at // 3 - 1) * W + (q * 2 + at % 3 - 1)).cast("i64")


KERNELS = [conv2d_direct, depthwise_causal_conv1d, max_pool2d]
