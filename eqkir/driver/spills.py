"""When the compile check finds that the chosen candidate spills: the next best candidate that does not takes its place.

Registers are estimated before anything is compiled (`extract.cost.registers`); where the estimate was wrong, the compiler is right. The
replacement goes through the same checks, and the report names what was passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from eqkir.driver import codes, numeric, programs
from eqkir.driver.chain import Chain
from eqkir.driver.job import kernel_of
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.driver.scan import Task
from eqkir.driver.variants import best

if TYPE_CHECKING:
    from eqkir.emit.triton.artifact import Artifact

#: candidates that are compiled, at most
TRIED = 8


def replacement(
    o: Outcome, options: Options, faults: Callable[[Artifact], tuple[list[str], dict[str, Any]]]
) -> tuple[Artifact, dict[str, Any]] | None:
    """The first of the next best candidates without `faults`, put into the outcome with its cost; None when there is none.

    The second value holds the compiler's figures, and under ``passed_over`` what was wrong with the candidates before it.
    """
    from eqkir.driver.provider import spell
    from eqkir.kir import digest
    from eqkir.targets import load_gpu

    chain = Chain(kernel_of(Task(o.file, 0, o.kernel or "", o.kir)), options, Outcome(o.kernel, o.file, kir=o.kir))
    passed: list[dict[str, Any]] = []
    capability = load_gpu(options.target).capability
    for n, c in enumerate(best(chain, TRIED, lambda p: spell(p).source, digest(chain.kernel))):
        program = programs.loads(c["program_json"])
        artifact = spell(program)
        wrong, figures = faults(artifact)
        if wrong or artifact.capability > capability:
            passed.append({"digest": c["manifest"].get("digests", {}).get("program", ""), "cost": c["cost"], "why": "; ".join(wrong)})
            continue
        if n and "numeric" in options.checks:
            engine, steps = numeric.interpreter(program), numeric.scalar_steps(chain.initial)
            v = numeric.check(
                chain.kernel, program, chain.constexprs, chain.extents, options.seed, engine, steps, permit=options.permit,
                described=options.described(chain.kernel.name),
            )  # fmt: skip
            if not v.ok:
                passed.append({"digest": "", "cost": c["cost"], "why": f"{codes.NUMERIC}: {'; '.join(v.mistakes)}"})
                continue
            o.details["numeric"] = v.to_json()
        o.source, o.program, o.manifest, o.cost = c["source"], c["program_json"], c["manifest"], c["cost"]
        o.candidates = [c]
        return artifact, {**figures, "passed_over": passed}
    return None
