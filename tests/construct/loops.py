"""Kernels whose loops' steps depend on each other through memory, or whose carries are read at other places than their own.

Nothing here is in the corpus: compositions of loops, branches, buffers and helpers. Each has the shapes at which it is run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from eqkir.kir.builder import Builder


@dataclass(frozen=True)
class Case:
    fill: Callable[[Builder], None]
    rows: tuple[dict[str, int], ...]
    scalars: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.fill.__name__


def prefix_in_place(k: Builder) -> None:
    """Prefix sums in a buffer, one element after the other."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (M, N))
    k.noalias(X, Y)
    with k.parallel(M) as m:
        b = k.buffer("i32", (N,), X[m, :])
        with k.for_(k.domain(1, N)) as loop:
            b[loop.i] = b[loop.i] + b[loop.i - 1]
        Y[m, :] = b[:]


def gauss_seidel(k: Builder) -> None:
    """Sweeps over the inner points of a line, in place in a view of the interface."""
    (N,) = k.symbols("N")
    k.constexpr("T", 3)
    T = k.named("T")
    U = k.view("U", "inout", "f32", (N,))
    with k.for_(T):
        with k.for_(k.domain(1, N - 1)) as i:
            U[i.i] = 0.5 * (U[i.i - 1] + U[i.i + 1])


def sieve(k: Builder) -> None:
    """Primes below N: multiples of each number that is still marked are struck, by a while loop with a branch in it."""
    (N,) = k.symbols("N")
    Y = k.view("Y", "out", "i32", (N,))
    n = k.indices(N)
    marks = k.buffer("i32", (N,), (n > 1).cast("i32"))
    with k.while_(k.const(2, "index")) as loop:
        (p,) = loop.test(loop.carried[0] * loop.carried[0] < k.value(N))
        with k.if_(marks[marks.assume_in_bounds(p, 0)] == 1):
            marks[:] = k.where((n > p) & (n % p == 0), k.const(0, "i32"), marks[:])
        loop.yield_(p + 1)
    Y[:] = marks[:]


def ping_pong(k: Builder) -> None:
    """A stencil between two buffers, and back."""
    M, N = k.symbols("M", "N")
    k.constexpr("T", 3)
    T = k.named("T")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
    k.noalias(X, Y)
    i = k.indices(N)
    with k.parallel(M) as m:
        a, b = k.buffer("f32", (N,), X[m, :]), k.buffer("f32", (N,), 0.0)
        with k.for_(T):
            for x, y in ((a, b), (b, a)):
                y[i] = 0.5 * x.load((i,)) + 0.25 * x.load((i - 1,), valid=i > 0) + 0.25 * x.load((i + 1,), valid=i + 1 < k.value(N))
        Y[m, :] = a[:]


def matrix_power(k: Builder) -> None:
    """A carried vector is multiplied by a matrix at every step: it is read along the reduced axis."""
    M, N = k.symbols("M", "N")
    k.constexpr("T", 3)
    T = k.named("T")
    A, X, Y = k.view("A", "in", "f32", (N, N)), k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
    k.noalias(A, X, Y)
    with k.parallel(M) as m:
        with k.for_(T, X[m, :]) as loop:
            loop.yield_(0.5 * k.contract(A[:, :], loop.carried[0], [(1, 0)]))
        Y[m, :] = loop.result


def swapped_and_reversed(k: Builder) -> None:
    """Two carried vectors change places, and one is read backwards; a scalar counts."""
    (N,) = k.symbols("N")
    k.constexpr("T", 3)
    T = k.named("T")
    X, Y, Z = k.view("X", "in", "i32", (N,)), k.view("Y", "out", "i32", (N,)), k.view("Z", "out", "i32", (N,))
    k.noalias(X, Y, Z)
    i = k.indices(N)
    with k.for_(T, X[:], X[:] * 3, k.const(1, "i32")) as loop:
        a, b, n = loop.carried
        loop.yield_(b.gather((k.value(N) - 1 - i,)) + n, a + b.sum(axis=0), n + 1)
    Y[:], Z[:] = loop.results[0], loop.results[1] + loop.results[2]


def triangle(k: Builder) -> None:
    """The inner loop ends where the outer one stands: b[i] collects all that stand before it."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (M, N))
    k.noalias(X, Y)
    rows = k.domain(N)
    with k.parallel(M) as m:
        b = k.buffer("i32", (N,), X[m, :])
        with k.for_(rows) as i:
            with k.for_(rows[0 : i.i]) as j:
                b[i.i] = b[i.i] + b[j.i] * (j.i + 1).cast("i32")
        Y[m, :] = b[:]


def until_settled(k: Builder) -> None:
    """Labels travel to the right until a step changes nothing: the condition is carried; what is done last is seen after the loop."""
    M, N = k.symbols("M", "N")
    X, Y, C = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (M, N)), k.view("C", "out", "i32", (M,))
    k.noalias(X, Y, C)
    i = k.indices(N)
    with k.parallel(M) as m:
        b = k.buffer("i32", (N,), X[m, :])
        with k.while_(k.const(1, "i32"), k.const(0, "i32")) as loop:
            _, steps = loop.test(loop.carried[0] > 0)
            old = b[:]
            new = old.maximum(b.load((i - 1,), valid=i > 0, fill=-1000))
            b[:] = new
            loop.yield_((old != new).cast("i32").sum(axis=0), steps + 1)
        Y[m, :], C[m] = b[:], loop.results[1]


def left_early(k: Builder) -> None:
    """`break` and `continue` between stores: what stands behind them does not happen."""
    M, N = k.symbols("M", "N")
    X, Y, C = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (M, N)), k.view("C", "out", "i32", (M,))
    k.noalias(X, Y, C)
    with k.parallel(M) as m:
        b = k.buffer("i32", (N,), 0)
        with k.for_(N, k.const(0, "i32")) as loop:
            (total,) = loop.carried
            x = X[m, loop.i]
            b[loop.i] = x + b.load((loop.i - 1,), valid=loop.i > 0)
            loop.break_if(x > 60)
            loop.continue_if(x < 0)
            b[loop.i] = b[loop.i] * 2
            loop.yield_(total + b[loop.i])
        Y[m, :], C[m] = b[:], loop.result


def private_in_steps(k: Builder) -> None:
    """A buffer of every step inside a loop whose steps depend on each other, filled anew each time."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (N,))
    k.noalias(X, Y)
    total = k.buffer("i32", (N,), 0)
    with k.for_(M) as loop:
        row = k.buffer("i32", (N,), X[loop.i, :])
        row[:] = row[:] + total[:]
        n = k.indices(N)
        total[:] = row.load((k.value(N) - 1 - n,)) + row.load((n - 1,), valid=n > 0)
    Y[:] = total[:]


def one_after_the_other(k: Builder) -> None:
    """Two ordered loops over one extent on one buffer, a carried scalar from the first to the second."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (M, N))
    k.noalias(X, Y)
    with k.parallel(M) as m:
        b = k.buffer("i32", (N,), X[m, :])
        with k.for_(k.domain(1, N), k.const(0, "i32")) as up:
            b[up.i] = b[up.i].maximum(b[up.i - 1])
            up.yield_(up.carried[0] + b[up.i])
        with k.for_(k.domain(1, N), up.result) as down:
            at = k.value(N) - 1 - down.i
            b[at] = b[at] + b[at + 1] - down.carried[0]
            down.yield_(down.carried[0] // 2)
        Y[m, :] = b[:]


def no_word_on_aliases(k: Builder) -> None:
    """Views that may overlap: one instance runs all points, in order."""
    (N,) = k.symbols("N")
    k.constexpr("T", 3)
    T = k.named("T")
    X, Y = k.view("X", "in", "i32", (N,)), k.view("Y", "inout", "i32", (N,))
    i = k.indices(N)
    with k.for_(T) as t:
        Y[:] = Y[:] + X[:] * (t.i.cast("i32") + Y.load((k.value(N) - 1 - i,)))


def countdown_in_place(k: Builder) -> None:
    """A while loop that starts from, and stores to, one element of a view."""
    X = k.view("X", "inout", "i32", (1,))
    with k.while_(X[0]) as loop:
        (x,) = loop.test(loop.carried[0] > 0)
        X[0] = x * 2
        loop.yield_(x - 1)


def last_one_stays(k: Builder) -> None:
    """Every step stores to one element."""
    (T,) = k.symbols("T")
    X, Y = k.view("X", "in", "i32", (T,)), k.view("Y", "inout", "i32", (1,))
    k.noalias(X, Y)
    with k.for_(T) as loop:
        Y[0] = Y[0] // 2 + X[loop.i]


def atomic_in_steps(k: Builder) -> None:
    """Counts that later steps read: updates combine, and a step sees those of the steps before."""
    T, N = k.symbols("T", "N")
    X, Y = k.view("X", "in", "i32", (T, N)), k.view("Y", "out", "i32", (8,))
    k.noalias(X, Y)
    count = k.buffer("i32", (8,), 0)
    with k.for_(T) as t:
        at = (X[t.i, :] & 7).cast("index")
        count.atomic_add((count.assume_in_bounds(at, 0),), count[0] // 4 + 1)
    Y[:] = count[:]


def insertion_sort(k: Builder) -> None:
    """A while loop with `break` inside a for loop, both on one buffer: what stands at i goes where it belongs."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (M, N))
    k.noalias(X, Y)
    with k.parallel(M) as m:
        b = k.buffer("i32", (N,), X[m, :])
        with k.for_(k.domain(1, N)) as loop:
            x = b[loop.i]
            with k.while_(loop.i) as down:
                (j,) = down.test(down.carried[0] > 0)
                before = b[b.assume_in_bounds(j - 1, 0)]
                down.break_if(before <= x)
                b[b.assume_in_bounds(j, 0)] = before
                down.yield_(j - 1)
            b[b.assume_in_bounds(down.result, 0)] = x
        Y[m, :] = b[:]


def nested_powers(k: Builder) -> None:
    """Carried vectors in two nested loops, the inner one starting from the outer one's, each multiplied by a matrix of the step."""
    M, N, T = k.symbols("M", "N", "T")
    A, X, Y = k.view("A", "in", "f32", (T, N, N)), k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
    k.noalias(A, X, Y)
    with k.parallel(M) as m:
        with k.for_(T, X[m, :]) as outer:
            with k.for_(2, outer.carried[0]) as inner:
                inner.yield_(0.25 * k.contract(A[outer.i, :, :], inner.carried[0], [(1, 0)]) + outer.carried[0])
            outer.yield_(inner.result * 0.5)
        Y[m, :] = outer.result


def as_it_was(k: Builder) -> None:
    """A view as it was before the loop, read at the step's place while the loop overwrites it."""
    (N,) = k.symbols("N")
    Y = k.view("Y", "inout", "i32", (N,))
    old = Y[:]
    with k.for_(N) as loop:
        Y[:] = Y[:] + old.gather((loop.i,)) + old.gather((k.value(N) - 1 - k.indices(N),))


def until_the_buffer_says(k: Builder) -> None:
    """The condition of a while loop reads what the loop writes."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (M, N))
    k.noalias(X, Y)
    with k.parallel(M) as m:
        b, left = k.buffer("i32", (N,), X[m, :]), k.buffer("i32", (1,), 5)
        with k.while_(k.const(0, "i32")) as loop:
            (s,) = loop.test(left[0] > 0)
            b[:] = b[:] + s
            left[0] = left[0] - 1 - (b[:].max(axis=0) & 1)
            loop.yield_(s + 1)
        Y[m, :] = b[:]


def branch_with_a_loop(k: Builder) -> None:
    """One branch holds a loop that ends where the outer one stands, the other a store."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (M, N))
    k.noalias(X, Y)
    rows = k.domain(N)
    with k.parallel(M) as m:
        b = k.buffer("i32", (N,), X[m, :])
        with k.for_(k.domain(1, N)) as t:
            with k.if_(b[t.i] > b[t.i - 1]) as branch:
                with k.for_(rows[0 : t.i]) as u:
                    b[u.i] = b[u.i] + b[t.i]
            with branch.otherwise():
                b[t.i] = b[t.i - 1]
        Y[m, :] = b[:]


def scan_in_steps(k: Builder) -> None:
    """Prefix sums of a buffer, read backwards in the step that made them; a carried record besides."""
    M, N = k.symbols("M", "N")
    X, Y, Z = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (N,)), k.view("Z", "out", "i32", (N,))
    k.noalias(X, Y, Z)
    b, i = k.buffer("i32", (N,), 0), k.indices(N)
    with k.for_(M, k.record(last=k.full((N,), 1, "i32"), count=k.const(0, "i32"))) as loop:
        (r,) = loop.carried
        s = (b[:] + X[loop.i, :]).cumsum(0)
        b[:] = s.gather((k.value(N) - 1 - i,)) + s + r["count"]
        loop.yield_(k.record(last=r["last"].gather((k.value(N) - 1 - i,)) + s, count=r["count"] + r["last"].max(axis=0)))
    Y[:], Z[:] = b[:], loop.result["last"]


def scattered_in_steps(k: Builder) -> None:
    """A scatter in every step, of what the step before scattered."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "i32", (M, N)), k.view("Y", "inout", "i32", (M, N))
    k.noalias(X, Y)
    i = k.indices(N)
    with k.parallel(M) as m:
        b = k.buffer("i32", (N,), X[m, :])
        with k.for_(2) as loop:
            b.unique_scatter((b.assume_in_bounds((i + 1) % k.value(N), 0),), b[:] * 2 + loop.i.cast("i32"))
        Y[m, :] = b[:] + X[m, :]


CASES = [
    Case(insertion_sort, ({"M": 1, "N": 1}, {"M": 3, "N": 7}, {"M": 2, "N": 2})),
    Case(nested_powers, ({"M": 1, "N": 1, "T": 1}, {"M": 2, "N": 4, "T": 3}, {"M": 2, "N": 3, "T": 0})),
    Case(as_it_was, ({"N": 1}, {"N": 6}, {"N": 0})),
    Case(until_the_buffer_says, ({"M": 1, "N": 1}, {"M": 3, "N": 5})),
    Case(branch_with_a_loop, ({"M": 1, "N": 1}, {"M": 3, "N": 7})),
    Case(scan_in_steps, ({"M": 1, "N": 1}, {"M": 4, "N": 5}, {"M": 0, "N": 3})),
    Case(scattered_in_steps, ({"M": 1, "N": 1}, {"M": 3, "N": 5})),
    Case(countdown_in_place, ({}, {})),
    Case(last_one_stays, ({"T": 1}, {"T": 5}, {"T": 0})),
    Case(atomic_in_steps, ({"T": 1, "N": 1}, {"T": 4, "N": 7}, {"T": 2, "N": 0})),
    Case(prefix_in_place, ({"M": 1, "N": 1}, {"M": 3, "N": 7}, {"M": 0, "N": 4}, {"M": 2, "N": 16})),
    Case(gauss_seidel, ({"N": 3}, {"N": 9}, {"N": 5}, {"N": 2})),
    Case(sieve, ({"N": 1}, {"N": 3}, {"N": 50}, {"N": 27})),
    Case(ping_pong, ({"M": 1, "N": 1}, {"M": 3, "N": 6}, {"M": 2, "N": 5})),
    Case(matrix_power, ({"M": 1, "N": 1}, {"M": 2, "N": 5}, {"M": 3, "N": 4})),
    Case(swapped_and_reversed, ({"N": 1}, {"N": 6}, {"N": 5}, {"N": 0})),
    Case(triangle, ({"M": 1, "N": 1}, {"M": 2, "N": 6}, {"M": 3, "N": 0})),
    Case(until_settled, ({"M": 1, "N": 1}, {"M": 4, "N": 9}, {"M": 2, "N": 0})),
    Case(left_early, ({"M": 1, "N": 1}, {"M": 6, "N": 8}, {"M": 2, "N": 0})),
    Case(private_in_steps, ({"M": 1, "N": 1}, {"M": 4, "N": 6}, {"M": 0, "N": 3})),
    Case(one_after_the_other, ({"M": 1, "N": 1}, {"M": 3, "N": 7})),
    Case(no_word_on_aliases, ({"N": 1}, {"N": 6}, {"N": 4})),
]
