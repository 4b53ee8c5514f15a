"""The CPU benchmark's list and its numpy peers: every peer computes what the reference formula says, and timing leaves the inputs alone."""

from __future__ import annotations

from typing import Any

import cpu_list
import cpu_numpy
import cpu_one
import numpy as np
import pytest

ENTRIES = {e["kernel"]: e for e in cpu_list.entries()}


def tiny(kernel: str) -> cpu_one.Workload:
    e = ENTRIES[kernel]
    at = {k: e["tiny"][k] for k in ("shapes", "scalars", "constexprs", "data")}
    return cpu_one.Workload({**e, **at, "constexprs": e["constexprs"]})


def test_the_list_has_at_least_thirty_workloads_with_peers_in_numpy() -> None:
    names = [e["name"] for e in cpu_list.entries()]
    assert len(set(names)) == len(names) and sum(n.split("-")[0] in cpu_numpy.PEERS for n in names) >= 30
    assert cpu_numpy.PEERS.keys() <= ENTRIES.keys()


@pytest.mark.parametrize("kernel", sorted(cpu_numpy.PEERS))
def test_a_numpy_peer_is_right(kernel: str) -> None:
    w = tiny(kernel)
    call, back = cpu_one.numpy(w, {})
    assert w.verdicts(call, back) == []
    before = {n: a.copy() for n, a in w.initial.items()}
    assert len(cpu_one.timed(call, w, 0.0)) >= 3
    w.reset()
    assert all(np.array_equal(before[n], w.arrays[n]) for n in before)


def test_a_wrong_result_is_told() -> None:
    w = tiny("relu_f32")

    def wrong() -> None:
        w.arrays["Y"][...] = 1.0

    assert w.verdicts(wrong, cpu_one.nothing)


def test_bytes_count_what_is_read_and_written() -> None:
    adamw: dict[str, Any] = ENTRIES["adamw_f32"]
    assert adamw["bytes"] == 7 * 4 * adamw["shapes"]["N"]
