"""The cases that the native check adds reach every part of a block's edge, and the layouts of single views."""

from __future__ import annotations

import numpy as np
import pytest

from eqkir.driver import edges
from eqkir.driver.numeric import lies_alone, spaced
from eqkir.kir.memory import ViewArg
from tests.matrix.cells import Subject


@pytest.mark.parametrize("name", ["relu_f32", "gemm_nn_bf16"])
def test_extents_are_about_those_of_the_blocks(name: str) -> None:
    s = Subject(name, "mojo:x86-64-v4")
    program = s.program("chosen")
    lanes = edges.blocks(program)
    cases = list(edges.edge_cases(s.kernel, program, {}, 0))
    assert lanes and max(lanes.values()) > 1
    for symbol, n in lanes.items():
        seen = {c.symbols[symbol] for c in cases}
        assert n - 1 in seen or n == 1, (symbol, n, seen)
        assert any(x > n and x % n == n - 1 for x in seen), "a whole block and an edge that is nearly one"
    assert {c.spaced for c in cases} == {"", *(v.name for v in program.abi.views)}
    pinned = list(edges.edge_cases(s.kernel, program, {"N": 3}, 0))
    assert all(c.symbols["N"] == 3 for c in pinned)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (0, 2)])
def test_a_spaced_view_holds_the_same_in_other_places(shape: tuple[int, ...]) -> None:
    a = ViewArg.of(np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape))
    b = spaced(a)
    assert np.array_equal(a.array(), b.array())
    if b.shape and 0 not in b.shape:
        assert b.strides[-1] == 2 and len(set(np.ndindex(*shape))) == a.array().size
        places = {b.offset + sum(i * s for i, s in zip(at, b.strides, strict=True)) for at in np.ndindex(*shape)}
        assert len(places) == a.array().size and max(places) < b.memory.size
    assert lies_alone(a, {"A": a, "B": b})
    if a.memory.size:
        assert not lies_alone(a, {"A": a, "B": ViewArg(a.memory[:1], 0, (), ())})
