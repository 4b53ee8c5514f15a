"""Engines by name: how a program is run on one set of arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eqkir.base.diagnostics import fail
from eqkir.driver import codes, numeric
from eqkir.kir.memory import ViewArg
from eqkir.program.model import Program


def engine(name: str, program: Program, target: str = "") -> numeric.Engine:
    """``program`` (numpy, every check on), ``interpreter`` (Triton's, on the emitted source), ``gpu`` (through torch) or ``native``
    (compiled for `target` and called through the runtime, with its threads).

    Raises EqkirError EQK-RUN-EXTRA when the engine's package is missing, EQK-RUN-USAGE for another name. An engine raises EqkirError for
    what goes wrong while it runs.
    """
    if name == "program":
        return numeric.interpreter(program)
    if name == "native":
        from eqkir.driver.native import through_runtime

        return through_runtime(program, target)
    if name not in ("interpreter", "gpu"):
        raise fail(codes.USAGE, f"unknown engine {name!r}", accepted="program, interpreter, gpu, native", stage="options")
    try:
        import triton  # noqa: F401
    except ModuleNotFoundError:
        raise fail(codes.EXTRA, "triton is not installed", accepted="pip install 'eqkir[triton]'", stage="run") from None
    from eqkir.driver.provider import spell

    artifact = spell(program)
    if name == "gpu":
        from eqkir.driver.gpu import launch

        return lambda args, symbols: launch(artifact.source, args)
    return lambda args, symbols: _interpreted(artifact, args)


def _interpreted(artifact: Any, args: Mapping[str, Any]) -> Mapping[str, ViewArg]:
    from eqkir.driver.checks import case_of
    from eqkir.emit.triton.checks import interpret_batch

    outcome = interpret_batch([(artifact, [case_of(args)])])[0][0]
    if outcome.error:
        raise fail(codes.CHECK, outcome.error, stage="run")
    out = {n: a for n, a in args.items() if isinstance(a, ViewArg)}
    for n, a in out.items():
        if any(v.name == n and v.role != "in" for v in artifact.legal.abi.views):
            a.array()[...] = outcome.arrays[n]
    return out
