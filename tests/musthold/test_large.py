"""Launch sizes and offsets past 2**31: index arithmetic of chosen programs, exactly, without allocating anything."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from eqkir.base.expr import evaluate
from eqkir.program.interp import Touch, run_index_only
from eqkir.program.interp_space import Space
from eqkir.program.model import Program
from tests.matrix.cells import Subject

#: extents whose products pass 2**31, 2**32 and 2**33 elements, in one axis or several
CASES = {
    "relu_f32": [{"M": 1 << 17, "N": (1 << 16) + 3}, {"M": 3, "N": (1 << 31) + 5}, {"M": (1 << 31) + 5, "N": 3},
                 {"M": (1 << 32) + 1, "N": 1}],
    "softmax_f32": [{"M": 1 << 20, "N": 4099}, {"M": (1 << 31) + 1, "N": 2}],
    "transpose_add_f32": [{"M": 65537, "N": 65539}],
    "sum_middle_f32": [{"A": 1500, "B": 1201, "C": 2003}],
    "argmax_inner_f32": [{"A": 1500, "B": 1201, "C": 2003}],
    "gemm_nn_bf16": [{"M": 65537, "N": 65539, "K": 65543}],
    "add_in_place": [{"M": 65537, "N": 65539}],
    "two_outputs": [{"M": 65537, "N": 65539, "L": (1 << 33) + 7}],
}  # fmt: skip


def exact(program: Program, t: Touch, symbols: dict[str, int], offset: int) -> bool:
    """Whether every active address equals the exact (unbounded) sum of indices times strides, and lies in the view."""
    view = program.abi.view(t.view)
    shape = [int(evaluate(e, lambda a: symbols[a.args[0]])) for e in view.shape]
    strides = [prod(shape[k + 1 :]) for k in range(len(shape))]
    full = np.broadcast_shapes(t.active.shape, t.address.shape, *(np.shape(x) for x in t.ixs))
    live = np.broadcast_to(t.active, full).reshape(-1)
    places = [np.broadcast_to(x, full).reshape(-1) for x in t.ixs]
    address = np.broadcast_to(t.address, full).reshape(-1)
    picks = np.flatnonzero(live)
    for i in (*picks[:3], *picks[-3:]):
        at = [int(p[i]) for p in places]
        inside = all(0 <= a < n for a, n in zip(at, shape, strict=True))
        if not inside or int(address[i]) != offset + sum(a * s for a, s in zip(at, strides, strict=True)):
            return False
    return True


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("config", ["chosen", "without-all", "random-1"])
def test_index_arithmetic_past_31_bits_is_exact(name: str, config: str) -> None:
    subject = Subject(name)
    program = subject.program(config)
    for symbols in CASES[name]:
        spaces = [Space(program, s, symbols) for s in program.segments]
        total = sum(s.programs for s in spaces)
        ends = [0, total - 1]
        first = 0
        for s in spaces:  # both ends and the middle of every segment, and who owns the last instance
            ends += [
                p
                for p in (first, first + s.programs // 2, first + s.programs - 1, first + (s.length - 1) % max(1, s.programs))
                if 0 <= p < total
            ]
            first += s.programs
        touches = run_index_only(program, symbols, sorted(set(ends)), offsets={v.name: 11 for v in program.abi.views})
        assert touches
        reach: dict[str, int] = {}
        for t in touches:
            assert exact(program, t, symbols, 11), f"{symbols} {t.view} program {t.pid}"
            live = np.broadcast_to(t.active, np.broadcast_shapes(t.active.shape, t.address.shape))
            if live.any():
                reach[t.view] = max(reach.get(t.view, 0), int(np.broadcast_to(t.address, live.shape)[live].max()))
        for v in program.abi.views:  # the last element of every written view is reached by one of them
            if v.role != "in" and v.role != "workspace":
                shape = [int(evaluate(e, lambda a, s=symbols: s[a.args[0]])) for e in v.shape]
                assert reach[v.name] == 11 + prod(shape) - 1, f"{symbols} {v.name}"
        assert max(reach.values()) > 1 << 31
