"""Atomic operations: every kind, with results and orders, P0 = P* = emitted = the outcomes that KIR allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from eqkir.base.dtypes import NUMPY
from eqkir.emit.triton import emit
from eqkir.emit.triton.checks import EVEN, compile_batch
from eqkir.kir.builder import Builder
from eqkir.kir.model import Kernel
from eqkir.program.interp import run
from eqkir.program.listing import listing
from eqkir.program.model import Loop, Program, Store
from eqkir.program.serialize import from_json, to_json
from eqkir.program.verify import verify
from tests.musthold.four_ways import agree, chain_of, dense

RNG = np.random.default_rng(23)
UPDATES = ("add", "max", "min", "and", "or", "xor", "exchange")


def updates(fn: str, dtype: str, order: str = "relaxed", masked: bool = True) -> Kernel:
    """Y[I[i]] (fn)= X[i] for each point; Z[i] is what was there."""
    k = Builder("updates")
    N, S = k.symbols("N", "S")
    I, X = k.view("I", "in", "i32", (N,)), k.view("X", "in", dtype, (N,))
    Y, Z = k.view("Y", "inout", dtype, (S,)), k.view("Z", "out", dtype, (N,))
    k.noalias(I, X, Y, Z)
    with k.parallel(N) as i:
        at = I[i].cast("index")
        valid = {"valid": (at >= 0) & (at < S)} if masked else {}
        Z[i] = getattr(Y, f"atomic_{fn}")(at, X[i], order=order, **valid)
    return k.build()


def inputs(dtype: str, n: int, s: int, low: int = -1) -> tuple[dict[str, Any], dict[str, int]]:
    t = NUMPY[dtype]
    x, y = RNG.integers(0, 9, n).astype(t), RNG.integers(0, 9, s).astype(t)
    args = dense(I=RNG.integers(low, s + (low < 0), n).astype(np.int32), X=x, Y=y, Z=np.full(n, 77).astype(t))
    return args, {"N": n, "S": s}


SIZES = ((1, 1), (37, 5), (130, 3), (0, 4), (5, 0))


@pytest.mark.parametrize("fn", UPDATES)
def test_every_update_with_its_result(fn: str) -> None:
    """Each step of the chain at an element shows in exactly one result: old values and the last contents are a permutation."""

    def judge(args: Mapping[str, Any], got: Mapping[str, Any]) -> None:
        at, x, start = args["I"].array(), args["X"].array(), args["Y"].array()
        for s in range(start.size):
            mine = np.flatnonzero(at == s)
            if fn == "exchange":
                assert sorted([*got["Z"][mine], got["Y"][s]]) == sorted([*x[mine], start[s]])
            elif fn == "add":
                assert {int(got["Y"][s])} | {int(v) for v in got["Z"][mine]} <= {
                    int(start[s]) + int(t) for t in range(int(x[mine].sum()) + 1)
                }
                assert int(got["Y"][s]) == int(start[s]) + int(x[mine].sum())
        outside = (at < 0) | (at >= start.size)
        assert not got["Z"][outside].any()

    dtype = "u32" if fn in ("or", "max") else "i32"
    _, chosen = agree(updates(fn, dtype, "acq_rel"), [inputs(dtype, *s) for s in SIZES], judge)
    assert f"atomic {fn} acq_rel" in listing(chosen)


def test_sums_of_floats_with_results() -> None:
    agree(updates("add", "f32", masked=False), [inputs("f32", n, s, 0) for n, s in SIZES if s])


def test_exchanges_of_floats() -> None:
    agree(updates("exchange", "f32"), [inputs("f32", n, s) for n, s in SIZES])
    agree(updates("exchange", "f64"), [inputs("f64", 37, 5)])


def compare_exchange(dtype: str, masked: bool = True) -> Kernel:
    k = Builder("claims")
    N, S = k.symbols("N", "S")
    I, X = k.view("I", "in", "i32", (N,)), k.view("X", "in", dtype, (N,))
    Y, Z, W = k.view("Y", "inout", dtype, (S,)), k.view("Z", "out", dtype, (N,)), k.view("W", "out", "bool", (N,))
    k.noalias(I, X, Y, Z, W)
    with k.parallel(N) as i:
        at = I[i].cast("index")
        valid = {"valid": (at >= 0) & (at < S)} if masked else {}
        old, won = Y.atomic_compare_exchange(at, k.const(0, dtype), X[i], order="acq_rel", **valid)
        Z[i], W[i] = old, won
    return k.build()


@pytest.mark.parametrize("dtype", ["i32", "u64"])
@pytest.mark.parametrize("masked", [True, False])
def test_one_compare_exchange_wins(dtype: str, masked: bool) -> None:
    """Where the element was free, one winner writes its value, and the others see it; masked lanes see zero and touch nothing."""

    def judge(args: Mapping[str, Any], got: Mapping[str, Any]) -> None:
        at, x, start = args["I"].array(), args["X"].array(), args["Y"].array()
        for s in range(start.size):
            mine = np.flatnonzero(at == s)
            winners = mine[got["W"][mine]]
            if start[s] == 0 and mine.size:
                assert winners.size == 1 and got["Y"][s] == x[winners[0]]
                assert all(v in (0, x[winners[0]]) for v in got["Z"][mine])
            else:
                assert winners.size == 0 and got["Y"][s] == start[s]
        outside = (at < 0) | (at >= start.size)
        assert not got["W"][outside].any() and not got["Z"][outside].any()

    cases = []
    for n, s in SIZES:
        if not masked and not s:
            continue
        args, symbols = inputs(dtype, n, s, -1 if masked else 0)
        args |= dense(W=np.ones(n, bool))
        args["X"].memory[...] = np.arange(1, n + 1)
        args["Y"].memory[...] = RNG.integers(0, 2, s) * 1000
        cases.append((args, symbols))
    agree(compare_exchange(dtype, masked), cases, judge)


def test_a_masked_compare_exchange_has_no_branch_and_no_stray_address() -> None:
    source = emit(chain_of(compare_exchange("i32")).program).source
    (line,) = [x for x in source.splitlines() if "tl.atomic_cas" in x]
    assert line.count("tl.where(") == 2 and "mask=" not in line and " if " not in line


def test_compare_exchange_compares_bits_of_floats_and_is_refused_by_the_provider() -> None:
    """-0.0 is not 0.0, and a NaN is itself: on the program interpreter; Triton has integers only."""
    chain = chain_of(compare_exchange("f32", False))
    p = chain.initial
    y = np.array([0.0, -0.0, np.nan], np.float32)
    args = dense(I=np.arange(3, dtype=np.int32), X=np.ones(3, np.float32), Y=y, Z=np.zeros(3, np.float32), W=np.zeros(3, bool))
    from eqkir.driver.numeric import interpreter

    got = interpreter(p)(args, {"N": 3, "S": 3})
    assert got["W"].array().tolist() == [True, False, False]
    with pytest.raises(Exception, match="EQK-TRI-ATOMIC"):
        emit(p)


def messages() -> Kernel:
    """Every point publishes a value, then a flag, each atomically; it reads the flag of its neighbour, then the value."""
    k = Builder("messages")
    (N,) = k.symbols("N")
    D, F = k.view("D", "inout", "i32", (N,)), k.view("F", "inout", "i32", (N,))
    Y, Z = k.view("Y", "out", "i32", (N,)), k.view("Z", "out", "i32", (N,))
    k.noalias(D, F, Y, Z)
    with k.parallel(N) as i:
        D.atomic_store(i, i.cast("i32") + 100)
        F.atomic_store(i, k.const(1, "i32"), order="release")
        j = (i + 1) % N
        Y[i] = F.atomic_load(j, order="acquire")
        Z[i] = D.atomic_load(j)
    return k.build()


def test_messages_pass_in_order() -> None:
    """Whoever sees the flag sees the value."""

    def judge(args: Mapping[str, Any], got: Mapping[str, Any]) -> None:
        n = got["Y"].size
        want = (np.arange(n) + 1) % max(n, 1) + 100
        assert all(z == w for y, z, w in zip(got["Y"], got["Z"], want, strict=True) if y == 1)

    cases = [(dense(**{v: np.zeros(n, np.int32) for v in "DFYZ"}), {"N": n}) for n in (1, 2, 40)]
    p0, chosen = agree(messages(), cases, judge)
    for p in (p0, chosen):
        order = [i.mode + i.view for ph in p.segments[0].phases for i in flat(ph) if isinstance(i, Store) and i.atomic]
        assert order == ["putD", "putF", "getF", "getD"] and len(p.segments) == 1
        phase = [k for k, ph in enumerate(p.segments[0].phases) for i in flat(ph) if isinstance(i, Store) and i.atomic]
        assert phase == sorted(set(phase)), "a barrier divides them"
    source = emit(chosen).source
    assert 'sem="release", scope="gpu"' in source and 'sem="acquire", scope="gpu"' in source


def flat(items: Any) -> list[Any]:
    return [x for i in items for x in ([i, *flat(i.body)] if isinstance(i, Loop) else [i])]


def test_the_scope_follows_the_mapping() -> None:
    """One instance for all launches: its threads. Many: the device."""

    def kernel(many: bool) -> Kernel:
        k = Builder("scope")
        N = k.symbol("N") if many else 8
        C, Y = k.view("C", "inout", "i32", (1,)), k.view("Y", "out", "i32", (N,))
        k.noalias(C, Y)
        if many:
            with k.parallel(N) as i:
                Y[i] = C.atomic_add(0, k.const(1, "i32"))
        else:
            C.atomic_add(0, k.const(1, "i32"))
            C.atomic_max(0, k.const(3, "i32"))
            Y[:] = k.full((N,), 0, "i32")
        return k.build()

    assert 'scope="gpu"' in emit(chain_of(kernel(True)).program).source
    source = emit(chain_of(kernel(False)).program).source
    assert 'scope="cta"' in source and 'scope="gpu"' not in source


def ordered_updates(together: bool) -> Kernel:
    """Additions, then maxima, of one element: in one `parallel`, or in two."""
    k = Builder("ordered")
    (N,) = k.symbols("N")
    C, X = k.view("C", "inout", "i32", (1,)), k.view("X", "in", "i32", (N,))
    k.noalias(C, X)
    if together:
        with k.parallel(N) as i:
            C.atomic_add(0, X[i])
            C.atomic_max(0, X[i])
    else:
        with k.parallel(N) as i:
            C.atomic_add(0, X[i])
        with k.parallel(N) as i:
            C.atomic_max(0, X[i])
    return k.build()


def test_operations_of_one_parallel_share_instances_and_those_of_two_are_in_order() -> None:
    cases = [(dense(C=np.array([5], np.int32), X=RNG.integers(-9, 9, n).astype(np.int32)), {"N": n}) for n in (0, 1, 33)]
    p0, _ = agree(ordered_updates(False), cases)
    assert p0.segments[0].order == ("TUnit",)
    p0, _ = agree(ordered_updates(True), cases)
    assert p0.segments[0].order == ("TAx", "i0:O1")
    apart = replace(p0, segments=tuple(replace(s, phases=tuple(tuple(strip(i) for i in ph) for ph in s.phases)) for s in p0.segments))
    assert {d.code for d in verify(apart)} == {"EQK-PRG-CROSS"}, "nothing but the sharing domain lets them meet"


def strip(i: Any) -> Any:
    return replace(i, shared=()) if isinstance(i, Store) else i


def mutated(p: Program, f: Any) -> Program:
    return replace(p, segments=tuple(replace(s, phases=tuple(tuple(map(f, ph)) for ph in s.phases)) for s in p.segments))


MUTANTS = {
    "order-lost": ("STAGE", lambda i: replace(i, order="")),
    "order-invented": ("STAGE", lambda i: replace(i, order="seq_cst")),
    "scope-too-early": ("STAGE", lambda i: replace(i, scope="device")),
    "kept-in-a-view": ("NAME", lambda i: replace(i, into="Z")),
    "kept-nowhere": ("NAME", lambda i: replace(i, at=())),
    "kept-at-one-place": ("OWNER", lambda i: replace(i, at=(i.at[0] * 0,))),
    "shared-by-nobody-known": ("NAME", lambda i: replace(i, shared=("q7#0",))),
    "plain-with-an-order": ("STAGE", lambda i: replace(i, mode="store")),
}


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_broken_atomic_operations_are_rejected(name: str) -> None:
    code, f = MUTANTS[name]
    p = chain_of(updates("add", "i32")).initial
    broken = mutated(p, lambda i: f(i) if isinstance(i, Store) and i.atomic else i)
    assert broken != p and f"EQK-PRG-{code}" in {d.code for d in verify(broken)}


def test_a_scope_that_is_too_narrow_is_rejected() -> None:
    legal = emit(chain_of(updates("add", "i32")).program).legal
    narrow = mutated(legal, lambda i: replace(i, scope="instance") if isinstance(i, Store) and i.atomic else i)
    assert {d.code for d in verify(narrow)} == {"EQK-PRG-CROSS"}


def test_atomic_programs_read_back() -> None:
    for p in (chain_of(compare_exchange("i32")).program, emit(chain_of(messages()).program).legal):
        assert from_json(to_json(p)) == p


def test_instances_may_not_meet_outside_their_sharing_domain() -> None:
    """The interpreter sees it at run time, too."""
    p = chain_of(ordered_updates(True)).initial
    apart = mutated(p, strip)
    args = {"C": np.array([5], np.int32), "X": np.arange(3, dtype=np.int32)}
    from eqkir.program.interp import Buffer

    with pytest.raises(Exception, match="EQK-INT-(CROSS|VERSION)"):
        run(apart, {k: Buffer.of(v) for k, v in args.items()})


@pytest.mark.compile
def test_atomic_operations_compile_with_their_orders() -> None:
    cases = [(updates(fn, d, o), f".{s}") for fn, d, o, s in (
        ("add", "i64", "acq_rel", "acq_rel"), ("exchange", "f32", "acquire", "acquire"), ("max", "u64", "release", "release"),
        ("xor", "u32", "relaxed", "relaxed"),
    )]  # fmt: skip
    cases += [(compare_exchange("i32"), ".acq_rel"), (compare_exchange("u64", False), ".cas"), (messages(), ".release")]
    jobs = [(emit(chain_of(k).program), 90, EVEN) for k, _ in cases]
    for (k, text), c in zip(cases, compile_batch(jobs, processes=2), strict=True):
        atoms = [x for x in c.ptx.splitlines() if "atom." in x]
        assert c.clean and any(text in x for x in atoms), f"{k.name}: {c.error} {c.findings} {atoms[:3]}"
