"""The benchmark's reference formulas say what the kernels mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from references import FORMULAS, Judge
from workloads import text

from corpus.build import every
from tests.bench.support import BENCH, interpreted, workloads

#: outputs of these may hold what they should without being written, or be right in many ways
ANY = {"claim_slots_i32", "first_arrivals_u32", "unique_consecutive_flags_i32", "segmented_apply_i32"}


def test_every_kernel_has_a_workload_and_a_formula() -> None:
    assert set(FORMULAS) == set(every()) == set(workloads())


def test_the_list_of_workloads_is_what_the_scripts_give() -> None:
    assert (BENCH / "workloads.json").read_text() == text(), "run python bench/workloads.py"


@pytest.mark.parametrize("kernel", sorted(FORMULAS))
def test_a_formula_equals_the_reference_interpreter_and_refuses_what_is_wrong(kernel: str) -> None:
    reference, before, got = interpreted(workloads()[kernel], 11)
    wrong = [str(v) for v in reference.verdicts(got) if not v.ok]
    assert not wrong
    if kernel not in ANY:
        assert any(not v.ok for v in reference.verdicts(before)), "nothing was written, and nobody noticed"
    for name, want in reference.want.items():
        if isinstance(want, Judge) and kernel in ANY or not got[name].size:
            continue
        changed = {**got, name: disturbed(got[name])}
        assert any(not v.ok for v in reference.verdicts(changed)), f"a wrong element of {name} passes"


def disturbed(a: Any) -> Any:
    """One element changed: another bool or integer, a float off by an eighth of itself and of the largest."""
    out = np.array(a)
    at = np.unravel_index(out.size // 2, out.shape)
    if out.dtype == bool:
        out[at] = not out[at]
    elif out.dtype.kind in "iu":
        out[at] = out[at] ^ 1
    else:
        wide = np.nan_to_num(out.astype(np.float64), posinf=0.0, neginf=0.0)
        out[at] = np.asarray(wide[at] * 1.125 + np.abs(wide).max() * 0.25 + 1e-3).astype(out.dtype)
    return out
