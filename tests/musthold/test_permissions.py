"""Permissions of single values: a faster spelling by a rule, for that value and no other, and never without the permission."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from eqkir.emit.triton import emit
from eqkir.kir.builder import Builder
from eqkir.kir.interval_permissions import APPROXIMATE
from eqkir.kir.model import Kernel
from eqkir.program.listing import listing
from eqkir.program.model import Let, Program
from eqkir.program.verify import verify
from tests.musthold.four_ways import agree, chain_of, dense

FUNCTIONS = ("exp2", "tanh", "div")


def twice(fn: str, **permissions: bool) -> Kernel:
    """Y = f(X) under permissions, Z = f(3 X) without."""
    k = Builder("twice")
    (N,) = k.symbols("N")
    X, Y, Z = k.view("X", "in", "f32", (N,)), k.view("Y", "out", "f32", (N,)), k.view("Z", "out", "f32", (N,))
    k.noalias(X, Y, Z)

    def f(x: Any, **how: bool) -> Any:
        return k.div(1.0, x, **how) if fn == "div" else k.unary(fn, x, **how)

    Y[:], Z[:] = f(X[:], **permissions), f(X[:] * 3.0)
    return k.build()


def functions(p: Program) -> list[str]:
    return [str(i.attrs[0]) for s in p.segments for ph in s.phases for i in ph if isinstance(i, Let) and i.op in ("Un", "Bin")]


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("fn", FUNCTIONS)
def test_the_permitted_value_alone_is_approximate(fn: str, flush: bool) -> None:
    rng = np.random.default_rng(1)
    x = np.r_[rng.standard_normal(60) * 4, rng.standard_normal(40) * 1e-3, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40].astype(np.float32)
    cases = [(dense(X=x[:n], Y=np.zeros(n, np.float32), Z=np.zeros(n, np.float32)), {"N": n}) for n in (x.size, 1, 0)]
    p0, chosen = agree(twice(fn, approximate=True, flush_to_zero=flush), cases)
    assert functions(p0).count(fn) == 2 and f"{fn}_fast" not in functions(p0)
    assert {fn, f"{fn}_fast"} <= set(functions(chosen))


@pytest.mark.parametrize("fn", FUNCTIONS)
@pytest.mark.parametrize("how", [{}, {"flush_to_zero": True}])
def test_nothing_is_approximate_without_the_permission(fn: str, how: dict[str, bool]) -> None:
    graph = chain_of(twice(fn, **how)).saturated.graph
    assert not any("_fast" in str(n.attrs) for ns in graph.classes for n in ns)


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_it_is_a_rule(fn: str) -> None:
    chain = chain_of(twice(fn, approximate=True), without=("algebra",))
    assert "_fast" not in listing(chain.program) and "_fast" not in emit(chain.program).source


def test_fast_functions_are_of_f32() -> None:
    p = chain_of(twice("exp2", approximate=True)).program
    wide = replace(p, abi=replace(p.abi, views=tuple(replace(v, dtype="f64") for v in p.abi.views)))

    def f64(i: Any) -> Any:
        literal = isinstance(i, Let) and i.op == "Const" and i.dtype == "f32"
        return replace(i, dtype="f64") if isinstance(i, Let) and (i.dtype == "f32" or literal) else i

    wide = replace(wide, segments=tuple(replace(s, phases=tuple(tuple(map(f64, ph)) for ph in s.phases)) for s in wide.segments))
    assert {d.code for d in verify(wide)} == {"EQK-PRG-TYPE"}


def test_the_fast_tangent_keeps_its_bound() -> None:
    """The spelled formula in f32 against tanh in f64, the permitted error and half an ulp of each operation of the hardware exponential."""
    x = np.concatenate([np.linspace(-12, 12, 400_001), np.geomspace(1e-30, 1, 100_001)]).astype(np.float32)
    a = np.abs(x)
    with np.errstate(over="ignore"):
        large = np.float32(1) - np.float32(2) / (np.float32(1) + np.exp2(a * np.float32(2.8853901)))
    y = np.where(a < np.float32(0.2), x * (np.float32(1) - a * a * np.float32(0.33333334)), np.where(x < 0, -large, large))
    want = np.tanh(x.astype(np.float64))
    ulp = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
    assert (np.abs(y - want) / ulp).max() < APPROXIMATE["tanh"] / 2
