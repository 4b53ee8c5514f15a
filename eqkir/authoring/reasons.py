"""How far the query of a rule gets: the matches of its first fact, its first two, and so on, in a saturated graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqkir.program.abstract import Abstract
from eqkir.rules.load import Rule, RuleFile, signatures
from eqkir.rules.reader import Node
from eqkir.rules.saturate import Limits, _Run
from eqkir.rules.signatures import Signature
from eqkir.rules.sorts import RuleAst, SortCheck
from eqkir.terms.engine import session

#: the graph that is looked into
LIMITS = Limits(enodes=20_000, iterations=60)


def ordered(ast: RuleAst, known: Mapping[str, Signature]) -> list[Node]:
    """The facts of a query so that every prefix is a query of its own: a condition comes when its variables are bound."""
    left, out = list(ast.query), list[Node]()
    while left:
        nxt = next((f for f in left if _stands(ast, [*out, f], known)), left[0])
        left.remove(nxt)
        out.append(nxt)
    return out


def _stands(ast: RuleAst, facts: Sequence[Node], known: Mapping[str, Signature]) -> bool:
    c = SortCheck(known, "")
    c.rule(RuleAst(ast.name, ast.ruleset, tuple(facts), (), ast.node))
    return not c.found


def reasons(p: Abstract, files: list[RuleFile], rule: Rule) -> list[tuple[str, int]]:
    """(fact, matches of the query up to it) for each fact of the rule's query, in the graph that all `files` make of `p`."""
    known = signatures(files)
    facts = ordered(rule.asts[0], known)
    with session() as engine:
        run = _Run(p, files, LIMITS)
        run.start(engine)
        for _ in range(LIMITS.iterations):
            changed, _n = run.step(engine)
            if not changed:
                break
        text = ["(ruleset why)"]
        for i in range(len(facts)):
            query = " ".join(rule.text[f.start - rule.node.start : f.end - rule.node.start] for f in facts[: i + 1])
            text.append(f'(rule ({query}) () :ruleset why :name "why-{i}")')
        engine.send("\n".join(text), "rules")
        found = engine.run("why").num_matches_per_rule
    source = [rule.text[f.start - rule.node.start : f.end - rule.node.start] for f in facts]
    return [(t, int(found.get(f"why-{i}", 0))) for i, t in enumerate(source)]
