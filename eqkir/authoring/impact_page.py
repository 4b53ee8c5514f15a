"""The report of `eqkir rules impact` as one self-contained page, without scripts."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

from eqkir.driver.options import Options

STYLE = """
:root{color-scheme:light dark;--ground:#fff;--panel:#f6f8fa;--ink:#1b1f24;--quiet:#57606a;--line:#d0d7de;--idle:#fff1e5;--bar:#54aeff}
@media(prefers-color-scheme:dark){:root{--ground:#0d1117;--panel:#161b22;--ink:#e6edf3;--quiet:#9198a1;--line:#3d444d;--idle:#3d2b1f;--bar:#1f6feb}}
body{font:15px/1.4 system-ui,sans-serif;margin:1.2rem auto;max-width:80rem;padding:0 1rem;color:var(--ink);background:var(--ground)}
h1{font-size:1.35rem;margin:.2rem 0}p{margin:.3rem 0 .7rem;max-width:75rem}.quiet{color:var(--quiet)}
table{border-collapse:collapse;width:100%}td,th{padding:.2rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th{position:sticky;top:0;background:var(--panel);vertical-align:bottom;white-space:normal;font-weight:600}
.t{text-align:left}td{font-variant-numeric:tabular-nums}tr.idle td{background:var(--idle)}tr.none td{color:var(--quiet)}
tr.part th{position:static;text-align:left;padding-top:.9rem}
"""


def _ratio(x: float) -> str:
    """A ratio of costs; nothing where both are equal."""
    return "same" if round(x, 4) == 1 else f"{x:,.0f} ×" if x >= 100 else f"{x:.3g} ×" if x >= 1.01 or x < 0.99 else f"{x:.4f} ×"


def _milliseconds(x: float) -> str:
    return f"{1000 * x:,.2f}"


Column = tuple[str, str, bool, Callable[[Any], str]]
COLUMNS: tuple[Column, ...] = (
    ("rule", "rule", True, str),
    ("family", "family", True, str),
    ("kernels", "kernels with a match", False, str),
    ("matches", "matches", False, "{:,}".format),
    ("seconds", "ms in all", False, _milliseconds),
    ("graphs_changed", "graphs changed", False, str),
    ("choices_changed", "choices changed", False, str),
    ("enodes_without", "e-nodes without it, on average", False, _ratio),
    ("largest_cost_ratio", "cost without it, at most", False, _ratio),
    ("at", "where", True, str),
)
ALONE: Column = ("alone", "cost of it alone, at least", False, _ratio)


def page(table: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]], kernels: int, options: Options) -> str:
    """The page of `summary`'s table: rules that change something, by how much; then those that match and change nothing; then those
    without a match. `rows` are those of `impact`: kernels that were left out are named with their diagnosis."""
    columns = [*COLUMNS, ALONE] if any("alone" in r for r in table) else list(COLUMNS)
    key = lambda r: (-r["largest_cost_ratio"], -r["choices_changed"], -r["graphs_changed"], r["rule"])  # noqa: E731
    ordered = sorted(table, key=key)
    useful = [r for r in ordered if not r["without_effect"]]
    idle = [r for r in ordered if r["without_effect"] and r["matches"]]
    silent = [r for r in ordered if r["without_effect"] and not r["matches"]]
    parts = (
        ("", f"{len(useful)} rules change a graph or a choice", useful),
        ("idle", f"{len(idle)} rules match and change nothing: no graph, no choice", idle),
        ("none", f"{len(silent)} rules match in none of these kernels", silent),
    )
    body = []
    for kind, title, of_it in parts:
        if of_it:
            body.append(f'<tr class="part"><th colspan="{len(columns)}" scope="rowgroup">{title}</th></tr>')
        body += [f'<tr class="{kind}">{"".join(_cell(r, c) for c in columns)}</tr>' for r in of_it]
    head = "".join(f'<th scope="col"{" class=t" if left else ""}>{title}</th>' for _, title, left, _ in columns)
    failed = sorted({(r["kernel"], r["error"]) for r in rows if not r["rule"] and "error" in r})
    left = f"<p>{len(failed)} left out: {html.escape(', '.join(f'{k} ({e})' for k, e in failed))}.</p>" if failed else ""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Impact of rules</title><style>{STYLE}</style><h1>Impact of rules</h1>"
        f"<p>{len(table)} rules, {kernels} KIR files, target {html.escape(options.target)}. Each rule is left out alone and the choice "
        "made again; costs are the model's, as multiples of the cost with all rules.</p>"
        f"{left}<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></html>\n"
    )


def _cell(row: dict[str, Any], column: Column) -> str:
    key, _, left, spell = column
    value = row.get(key)
    text = "" if value is None or (key not in ("rule", "family") and not row["matches"]) else spell(value)
    return f'<td{" class=t" if left else ""}>{html.escape(text)}</td>'
