"""A rule less one of its conditions. What is left must be refuted, or the condition is not needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from eqkir.rules.load import Rule, RuleFile
from eqkir.rules.reader import read_nodes
from eqkir.rules.signatures import Signature
from eqkir.rules.sorts import SortCheck


@dataclass(frozen=True, slots=True)
class Mutant:
    """`condition`: the fact that was taken out; `faults`: why egglog would not take the rest (the fact binds what others use)."""

    rule: Rule
    condition: str
    line: int
    faults: str


def mutants(file: RuleFile, rule: Rule, known: Mapping[str, Signature]) -> Iterator[Mutant]:
    """Every deletion of one fact of the query."""
    if rule.node.head != "rule":
        return
    query, offset = rule.node.items[1], rule.node.start
    for f in query.items:
        text = rule.text[: f.start - offset] + rule.text[f.end - offset :]
        node = read_nodes(text, file.path)[0][0]
        changed = replace(rule, text=text, node=node)
        faults = ""
        for ast in changed.asts:
            c = SortCheck(known, file.path)
            c.rule(ast)
            faults = faults or (c.found[0].message if c.found else "")
        if not node.items[1].items:
            faults = faults or "no query is left"
        yield Mutant(changed, rule.text[f.start - offset : f.end - offset], f.line, faults)
