"""Scopes of buffers: at least two corpus kernels each, filled once or owed by the author, never by default; workspaces of one launch."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqkir.analysis.effects import effects
from eqkir.base.diagnostics import EqkirError
from eqkir.base.expr import Coord, atoms
from eqkir.driver.checks import case_of
from eqkir.driver.numeric import interpreter
from eqkir.driver.provider import spell
from eqkir.emit.triton import emit
from eqkir.emit.triton.checks import interpret_batch
from eqkir.kir.builder import Builder
from eqkir.kir.helpers import link
from eqkir.kir.load import load_file
from eqkir.kir.memory import clone
from eqkir.kir.model import Buffer, Kernel
from eqkir.kir.reference import run as reference
from eqkir.program.construct import construct
from eqkir.program.lower import conservative
from eqkir.program.model import Loop, Program, Store
from tests.musthold.four_ways import agree, chain_of, dense

CORPUS = Path(__file__).resolve().parents[2] / "corpus" / "json"
SCOPES = ("program-private", "iteration-private", "invocation")


@cache
def found() -> dict[str, list[tuple[str, str]]]:
    """Scope -> (kernel, buffer) of the corpus."""
    out: dict[str, list[tuple[str, str]]] = {s: [] for s in SCOPES}
    for path in sorted(CORPUS.glob("*.json")):
        if '"buffer"' in path.read_text():
            kernel = link(load_file(path)).kernels[0]
            e = effects(kernel)
            for name, (op, _) in e.definitions.items():
                if isinstance(op, Buffer):
                    scope = "iteration-private" if e.homes[name] else "program-private" if e.scopes[name] else "invocation"
                    out[scope].append((kernel.name, name))
    return out


def corpus(name: str) -> Kernel:
    return link(load_file(CORPUS / f"{name}.json")).kernels[0]


@pytest.mark.parametrize("scope", SCOPES)
def test_every_scope_has_two_kernels(scope: str) -> None:
    assert len({k for k, _ in found()[scope]}) >= 2


def stores(p: Program, view: str) -> list[Store]:
    def walk(items: Any) -> list[Store]:
        out: list[Store] = []
        for i in items:
            out += walk(i.body) if isinstance(i, Loop) else [i] if isinstance(i, Store) and i.view == view else []
        return out

    return [s for seg in p.segments for ph in seg.phases for s in walk(ph)]


OWN = ("private_counts", "private_permuted", "iteration_private_unwritten", "workspace_transpose", "workspace_counts")


@pytest.mark.parametrize("name", OWN)
def test_an_initial_value_is_stored_once_and_none_is_invented(name: str) -> None:
    kernel = corpus(name)
    a = construct(kernel)
    p = conservative(a)
    buffers = [op for op, _ in effects(kernel).definitions.values() if isinstance(op, Buffer)]
    spaces = [v for v in p.abi.views if v.role == "workspace"]
    assert len(buffers) == 1 and len(spaces) == 1
    owed = buffers[0].init is None
    writes = sum(not isinstance(s.op, Buffer) for s in effects(kernel).stores if getattr(s.op, "view", "") == buffers[0].results[0])
    assert spaces[0].owed == owed and len(stores(p, spaces[0].name)) == writes + (not owed)


@pytest.mark.parametrize("name", ["private_counts", "private_permuted"])
def test_a_private_buffer_is_a_slice_of_its_instance(name: str) -> None:
    p = conservative(construct(corpus(name)))
    (ws,) = [v.name for v in p.abi.views if v.role == "workspace" and stores(p, v.name)]
    assert all(Coord("i0") in atoms(s.ixs[0]) for s in stores(p, ws)) and p.segments[0].order == ("TAx", "i0:O1")


def test_workspaces_have_sizes_that_are_known_before_the_launch() -> None:
    for name in {k for pairs in found().values() for k, _ in pairs}:
        try:
            p = conservative(construct(corpus(name)))
        except EqkirError:
            continue
        symbols = {s.name for s in p.abi.symbols}
        for v in p.abi.views:
            assert v.role != "workspace" or {a.args[0] for e in v.shape for a in atoms(e)} <= symbols, name


def test_each_launch_allocates_its_own_workspaces() -> None:
    """On the caller's device and current stream, by its framework; sizes are kept between launches, memory is not."""
    source = emit(chain_of(corpus("workspace_transpose")).program).source
    launch = source[source.index("def launch(") :]
    assert launch.count("_empty(") == 1 and "_empty(" not in source[source.index("def _plan(") : source.index("def launch(")]
    assert "torch.empty(" in source and "cache" not in launch


def permuted(holes: bool) -> Kernel:
    """Rows of a buffer without initial value filled at the places I; with `holes`, place 0 is left out."""
    k = Builder("permuted")
    M, N = k.symbols("M", "N")
    I, X, Y = k.view("I", "in", "i32", (N,)), k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
    k.noalias(I, X, Y)
    with k.parallel(M) as m:
        row = k.buffer("f32", (N,))
        row.unique_scatter(I[:], X[m, :], **({"valid": I[:] > 0} if holes else {}))
        Y[m, :] = row[:]
    return k.build()


def arguments(m: int, n: int) -> tuple[dict[str, Any], dict[str, int]]:
    rng = np.random.default_rng(n)
    x = rng.standard_normal((m, n)).astype(np.float32)
    return dense(I=rng.permutation(n).astype(np.int32), X=x, Y=np.zeros((m, n), np.float32)), {"M": m, "N": n}


def test_what_its_author_fills_is_read_whatever_was_there() -> None:
    p0, chosen = agree(permuted(False), [arguments(*s) for s in ((1, 1), (3, 7), (2, 130), (0, 3), (3, 0))])
    args, symbols = arguments(3, 19)
    results = {interpreter(p, seed)(clone(args), symbols)["Y"].array().tobytes() for p in (p0, chosen) for seed in range(4)}
    assert len(results) == 1


def test_what_nobody_fills_is_found_by_the_interpreters_and_is_garbage_not_zero() -> None:
    """A breach of the obligation: no stage writes a default that would hide it."""
    kernel = permuted(True)
    args, symbols = arguments(3, 7)
    with pytest.raises(EqkirError, match="EQK-REF-READ-BUFFER"):
        reference(kernel, clone(args), symbols)
    chain = chain_of(kernel)
    for p in (chain.initial, chain.program):
        with pytest.raises(EqkirError, match="EQK-INT-UNWRITTEN"):
            interpreter(p)(clone(args), symbols)
        assert any(v.owed for v in p.abi.views)
    ((r,),) = interpret_batch([(spell(chain.program), [case_of(clone(args))])])
    hole = np.flatnonzero(args["I"].array() == 0)
    assert not r.error and np.isnan(r.arrays["Y"][:, 0]).all() and hole.size == 1 and np.isfinite(r.arrays["Y"][:, 1:]).all()
