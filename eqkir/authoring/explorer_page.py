"""The page itself: template, style and scripts of the package, and the contents as data that nothing in them can break out of.

Texts of kernels and rules reach the page only as JSON in a data block, in which ``<``, ``>``, ``&`` and line separators are escaped, and
the scripts put them on the page as text, never as markup. The content security policy names the hashes of the page's own style and script
and forbids everything else, so the page asks for nothing outside itself.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

#: the scripts, in order; they share one scope
SCRIPTS = ("base.js", "classes.js", "svg.js", "layers.js", "diagram.js", "programs.js", "pages.js")
_ESCAPES = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def embedded(data: Any) -> str:
    """JSON that can stand in an HTML script element whatever its texts hold. Raises ValueError for a number that is not finite."""
    text = json.dumps(data, ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPES)


def page(data: dict[str, Any]) -> str:
    """The page of `eqkir.authoring.explorer.contents`."""
    folder = files("eqkir.authoring").joinpath("page")
    style = folder.joinpath("explorer.css").read_text(encoding="utf-8")
    script = "'use strict';\n(() => {\n" + "\n".join(folder.joinpath(n).read_text(encoding="utf-8") for n in SCRIPTS) + "\n})();\n"
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    fields = {
        "title": html.escape(f"{data['kernel']}: e-graph and rewriting"), "kernel": html.escape(data["kernel"]),
        "summary": html.escape(summary(data)), "policy": html.escape(policy), "style": style, "script": script, "data": embedded(data),
    }  # fmt: skip
    parts = folder.joinpath("explorer.html").read_text(encoding="utf-8").split("%%")
    return "".join(fields[p] if i % 2 else p for i, p in enumerate(parts))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _cost(x: float | None) -> str:
    return "–" if x is None else f"{x:,.0f}" if 1000 <= x < 1e9 else f"{x:g}"


def summary(data: dict[str, Any]) -> str:
    """The page in a few sentences: its text for readers without scripts."""
    g, c, s = data["graph"], data["choice"], data["saturation"]
    left = "; ".join(f"{x['left']} of {x['total']} {x['what']} left out" for x in data["left_out"]) or "nothing is left out"
    return (
        f"{g['enodes']} e-nodes in {g['classes']} classes after {s['iterations']} iterations, stopped: {s['stop']}. "
        f"Cost {_cost(c['initial'])} → {_cost(c['cost'])} {c['unit']} ({data['options']['target']}). {left[0].upper()}{left[1:]}."
    )
