"""Histograms by counting: exact for any extents, bins, blocks and keys; chosen where a program has one; other sums are done too."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from eqkir.cpu import interp as task_interp
from eqkir.cpu.expand import expand
from eqkir.cpu.instead import avoided
from eqkir.cpu.keys import keys_of
from eqkir.cpu.model import Alloc, statements
from eqkir.cpu.verify import verify
from eqkir.driver.chain import Chain
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.driver.programs import dumps, loads
from eqkir.kir.builder import Builder
from eqkir.kir.model import Kernel
from eqkir.program.interp import Buffer
from eqkir.program.model import Let, Loop, Program
from eqkir.targets import row_templates

from .programs import operations
from .test_tasks import chain_of, compared

V4 = "mojo:x86-64-v4"


def counts(bins: int, also: bool = False) -> Kernel:
    """Of each row: how often each bin occurs, and (also) the largest value of the row."""
    k = Builder("counts")
    P, R = k.symbols("P", "R")
    X, Y = k.view("X", "in", "i16", (P, R)), k.view("Y", "out", "i32", (P, bins))
    Z = k.view("Z", "out", "i16", (P,)) if also else None
    k.noalias(*(v for v in (X, Y, Z) if v is not None))
    with k.parallel(P) as p:
        x = X[p, :]
        Y[p, :] = k.histogram(x, bins, (x >= 0) & (x < bins))
        if Z is not None:
            Z[p] = x.max()
    return k.build()


@cache
def rows() -> str:
    """A file with the rows alone that count in bins."""
    data = row_templates("mojo-cpu")
    folder = Path(tempfile.mkdtemp(prefix="eqkir-rows-"))
    atexit.register(shutil.rmtree, folder, True)
    (folder / "rows.json").write_text(json.dumps({**data, "rows": [t for t in data["rows"] if t["name"] == "bins"]}))
    return str(folder / "rows.json")


@cache
def chain(bins: int, also: bool = False) -> Chain:
    return Chain(counts(bins, also), Options(target=V4, rows=rows()), Outcome("counts", ""))


def counted(bins: int, x: np.ndarray, program: Program | None = None) -> np.ndarray:
    tasks = expand(program or chain(bins).program, 64)
    assert verify(tasks) == []
    y = np.full((x.shape[0], bins), 77, np.int32)
    task_interp.run(tasks, {"X": Buffer.of(x), "Y": Buffer.of(y)}, {"P": x.shape[0], "R": x.shape[1]})
    return y


def expected(bins: int, x: np.ndarray) -> np.ndarray:
    return np.stack([np.bincount(r[(r >= 0) & (r < bins)], minlength=bins) for r in x]) if len(x) else np.zeros((0, bins))


@pytest.mark.parametrize("bins", [40, 256, 300])
@pytest.mark.parametrize("shape", [(1, 1), (3, 0), (5, 37), (2, 130)])
def test_counts_are_exact_for_any_key(bins: int, shape: tuple[int, int]) -> None:
    assert {x.by for x in operations(chain(bins).program)} == {"reduce_bins"}
    x = np.random.default_rng(bins).choice(np.array([-32768, -1, 0, 1, bins - 1, bins, bins + 1, 32767], np.int16), shape)
    assert np.array_equal(counted(bins, x), expected(bins, x))


@pytest.mark.parametrize("rows, block", [(1, 64), (4, 16), (2, 256), (3, 1)])
def test_blocks_of_bins_and_rows_of_any_size_count_their_own(rows: int, block: int) -> None:
    p = loads(dumps(chain(256).program).replace("i0:O1", "i0:OB"))
    p = replace(p, bindings={**p.bindings, "B:i0": rows, "B:i1": block})
    x = np.random.default_rng(rows).integers(-2, 258, (7, 41)).astype(np.int16)
    assert np.array_equal(counted(256, x, p), expected(256, x))


def test_views_of_any_stride_are_counted() -> None:
    x = np.random.default_rng(0).integers(0, 256, (12, 90)).astype(np.int16)[::3, ::-2]
    assert np.array_equal(counted(256, x), expected(256, x))


@pytest.mark.parametrize("chunk", [1, 4, 16])
def test_members_are_dealt_out_between_copies(chunk: int) -> None:
    """A chunked loop, whatever extraction prefers: as many counters as copies and members allow."""
    c = chain(40)
    axis = next(x.axis for s in c.program.segments for ph in s.phases for x in ph if isinstance(x, Loop))
    p = chunked(c, axis, chunk)
    tasks = expand(p, 64)
    (m,) = {s.size for st in tasks.stages for g in st for s in statements(g.body) if isinstance(s, Alloc)}
    assert verify(tasks) == [] and m == 80 * min(4, chunk)
    x = np.random.default_rng(chunk).integers(-1, 41, (3, 50)).astype(np.int16)
    y = np.zeros((3, 40), np.int32)
    task_interp.run(tasks, {"X": Buffer.of(x), "Y": Buffer.of(y)}, {"P": 3, "R": 50})
    assert np.array_equal(y, expected(40, x))


def chunked(c: Chain, axis: str, chunk: int) -> Program:
    """The program with its loop over chunks."""
    text = dumps(c.program).replace(f"{axis}:L1", f"{axis}:LC")
    p = loads(text)
    return replace(p, bindings={**p.bindings, f"C:{axis}": chunk})


def test_nothing_compares_a_key_with_all_bins() -> None:
    """What only the definition of the form reads is neither made nor costed."""
    p = chain(256).program
    (phase,) = p.segments[0].phases
    loop = next(x for x in phase if isinstance(x, Loop))
    left = avoided(phase, p.axis)
    assert {x.attrs[0] for x in loop.body if isinstance(x, Let) and x.id in left} >= {"eq", "select"}
    defs = {x.id: x for x in (*phase, *loop.body) if isinstance(x, Let)}
    (supply,) = (x for x in defs.values() if x.op == "Supply")
    found = keys_of(defs, supply)
    assert found is not None and defs[found.key].dtype == "index" and len(found.where) == 1
    assert keys_of(defs, replace(supply, attrs=("keys", loop.label))) is None


def test_other_reductions_beside_a_histogram_are_done_too() -> None:
    c = chain(256, True)
    assert [x.by for x in operations(c.program)] == ["reduce_bins"] * 2 and not c.choice.fallback
    tasks = expand(c.program, 64)
    v = compared(c, c.program, tasks)
    assert verify(tasks) == [] and v.ok, v.mistakes


@pytest.mark.parametrize("extractor, seed", [("random", 0), ("random", 1), ("worst", 0)])
def test_other_candidates_count_the_same(extractor: str, seed: int) -> None:
    c = chain_of("histogram_parts_i32", target=V4, extractor=extractor, seed=seed)
    v = compared(c, c.program, expand(c.program, 64))
    assert v.ok, v.mistakes


@pytest.mark.parametrize("name", ["histogram_parts_i32", "histogram_global_u8"])
def test_histograms_of_the_corpus_are_counted(name: str) -> None:
    c = chain_of(name, target=V4)
    assert c.choice.row is not None and c.choice.row.template == "bins"
    v = compared(c, c.program, expand(c.program, 64))
    assert v.ok, v.mistakes
