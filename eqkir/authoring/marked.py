"""A rule as it is tried: the same query, with actions that also mark what a match makes, and (for values) take the old side away.

Marks are rows of relations ``hit-N``: the fields of a constructor that the match makes. A value that a rule replaces is
deleted, so that every candidate of the graph takes the new side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eqkir.authoring.patterns import Term, is_variable, pattern
from eqkir.program.table import ROWS
from eqkir.rules.load import Rule
from eqkir.rules.signatures import Signature
from eqkir.rules.sorts import RuleAst, SortCheck

RULESET = "tried"
#: sorts whose terms take part in what is extracted
SPOKEN = ("F", "S", "SG", "T")
#: sorts of the source: a term of theirs can be taken away before anything is realised
REPLACED = ("V", "IX", "IXL", "St", "GL")


@dataclass(frozen=True, slots=True)
class Marked:
    """`text`: declarations and rules of ruleset ``tried``; `marks`: relation -> the constructor whose fields it holds;
    `forces`: every match takes its old side away."""

    text: str
    marks: Mapping[str, str]
    forces: bool


def write(t: Term) -> str:
    """The text of a term."""
    return f"({' '.join([str(t[0]), *map(write, t[1:])])})" if isinstance(t, tuple) else t


def marked(rule: Rule, known: Mapping[str, Signature], force: bool = True, asts: Sequence[RuleAst] = ()) -> Marked:
    """`force`: values are replaced and not only united. `asts`: what is tried in the rule's place (`eqkir.authoring.unfold`)."""
    out: list[str] = [f"(ruleset {RULESET})"]
    marks: dict[str, str] = {}
    forces = force
    for i, ast in enumerate(asts or rule.asts):
        text, forced = _one(ast, known, force, f"{i}", out, marks)
        out.append(text)
        forces = forces and forced
    return Marked("\n".join(out), marks, forces)


def _one(ast: RuleAst, known: Mapping[str, Signature], force: bool, at: str, out: list[str], marks: dict[str, str]) -> tuple[str, bool]:
    p = pattern(ast)
    check = SortCheck(known, "")
    check.rule(ast)
    query = [str(x) for x in ast.query]
    actions = [str(x) for x in ast.actions]
    forced = bool(p.unions)
    for a, b, _ in p.unions:
        target = a if is_variable(a) else b
        new = b if target is a else a
        sort = check.variables.get(str(target), "")
        olds = [
            d for d in p.defined.get(str(target), ()) if isinstance(d, tuple) and d[0] in known and known[str(d[0])].kind == "constructor"
        ]
        if force and sort in REPLACED and olds and write(p.made(new)) != write(olds[0]):
            head, args = olds[0][0], []
            for n, x in enumerate(olds[0][1:]):
                if isinstance(x, tuple):
                    query.append(f"(= old{at}_{n} {write(x)})")
                    args.append(f"old{at}_{n}")
                else:
                    args.append(x)
            actions.append(f"(delete ({' '.join(map(str, (head, *args)))}))")
        else:
            forced = False
        if sort in SPOKEN:
            for t in _applications(p.made(new)):
                assert isinstance(t, tuple)
                row = ROWS.get(str(t[0]))
                if row is None or row.sort not in SPOKEN or row.name == "FReady":
                    continue
                name = f"hit-{len(marks)}"
                marks[name] = row.name
                out.append(f"(relation {name} ({' '.join('V' if f == 'K' else f for f in row.fields)}))")
                actions.append(f"({name} {' '.join(map(write, t[1:]))})")
    return f'(rule ({" ".join(query)}) ({" ".join(actions)}) :ruleset {RULESET} :name "tried-{at}")', forced


def _applications(t: Term) -> list[Term]:
    return [t, *(y for x in t[1:] for y in _applications(x))] if isinstance(t, tuple) else []


def needs(rule: Rule, known: Mapping[str, Signature]) -> frozenset[tuple[str, str]]:
    """(operation, first attribute or "") of the source that every match of the rule needs, as far as the query says: operations that
    rules make are left out."""
    from eqkir.authoring.domains import BY_RULES
    from eqkir.authoring.patterns import subterms

    made = {*BY_RULES, "Fold", "ConAcc", "Permit"}
    out: set[tuple[str, str]] | None = None
    for ast in rule.asts:
        p = pattern(ast)
        found = set()
        for t in (y for x in (*p.atoms, *(d for ds in p.defined.values() for d in ds)) for y in subterms(x)):
            if isinstance(t, tuple) and str(t[0]) in ROWS and ROWS[str(t[0])].sort == "V" and t[0] not in made:
                first = t[1] if len(t) > 1 and isinstance(t[1], str) and t[1].startswith('"') else ""
                found.add((str(t[0]), first.strip('"')))
        out = found if out is None else out & found
    return frozenset(out or ())
