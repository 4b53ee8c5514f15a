"""Normalisations over several axes, and backward passes of normalisations: workloads 9 to 11."""

from __future__ import annotations

from eqkir.kir.builder import Builder, Value, kernel


def standardised(x: Value, axes: tuple[int, ...], count: object, eps: Value) -> Value:
    """(x - mean) / sqrt(variance + eps) over `axes`, which hold `count` elements."""
    d = x - x.sum(axis=axes, keepdims=True) / count
    var = (d * d).sum(axis=axes, keepdims=True) / count
    return d * (var + eps).rsqrt()


@kernel(name="group_norm_f32")
def group_norm(k: Builder) -> None:
    """Channels as [groups, channels of a group], pixels flat."""
    N, G, C, L = k.symbols("N", "G", "C", "L")
    X, Y = k.view("X", "in", "f32", (N, G, C, L)), k.view("Y", "out", "f32", (N, G, C, L))
    W, B = k.view("W", "in", "f32", (G, C)), k.view("B", "in", "f32", (G, C))
    eps = k.scalar("eps", "f32")
    k.noalias(X, W, B, Y)
    y = standardised(X[:, :, :, :], (2, 3), C * L, eps)
    Y[:, :, :, :] = y * W[:, :][:, :, None] + B[:, :][:, :, None]


@kernel(name="instance_norm_f32")
def instance_norm(k: Builder) -> None:
    N, C, H, W = k.symbols("N", "C", "H", "W")
    X, Y = k.view("X", "in", "f32", (N, C, H, W)), k.view("Y", "out", "f32", (N, C, H, W))
    eps = k.scalar("eps", "f32")
    k.noalias(X, Y)
    Y[:, :, :, :] = standardised(X[:, :, :, :], (2, 3), H * W, eps)


@kernel(name="batch_norm_infer_f32")
def batch_norm_infer(k: Builder) -> None:
    N, C, L = k.symbols("N", "C", "L")
    X, Y = k.view("X", "in", "f32", (N, C, L)), k.view("Y", "out", "f32", (N, C, L))
    mean, var, W, B = (k.view(n, "in", "f32", (C,)) for n in ("mean", "variance", "W", "B"))
    eps = k.scalar("eps", "f32")
    k.noalias(X, mean, var, W, B, Y)
    scale = W[:] * (var[:].maximum(0.0) + eps).rsqrt()
    Y[:, :, :] = X[:, :, :] * scale[:, None] + (B[:] - mean[:] * scale)[:, None]


@kernel(name="layer_norm_backward_dx_bf16")
def layer_norm_backward_dx(k: Builder) -> None:
    M, N = k.symbols("M", "N")
    X, DY, DX = (k.view(n, r, "bf16", (M, N)) for n, r in (("X", "in"), ("DY", "in"), ("DX", "out")))
    W, mean, rstd = k.view("W", "in", "bf16", (N,)), k.view("mean", "in", "f32", (M,)), k.view("rstd", "in", "f32", (M,))
    k.noalias(X, DY, W, mean, rstd, DX)
    r = rstd[:][:, None]
    x = (X[:, :].cast("f32") - mean[:][:, None]) * r
    g = DY[:, :].cast("f32") * W[:].cast("f32")
    along = (x * g).sum(axis=1, keepdims=True) / N
    level = g.sum(axis=1, keepdims=True) / N
    DX[:, :] = ((g - (x * along + level)) * r).cast("bf16")


@kernel(name="layer_norm_backward_dwdb_bf16")
def layer_norm_backward_dwdb(k: Builder) -> None:
    """Sums over the rows of each part; `sum_parts` adds the parts."""
    P, R, N = k.symbols("P", "R", "N")
    X, DY = k.view("X", "in", "bf16", (P, R, N)), k.view("DY", "in", "bf16", (P, R, N))
    mean, rstd = k.view("mean", "in", "f32", (P, R)), k.view("rstd", "in", "f32", (P, R))
    DW, DB = k.view("DW", "out", "f32", (P, N)), k.view("DB", "out", "f32", (P, N))
    k.noalias(X, DY, mean, rstd, DW, DB)
    g = DY[:, :, :].cast("f32")
    x = (X[:, :, :].cast("f32") - mean[:, :][:, :, None]) * rstd[:, :][:, :, None]
    DW[:, :] = (g * x).sum(axis=1)
    DB[:, :] = g.sum(axis=1)


@kernel(name="sum_parts_f32")
def sum_parts(k: Builder) -> None:
    P, N = k.symbols("P", "N")
    X, Y = k.view("X", "in", "f32", (P, N)), k.view("Y", "out", "f32", (N,))
    k.noalias(X, Y)
    Y[:] = X[:, :].sum(axis=0)


@kernel(name="softmax_backward_bf16")
def softmax_backward(k: Builder) -> None:
    M, N = k.symbols("M", "N")
    Y, DY, DX = (k.view(n, r, "bf16", (M, N)) for n, r in (("Y", "in"), ("DY", "in"), ("DX", "out")))
    k.noalias(Y, DY, DX)
    y, g = Y[:, :].cast("f32"), DY[:, :].cast("f32")
    DX[:, :] = (y * (g - (y * g).sum(axis=1, keepdims=True))).cast("bf16")


KERNELS = [
    group_norm, instance_norm, batch_norm_infer, layer_norm_backward_dx, layer_norm_backward_dwdb, sum_parts, softmax_backward,
]  # fmt: skip
