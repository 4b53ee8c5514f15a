"""The construction verifier never rejects what construction makes of a good kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from eqkir.kir.helpers import link
from eqkir.kir.load import load_file
from eqkir.kir.model import Kernel
from eqkir.program.construction import verify_construction
from tests.construct.kernels import draw
from tests.construction.good import CORPUS, of

pytestmark = pytest.mark.construction

FILES = sorted((CORPUS / "json").glob("*.json"))


def accepted(kernel: Kernel) -> None:
    t = of(kernel)
    found = verify_construction(kernel, t.types, t.abstract, t.program)
    assert not found, [str(d) for d in found[:5]]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_corpus_kernel_is_accepted(path: Path) -> None:
    for kernel in link(load_file(path)).kernels:
        accepted(kernel)


@pytest.mark.parametrize("block", range(8))
def test_generated_kernels_are_accepted(block: int) -> None:
    for seed in range(25 * block, 25 * (block + 1)):
        accepted(draw(seed))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_generated_kernels_are_accepted(block: int) -> None:
    for seed in range(5000 + 100 * block, 5000 + 100 * (block + 1)):
        accepted(draw(seed))
