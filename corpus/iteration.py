"""Loops whose end depends on the data: workload 55."""

from __future__ import annotations

from eqkir.kir.builder import Builder, kernel


@kernel(name="collatz_i64")
def collatz(k: Builder) -> None:
    """Steps until 1 is reached, at most `limit`; numbers below 1 take none."""
    (N,) = k.symbols("N")
    X, Y = k.view("X", "in", "i64", (N,)), k.view("Y", "out", "i32", (N,))
    limit = k.constexpr("limit", 200)
    k.noalias(X, Y)
    with k.parallel(N) as i:
        with k.while_(X[i], k.const(0, "i32")) as loop:
            n, steps = loop.test(loop.carried[0] > 1)
            loop.break_if(steps >= limit.cast("i32"), n, steps)
            loop.yield_(k.where((n & 1) == 0, n >> 1, n * 3 + 1), steps + 1)
        Y[i] = loop.results[1]


@kernel(name="newton_sqrt_f32")
def newton_sqrt(k: Builder) -> None:
    """Square roots by Newton's iteration until nothing changes; 0 for what is not positive, at most 64 steps."""
    (N,) = k.symbols("N")
    X, Y = k.view("X", "in", "f32", (N,)), k.view("Y", "out", "f32", (N,))
    k.noalias(X, Y)
    with k.parallel(N) as i:
        x = X[i]
        ordinary = (x > 0.0) & (x < 1e30)
        a = k.where(ordinary, x, 1.0)
        with k.for_(64, a.maximum(1.0)) as loop:
            (y,) = loop.carried
            closer = 0.5 * (y + a / y)
            loop.break_if(closer >= y, y)
            loop.yield_(closer)
        Y[i] = k.where(ordinary, loop.result, 0.0)


@kernel(name="skip_and_stop_i32")
def skip_and_stop(k: Builder) -> None:
    """Sums of rows: negative values are skipped, a zero ends the row. `if` with two results inside."""
    M, N = k.symbols("M", "N")
    X, Y, C = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (M,)), k.view("C", "out", "i32", (M,))
    k.noalias(X, Y, C)
    zero = k.const(0, "i32")
    with k.parallel(M) as m:
        with k.for_(N, zero, zero) as loop:
            total, large = loop.carried
            x = X[m, loop.i]
            loop.break_if(x == 0)
            loop.continue_if(x < 0)
            with k.if_(x > 100) as branch:
                branch.yield_(total + 100, large + 1)
            with branch.otherwise():
                branch.yield_(total + x, large)
            loop.yield_(*branch.results)
        Y[m], C[m] = loop.results


KERNELS = [collatz, newton_sqrt, skip_and_stop]
