"""One kernel four ways on one input: the reference's enclosure, P0 and P* on the program interpreter, the emitted module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eqkir.driver.chain import Chain
from eqkir.driver.checks import case_of
from eqkir.driver.numeric import interpreter
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.driver.provider import spell
from eqkir.emit.triton.checks import interpret_batch
from eqkir.kir.envelope import compare, envelope
from eqkir.kir.memory import ViewArg, clone
from eqkir.kir.model import Kernel
from eqkir.program.model import Program

Args = Mapping[str, Any]
Judge = Callable[[Args, Mapping[str, Any]], None]


def dense(**arrays: Any) -> dict[str, Any]:
    """Row-major views of arrays; scalars as they are."""
    return {k: ViewArg.of(a) if hasattr(a, "strides") and a.ndim else a for k, a in arrays.items()}


def chain_of(kernel: Kernel, **options: Any) -> Chain:
    return Chain(kernel, Options(**options), Outcome(kernel.name, ""))


def agree(kernel: Kernel, cases: Sequence[tuple[Args, Mapping[str, int]]], judge: Judge | None = None, **options: Any) -> list[Program]:
    """Assert that all four agree on every case; `judge` sees the arguments and each result besides. Returns P0 and P*."""
    chain = chain_of(kernel, **options)
    programs = [chain.initial, chain.program]
    expected = [envelope(kernel, args, symbols, chain.constexprs) for args, symbols in cases]
    for which, p in zip(("P0", "P*"), programs, strict=True):
        for n, (args, symbols) in enumerate(cases):
            for seed, order in ((0, "tree"), (1, "reversed")):
                got = interpreter(p, seed, order)(clone(args), symbols)
                arrays = {k: got[k].array() for k in expected[n]}
                verdict = compare(expected[n], arrays)
                assert verdict.ok, f"{which}, {symbols}, {order}: {verdict.first}"
                if judge:
                    judge(args, arrays)
    ((*results,),) = interpret_batch([(spell(programs[1]), [case_of(clone(args)) for args, _ in cases])])
    for n, r in enumerate(results):
        assert not r.error, f"emitted, {cases[n][1]}: {r.error}"
        arrays = {k: r.arrays[k] for k in expected[n]}
        verdict = compare(expected[n], arrays)
        assert verdict.ok, f"emitted, {cases[n][1]}: {verdict.first}"
        if judge:
            judge(cases[n][0], arrays)
    return programs
