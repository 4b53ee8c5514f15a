"""Histograms, compaction and atomic counters: workloads 42, 48 and 53."""

from __future__ import annotations

from eqkir.kir.builder import Builder, Value, kernel
from eqkir.kir.model import Kernel

BINS = 256


@kernel(name="histogram_global_u8")
def histogram_global(k: Builder) -> None:
    """Parts counted apart, added atomically."""
    P, R = k.symbols("P", "R")
    X, Y = k.view("X", "in", "u8", (P, R)), k.view("Y", "inout", "i32", (BINS,))
    k.noalias(X, Y)
    with k.parallel(P) as p:
        Y.atomic_add(k.indices(BINS), k.histogram(X[p, :], BINS))


@kernel(name="histogram_parts_i32")
def histogram_parts(k: Builder) -> None:
    """Counts of each part; values outside the bins are not counted."""
    P, R = k.symbols("P", "R")
    X, Y = k.view("X", "in", "i32", (P, R)), k.view("Y", "out", "i32", (P, BINS))
    k.noalias(X, Y)
    with k.parallel(P) as p:
        x = X[p, :]
        Y[p, :] = k.histogram(x, BINS, (x >= 0) & (x < BINS))


@kernel(name="histogram_scattered_u32")
def histogram_scattered(k: Builder) -> None:
    """One atomic addition a value."""
    (N,) = k.symbols("N")
    X, Y = k.view("X", "in", "u32", (N,)), k.view("Y", "inout", "u32", (BINS,))
    k.noalias(X, Y)
    Y.atomic_add((X[:] >> 24).cast("index"), 1)


# ------------------------------------------------------------------------------------------------ compaction
@kernel(name="unique_consecutive_flags_i32")
def unique_consecutive_flags(k: Builder) -> None:
    """Where a value differs from the one before it."""
    (N,) = k.symbols("N")
    X, Y = k.view("X", "in", "i32", (N,)), k.view("Y", "out", "bool", (N,))
    k.noalias(X, Y)
    i = k.indices(N)
    Y[:] = (i == 0) | (X[:] != X.load(i - 1, valid=i >= 1))


@kernel(name="unique_consecutive_parts_i32")
def unique_consecutive_parts(k: Builder) -> None:
    """The distinct runs of each part, moved to its front, and their number; the rest of the part stays as it was."""
    P, R = k.symbols("P", "R")
    X, Y, C = k.view("X", "in", "i32", (P, R)), k.view("Y", "inout", "i32", (P, R)), k.view("C", "out", "i32", (P,))
    k.noalias(X, Y, C)
    p, r, x = k.indices(P)[:, None], k.indices(R), X[:, :]
    first = (r == 0) | (x != X.load((p, r - 1), valid=r >= 1))
    place = first.cast("i32").cumsum(1, exclusive=True)
    Y.unique_scatter((p, place), x, valid=first)
    C[:] = first.cast("i32").sum(axis=1)


def nonzero(step: str) -> Kernel:
    """Positions of nonzero values of X [P, R], flat: counts of the parts, their exclusive sums, and the positions themselves."""

    @kernel(name=f"nonzero_{step}_i32")
    def nonzero(k: Builder) -> None:
        (P,) = k.symbols("P")
        if step == "offsets":
            C, O = k.view("C", "in", "i32", (P,)), k.view("O", "out", "i32", (P,))
            k.noalias(C, O)
            O[:] = C[:].cumsum(0, exclusive=True)
            return
        R = k.symbol("R")
        X = k.view("X", "in", "i32", (P, R))
        found = X[:, :] != 0
        if step == "counts":
            C = k.view("C", "out", "i32", (P,))
            k.noalias(X, C)
            C[:] = found.cast("i32").sum(axis=1)
            return
        N = k.symbol("N")
        O, Y = k.view("O", "in", "i32", (P,)), k.view("Y", "inout", "i64", (N,))
        k.noalias(X, O, Y)
        place = (O[:][:, None] + found.cast("i32").cumsum(1, exclusive=True)).cast("index")
        flat = k.indices(P)[:, None] * R + k.indices(R)
        Y.unique_scatter(place, flat.cast("i64"), valid=found & (place < N))

    return nonzero


# ------------------------------------------------------------------------------------------------ counters
def slot(k: Builder, i: Value, n: object) -> tuple[Value, Value]:
    """A slot number, and whether it exists."""
    at = i.cast("index")
    return at, (at >= 0) & (at < n)


@kernel(name="tickets_i32")
def tickets(k: Builder) -> None:
    """Every element takes a number: all numbers once, in some order."""
    (N,) = k.symbols("N")
    C, Y = k.view("C", "inout", "i32", (1,)), k.view("Y", "out", "i32", (N,))
    k.noalias(C, Y)
    with k.parallel(N) as i:
        Y[i] = C.atomic_add(0, 1, order="acq_rel")


@kernel(name="claim_slots_i32")
def claim_slots(k: Builder) -> None:
    """Every element tries to put its number into the free slot (0) that it wants; one wins each, losers leave it alone."""
    N, S = k.symbols("N", "S")
    I, table, won = k.view("I", "in", "i32", (N,)), k.view("table", "inout", "i32", (S,)), k.view("won", "out", "bool", (N,))
    k.noalias(I, table, won)
    with k.parallel(N) as i:
        at, valid = slot(k, I[i], S)
        old, success = table.atomic_compare_exchange(at, 0, i.cast("i32") + 1, valid=valid, order="acq_rel")
        won[i] = success & (old == 0)


@kernel(name="first_arrivals_u32")
def first_arrivals(k: Builder) -> None:
    """A flag a slot, exchanged: the first to come finds 0."""
    N, S = k.symbols("N", "S")
    I, flags, first = k.view("I", "in", "i32", (N,)), k.view("flags", "inout", "u32", (S,)), k.view("first", "out", "bool", (N,))
    k.noalias(I, flags, first)
    with k.parallel(N) as i:
        at, valid = slot(k, I[i], S)
        first[i] = valid & (flags.atomic_exchange(at, 1, valid=valid, order="acquire") == 0)


@kernel(name="bit_flags_u32")
def bit_flags(k: Builder) -> None:
    """A set of numbers as bits: or, and, xor, max and min on words of their own."""
    N, S = k.symbols("N", "S")
    X = k.view("X", "in", "u32", (N,))
    O, A, E, H, L = (k.view(n, "inout", "u32", (S,)) for n in ("O", "A", "E", "H", "L"))
    k.noalias(X, O, A, E, H, L)
    with k.parallel(N) as i:
        x = X[i]
        at, valid = slot(k, x >> 5, S)
        bit = k.const(1, "u32") << (x & 31)
        O.atomic_or(at, bit, valid=valid)
        A.atomic_and(at, ~bit, valid=valid, order="release")
        E.atomic_xor(at, bit, valid=valid)
        H.atomic_max(at, x, valid=valid)
        L.atomic_min(at, x, valid=valid, order="acquire")


@kernel(name="publish_i32")
def publish(k: Builder) -> None:
    """Atomic store and load of an element of one's own."""
    (N,) = k.symbols("N")
    X, Y, Z = k.view("X", "in", "i32", (N,)), k.view("Y", "out", "i32", (N,)), k.view("Z", "out", "i32", (N,))
    k.noalias(X, Y, Z)
    with k.parallel(N) as i:
        Y.atomic_store(i, X[i] + 1, order="release")
        Z[i] = Y.atomic_load(i, order="acquire") * 2


KERNELS = [
    histogram_global, histogram_parts, histogram_scattered, unique_consecutive_flags, unique_consecutive_parts, nonzero("counts"),
    nonzero("offsets"), nonzero("positions"), tickets, claim_slots, first_arrivals, bit_flags, publish,
]  # fmt: skip
