"""Other targets than this machine's: the same bits from an older level of x86-64, and code for another architecture."""

from __future__ import annotations

import numpy as np
import pytest

from eqkir.emit.mojo import toolchain
from eqkir.emit.mojo.build import Built, build
from eqkir.emit.mojo.pool import pool_module
from eqkir.runtime.machine import features
from tests.mojo.opsuite import Case, Suite, cases, modules
from tests.mojo.test_accuracy import TABULATED
from tests.mojo.test_operations import EXACT, FUNCTIONS, different, operands, overflows, reference, valid, values

pytestmark = [
    pytest.mark.slow, pytest.mark.compile, pytest.mark.skipif(not toolchain.available(), reason="no Mojo compiler"),
]  # fmt: skip


@pytest.fixture(scope="module")
def older() -> Suite:
    if not {"avx2", "fma", "f16c", "bmi2"} <= (features() or frozenset()):
        pytest.skip("no x86-64-v3")
    return Suite(EXACT + FUNCTIONS, cpu="x86-64-v3")


@pytest.mark.parametrize("case", EXACT, ids=str)
def test_exact_operations_on_x86_64_v3(older: Suite, case: Case) -> None:
    xs = operands(case.args)
    with np.errstate(all="ignore"):
        keep = valid(case, xs) & ~overflows(case, xs)
        got = older.run(case, *xs)
        want = reference(case, [x[keep] for x in xs])
    assert not different(got[keep], want, case.dtype).any()


def test_functions_have_the_same_bits_on_x86_64_v3(older: Suite) -> None:
    """Except those that are looked up in tables where there is a permutation (`test_accuracy` has both kinds)."""
    same = [c for c in FUNCTIONS if c.args[0] == "f64" or c.attrs[0].removesuffix("_fast") not in TABULATED]
    here = Suite(same)
    for case in same:
        x = values(case.args[0])
        assert not different(older.run(case, x), here.run(case, x), case.dtype).any(), case


def test_nothing_assumes_x86() -> None:
    """Operations, functions and the pool compile for riscv64; machine 243 is RISC-V (ELF)."""
    chosen = [c for c in cases() if c.args[0] in ("f32", "f16", "bf16", "f8e5m2", "f64", "i32", "u64", "bool")][::4]
    for found in build([*modules(chosen, 30), pool_module()], "generic-rv64", triple="riscv64-unknown-linux-gnu"):
        assert isinstance(found, Built), found
        assert int.from_bytes(found.library.read_bytes()[18:20], "little") == 243
