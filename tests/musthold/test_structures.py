"""The e-graph offers many programs: the median corpus kernel has at least 8 distinct legal structures (parameters erased)."""

from __future__ import annotations

import random
from statistics import median

import pytest

from eqkir.driver import programs
from eqkir.program.schedule import ScheduleError
from eqkir.terms.decode import decode
from tests.matrix.cells import REPRESENTATIVE, Subject, kernels


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_the_median_corpus_kernel_has_at_least_8_legal_structures(step: int, capsys: pytest.CaptureFixture[str]) -> None:
    counts: dict[str, int] = {}
    for name in kernels()[::step]:
        got = Subject(name).base.legal_structures()
        counts[name] = got["count"]
    with capsys.disabled():
        print(
            f"\nlegal structures a kernel: median {median(counts.values()):.0f}, least {min(counts.values())}, most {max(counts.values())}"
        )
    for name, n in counts.items():
        print(f"{name:28s} {n}")
    assert median(counts.values()) >= 8
    assert min(counts.values()) >= 2


@pytest.mark.parametrize("name", REPRESENTATIVE[:5])
def test_counted_structures_are_different_programs(name: str) -> None:
    """Random selections decode to distinct programs; a count alone could count spellings of one."""
    from eqkir.extract.choose import problem
    from eqkir.extract.cost import cost_model
    from eqkir.extract.sampling import random_selection

    chain = Subject(name).base
    p, _ = problem(chain.saturated.graph, chain.abstract, chain.target, {}, cost_model("roofline"))
    rng = random.Random(3)
    seen = set()
    for _ in range(60):
        r = rng.randrange(len(p.rows))
        s = random_selection(p, r, rng)
        if s is None:
            continue
        try:
            program = decode(p.graph, s, chain.abstract, p.rows[r].values, p.rows[r].launch)
        except ScheduleError:
            continue
        seen.add(str(program.segments))
        assert programs.loads(programs.dumps(program)).segments == program.segments
    assert len(seen) >= 8
