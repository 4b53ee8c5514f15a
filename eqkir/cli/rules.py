"""`eqkir rules`: what the rules are, and what can be said of an author's own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from eqkir.base.diagnostics import fail
from eqkir.driver import codes
from eqkir.driver.options import Options


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


def check(
    paths: Iterable[Path],
    rules: Iterable[str],
    corpus: Path | None,
    out: Path | None,
    conditions: bool,
    jobs: int,
    seed: int,
    as_json: bool,
) -> int:
    """Verdicts, one a line; 1 when a rule is refuted or vacuous, or a condition is not known to be needed. Raises EqkirError."""
    from eqkir.authoring.check import checked_files
    from eqkir.authoring.check_job import Job, run_all

    given = [str(p) for p in paths]
    _, mine = checked_files(given)
    wanted = set(rules)
    names = [r.name for f in mine for r in f.rules if r.family != "facts" and (not wanted or r.name in wanted)]
    if missing := wanted - set(names):
        raise fail(codes.USAGE, f"no rule {', '.join(sorted(missing))}", accepted=", ".join(names[:20]), stage="options")
    files = tuple(str(p) for p in sorted(_kernels(corpus), key=lambda p: (p.stat().st_size, p.name))) if corpus else ()
    todo = [Job(tuple(given), n, files, str(out or ""), conditions, seed=seed) for n in names]
    counts: dict[str, int] = {}
    candidates = comparisons = 0
    for rows in run_all(todo, jobs):
        for row in rows:
            kind = row["verdict"] if "condition" not in row else f"condition {row['verdict']}"
            counts[kind] = counts.get(kind, 0) + 1
            candidates, comparisons = candidates + row.get("candidates", 0), comparisons + row.get("comparisons", 0)
            print(json.dumps(row, sort_keys=True) if as_json else _verdict(row), flush=True)
    if not as_json:
        print(f"{', '.join(f'{n} {k}' for k, n in sorted(counts.items()))}; {candidates} candidates, {comparisons} comparisons")
    bad = ("refuted", "vacuous", "condition survives", "condition no difference")
    return 1 if any(counts.get(k) for k in bad) else 0


def _verdict(row: dict[str, Any]) -> str:
    what = f"{row['rule']} without {row['condition']}" if "condition" in row else row["rule"]
    figures = f"{row['candidates']} candidates of {row['kernels']} kernels, {row['comparisons']} comparisons" if row.get("kernels") else ""
    more = "; ".join(x for x in (row.get("method", ""), figures, row.get("message", "")) if x)
    files = row.get("counterexample") or []
    return f"{row['file']}:{row['line']}: {what}: {row['verdict']}: {more}" + (f" -> {Path(files[0]).parent}" if files else "")


def explain(file: Path, kernel: str | None, options: Options, out: Path | None, rule: str | None, as_json: bool) -> int:
    """The chain of rules from P0 to the choice, or (`rule`) where a rule's query ends. Raises EqkirError."""
    from eqkir.authoring.explain import explain as chain
    from eqkir.authoring.explain import rows, why, write
    from eqkir.cli.kernels import select
    from eqkir.driver.job import kernel_of

    k = kernel_of(select(file, kernel))
    if rule:
        facts = why(k, options, rule)
        if as_json:
            print(json.dumps([{"fact": f.text, "matches": f.matches} for f in facts]))
            return 0
        failed = next((f for f in facts if not f.matches), None)
        for f in facts:
            print(f"{f.matches:8}  {f.text}{'   <- fails here' if f is failed else ''}")
        print(f"{rule} does not fire: no match of {failed.text}" if failed else f"{rule} fires: {facts[-1].matches} matches")
        return 0
    e = chain(k, options)
    if out:
        write(e, out)
    if as_json:
        print(json.dumps(rows(e), sort_keys=True))
        return 0
    for n, s in enumerate(e.steps, 1):
        print(f"step {n}: {s.rule} ({s.family}): {s.text}")
        print(f"  {s.matches} matches; cost {s.cost_before:.6g} -> {s.cost_after:.6g}")
        print("\n".join(f"  {line}" for line in s.diff().splitlines()) if s.changed else "  no change yet: a rule that follows needs it")
    if e.matched:
        print(f"matched, and the choice is the same without each: {', '.join(e.matched)}")
    print("the chain ends at the chosen program" if e.complete else "the chain does not reach the chosen program")
    return 0


def impact(
    corpus: Path, paths: Iterable[Path], options: list[Options], rules: Iterable[str], plan: Any, out: Path | None, page: Path | None,
    as_json: bool,
) -> int:  # fmt: skip
    """What each rule (of the files `paths`) changes in the kernels of a corpus; 1 when one changes nothing. A rule whose choice the first
    of `options` shows is not left out under the others. Raises EqkirError."""
    from eqkir.authoring import impact as measured
    from eqkir.authoring import impact_page
    from eqkir.authoring.check import checked_files

    given = list(paths)
    names = list(rules) or ([r.name for f in checked_files(given)[1] for r in f.rules if r.family != "facts"] if given else [])
    files = _kernels(corpus)
    rows: list[dict[str, Any]] = []
    for o in options:
        open_rules = [r["rule"] for r in measured.summary(rows, options, names) if not r["choices_changed"]] if rows else names
        rows += list(measured.impact(files, o, open_rules, plan))
    rows.sort(key=lambda r: (r["rule"], r["kernel"]))
    table = measured.summary(rows, options, names)
    if out:
        out.write_text(json.dumps({"kernels": len(files), "rules": table, "rows": rows}, indent=1, sort_keys=True) + "\n")
    if page:
        page.write_text(impact_page.page(table, rows, len(files), options))
    for row in table:
        if as_json:
            print(json.dumps(row, sort_keys=True))
        else:
            effect = "NO EFFECT" if row["without_effect"] else f"{row['choices_changed']} choices, {row['graphs_changed']} graphs"
            best = f"; without it {row['largest_cost_ratio']:.3g} times the cost at {row['at']}" if row["at"] else ""
            print(f"{row['rule']}: {row['matches']} matches in {row['kernels']} kernels, left out in {row['left_out']}; {effect}{best}")
    return 1 if any(r["without_effect"] for r in table) else 0


def test(path: Path, kernels: list[Path], options: Options) -> int:
    """Lint the file, then choose each kernel with it and without it, verify and compare with the reference. Raises EqkirError."""
    from eqkir.authoring.use import use

    status = lint([path], None, False)
    if status:
        return status
    for file in (x for k in kernels for x in _kernels(k)):
        for row in use(file, path, options):
            status |= not row.ok
            print(row)
    return status


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
