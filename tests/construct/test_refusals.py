"""What construction refuses, it refuses with a code and a place; what is large, it refuses or builds without delay."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any, Literal

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.kir.builder import Builder
from eqkir.kir.model import Kernel, Op
from eqkir.program import construct_env, construct_nodes
from eqkir.program.construct import construct
from tests.construct.against import agrees


def kernel(fill: Any) -> Kernel:
    k = Builder("k")
    fill(k)
    return k.build()


def refusal(k: Kernel, **kw: Any) -> tuple[str, str]:
    with pytest.raises(EqkirError) as e:
        construct(k, pointer="/kernels/3", **kw)
    d = e.value.diagnostics[0]
    return d.code, d.pointer


class Effectful(Op):
    """Stands for an operation that construction does not know."""

    op: Literal["effectful"] = "effectful"


def copy(k: Builder) -> None:
    n = k.constexpr("n", 3)
    (N,) = k.symbols("N")
    X, Y = k.view("X", "in", "f32", (N,)), k.view("Y", "out", "f32", (N,))
    k.noalias(X, Y)
    i = k.indices(N)
    Y[:] = X.load(i, valid=i < n)


def test_constexprs_are_checked() -> None:
    k = kernel(copy)
    assert refusal(k, constexprs={"n": True}) == ("EQK-CON-CONSTEXPR", "/kernels/3/params/0")
    assert refusal(k, constexprs={"m": 1}) == ("EQK-CON-CONSTEXPR", "/kernels/3")


def test_an_unknown_operation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(construct_env.FIELDS, "load")
    k = kernel(copy)
    code, pointer = refusal(k)
    at = next(i for i, op in enumerate(k.body) if op.op == "load")
    assert (code, pointer) == ("EQK-CON-OP", f"/kernels/3/body/{at}")


def test_an_unknown_operation_without_results_is_not_ignored() -> None:
    k = kernel(copy)
    lone = Effectful(loc=k.body[0].loc)
    code, pointer = refusal(k.model_copy(update={"body": (*k.body, lone)}))
    assert (code, pointer) == ("EQK-CON-OP", f"/kernels/3/body/{len(k.body)}")


def test_an_attribute_that_construction_does_not_know_is_not_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(construct_env.FIELDS, "load", frozenset({"view", "coords"}))
    k = kernel(copy)
    at = next(i for i, op in enumerate(k.body) if op.op == "load")
    assert refusal(k) == ("EQK-CON-OP", f"/kernels/3/body/{at}/valid")


def test_a_negative_extent_from_a_constexpr() -> None:
    def fill(k: Builder) -> None:
        n = k.constexpr("n", 3)
        X = k.view("X", "out", "f32", (2,))
        x = k.full((2, ops_dim(k, n)), 1.0)
        X[:] = x.sum(axis=1)

    assert refusal(kernel(fill), constexprs={"n": -1})[0] == "EQK-CON-CONSTEXPR"


def ops_dim(k: Builder, v: Any) -> Any:
    from eqkir.kir.values import Dim

    return Dim(k, v.id)


def test_a_masked_point_cannot_address_a_view_without_axes() -> None:
    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        X, Y = k.view("X", "in", "f32", (N,)), k.view("Y", "inout", "f32", ())
        k.noalias(X, Y)
        with k.parallel(N) as i:
            Y.store((), X[i], valid=i == 2)

    code, pointer = refusal(kernel(fill))
    assert code == "EQK-CON-SCALAR" and "/body/body/" in pointer


def test_a_long_chain_is_built() -> None:
    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        X, Y = k.view("X", "in", "f32", (N,)), k.view("Y", "out", "f32", (N,))
        k.noalias(X, Y)
        x = X[:]
        for _ in range(3000):
            x = x * 0.5
        Y[:] = x

    k = kernel(fill)
    t = time.process_time()
    assert len(construct(k).nodes) > 3000
    assert time.process_time() - t < 60


def test_index_expressions_that_double_do_not_explode() -> None:
    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        X, Y = k.view("X", "in", "f32", (N,)), k.view("Y", "out", "f32", (N,))
        k.noalias(X, Y)
        i = k.indices(N)
        j = i
        for n in range(40):
            j = j + j if n % 2 else j * j + i
        Y[:] = X.load((j % 2) * 0 + i)

    k = kernel(fill)
    t = time.process_time()
    p = construct(k)
    assert time.process_time() - t < 60
    assert agrees(k, p, {"N": 3})


def test_instances_of_values_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(construct_nodes, "NODE_LIMIT", 3)
    code, pointer = refusal(kernel(copy))
    assert code == "EQK-CON-NODES" and pointer.startswith("/kernels/3/body/")


def test_wrapping_index_arithmetic_stays_wrapping() -> None:
    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        X, Y = k.view("X", "in", "f32", (N,)), k.view("Y", "out", "f32", (N,))
        k.noalias(X, Y)
        i = k.indices(N)
        h = (i + 1) * 6364136223846793005 + 1442695040888963407
        Y[:] = X.load(h % k.value(N))

    k = kernel(fill)
    assert agrees(k, construct(k), {"N": 7})


def test_many_stores_are_refused() -> None:
    def fill(k: Builder) -> None:
        Y = k.view("Y", "out", "f32", (300,))
        for i in range(300):
            Y[i] = 1.0

    assert refusal(kernel(fill))[0] == "EQK-CON-STORES"


def test_many_disjoint_stores_are_built() -> None:
    def fill(k: Builder) -> None:
        X, Y = k.view("X", "in", "f32", (256,)), k.view("Y", "inout", "f32", (256,))
        for i in range(200):
            Y[i] = X[255 - i] + Y[i]

    k = kernel(fill)
    t = time.process_time()
    construct(k)
    assert time.process_time() - t < 60


CODE = """
import sys
sys.path.insert(0, {root!r})
from tests.construct.kernels import draw
from eqkir.program.construct import construct
from eqkir.analysis.listing import listing
for s in range(25):
    p = construct(draw(s))
    print(listing(p), p.nodes, p.axes, p.groups)
"""


def test_the_same_program_under_every_hash_seed() -> None:
    from pathlib import Path

    root = str(Path(__file__).parents[2])
    out = [
        subprocess.run([sys.executable, "-c", CODE.format(root=root)], env={"PYTHONHASHSEED": s}, capture_output=True, check=True).stdout
        for s in ("0", "1", "77")
    ]
    assert out[0] == out[1] == out[2] and len(out[0]) > 1000


CORE = "binary bitcast broadcast cast compare constant contract extent fma full indices load reduce reshape select transpose unary"


def test_the_core_operations_have_a_construction() -> None:
    assert set(CORE.split()) <= set(construct_env.HANDLERS)
