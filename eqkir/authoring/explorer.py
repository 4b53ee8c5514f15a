"""`eqkir show --stage egraph --html`: the e-graph of a kernel, its choice and its rewriting as one self-contained page.

Everything that the page shows is in `contents`, plain data; `eqkir.authoring.explorer_page` makes a page of it. The same kernel, options
and seed give the same bytes, so seconds are left out unless they are asked for. Whatever is left out is counted in ``left_out``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

from eqkir.authoring.explorer_choice import COMPARED, REASONS, figure, why
from eqkir.authoring.explorer_graph import LONGEST, Texts, graph_data, kept_classes, origins_of, shorten
from eqkir.authoring.explorer_text import LINE, Listings
from eqkir.base.diagnostics import EqkirError
from eqkir.driver.chain import Chain
from eqkir.rules.load import load_rules

#: e-nodes that a page shows unless it is told otherwise
NODES = 20_000
#: rules, steps and rejected candidates that a page shows; characters of one rule
RULES, STEPS, REJECTED, RULE = 600, 60, 20, 4_000

#: what the page has of `Choice.to_json` as it is
CHOICE = frozenset("row template digest unit fallback rows feasible_rows structures candidates tried illegal".split())


@dataclass(frozen=True, slots=True)
class View:
    """What a page shows: at most `nodes` e-nodes (0: all), the chain of `eqkir rules explain` (`steps`), seconds by rule (`times`)."""

    nodes: int = NODES
    steps: bool = True
    times: bool = False


@dataclass(frozen=True, slots=True)
class Omission:
    """`shown` of `total` things; `how` says how to see the rest."""

    what: str
    shown: int
    total: int
    how: str

    def to_json(self) -> dict[str, Any]:
        return {"what": self.what, "shown": self.shown, "total": self.total, "left": self.total - self.shown, "how": self.how}


def contents(chain: Chain, view: View | None = None) -> dict[str, Any]:
    """What the page of a kernel shows. Raises EqkirError."""
    from eqkir.kir.listing import kernel_text
    from eqkir.program.listing import listing

    view = view or View()
    g, choice = chain.saturated.graph, chain.choice
    chosen = choice.selection or {}
    texts, listings = Texts(), Listings()
    kept = kept_classes(g, choice.selection, view.nodes)
    judged = why(chain)
    classes = graph_data(g, kept, origins_of(g, chain.kernel.name), texts)
    for c, *_, alternatives in classes:
        for j, a in enumerate(alternatives):
            e = judged.first[c] + j
            a += [judged.weights[e] if judged.weights else None, judged.verdict[e], *judged.differences.get((c, j), ())]
    rules, steps = _rules(chain, view.times), _steps(chain, view.steps, listings)
    data: dict[str, Any] = {
        "kernel": chain.kernel.name,
        "options": _options(chain),
        "choice": _choice(chain, judged.total),
        "saturation": _saturation(chain, view.times),
        "graph": {"root": g.root, "enodes": g.enodes, "classes": len(g.classes), "kept": len(classes)},
        "classes": classes,
        "chosen": [[c, chosen[c], judged.share.get(c)] for c in kept if c in chosen],
        "verdicts": judged.verdicts, "rows": judged.rows, "row": judged.row, "reasons": REASONS,
        "programs": listings.pair(listing(chain.initial), listing(chain.program)),
        "kir": listings.add(kernel_text(chain.kernel)),
        "rules": rules[:RULES],
        "steps": steps,
    }  # fmt: skip
    shown = sum(len(x[4]) for x in classes)
    lines = sum(map(len, listings.texts))
    text = "eqkir show, stages kir, initial and chosen"
    left = [
        Omission("classes", len(classes), len(g.classes), "--nodes 0"),
        Omission("e-nodes", shown, g.enodes, "--nodes 0"),
        Omission("classes of the chosen program", len(data["chosen"]), len(chosen), "--nodes 0"),
        Omission("alternatives with a cost difference", len(judged.differences), judged.legal_others, f"none: {COMPARED} are worked out"),
        Omission("rules", len(data["rules"]), len(rules), "eqkir rules list"),
        Omission("steps of rewriting", len(steps["steps"]), steps["total"], "eqkir rules explain"),
        Omission("rejected candidates", min(len(choice.rejected), REJECTED), len(choice.rejected), "report.json of eqkir optimize"),
        Omission("lines of listings", lines, lines + sum(listings.lost), text),
        Omission(f"lines of listings in full (over {LINE} characters)", 0, listings.shortened, text),
        Omission(f"texts in full (over {LONGEST} characters)", 0, texts.cut, "eqkir show --stage egraph, without --html"),
        Omission(f"rules in full (over {RULE} characters)", 0, sum(len(r["text"]) > RULE for r in rules), "eqkir rules show"),
    ]
    for r in data["rules"]:
        r["text"] = shorten(r["text"], RULE)
    return data | {
        "texts": texts.table, "listings": listings.texts, "pairs": listings.pairs,
        "left_out": [x.to_json() for x in left if x.shown < x.total],
    }  # fmt: skip


def _options(chain: Chain) -> dict[str, Any]:
    """What the page was made for, without paths."""
    o = chain.options
    return {
        "target": chain.target.spec,
        "shapes": {k: str(v) for k, v in sorted(o.shapes.items())}, "without": sorted(o.without), "permit": sorted(o.permit),
        "rule files": len(o.rules), "extractor": o.extractor, "cost model": o.cost_model, "seed": o.seed,
    }  # fmt: skip


def _choice(chain: Chain, total: float) -> dict[str, Any]:
    c = chain.choice
    out: dict[str, Any] = {k: v for k, v in c.to_json().items() if k in CHOICE}
    figures = {k: figure(v) for k, v in sorted(c.cost.figures.items()) if isfinite(v)}
    rejected = [{"row": r.row, "cost": _finite(r.cost), "why": shorten(r.reason)} for r in c.rejected[:REJECTED]]
    second = {"row": c.runner_up.row, "cost": _finite(c.runner_up.cost), "why": shorten(c.runner_up.why)} if c.runner_up else None
    return out | {
        "cost": _finite(c.cost.total), "initial": _finite(c.initial.total), "additive": _finite(total), "selected": c.selection is not None,
        "figures": figures, "rejected": rejected, "runner_up": second,
    }  # fmt: skip


def _finite(x: float) -> float | None:
    """Six significant digits; None where there is no finite cost."""
    return figure(x) if isfinite(x) else None


def _saturation(chain: Chain, times: bool) -> dict[str, Any]:
    r = chain.saturated.report
    out: dict[str, Any] = {
        "stop": r.stop, "message": shorten(r.message), "reproducible": r.reproducible, "iterations": r.iterations,
        "initial": r.initial_enodes, "limits": {"e-nodes": chain.limits.enodes, "matches": chain.limits.matches,
                                                "iterations": chain.limits.iterations, "seconds": chain.limits.seconds},
    }  # fmt: skip
    return out | ({"seconds": figure(r.seconds)} if times else {})


def _rules(chain: Chain, times: bool) -> list[dict[str, Any]]:
    """Every rule of the run: its text, and its matches [iteration, matches] where there are any. Most matches first."""
    o, r = chain.options, chain.saturated.report
    out = []
    for f in load_rules(o.rules, o.without, o.permit, chain.machine):
        for rule in f.rules:
            row: dict[str, Any] = {
                "name": rule.name, "family": rule.family, "rewrite": shorten(rule.comment), "text": rule.text,
                "matches": r.matches.get(rule.name, 0),
                "rounds": [[i, n] for i, x in enumerate(r.rounds) if (n := x.matches.get(rule.name, 0))],
            }  # fmt: skip
            if times:
                row["seconds"] = figure(r.rule_seconds.get(rule.name, 0.0))
                row["round_seconds"] = [figure(r.rounds[i].seconds.get(rule.name, 0.0)) for i, _ in row["rounds"]]
            out.append(row)
    return sorted(out, key=lambda x: (-x["matches"], x["name"]))


def _steps(chain: Chain, wanted: bool, listings: Listings) -> dict[str, Any]:
    """The chain of `eqkir rules explain`."""
    from eqkir.authoring.explain import explain
    from eqkir.program.listing import listing

    if not wanted:
        return {"note": "The page was made without the chain of rules (--no-steps).", "steps": [], "total": 0, "idle": []}
    try:
        e = explain(chain.kernel, chain.options)
    except EqkirError as x:
        return {"note": f"The chain of rules could not be made: {shorten(str(x.diagnostics[0]))}", "steps": [], "total": 0, "idle": []}
    steps = [
        {
            "rule": s.rule, "family": s.family, "rewrite": shorten(s.text), "matches": s.matches, "changed": s.changed,
            "cost": [_finite(s.cost_before), _finite(s.cost_after)], "pair": listings.pair(listing(s.before), listing(s.after)),
        }
        for s in e.steps[:STEPS]
    ]  # fmt: skip
    end = "The chain ends at the chosen program." if e.complete else "The chain does not reach the chosen program."
    return {"note": end, "steps": steps, "total": len(e.steps), "idle": list(e.matched)}
