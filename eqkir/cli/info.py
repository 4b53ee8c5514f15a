"""`eqkir schema`, `errors`, `targets`, `rules list`: what eqkir knows."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import textwrap
from difflib import get_close_matches


def schema() -> None:
    """Print the JSON Schema of a KIR module."""
    from eqkir.kir.canonical import schema as kir_schema

    print(json.dumps(kir_schema(), indent=2, sort_keys=True))


def load_codes() -> None:
    """Import every module of eqkir, so that each stage has registered its diagnostics. What an absent extra keeps out is left out."""
    import eqkir

    for m in pkgutil.walk_packages(eqkir.__path__, "eqkir."):
        if not m.name.endswith(("__main__", ".app")):
            try:
                importlib.import_module(m.name)
            except ModuleNotFoundError as e:
                if (e.name or "").startswith("eqkir"):
                    raise


def errors(code: str | None) -> int:
    """Explain one code, or list all; 2 for a code that does not exist."""
    from eqkir.base.diagnostics import CODES

    load_codes()
    if code is None:
        width = max(map(len, CODES))
        for k in sorted(CODES):
            print(f"{k:{width}}  {CODES[k][0]}")
        return 0
    key = code.upper()
    if key not in CODES:
        near = get_close_matches(key, sorted(CODES), 3, 0.5)
        print(f"no diagnostic {code!r}" + (f"; close: {', '.join(near)}" if near else ""), file=sys.stderr)
        return 2
    title, explanation = CODES[key]
    print(f"{key}: {title}\n\n{textwrap.fill(explanation, 100)}")
    return 0


def targets(as_json: bool) -> None:
    """List the described targets."""
    from eqkir.cli.text import columns
    from eqkir.targets import all_targets

    found = all_targets()
    if as_json:
        for t in found:
            known = {
                "target": t.spec,
                "title": t.title,
                "arch": t.arch,
                "compile_only": t.compile_only,
                "sources": t.sources,
            }
            print(json.dumps(known, sort_keys=True))
        return
    print(columns((t.spec, t.arch, t.title, "described for compilation only" if t.compile_only else "") for t in found))


def rules(extra: tuple[str, ...], as_json: bool) -> None:
    """List the rules by family, with their comment before => after. Raises EqkirError for a refused file."""
    from eqkir.cli.text import columns
    from eqkir.rules.load import MACHINES, PERMISSIONS, load_rules, packages

    files = {f.name: f for machine in MACHINES for f in load_rules(extra, permit=PERMISSIONS, machine=machine)}
    found = [(f, r) for f in files.values() for r in f.rules]
    if as_json:
        for f, r in found:
            row = {"name": r.name, "family": r.family, "file": f.path, "line": r.line, "rewrite": r.comment, "permissions": f.permissions}
            print(json.dumps(row, sort_keys=True))
        return
    print(columns((r.family, r.name, r.comment) for _, r in found))
    for name, value in packages().items():
        print(f"installed: --rules {name} ({value})")
