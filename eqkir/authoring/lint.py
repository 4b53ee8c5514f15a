"""`eqkir rules lint`: everything that can be said of rule files without running them (and, on request, what never fires)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from eqkir.authoring import findings as f
from eqkir.authoring.findings import Finding, at
from eqkir.authoring.lint_rule import RuleLint, all_made
from eqkir.authoring.overlap import overlaps
from eqkir.authoring.patterns import pattern
from eqkir.base.diagnostics import EqkirError
from eqkir.rules.load import MACHINES, PERMISSIONS, RuleFile, load_rules, read, signatures, sort_faults


def lint(paths: Iterable[Path | str] = (), corpus: Iterable[Path] = ()) -> list[Finding]:
    """Findings on the files in `paths` (the shipped ones where there are none), beside the shipped rules, for every family of machines.
    `corpus`: KIR files to look for matches in; slow. A file that cannot be loaded gives its diagnostics as findings."""
    given, out = [Path(p) for p in paths], list[Finding]()
    for machine in MACHINES:
        out += [x for x in _lint(given, machine, list(corpus) if machine == MACHINES[0] else []) if x not in out]
    return sorted(out, key=lambda y: (y.file, y.line, y.column, y.code))


def _lint(given: list[Path], machine: str, corpus: list[Path]) -> list[Finding]:
    try:
        everything = load_rules(given, permit=PERMISSIONS, machine=machine)
    except EqkirError as e:
        return _refused(given, e)
    names = {p.name for g in given for p in (g.glob("*.egg") if g.is_dir() else [g])}
    mine = [x for x in everything if not given or x.path in names]
    known = signatures(everything)
    asts = [a for x in everything for r in x.rules for a in r.asts]
    made = all_made(asts)
    out: list[Finding] = []
    for x in mine:
        for r in x.rules:
            if r.family != "facts" and "=>" not in r.comment:
                out.append(at(r.node, x.path, r.name, f.COMMENT, "warning", "no comment `; before => after` above the rule"))
            for a in r.asts:
                out += [y for y in RuleLint(a, x.path, known, made).find() if y not in out]
    files = {r.name: x.path for x in mine for r in x.rules}
    for lower, upper in overlaps([pattern(y) for y in asts], known):
        if (n := lower.rule.name) in files:
            message = f"{upper.rule.name} does the same wherever it matches"
            out.append(at(lower.rule.node, files[n], n, f.OVERLAP, "warning", message))
    return out + (_silent(mine, given, corpus) if corpus else [])


def _refused(given: list[Path], e: EqkirError) -> list[Finding]:
    """Diagnostics as findings; where the vocabulary alone is at fault, all of them in each file."""
    found = [Finding(d.code, "error", _message(d.message, d.accepted), d.file or "", "", d.line or 1, d.column or 1) for d in e.diagnostics]
    for g in given:
        for p in sorted(g.glob("*.egg")) if g.is_dir() else [g]:
            try:
                file = read(p)
                known = signatures([*load_rules(permit=PERMISSIONS), file])
            except EqkirError:
                continue
            for d in sort_faults(file, known):
                x = Finding(d.code, "error", _message(d.message, d.accepted), d.file or "", "", d.line or 1, d.column or 1)
                if x not in found:
                    found.append(x)
    return sorted(found, key=lambda y: (y.file, y.line, y.column))


def _message(message: str, accepted: str) -> str:
    return f"{message} (accepted: {accepted})" if accepted else message


def _silent(mine: list[RuleFile], given: list[Path], kernels: list[Path]) -> list[Finding]:
    from eqkir.authoring.firing import matches

    left = {r.name: (x, r) for x in mine for r in x.rules if r.family != "facts"}
    for k in kernels:
        if not left:
            break
        for name, n in matches(k, given).items():
            if n:
                left.pop(name, None)
    return [at(r.node, x.path, r.name, f.FIRES, "warning", f"no match in {len(kernels)} kernels") for x, r in left.values()]
