"""The manifest of a kernel: everything that a caller or a cache needs to know about its artifacts. No times, no host, no paths."""

from __future__ import annotations

from typing import Any

from eqkir.base.expr import to_json
from eqkir.driver.artifacts import digest
from eqkir.driver.bundle import versions
from eqkir.driver.options import Options
from eqkir.program.model import Program

SCHEMA = 1


def manifest(program: Program, options: Options, kir_digest: str, program_text: str, source: str, rules: dict[str, str]) -> dict[str, Any]:
    """ABI, launch expression, parameters, preconditions, permissions, digests, versions. `rules`: rule file -> digest of its text."""
    abi = program.abi
    return {
        "manifest": SCHEMA,
        "kernel": abi.kernel,
        "target": options.target,
        "abi": {
            "views": [
                {"name": v.name, "role": v.role, "dtype": v.dtype, "shape": [str(e) for e in v.shape], "alias_class": v.alias}
                for v in abi.views
            ],
            "scalars": [{"name": s.name, "dtype": s.dtype} for s in abi.scalars],
            "symbols": [{"name": s.name, "min": s.lo, "max": s.hi, "multiple_of": s.multiple_of} for s in abi.symbols],
            "noalias": [list(g) for g in abi.noalias],
            "constexprs": dict(abi.constexprs),
        },
        "launch": {
            "segments": [
                {"group": s.group, "mode": s.mode, "instances": str(program.length(s)), "expression": to_json(program.length(s))}
                for s in program.segments
            ],
        },
        "parameters": dict(sorted(program.bindings.items())),
        "launch_options": dict(sorted(program.options.items())),
        "preconditions": [str(e) for e in program.preconditions],
        "permissions": sorted(options.permit),
        "options": options.to_json(),
        "digests": {"kir": kir_digest, "program": digest(program_text), "source": digest(source), "rules": dict(sorted(rules.items()))},
        "versions": versions(),
    }
