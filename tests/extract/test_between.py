"""What costs expect of loops between bounds that are data, against counts over random groups."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from corpus.build import every
from eqkir.extract.choose import choose
from eqkir.extract.extents import Extents
from eqkir.extract.narrowed import Between, of_abstract
from eqkir.extract.roles import axis_roles
from eqkir.kir.types import infer
from eqkir.program.abstract import Abstract
from eqkir.program.construct import construct
from eqkir.program.lower import conservative
from eqkir.program.model import Loop
from eqkir.program.ranges import with_ranges
from eqkir.program.verify import verify
from eqkir.rules.saturate import saturate
from eqkir.targets import load_target
from eqkir.terms.decode import decode


@cache
def source(name: str) -> Abstract:
    k = every()[name]
    return with_ranges(construct(k, infer(k), {}))


def _offsets(rng: np.random.Generator, groups: int, n: int) -> np.ndarray:
    return np.concatenate([[0], np.sort(rng.integers(0, n + 1, groups - 1)), [n]])


@pytest.mark.parametrize(("groups", "block", "step"), [(64, 32, 8), (8, 64, 16), (256, 1, 4), (64, 512, 1), (16, 4096, 32)])
def test_steps_of_groups_that_a_block_meets(groups: int, block: int, step: int) -> None:
    """The expectation is within a factor of 1.7 of the mean count: groups that a block meets are larger than the mean, by at most 2."""
    n, rng = 4096, np.random.default_rng(groups + block)
    blocks = n // block
    counts = []
    for _ in range(20):
        at = _offsets(rng, groups, n)
        lo, hi = at[:-1], at[1:]
        first = np.arange(blocks)[:, None] * block
        meets = (lo < first + block) & (hi > first) & (lo < hi)
        counts.append(np.mean(np.where(meets, -(-hi // step) - lo // step, 0)))
    size = {"c": float(groups), "i": float(blocks)}
    expected = float(Between(float(n), ("c",), 2, ("c",), ("i",)).steps(step, n / step, lambda a: size[a]))
    assert 1 / 1.7 < expected / np.mean(counts) < 1.7


@pytest.mark.parametrize(("groups", "lanes", "step"), [(64, 1, 8), (64, 16, 8), (512, 32, 16), (1024, 1, 1)])
def test_steps_of_a_block_of_groups(groups: int, lanes: int, step: int) -> None:
    n, rng = 8192, np.random.default_rng(groups)
    counts = []
    for _ in range(20):
        at = _offsets(rng, groups, n)
        counts.append(np.mean(-(-at[lanes::lanes] // step) - at[:-1:lanes] // step))
    expected = float(Between(float(n), ("i",), 2).steps(step, n / step, lambda a: groups / lanes))
    assert 1 / 1.4 < expected / np.mean(counts) < 1.4


def test_groups_divide_the_axis_and_a_length_half_of_it() -> None:
    p = source("csr_spmv_f32")
    found = of_abstract(p, Extents(p.abi, {"R": 100, "E": 101, "N": 5000, "C": 7}))
    assert found == {"c0": Between(5000.0, ("i0",), 2), "c0k": Between(50.0, (), 1, waits=("i0",), groups_all=100.0)}
    p = source("jagged_softmax_f32")
    found = of_abstract(p, Extents(p.abi, {"N": 5000, "D": 4, "E": 11}))
    assert found == {"c1": Between(5000.0, ("c0",), 2, ("c0",), ("i0",)), "c0": Between(10.0, (), 0, ("c0",), ("i0",))}
    p = source("attention_decode_paged_bf16")
    assert all(b.groups == () for b in of_abstract(p, Extents(p.abi, {})).values())


def test_packed_rows_are_taken_in_blocks() -> None:
    name, shapes, target = "jagged_softmax_f32", {"N": 1 << 21, "D": 128, "E": 4097}, load_target("triton:nvidia-h200")
    p = source(name)
    assert "packed" in axis_roles(p, Extents(p.abi, shapes))["i0"]
    q = choose(
        saturate(p).graph, p, target, shapes=shapes, verify=verify, initial=conservative(p), decode=lambda g, s, b, o: decode(g, s, p, b, o)
    ).program

    def inner(items: tuple[object, ...]) -> list[Loop]:
        return [x for i in items if isinstance(i, Loop) for x in (i, *inner(i.body))]

    bound = [x for s in q.segments for ph in s.phases for x in inner(ph) if x.axis == "c1"]
    assert len(bound) == 2 and all(len(x.ends) == 3 for x in bound)
    assert q.bindings["B:i0"] >= 64
