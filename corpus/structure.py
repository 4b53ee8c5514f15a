"""Several outputs in one launch (workload 54) and kernels with a hazard each."""

from __future__ import annotations

from eqkir.kir.builder import Builder, kernel


@kernel
def two_outputs(k: Builder) -> None:
    """Two independent outputs of different shapes."""
    M, N, L = k.symbols("M", "N", "L")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
    U, V = k.view("U", "in", "f32", (L,)), k.view("V", "out", "f32", (L,))
    k.noalias(X, Y, U, V)
    Y[:, :] = X[:, :] * 2.0
    V[:] = U[:].exp()


@kernel
def empty_output(k: Builder) -> None:
    """The second output is empty whatever the sizes."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M,))
    Z, E = k.view("Z", "in", "f32", (0, N)), k.view("E", "out", "f32", (0, N))
    k.noalias(X, Y, Z, E)
    Y[:] = X[:, :].sum(axis=1)
    E[:, :] = Z[:, :] + 1.0


@kernel
def three_reductions(k: Builder) -> None:
    """Three outputs of different shapes from one input: row sums, column maxima and the scaled matrix."""
    M, N = k.symbols("M", "N")
    X, S = k.view("X", "in", "f32", (M, N)), k.view("S", "out", "f32", (M,))
    T, Y = k.view("T", "out", "f32", (N,)), k.view("Y", "out", "f32", (M, N))
    k.noalias(X, S, T, Y)
    x = X[:, :]
    S[:] = x.sum(axis=1)
    T[:] = x.max(axis=0)
    Y[:, :] = x * 0.5


@kernel
def add_in_place(k: Builder) -> None:
    M, N = k.symbols("M", "N")
    X = k.view("X", "inout", "f32", (M, N))
    X[:, :] = X[:, :] + 1.0


@kernel
def add_in_place_strided(k: Builder) -> None:
    """Every second element; the others stay."""
    (N,) = k.symbols("N")
    X = k.view("X", "inout", "i32", (N,))
    even = k.domain(0, N, 2)
    X[even] = X[even] * 3 + 1


@kernel
def shift(k: Builder) -> None:
    """out[i] = in[i - 1], 0 for i = 0; the views may alias."""
    (N,) = k.symbols("N")
    X, Y = k.view("X", "in", "f32", (N,)), k.view("Y", "out", "f32", (N,))
    i = k.indices(N)
    Y[:] = X.load(i - 1, valid=i >= 1)


@kernel
def shift_in_place(k: Builder) -> None:
    """x[i] = x[i - 1] of the values before the kernel, in place."""
    (N,) = k.symbols("N")
    X = k.view("X", "inout", "f32", (N,))
    i = k.indices(N)
    X.store(i, X.load(i - 1, valid=i >= 1, fill=-1.0), valid=i >= 0)


@kernel
def parallel_rows(k: Builder) -> None:
    """An explicit forall over rows, whole-tensor work inside."""
    M, N = k.symbols("M", "N")
    X, Y, S = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N)), k.view("S", "out", "f32", (M,))
    k.noalias(X, Y, S)
    with k.parallel(M) as m:
        x = X[m, :]
        total = x.sum(axis=0)
        S[m] = total
        Y[m, :] = x - total


@kernel
def parallel_points(k: Builder) -> None:
    """A forall over a domain with a begin and a step, scalars inside: y[i] = x[i] + x[i + 1] for odd i."""
    (N,) = k.symbols("N")
    X, Y = k.view("X", "in", "i32", (N,)), k.view("Y", "inout", "i32", (N,))
    k.noalias(X, Y)
    with k.parallel(k.domain(1, N, 2)) as i:
        Y[i] = X[i] + X.load(i + 1, valid=i + 1 < N, fill=7)


@kernel
def reshape_heads(k: Builder) -> None:
    """[T, H * D] read as [T, H, D], reduced over D and scaled back."""
    T, H, D = k.symbols("T", "H", "D")
    X, Y = k.view("X", "in", "f32", (T, H, D)), k.view("Y", "out", "f32", (T, H, D))
    W = k.view("W", "in", "f32", (H, D))
    k.noalias(X, W, Y)
    x = (X[:, :, :].reshape(T, H * D) * W[:, :].reshape(H * D)).reshape(T, H, D)
    Y[:, :, :] = x / (x * x).sum(axis=2, keepdims=True).sqrt()


@kernel
def narrow_round_trip(k: Builder) -> None:
    """f32 to f16 to f32: large values become infinite, and must."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
    k.noalias(X, Y)
    Y[:, :] = X[:, :].cast("f16").cast("f32") * 2.0


@kernel
def constexpr_epsilon(k: Builder) -> None:
    """A constexpr selects the epsilon, another one whether it is added before the root."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
    k.noalias(X, Y)
    inside = k.constexpr("inside", True)
    mode = k.constexpr("mode", "small", ("small", "large"))
    eps = k.where(mode == "small", k.const(1e-6, "f32"), 1e-3)
    x = X[:, :]
    ms = (x * x).sum(axis=1, keepdims=True) / N
    Y[:, :] = x / k.where(inside, (ms + eps).sqrt(), ms.sqrt() + eps)


@kernel
def integer_mix(k: Builder) -> None:
    """Floor division, modulo, shifts and bit operations on signed and unsigned integers."""
    M, N = k.symbols("M", "N")
    X, Y, Z = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (M, N)), k.view("Z", "out", "u8", (M, N))
    k.noalias(X, Y, Z)
    x = X[:, :]
    Y[:, :] = (x // 7) * 16 + (x % -5) - (x >> 3) + ((x & 0xFF) ^ (x << 2))
    Z[:, :] = (x.cast("u8") >> 1) | 0x80


@kernel
def column_scale(k: Builder) -> None:
    """An affine gather: the columns in reverse order, the outer product of two vectors on top."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
    U, V = k.view("U", "in", "f32", (M,)), k.view("V", "in", "f32", (N,))
    k.noalias(X, U, V, Y)
    row, column = k.indices(M), k.indices(N)
    Y[:, :] = X[row[:, None], N - 1 - column] + U[:][:, None] * V[:]


KERNELS = [
    two_outputs, empty_output, three_reductions, add_in_place, add_in_place_strided, shift, shift_in_place, parallel_rows,
    parallel_points, reshape_heads, narrow_round_trip, constexpr_epsilon, integer_mix, column_scale,
]  # fmt: skip
