"""Random kernels: whatever the operations, index maps, aliasing and order of effects, the program gives KIR's result or is refused."""

from __future__ import annotations

import pytest

from eqkir.analysis.listing import listing
from eqkir.program.construct import construct
from eqkir.program.lower import conservative
from eqkir.program.verify import verify
from tests.construct.against import agrees
from tests.construct.kernels import draw


def check(seed: int) -> None:
    kernel = draw(seed)
    p = construct(kernel)
    assert listing(p)
    assert verify(conservative(p)) == [], "P0 verifies statically"
    for n, (s, m) in enumerate(((3, 2), (2, 3), (1, 1), (0, 2), (2, 0))):
        for variant in ("plain", "overlap") if n < 2 else ("plain",):
            agrees(kernel, p, {"S": s, "N": m}, seed, variant)


@pytest.mark.parametrize("seed", range(120))
def test_random_kernel(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(40))
def test_many_random_kernels(block: int) -> None:
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        check(seed)
