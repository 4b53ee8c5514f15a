"""A rule whose left-hand side is a relation, with that relation's definitions put in: what is proved, and drawn from, is what they say."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from eqkir.authoring.patterns import Term, is_variable, pattern, substitute, term, variables
from eqkir.rules.load import Rule, RuleFile
from eqkir.rules.reader import read_nodes
from eqkir.rules.sorts import RuleAst


def unfolded(rule: Rule, files: Sequence[RuleFile]) -> list[Rule]:
    """The rule once for every choice of definitions, where a relation binds what its actions unite and no constructor does; else the rule
    alone. Relations that speak of themselves stay."""
    if len(rule.asts) != 1 or rule.node.head != "rule":
        return [rule]
    ast = rule.asts[0]
    p = pattern(ast)
    targets = {v for a, b, _ in p.unions for v in (a, b) if is_variable(v)}
    hidden = [t for t in targets if not any(isinstance(d, tuple) for d in p.defined.get(str(t), ())) and t not in p.lets]
    opened = [n for n in ast.query if n.head != "=" and any(str(v) in list(variables(term(n))) for v in hidden)]
    found = {n.head: _definitions(n.head, files) for n in opened}
    opened = [n for n in opened if found[n.head]]
    if not opened:
        return [rule]
    rest = [str(n) for n in ast.query if n not in opened]
    out: list[Rule] = []
    for choice in itertools.product(*(found[n.head] for n in opened)):
        bodies = [_body(d, term(n), i) for i, (d, n) in enumerate(zip(choice, opened, strict=True))]
        if any(b is None for b in bodies):
            continue
        query = [*(x for b in bodies for x in b or ()), *rest]
        text = f"(rule ({' '.join(query)}) ({' '.join(map(str, ast.actions))}))"
        out.append(replace(rule, text=text, node=read_nodes(text, "")[0][0]))
    return out or [rule]


def _definitions(relation: str, files: Sequence[RuleFile]) -> list[RuleAst]:
    """The rules of ruleset ``facts`` that add to a relation; none where one of them reads it."""
    if not any(relation == n.items[1].text for f in files for n in f.relations):
        return []
    out = [
        ast for f in files for r in f.rules if r.family == "facts" for ast in r.asts if any(a.head == relation for a in ast.actions)
    ]  # fmt: skip
    return [] if any(n.head == relation for ast in out for n in ast.query) else out


def _body(ast: RuleAst, call: Term, at: int) -> list[str] | None:
    """The query of a definition, its parameters replaced by those of `call`; None where two literals differ."""
    from eqkir.authoring.marked import write

    head = next(a for a in ast.actions if a.head == (call[0] if isinstance(call, tuple) else call))
    s: dict[str, Term] = {}
    more: list[str] = []
    for x, y in zip(term(head)[1:], call[1:], strict=True):
        if is_variable(x) and str(x) not in s:
            s[str(x)] = f"_w{at}{len(s)}" if y == "_" else y
        elif is_variable(y):
            more += [] if y == "_" else [f"(= {write(y)} {write(x)})"]
        elif x != y:
            return None
    terms = [term(n) for n in ast.query]
    for v in dict.fromkeys(v for t in terms for v in variables(t)):
        s.setdefault(v, v if v == "_" else f"{v}-{at}")
    return [*(write(substitute(t, s)) for t in terms), *more]
