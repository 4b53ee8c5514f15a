"""Each of the sixteen checks of construction finds what breaks it, and nothing else does."""

from __future__ import annotations

import pytest

from eqkir.base.diagnostics import CODES as REGISTERED
from eqkir.program.construction import CHECKS, CODES, NAMES, verify_construction
from tests.construction.mutations import MUTATIONS

pytestmark = pytest.mark.construction


def test_sixteen_checks_in_order_each_with_a_code_that_is_explained() -> None:
    assert len(NAMES) == 16 and tuple(CHECKS) == NAMES
    assert [CHECKS[n].code for n in NAMES] == [f"EQK-VER-{i:02d}" for i in range(1, 17)]
    assert all(len(REGISTERED[c][1]) > 40 for c in CODES.values())


def test_every_check_has_mutations() -> None:
    assert all(sum(c == name for c, _ in MUTATIONS) >= 2 for name in NAMES)
    assert {c for c, _ in MUTATIONS} == set(NAMES)


@pytest.mark.parametrize(("check", "how"), sorted(MUTATIONS, key=lambda m: (NAMES.index(m[0]), m[1])), ids=lambda x: x)
def test_broken(check: str, how: str) -> None:
    t = MUTATIONS[check, how]()
    found = verify_construction(t.kernel, t.types, t.abstract, t.program)
    assert {d.code for d in found} == {CODES[check]}, [str(d) for d in found]
    assert CHECKS[check](t.kernel, t.types, t.abstract, t.program) == found
