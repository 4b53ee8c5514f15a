"""The best candidates of a kernel, not only the chosen one: for tuning, and for looking at what the cost model ranks close."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eqkir.base.diagnostics import EqkirError
from eqkir.driver.chain import Chain
from eqkir.driver.manifest import manifest
from eqkir.driver.programs import dumps


def best(chain: Chain, top: int, emit: Any, kir_digest: str) -> list[dict[str, Any]]:
    """Up to `top` verified candidates, the chosen one first, then the others by exact cost: source, program_json, manifest, cost.

    Candidates that equal another one's bytes, break a whole-program limit, do not decode, verify or emit are left out.
    """
    from eqkir.extract.choose import problem
    from eqkir.extract.cost import cost_model
    from eqkir.extract.extractors import extract
    from eqkir.program.schedule import ScheduleError
    from eqkir.terms.decode import decode

    o, graph, model = chain.options, chain.saturated.graph, cost_model(chain.options.cost_model)
    p, _ = problem(graph, chain.abstract, chain.target, chain.steering, model)
    bases: dict[Any, Any] = {}
    ranked = []
    for c in extract(p, o.extractor, o.seed):
        row = p.rows[c.row]
        if c.key not in bases:
            try:
                bases[c.key] = decode(graph, c.selection, chain.abstract, row.values, row.launch, chain.canonical)
            except (ScheduleError, EqkirError):
                bases[c.key] = None
        if bases[c.key] is not None:
            cost = model.program(replace(bases[c.key], bindings=row.values, options=row.launch), chain.target, chain.steering)
            if not cost.reject:
                ranked.append((cost.total, c.row, c.key, c))
    out: list[dict[str, Any]] = []
    seen: set[str] = set()
    programs = [(chain.choice.cost.total, chain.program)]
    for total, row_index, _, c in sorted(ranked, key=lambda x: x[:3]):
        row = p.rows[row_index]
        program = decode(graph, c.selection, chain.abstract, row.values, row.launch, chain.canonical)
        programs.append((total, replace(program, implementations=row.implementations)))
    for total, program in programs:
        if len(out) >= top:
            break
        text = dumps(program)
        if text in seen or (out and chain.provider.acceptable(program)):
            continue
        seen.add(text)
        try:
            source = emit(program)
        except EqkirError:
            continue
        m = manifest(program, o, kir_digest, text, source, chain.rule_digests)
        out.append({"source": source, "program_json": text, "manifest": m, "cost": total})
    return out
