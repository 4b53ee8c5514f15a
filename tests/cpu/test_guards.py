"""Native code runs on copies whose edges are watched; what it writes inside comes back, into every view of a memory."""

from __future__ import annotations

import numpy as np
import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.driver.guards import GUARD, Guarded
from eqkir.kir.memory import ViewArg


def views() -> tuple[np.ndarray, dict[str, ViewArg]]:  # type: ignore[type-arg]
    """Two views of one memory, one backwards and over a part of it, and an empty one."""
    memory = np.arange(12, dtype=np.float32)
    return memory, {
        "X": ViewArg(memory, 1, (3,), (2,)), "Y": ViewArg(memory[2:], 9, (4,), (-3,)),
        "Z": ViewArg(np.zeros(0, np.int16), 0, (0, 3), (3, 1)),
    }  # fmt: skip


def test_writes_come_back_to_every_view_of_a_memory() -> None:
    memory, args = views()
    g = Guarded(args)
    assert g.arrays["X"].tolist() == [1, 3, 5] and g.arrays["Y"].tolist() == [11, 8, 5, 2] and g.arrays["Z"].shape == (0, 3)
    g.arrays["X"][2] = 50
    assert g.arrays["Y"][2] == 50 and memory[5] == 5, "the memory itself is untouched until the end"
    g.finish()
    assert memory.tolist() == [0, 1, 2, 3, 4, 50, 6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize("byte", [-1, -GUARD, 48, 48 + GUARD - 1])
def test_a_write_beside_the_memory_is_refused(byte: int) -> None:
    _, args = views()
    g = Guarded(args)
    (_, block), *_ = g.blocks.values()
    block[GUARD + byte] = 0
    with pytest.raises(EqkirError) as e:
        g.finish()
    assert e.value.diagnostics[0].code == "EQK-RUN-CHECK"
