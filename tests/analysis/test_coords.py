"""Index expressions: the normal form keeps the value, and every proof holds at every point."""

from __future__ import annotations

import itertools
import random

import pytest

from eqkir.analysis.coords import Facts, determined, disjoint, injective, normal, size, split
from eqkir.base.expr import ONE, Coord, Dep, Expr, Int, Sym, binary, coords, evaluate, select, sub

I, J, K = Coord("i"), Coord("j"), Coord("k")
M, N = Sym("M"), Sym("N")
FACTS = Facts({"i": M, "j": N, "k": Int(4)}, {"M": 0, "N": 0})
OPS = ("add", "sub", "mul", "add", "sub", "mul", "floordiv", "mod", "min", "max", "lt", "eq")


def random_expr(rng: random.Random, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice((I, J, K, M, N, Int(rng.randint(-3, 5))))
    op = rng.choice(OPS)
    a, b = random_expr(rng, depth - 1), random_expr(rng, depth - 1)
    return binary(op, a, Int(rng.randint(1, 5)) if op in ("floordiv", "mod") else b)


def points(m: int, n: int, names: tuple[str, ...] = ("i", "j", "k")) -> list[dict[str, int]]:
    extent = {"i": m, "j": n, "k": 4}
    return [{"M": m, "N": n, **dict(zip(names, p, strict=True))} for p in itertools.product(*(range(extent[x]) for x in names))]


@pytest.mark.parametrize("seed", range(60))
def test_normal_form_keeps_the_value_and_is_stable(seed: int) -> None:
    rng = random.Random(seed)
    e = random_expr(rng, 4)
    f = normal(e)
    assert normal(f) == f
    for p in points(2, 3)[::3]:
        assert int(evaluate(e, p)) == int(evaluate(f, p)), (str(e), str(f))


def test_equal_sums_have_one_normal_form() -> None:
    assert normal((I + 1) - 1) == I
    assert normal((I * N + J) - J) == normal(N * I)
    assert normal((I + J) * (I - J)) == normal(I * I - J * J)
    assert normal((I // 4) * 4 + I % 4) == I
    assert normal(((I // N) * N + I % N) * M) == normal(I * M)
    assert normal(Dep(0) + 1 - Dep(0)) == Int(1)


@pytest.mark.parametrize("seed", range(80))
def test_proved_signs_hold(seed: int) -> None:
    rng = random.Random(seed)
    e = random_expr(rng, 3)
    if FACTS.nonneg(e):
        for m, n in ((1, 1), (3, 2), (5, 4)):
            assert all(int(evaluate(e, p)) >= 0 for p in points(m, n)), str(e)


def test_signs_that_must_be_found() -> None:
    assert FACTS.nonneg(I) and FACTS.nonneg(M - 1 - I) and FACTS.less(I * N + J, M * N)
    assert FACTS.less((I * N + J) * 4 + K, M * N * 4)
    assert FACTS.less(I % 4 + 4 * (J % 3), Int(12))
    assert not FACTS.nonneg(M - 1) and not FACTS.nonneg(I - 1) and not FACTS.nonneg(I - J)
    assert Facts({}, {"M": 1}).nonneg(M - 1)


@pytest.mark.parametrize("seed", range(60))
def test_division_takes_out_multiples(seed: int) -> None:
    rng = random.Random(seed)
    e = rng.choice((I * N + J, (I * N + J) * 4 + K, I + J, I * 8 + K, J * 2 + 1, (I * 4 + K) * N + J))
    d = rng.choice((N, Int(4), Int(2), N * 4, Int(8)))
    q, r = split(e, d, FACTS)
    for m, n in ((3, 2), (2, 5)):
        for p in points(m, n):
            x, y = evaluate(e, p), evaluate(d, p)
            assert (evaluate(q, p), evaluate(r, p)) == divmod(x, y)


def test_division_of_row_major_positions_is_exact() -> None:
    assert split(I * N + J, N, FACTS) == (I, J)
    assert split((I * N + J) * 4 + K, N * 4, FACTS) == (I, normal(J * 4 + K))
    assert split((I * N + J) * 4 + K, Int(4), FACTS) == (normal(I * N + J), K)


MAPS = [
    (I, J), (J, I), (I + J,), (I * N + J,), (I * 4 + K, J), (I + J, J), (I // 2, J), (I // 2, I % 2), (M - 1 - I,), (I * 2 + 1,),
    (I - J, I + J),     (I % 4, J), ((I * 4 + K) // 3, (I * 4 + K) % 3), (I * 3 + K,), (Int(0) - I * 5, K), (I, I),
]  # fmt: skip


@pytest.mark.parametrize("ixs", MAPS, ids=lambda m: " ".join(map(str, m)))
def test_proved_injectivity_holds(ixs: tuple[Expr, ...]) -> None:
    axes = tuple(sorted({a for e in ixs for a in coords(e)}))
    known = determined(ixs, axes, FACTS)
    for m, n in ((3, 2), (4, 5)):
        seen: dict[tuple[int, ...], dict[str, int]] = {}
        for p in points(m, n, axes):
            at = tuple(evaluate(e, p) for e in ixs)
            assert all(seen.setdefault(at, p)[a] == p[a] for a in known)


def test_no_factor_of_an_extent_is_zero_at_a_point() -> None:
    flat, none = Facts({"p": M * N * 5}, {"M": 0, "N": 0}), Facts({}, {"M": 0, "N": 0})
    assert flat.at(["p"]).nonneg(sub(N, ONE)) and not none.at(["p"]).nonneg(sub(N, ONE)) and not flat.nonneg(sub(N, ONE))
    e = sub(M * N - 1, Coord("p"))
    assert split(e, N, flat.at(["p"]))[1] == split(sub(Int(-1), Coord("p")), N, flat.at(["p"]))[1]
    assert not Facts({"p": M * N}, {"M": 0}).at(["p"]).nonneg(sub(N, ONE))  # both may be negative


def test_injectivity_that_must_be_found() -> None:
    for ixs in ((I, J), (J, I), (I * N + J,), (I * 4 + K, J), (I + J, J), (M - 1 - I,), (I * 2 + 1,), ((I * 4 + K) // 3, (I * 4 + K) % 3)):
        assert injective(ixs, {a for e in ixs for a in coords(e)}, FACTS)
    assert not injective((I + J,), {"i", "j"}, FACTS)
    assert not injective((I * 3 + K,), {"i", "k"}, FACTS)
    assert not injective((I,), {"i", "j"}, FACTS)
    assert not injective((Dep(0) + I,), {"i"}, FACTS)


@pytest.mark.parametrize("a", MAPS[2:12], ids=lambda m: " ".join(map(str, m)))
@pytest.mark.parametrize("b", MAPS[2:12], ids=lambda m: " ".join(map(str, m)))
def test_proved_disjointness_holds(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> None:
    if len(a) == len(b) and disjoint(a, b, FACTS):
        for m, n in ((3, 2), (4, 4)):
            x = {tuple(evaluate(e, p) for e in a) for p in points(m, n)}
            assert not x & {tuple(evaluate(e, p) for e in b) for p in points(m, n)}


def test_disjointness_that_must_be_found() -> None:
    assert disjoint((I, Int(0)), (I, Int(1)), FACTS)
    assert disjoint((I,), (I + M,), FACTS)
    assert disjoint((I * 2,), (J * 2 + 1,), FACTS)
    assert disjoint((I * 4 + 1,), (J * 6,), FACTS)
    assert not disjoint((I,), (J,), FACTS)
    assert not disjoint((I,), (I + 1,), FACTS)
    assert not disjoint((Dep(0),), (I,), FACTS)


def test_size_stops_at_its_limit() -> None:
    e = I
    for _ in range(60):
        e = Expr("add", (e, e))
    assert size(e, 100) > 100
    assert size(select(Expr("lt", (I, J)), I, 3), 10) == 6
