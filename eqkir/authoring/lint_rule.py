"""What one rule says that its author cannot have meant. Each check yields findings with positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from eqkir.authoring import findings as f
from eqkir.authoring.domains import DOMAINS, canonical_constant, placed
from eqkir.authoring.findings import Finding, at
from eqkir.authoring.patterns import (
    Pattern,
    Term,
    is_primitive,
    is_variable,
    match,
    pattern,
    query_terms,
    size,
    substitute,
    subterms,
    variables,
)
from eqkir.program.table import ROWS
from eqkir.rules.reader import Node
from eqkir.rules.signatures import PRIMITIVES, Signature
from eqkir.rules.sorts import RuleAst, SortCheck

#: operations whose attribute is the axis that they bind: (constructor, field of the axis)
BINDERS = {"Red": 1, "RedN": 0, "Con": 0, "ConAcc": 0, "Fold": 0, "While": 0}


class RuleLint:
    """`made`: constructors that some rule or placement makes."""

    def __init__(self, ast: RuleAst, file: str, known: Mapping[str, Signature], made: frozenset[str]) -> None:
        self.ast, self.file, self.known, self.made = ast, file, known, made
        self.p: Pattern = pattern(ast)
        check = SortCheck(known, file)
        check.rule(ast)
        self.sorts, self.first = check.variables, check.first

    def find(self) -> Iterator[Finding]:
        yield from self.unused()
        yield from self.shadowed()
        yield from self.impossible()
        yield from self.growing()
        yield from self.contexts()
        yield from self.axes()
        yield from self.binders()

    def at(self, n: Node, code: str, severity: f.Severity, message: str) -> Finding:
        return at(n, self.file, self.ast.name, code, severity, message)

    def unused(self) -> Iterator[Finding]:
        """Variables that a fact `(= x …)` or a let binds and nothing reads; a place of a pattern that is not read is no fault."""
        uses = Counter(v for t in (*query_terms(self.p), *self.p.lets.values(), *self._acts()) for v in variables(t))
        uses.update(self.p.lets.keys())
        for v, n in sorted(uses.items()):
            named = v in self.p.lets or v in self.p.defined
            times = n - len(self.p.defined.get(v, ())) + 1 if v in self.p.defined else n
            if named and times < 2 and v != "rewritten" and not v.startswith("_"):
                kinds = list(self.p.defined.get(v, ()))
                if v in self.p.lets or all(self._value(d) for d in kinds):
                    yield self.at(self.first.get(v, self.ast.node), f.UNUSED, "warning", f"{v} is not used")

    def _value(self, t: Term) -> bool:
        """The value of a function or primitive: only worth binding when it is read. A structure is a condition by itself, and so is a
        function's value at all (the fact exists), but not of a total function."""
        return is_primitive(t) or (isinstance(t, tuple) and str(t[0]) in self.known and self.known[str(t[0])].kind == "function")

    def _acts(self) -> list[Term]:
        return [*(x for a, b, _ in self.p.unions for x in (a, b)), *(t for t, _ in self.p.inserts)]

    def shadowed(self) -> Iterator[Finding]:
        for v in sorted({*self.sorts, *self.p.lets}):
            if v in self.known or v in PRIMITIVES:
                yield self.at(self.first.get(v, self.ast.node), f.SHADOW, "warning", f"{v} is also the name of a {self._kind(v)}")

    def _kind(self, v: str) -> str:
        return self.known[v].kind if v in self.known else "primitive"

    def impossible(self) -> Iterator[Finding]:
        for part, where in ((self.ast.query, "query"), (self.ast.actions, "action")):
            for n in (x for y in part for x in y.walk()):
                if n.kind != "list" or n.head not in self.known:
                    continue
                if where == "query" and self.known[n.head].kind in ("constructor", "request") and n.head not in self.made:
                    yield self.at(n, f.EXISTS, "error", f"no program and no loaded rule makes ({n.head} …)")
                for i, x in enumerate(n.rest):
                    allowed = DOMAINS.get((n.head, i))
                    if x.kind == "string" and allowed and x.text not in allowed:
                        if n.head in ("Permit",):
                            continue
                        yield self.at(x, f.EXISTS, "error", f'({n.head} … "{x.text}" …): known are {", ".join(allowed[:12])}')
                if n.head in ("Const", "FConst") and all(x.kind == "string" for x in n.rest):
                    text, dtype = n.rest[0].text, n.rest[1].text
                    right = canonical_constant(text, dtype)
                    if text != right and dtype != "key":
                        hint = f'it is written "{right}"' if right else "it is none"
                        yield self.at(n, f.EXISTS, "error", f'no {dtype} constant is written "{text}"; {hint}')

    # ------------------------------------------------------------------------------------------ growth
    def growing(self) -> Iterator[Finding]:
        for a, b, n in self.p.unions:
            for target, new in ((a, b), (b, a)):
                if not is_variable(target):
                    continue
                for old in self.p.defined.get(str(target), ()):
                    if isinstance(old, tuple) and self._grows(self.p.expanded(old, self.known, frozenset({str(target)})), self.p.made(new)):
                        yield self.at(n, f.GROWS, "error", f"the new ({old[0]} …) matches again and grows with every match")
                        return
        for t, n in self.p.inserts:
            if isinstance(t, tuple) and any(isinstance(q, tuple) and q[0] == t[0] for q in self.p.atoms):
                before = [q for q in self.p.atoms if isinstance(q, tuple) and q[0] == t[0]]
                free = [x for x in t[1:] if is_primitive(x) and str(x[0]) in ("+", "-", "*") and not self._bounded(x)]
                deep = any(self._grows(self.p.expanded(q, self.known), self.p.made(t)) for q in before)
                if free or deep:
                    yield self.at(n, f.GROWS, "error", f"({t[0]} …) makes a further ({t[0]} …) without end")

    def _grows(self, old: Term, new: Term) -> bool:
        """Whether the rule, applied to its own result, gives a still larger term."""
        sizes = [size(new)]
        terms = [new]
        for _ in range(3):
            s: dict[str, Term] = {}
            if not match(old, terms[-1], s):
                return False
            terms.append(substitute(new, s))
            sizes.append(size(terms[-1]))
        return sizes[0] < sizes[1] < sizes[2] < sizes[3] and sizes[3] < 4000

    def _bounded(self, t: Term) -> bool:
        tests = [q for q in self.p.atoms if isinstance(q, tuple) and q[0] in ("<", "<=", ">", ">=")]
        return any(set(variables(t)) & set(variables(q)) for q in tests)

    # ------------------------------------------------------------------------------------------ contexts
    def contexts(self) -> Iterator[Finding]:
        for a, b, n in self.p.unions:
            for target, new in ((a, b), (b, a)):
                if is_variable(target) and isinstance(self.p.made(new), tuple):
                    for old in self.p.defined.get(str(target), ()):
                        if isinstance(old, tuple):
                            yield from self._place(old, self.p.made(new), n)

    def _place(self, old: tuple[Term, ...], new: Term, n: Node) -> Iterator[Finding]:
        assert isinstance(new, tuple)
        if old[0] in ("Here", "At", "Want"):
            x, p, k = old[1:4]
            if new[0] in ("Here", "At", "Want"):
                if new[1:4] != (x, p, k):
                    yield self.at(n, f.CONTEXT, "error", f"({new[0]} …) asks at another context, position or stage than ({old[0]} …)")
                return
            inner, ready = new, False
            if new[0] == "FReady":
                ready = True
                if new[1] not in (k, "-1"):
                    yield self.at(n, f.CONTEXT, "error", f"(FReady {new[1]} …) where stage {k} was asked for")
                inner = new[2] if isinstance(new[2], tuple) else new
            row = ROWS.get(str(inner[0]))
            if row is None or row.sort != "F" or inner[0] == "FReady":
                return
            where = [inner[1 + i] for i, s in enumerate(row.fields) if s == "Path"]
            inside = where and isinstance(where[0], tuple) and where[0][0] == "In" and where[0][1] == p
            if where and not (inside if row.loop else self._same_position(where[0], p)):
                yield self.at(n, f.CONTEXT, "error", f"({inner[0]} …) stands at {_text(where[0])}, asked for at {_text(p)}")
            leaf = not any(s in ("F", "FL") for s in row.fields)
            if not ready and (row.loop or leaf):
                yield self.at(n, f.READY, "error", f"({inner[0]} …) is not wrapped in (FReady {_text(k)} …)")
        elif str(old[0]) in ROWS and ROWS[str(old[0])].sort in ("F", "S") and new[0] == old[0]:
            for i, s in enumerate(ROWS[str(old[0])].fields):
                if s in ("L", "Path") and old[1 + i] != new[1 + i]:
                    yield self.at(n, f.CONTEXT, "error", f"the new ({new[0]} …) has another {'context' if s == 'L' else 'position'}")

    def _same_position(self, a: Term, b: Term) -> bool:
        return a == b or a in self.p.defined.get(str(b), ())

    # ------------------------------------------------------------------------------------------ values
    def axes(self) -> Iterator[Finding]:
        """A value variable of the old side that the new side lacks takes its free axes away, unless the query speaks of axes or the
        variable is a constant."""
        speaks = {
            str(d[1]) for ds in self.p.defined.values() for d in ds if isinstance(d, tuple) and d[0] in ("flab", "flabL") and len(d) > 1
        }
        for a, b, n in self.p.unions:
            if not is_variable(a) or self.sorts.get(str(a)) != "V":
                continue
            olds = [self.p.expanded(d, self.known, frozenset({str(a)})) for d in self.p.defined.get(str(a), ()) if isinstance(d, tuple)]
            new = set(variables(self.p.made(b)))
            if any(self.sorts.get(v) == "V" and not any(v in set(variables(o)) for o in olds) for v in new):
                continue  # the new side comes from a relation, which says what it is
            for old in olds[:1]:
                gone = [v for v in dict.fromkeys(variables(old)) if self.sorts.get(v) == "V" and v not in new and v not in speaks]
                constant = {v for v in gone if any(isinstance(d, tuple) and d[0] == "Const" for d in self.p.defined.get(v, ()))}
                for v in gone:
                    if v not in constant and str(a) not in new:
                        yield self.at(n, f.AXES, "warning", f"the axes of {v} may get lost")

    def binders(self) -> Iterator[Finding]:
        """The new side binds another axis over an operand that the old side bound by its own."""
        for a, b, n in self.p.unions:
            olds = self.p.defined.get(str(a), ()) if is_variable(a) else ()
            for old in olds:
                if not isinstance(old, tuple) or old[0] not in BINDERS:
                    continue
                at_ = 1 + BINDERS[str(old[0])]
                for t in subterms(self.p.made(b)):
                    if isinstance(t, tuple) and t[0] == old[0] and t[at_] != old[at_] and t[at_ + 1 :] == old[at_ + 1 :]:
                        yield self.at(
                            n, f.BINDER, "error", f"({t[0]} …) binds {_text(t[at_])} over the operands that {_text(old[at_])} bound"
                        )


def _text(t: Term) -> str:
    return f"({' '.join(map(_text, t))})" if isinstance(t, tuple) else t


def all_made(asts: list[RuleAst]) -> frozenset[str]:
    """Constructors that placement, encode or one of the rules makes."""
    from eqkir.authoring.domains import heads

    return placed() | frozenset(heads([n for a in asts for n in a.actions]))
