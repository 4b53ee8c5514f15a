"""A graph in which one rule acts beside placement and the realisations that a program needs, and what the rule's matches made in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eqkir.authoring.marked import RULESET, Marked
from eqkir.extract.graph import ENode, FrozenGraph
from eqkir.program.abstract import Abstract
from eqkir.program.table import REALISED_SORTS, ROWS
from eqkir.rules.load import RuleFile
from eqkir.terms.encode import encode, loader
from eqkir.terms.engine import EggError, Engine, session
from eqkir.terms.freeze import Reader, freeze
from eqkir.terms.prelude import FAMILIES, REQUESTS, vocabulary
from eqkir.terms.steer import steering

#: the graph grows to about so many e-nodes, in so many rounds
ENODES, ITERATIONS = 2500, 40


@dataclass
class Grown:
    """The graph after the rule; `hits`: what its matches made; `error`: what egglog said where a class invariant broke."""

    graph: FrozenGraph | None
    matches: int
    hits: frozenset[tuple[Any, ...]]
    error: str = ""


def grow(p: Abstract, m: Marked, base: Sequence[RuleFile], families: Sequence[str], support: Sequence[str] = ()) -> Grown:
    """Saturate, with the marked rule. `families` act after placement, `support` before it, beside the rule."""
    with session() as engine:
        try:
            root = _start(engine, p, m, base)
        except EggError as e:
            return Grown(None, 0, frozenset(), str(e)[:400])
        matches = 0
        try:
            for _ in range(10 if support else 3):  # values first; an odd number, for rules that undo themselves
                changed = [_step(engine, f) for f in support]
                changed.append(got := _step(engine, RULESET))
                matches += got[1]
                if not any(c for c, _ in changed):
                    break
            for _ in range(ITERATIONS):
                changed = []
                while (c := _step(engine, "place"))[0]:
                    changed.append(c)
                    if _count(engine) > ENODES:
                        break
                changed += [_step(engine, f) for f in (*support, *families)]
                if not m.forces:
                    changed.append(got := _step(engine, RULESET))
                    matches += got[1]
                if not any(c for c, _ in changed) or _count(engine) > ENODES:
                    break
            while _step(engine, "place")[0] and _count(engine) < 4 * ENODES:
                pass
        except EggError as e:
            return Grown(None, matches, frozenset(), str(e)[:400])
        try:
            numbers: dict[tuple[str, Any], int] = {}
            g = freeze(engine, root, p.abi, p.origins, steering(p), numbers)
        except (KeyError, StopIteration):
            return Grown(None, matches, frozenset())
        return Grown(g, matches, _hits(engine, m, numbers))


def _start(engine: Engine, p: Abstract, m: Marked, base: Sequence[RuleFile]) -> int:
    engine.send(vocabulary(), "vocabulary")
    engine.send(loader(), "vocabulary")
    rows = encode(p)
    if m.forces:  # the old side shall be in no realisation
        gone = {n for n, r in ROWS.items() if r.sort in REALISED_SORTS} | (set(REQUESTS) - {"RealGL"})
        for n in gone:
            rows.tables.pop(n, None)
    engine.load(rows.tsv())
    declared = list(dict.fromkeys(r.family for f in base for r in f.rules if r.family not in ("facts", *FAMILIES)))
    engine.send("".join(f"(ruleset {f})" for f in declared), "rules")
    for f in base:
        engine.send("\n".join(f.commands), "rules")
    engine.send(m.text, "rules")
    engine.run("facts", saturate=True)
    return rows.root


def _step(engine: Engine, family: str) -> tuple[bool, int]:
    r = engine.run(family)
    if r.updated:
        engine.run("facts", saturate=True)
    return bool(r.updated), sum(r.num_matches_per_rule.values())


def _count(engine: Engine) -> int:
    return sum(len(f.rows) for n, f in engine.egraph.freeze().functions.items() if n in ROWS and ROWS[n].sort in REALISED_SORTS)


def _hits(engine: Engine, m: Marked, numbers: Mapping[tuple[str, Any], int]) -> frozenset[tuple[Any, ...]]:
    """(constructor, labels, position, attributes, children) of every node that a match made; children by class number."""
    r = Reader(engine)
    read: dict[str, Callable[[Any], Any]] = {
        "L": r.labels, "Path": r.paths.get, "String": r.string, "i64": r.int, "IX": r.ix.get, "IXL": r.ixl.get,
    }  # fmt: skip
    out = set()
    for relation, op in m.marks.items():
        fields = ROWS[op].fields
        for row in r.rows(relation):
            held: dict[str, list[Any]] = {"L": [None], "Path": [None], "attr": [], "kid": []}
            for f, v in zip(fields, row.inputs, strict=True):
                if f in ("L", "Path"):
                    held[f] = [read[f](v)]
                elif f in read:
                    held["attr"].append(str(read[f](v)))
                elif f != "K":
                    held["kid"].append(numbers.get((f, v), -1))
            out.add((op, held["L"][0], held["Path"][0], tuple(held["attr"]), tuple(held["kid"])))
    return frozenset(out)


def key_of(n: ENode) -> tuple[Any, ...]:
    """A frozen node as `Grown.hits` speaks of it."""
    attrs = [a for a, f in zip(n.attrs, [f for f in ROWS[n.op].fields if f in ("String", "i64", "IX", "IXL", "K")]) if f != "K"]
    return n.op, n.labels, n.path, tuple(map(str, attrs)), n.kids
