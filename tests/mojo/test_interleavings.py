"""No interleaving of the pool's steps runs an instance twice, before its stage, or after the call; none sleeps for ever."""

from __future__ import annotations

import pytest

from tests.mojo.interleavings import POOL, Fault, at_random, explore, runs, translate

TEXT = POOL.read_text(encoding="utf-8")
#: for each caller its calls: stages of groups (instances, instances of a task)
GROWING = [[[[(2, 1)], [(3, 1), (1, 1)]]]]
TWICE = [[[[(2, 1)], [(3, 2)]], [[(3, 1)]]]]
TOGETHER = [[[[(2, 1)], [(2, 1)]]], [[[(2, 1)]]]]
LARGE = [[[[(5, 2)], [(1, 1)], [(4, 1), (3, 2)]], [[(6, 1)]]], [[[(3, 1)], [(2, 1)]]]]

#: (what is broken, text, its replacement)
FAULTS = [
    ("the old generation stays open while a stage is published", "    kt_set(st, 0, generation << 32 | 0x7FFFFFFF)\n", ""),
    (
        "a stage is open before it is described",
        "    kt_set(st, 0, generation << 32 | 0x7FFFFFFF)\n",
        "    kt_set(st, 0, (generation + 1) << 32)\n",
    ),
    ("tasks that ended are counted from before", "    kt_set(st, 8, 0)\n", ""),
    ("no join", "    while kt_get(st, 8) != tasks:\n", "    while kt_get(st, 8) > tasks:\n"),
    ("two calls share the state", "kt_get(st, 48) != 0 and st.unsafe_offset(40)", "kt_get(st, 48) != 0 or st.unsafe_offset(40)"),
    ("a claim that no exchange confirms", "    if st.unsafe_bitcast[Atomic[Int64]]()[].compare_exchange(seen, t + 1):\n        kt_task",
     "    kt_set(st, 0, t + 1)\n    if True:\n        kt_task"),
    ("a task counts as ended before it runs", "        kt_task(P64(unsafe_from_address=Int(stage)), context, number)\n",
     "        kt_set(st, 8, kt_get(st, 33))\n        kt_task(P64(unsafe_from_address=Int(stage)), context, number)\n"),
    ("the end wakes nobody", "        kt_futex(st, 129, 1 << 30)\n        _ = external_call", "        _ = external_call"),
]  # fmt: skip


@pytest.mark.parametrize("plans, workers", [(GROWING, 1), (GROWING, 2), (TWICE, 1), (TOGETHER, 1)])
def test_a_bounded_number_of_preemptions_breaks_nothing(plans: object, workers: int) -> None:
    assert explore(runs(TEXT, plans, workers), 1) > 50
    explore(runs(TEXT, plans, workers), 2, limit=400)


def test_random_interleavings_break_nothing() -> None:
    make = runs(TEXT, LARGE, 3)
    for seed in range(60):
        at_random(make, seed, (0.05, 0.3, 0.9)[seed % 3])


@pytest.mark.slow
@pytest.mark.parametrize("plans, workers", [(GROWING, 1), (GROWING, 2), (TWICE, 1), (TWICE, 2), (TOGETHER, 1), (TOGETHER, 2)])
def test_two_preemptions_anywhere_break_nothing(plans: object, workers: int) -> None:
    explore(runs(TEXT, plans, workers), 2)


@pytest.mark.slow
def test_many_random_interleavings_break_nothing() -> None:
    for workers in (1, 2, 3, 5):
        make = runs(TEXT, LARGE, workers)
        for seed in range(1500):
            at_random(make, seed, (0.02, 0.1, 0.3, 0.9)[seed % 4])


@pytest.mark.parametrize("what, old, new", FAULTS, ids=[f[0] for f in FAULTS])
def test_a_broken_pool_is_found(what: str, old: str, new: str) -> None:
    assert TEXT.count(old) == 1, what
    broken = TEXT.replace(old, new)
    with pytest.raises(Fault):
        for plans in (GROWING, TWICE, TOGETHER):
            explore(runs(broken, plans, 1), 2, limit=1500)
        for seed in range(500):
            at_random(runs(broken, LARGE, 3), seed, 0.3)


def test_text_that_is_not_understood_is_refused() -> None:
    with pytest.raises(ValueError, match="kt_alone is not there"):
        translate(TEXT.replace("def kt_alone(", "def kt_lonely("))
    with pytest.raises(ValueError, match="not understood"):
        translate(TEXT.replace("    kt_set(st, 8, 0)\n", "    st.unsafe_store(8, 0)\n"))
