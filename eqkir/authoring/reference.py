"""The vocabulary as a page: made from the operation table and the prelude, so that docs/rules.md cannot fall behind."""

from __future__ import annotations

import re
from collections.abc import Iterator

from eqkir.program.table import ABSTRACT, OTHER, ROWS, Row
from eqkir.rules.signatures import PRIMITIVES, SOURCE, UNIT, WRITABLE, vocabulary_signatures

BEGIN, END = "<!-- vocabulary: written by tools/vocabulary.py -->", "<!-- end of vocabulary -->"


def reference() -> str:
    """Markdown between the two markers, both included."""
    return "\n".join([BEGIN, *_lines(), END])


def _lines() -> Iterator[str]:
    yield "\n**Abstract values** (sort `V`); *binds* names the field with the bound axis.\n"
    yield "| constructor | fields | binds | realised by |\n|---|---|---|---|"
    for r in ABSTRACT:
        forms = ", ".join(f"`{x.name}`" for x in _realised() if x.realises == r.name)
        yield f"| `{r.name}` | {_fields(r)} | {r.bound if r.bound >= 0 else ''} | {forms} |"
    yield "\n**Realised values** (sort `F`); *loop* stands at the position of its own loop, `(In p axis label stage)`.\n"
    yield "| constructor | fields | realises | |\n|---|---|---|---|"
    for r in _realised():
        yield f"| `{r.name}` | {_fields(r)} | {f'`{r.realises}`' if r.realises else ''} | {'loop' if r.loop else ''} |"
    yield "\n**Other terms**\n"
    yield "| sort | constructors |\n|---|---|"
    for sort in dict.fromkeys(r.sort for r in OTHER):
        yield f"| `{sort}` | {', '.join(f'`({r.name} {_fields(r)})`'.replace(' )', ')') for r in OTHER if r.sort == sort)} |"
    known = vocabulary_signatures()
    paths = ", ".join(f"`({' '.join((n, *known[n].fields))})`" for n in ("Top", "Fn", "In"))
    yield f"| `Path` | {paths} |"
    yield "\n**Requests**: " + ", ".join(f"`({s.name} {' '.join(s.fields)})` → `{s.result}`" for s in known.values() if s.kind == "request")
    comments = _comments()
    for title, names in (
        ("Tables of the source (read only)", [n for n in known if n in SOURCE]),
        ("Derived facts (read only)", [n for n in known if n not in SOURCE and n not in WRITABLE]),
        ("Facts that rules may write", [n for n in known if n in WRITABLE]),
    ):
        yield f"\n**{title}**\n\n| | columns | meaning |\n|---|---|---|"
        for n in names:
            s = known[n]
            if s.kind in ("relation", "function"):
                value = "" if s.result == UNIT else f" → `{s.result}`"
                yield f"| `{n}` | `{' '.join(s.fields)}`{value} | {comments.get(n, '')} |"
    yield (
        "\n**Primitives**: "
        + ", ".join(f"`({' '.join((p.name, *p.fields))})`" for p in PRIMITIVES.values())
        + " (`?`: one sort, `*`: more of it)\n"
    )


def _realised() -> list[Row]:
    return [r for r in ROWS.values() if r.sort == "F"]


def _fields(r: Row) -> str:
    return " ".join("V" if f == "K" else f for f in r.fields)


def _comments() -> dict[str, str]:
    """The comment behind each declaration of the prelude."""
    from eqkir.terms.prelude import declarations

    out = {}
    for line in declarations().splitlines():
        m = re.match(r"\((?:relation|function) ([^ ]+) .*?\)\s*;\s*(.*)$", line)
        if m:
            out[m[1]] = m[2].replace("|", "\\|")
    return out
