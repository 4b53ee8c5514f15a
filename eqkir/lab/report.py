"""A static report of an experiment: HTML without scripts, plots as SVG files, and the rows that every number comes from.

``index.html`` holds summaries and plots, ``groups.html`` a line an instance and cost model with a link from every cost to its row in
``cells.html``; ``cells.csv``, ``instances.csv`` and ``manifest.json`` are copied beside. Nothing is loaded from elsewhere.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from html import escape
from math import inf
from pathlib import Path

from eqkir.lab.experiment import read, unpack
from eqkir.lab.figures import Group, default_claim, exponent, groups, kinds, summaries
from eqkir.lab.markdown import extractor_table, group_table, percent
from eqkir.lab.markdown import table as markdown
from eqkir.lab.svg import Axis, Series, plot

STYLE = (
    "body{font:14px sans-serif;max-width:1200px;margin:2em auto;padding:0 1em}table{border-collapse:collapse;margin:1em 0}"
    "td,th{border:1px solid #ccc;padding:2px 7px;text-align:right}th{background:#f2f2f2}td:first-child,th:first-child{text-align:left}"
    ".o{font-weight:bold}.t{color:#a40}.n{color:#777}"
)


def write_report(folder: Path, out: Path) -> Path:
    """Write the report of an experiment's folder to `out`; the path of its first page."""
    out.mkdir(parents=True, exist_ok=True)
    rows = read(folder / "cells.csv")
    found = groups(rows)
    instances = {r["instance"]: r for r in read(folder / "instances.csv")}
    for name in ("cells.csv", "instances.csv", "manifest.json", "correlation.csv", "scaling.csv"):
        unpack(folder / name)
        if (folder / name).exists():
            shutil.copyfile(folder / name, out / name)
    body = [_head(folder, found), _summary(found), *_plots(found, out), _claim(found, instances), *_more(folder, out)]
    _page(out / "index.html", "Extraction experiment", body)
    _page(out / "groups.html", "Costs by instance", [_groups(found, instances)])
    _page(out / "cells.html", "All rows", [_cells(rows)])
    names = sorted({c.extractor for g in found for c in g.cells})
    (out / "tables.md").write_text("\n".join(_markdown(folder, found, instances)))
    (out / "groups.md").write_text(group_table(found, names))
    return out / "index.html"


def _markdown(folder: Path, found: list[Group], instances: dict[str, dict[str, str]]) -> Iterable[str]:
    """The summaries of the first page as text."""
    from eqkir.lab import correlation, scaling

    for title, part in kinds(found):
        yield f"### {title}\n\n{len(part)} groups, {sum(g.closed for g in part)} proved.\n\n{extractor_table(part)}"
    if rows := read(folder / "scaling.csv"):
        yield f"### Growing e-graphs\n\nSeconds (or bytes) = a · (e-nodes)^b.\n\n{markdown(*scaling.table_of(rows))}"
        if (varied := scaling.variation_of(rows))[1]:
            yield f"CPU seconds by rule families and by rows (t: stopped):\n\n{markdown(*varied)}"
    if rows := read(folder / "correlation.csv"):
        yield f"### Rank correlation with measurements\n\n{markdown(*correlation.table_of(rows))}"
    many = [(n, int(r["structures"]), r["structures_exact"] == "True") for n, r in sorted(instances.items()) if r.get("structures")]
    if many:
        listing = ", ".join(f"{n} {k}{'' if exact else '+'}" if k < 1000 else f"{n} 1000+" for n, k, exact in many)
        yield f"### Distinct programs, parameters erased\n\n{listing}\n"


def _page(path: Path, title: str, body: Iterable[str]) -> None:
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    path.write_text(f"{head}<body><h1>{escape(title)}</h1>\n" + "\n".join(body) + "\n</body></html>\n")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML already."""
    lines = ["<tr>" + "".join(f"<td>{c}</td>" for c in r) + "</tr>" for r in rows]
    return "<table><tr>" + "".join(f"<th>{escape(h)}</th>" for h in head) + "</tr>\n" + "\n".join(lines) + "</table>"


def _head(folder: Path, found: list[Group]) -> str:
    path = folder / "manifest.json"
    m = json.loads(path.read_text()) if path.exists() else {}
    closed = sum(g.closed for g in found)
    facts = [("groups (instance × cost model)", str(len(found))), ("proved optima", str(closed))]
    facts += [(k, str(v)) for k, v in m.get("versions", {}).items()] + [(k, str(v)) for k, v in m.get("machine", {}).items()]
    limits = sorted({f"{r['limit']:g}" for r in m.get("runs", [])})
    facts.append(("limits (CPU seconds a cell)", ", ".join(limits)))
    return (
        table(["fact", "value"], [(escape(a), escape(b)) for a, b in facts])
        + '<p>Every cost stands in <a href="groups.html">costs by instance</a> with a link to its row; all rows: '
        '<a href="cells.html">as a page</a>, <a href="cells.csv">as CSV</a>; inputs: <a href="manifest.json">manifest</a>. '
        "A gap is (cost − best known) / best known, where best known is the least over all extractors of the group.</p>"
    )


def _summary(found: list[Group]) -> str:
    head = [
        "extractor",
        "cells",
        "outcomes",
        "at best known",
        "within 1 %",
        "median gap",
        "95th percentile",
        "largest",
        "CPU s (geo. mean)",
    ]
    out = ["<h2>Extractors</h2>"]
    for title, part in kinds(found):
        out.append(f"<h3>{escape(title)} ({len(part)} groups, {sum(g.closed for g in part)} proved)</h3>")
        rows = []
        for s in summaries(part):
            status = ", ".join(f"{v} {k}" for k, v in s.status.items())
            figures = [percent(x) for x in (s.at_best, s.within, s.median_gap, s.tail_gap, s.worst_gap)]
            rows.append((escape(s.extractor), str(s.cells), escape(status), *figures, f"{s.seconds:.2g}"))
        out.append(table(head, rows))
    return "\n".join(out)


def _plots(found: list[Group], out: Path) -> Iterable[str]:
    names = sorted({c.extractor for g in found for c in g.cells if c.extractor not in ("worst", "random")})
    cells = {x: [c for g in found for c in g.cells if c.extractor == x and c.cost < inf] for x in names}
    time = [Series(x, [(c.seconds, 100 * c.gap + 1e-4, f"{c.instance} {c.model}, line {c.line}") for c in cells[x]]) for x in names]
    yield _figure(out, "quality_time", "Quality against time (gap + 0.0001 %)", time, Axis("CPU seconds", True), Axis("gap %", True))
    spread = []
    for x in names:
        gaps = sorted(100 * c.gap for c in cells[x])
        spread.append(Series(x, [(g + 1e-4, (i + 1) / len(gaps), "") for i, g in enumerate(gaps)], "steps"))
    axis = Axis("share of cells", low=0.0, high=1.0)
    yield _figure(out, "gaps", "Share of cells within a gap (gap + 0.0001 %)", spread, Axis("gap %", True), axis)
    size = [Series(x, [(float(c.enodes), c.seconds, f"{c.instance}, line {c.line}") for c in cells[x]]) for x in names]
    yield _figure(out, "scaling", "Time against e-nodes", size, Axis("e-nodes", True), Axis("CPU seconds", True))
    fits = []
    for x in names:
        f = exponent([(float(c.enodes), c.seconds) for c in cells[x] if c.status != "timeout"])
        if f:
            fits.append((escape(x), f"{f[0]:.2g}", f"{f[1]:.2f}", str(f[2])))
    yield "<p>Fitted seconds = a · (e-nodes)^b over cells that were not stopped:</p>" + table(["extractor", "a", "b", "cells"], fits)


def _figure(out: Path, name: str, title: str, series: list[Series], x: Axis, y: Axis) -> str:
    text = plot(series, x, y)
    (out / f"{name}.svg").write_text(text + "\n")
    return f"<h2>{escape(title)}</h2>\n{text}\n"


def _claim(found: list[Group], instances: dict[str, dict[str, str]]) -> str:
    many = lambda name: int(instances.get(name, {}).get("structures") or 0)  # noqa: E731
    claim = default_claim(found, many)
    if not claim["groups"]:
        return ""
    rows = [(escape(f"{i} · {m}"), percent(x)) for (i, m), x in claim["misses"]]  # type: ignore[attr-defined]
    return (
        "<h2>The default extractor</h2>"
        f"<p>Over {claim['groups']} groups of kernels with more than one structure, greedy-dag is within 1 % of the best known cost in "
        f"{percent(float(str(claim['within'])))}; the largest gap is {percent(float(str(claim['largest'])))}.</p>"
        + (table(["more than 1 % away", "gap"], rows) if rows else "")
    )


def _more(folder: Path, out: Path) -> Iterable[str]:
    if rows := read(folder / "correlation.csv"):
        from eqkir.lab.correlation import table_of

        head, lines = table_of(rows)
        yield "<h2>Rank correlation with measurements</h2>" + table(head, [[escape(c) for c in r] for r in lines])
        models = sorted({r["cost_model"] for r in rows})
        dots = {m: [(float(r["cost"]), float(r["measured_ms"]), r["workload"]) for r in rows if r["cost_model"] == m] for m in models}
        series = [Series(m, dots[m]) for m in models]
        yield _figure(out, "correlation", "Cost and measured time", series, Axis("cost", True), Axis("measured ms", True))
    if rows := read(folder / "scaling.csv"):
        from eqkir.lab.scaling import table_of as scaling_table
        from eqkir.lab.scaling import variation_of

        names = sorted({r["what"] for r in rows})
        grown = [r for r in rows if r["study"] == "length" and r["enodes"]]
        for name, title, column in (
            ("growth", "Growing e-graphs: time", "cpu_seconds"),
            ("memory", "Growing e-graphs: memory", "peak_bytes"),
        ):
            series = [Series(n, [(float(r["enodes"]), float(r[column] or 0), r["kernel"]) for r in grown if r["what"] == n]) for n in names]
            yield _figure(out, name, title, series, Axis("e-nodes", True), Axis(column.replace("_", " "), True))
        for head, lines in (scaling_table(rows), variation_of(rows)):
            yield table(head, [[escape(c) for c in r] for r in lines]) if lines else ""


def _groups(found: list[Group], instances: dict[str, dict[str, str]]) -> str:
    names = sorted({c.extractor for g in found for c in g.cells})
    head = ["instance", "cost model", "e-nodes", "structures", "best known", "bound", *names]
    rows = []
    for g in found:
        info = instances.get(g.instance, {})
        many = info.get("structures", "") + ("" if info.get("structures_exact", "True") == "True" else "+")
        bound = "proved" if g.closed else ("none" if g.bound == -inf else f"{g.bound:.6g} ({percent(g.open_gap)} open)")
        best = "–" if g.best == inf else f'<a href="cells.html#r{g.best_line}">{g.best:.6g}</a>'
        line = [escape(g.instance), escape(g.model), str(max(c.enodes for c in g.cells)), many, best, bound]
        for x in names:
            cs = [c for c in g.cells if c.extractor == x]
            line.append("; ".join(_entry(c.line, c.gap, c.status, c.seconds) for c in cs))
        rows.append(line)
    note = "<p>Gap and CPU seconds; bold: proved optimal; t: stopped by the limit; each links to its row.</p>"
    return note + table(head, rows)


def _entry(line: int, gap: float, status: str, seconds: float) -> str:
    text = status if gap == inf else f"{percent(gap)}{' t' if status == 'timeout' else ''} ({seconds:.2g} s)"
    css = "o" if status == "optimal" else "t" if status in ("timeout", "killed", "failed") else "n"
    return f'<a class="{css}" href="cells.html#r{line}">{escape(text)}</a>'


def _cells(rows: list[dict[str, str]]) -> str:
    if not rows:
        return "<p>No rows.</p>"
    head = "<tr><th>line</th>" + "".join(f"<th>{escape(c)}</th>" for c in rows[0]) + "</tr>"
    lines = [
        f'<tr id="r{i + 2}"><td>{i + 2}</td>' + "".join(f"<td>{escape(v)}</td>" for v in r.values()) + "</tr>" for i, r in enumerate(rows)
    ]
    return f"<table>{head}\n" + "\n".join(lines) + "</table>"
