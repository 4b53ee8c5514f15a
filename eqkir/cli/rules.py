"""`eqkir rules`: what the rules are, and what can be said of an author's own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from eqkir.base.diagnostics import fail
from eqkir.driver import codes


def show(name: str, extra: tuple[str, ...], as_json: bool) -> int:
    """One rule, or one rule file by its name. Raises EqkirError."""
    from difflib import get_close_matches

    from eqkir.rules.load import PERMISSIONS, load_rules

    files = load_rules(extra, permit=PERMISSIONS)
    found = [(f, r) for f in files for r in f.rules if r.name == name] or [(f, r) for f in files for r in f.rules if f.name == name]
    if not found:
        near = get_close_matches(name, [*(f.name for f in files), *(r.name for f in files for r in f.rules)], 4, 0.4)
        raise fail(codes.USAGE, f"no rule or rule file {name!r}", accepted=", ".join(near), stage="options")
    f = found[0][0]
    if as_json:
        head = {"file": f.path, "name": f.name, "family": f.family, "version": f.version, "permissions": f.permissions, "claim": f.claim}
        rows = [{"name": r.name, "ruleset": r.family, "line": r.line, "rewrite": r.comment, "text": r.text} for _, r in found]
        print(json.dumps({**head, "rules": rows}, sort_keys=True))
        return 0
    print(f"{f.path}: {f.name} {f.version}, family {f.family}; needs {', '.join(f.permissions) or 'no permission'}")
    print(f"claims: {f.claim}\n")
    for _, r in found:
        print(f"; {r.comment}   line {r.line}\n{r.text}\n")
    return 0


def lint(paths: Iterable[Path], corpus: Path | None, as_json: bool) -> int:
    """Findings, one a line; 1 when one of them is an error. Raises EqkirError."""
    from eqkir.authoring.lint import lint as find

    paths = list(paths)
    found = find(paths, _kernels(corpus) if corpus else ())
    for x in found:
        print(json.dumps(x.to_json(), sort_keys=True) if as_json else x)
    if not as_json:
        n = {s: sum(x.severity == s for x in found) for s in ("error", "warning", "note")}
        print(f"{n['error']} errors, {n['warning']} warnings, {n['note']} notes")
    return 1 if any(x.severity == "error" for x in found) else 0


def new(path: Path, kind: str) -> int:
    """Write a template. Raises EqkirError."""
    from eqkir.authoring.templates import new as write

    write(path, kind)
    print(f"{path}: next `eqkir rules lint {path}`, `eqkir rules check {path}`, `eqkir optimize KERNEL.json --rules {path}`")
    return 0


def _kernels(path: Path) -> list[Path]:
    if not path.exists():
        raise fail(codes.USAGE, f"no such file or folder: {path}", stage="options")
    return sorted(p for p in path.rglob("*.json") if "pending" not in p.parts) if path.is_dir() else [path]
