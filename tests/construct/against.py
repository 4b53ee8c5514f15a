"""Comparison of a constructed kernel with the reference's error envelope: brute force and the conservative program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eqkir.base.diagnostics import EqkirError
from eqkir.kir.envelope import compare, envelope
from eqkir.kir.inputs import make_inputs
from eqkir.kir.memory import ViewArg, clone
from eqkir.kir.model import Kernel, View
from eqkir.program import interp
from eqkir.program.abstract import Abstract
from eqkir.program.lower import conservative
from tests.construct import brute


def agrees(
    kernel: Kernel,
    p: Abstract,
    symbols: Mapping[str, int],
    seed: int = 0,
    variant: str = "plain",
    engines: str = "bp",
    constexprs: Mapping[str, Any] | None = None,
    scalars: Mapping[str, Any] | None = None,
    args: Mapping[str, Any] | None = None,
) -> bool:
    """Assert that brute force (``b``) and the interpreted P0 (``p``) stay in the envelope. False: the reference refuses the input."""
    given = dict(args) if args is not None else make_inputs(kernel, symbols, seed, variant, constexprs, scalars)
    try:
        expected = envelope(kernel, clone(given), symbols, constexprs)
    except EqkirError:
        return False
    views = [v.id for v in kernel.params if isinstance(v, View)]
    if p.inner:  # brute force knows no order of steps; the interpreter knows the time of every version
        engines = "p"
    for engine in engines:
        got = clone(given)
        with np.errstate(all="ignore"):
            if engine == "b":
                arrays = {n: got[n].array() for n in views}
                rest = {n: a for n, a in got.items() if n not in arrays}
                brute.run(p, arrays, symbols, rest, seed)
            else:
                buffers = {
                    n: interp.Buffer(a.memory, a.offset, a.shape, a.strides) if isinstance(a, ViewArg) else a for n, a in got.items()
                }
                interp.run(conservative(p), buffers, symbols)
        verdict = compare(expected, {n: got[n] for n in views})
        assert verdict.ok, (kernel.name, engine, dict(symbols), variant, str(verdict)[:400])
    return True
