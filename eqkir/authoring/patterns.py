"""A rule as nested terms: what its query says of each variable, and what its actions make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from eqkir.rules.reader import Node
from eqkir.rules.signatures import PRIMITIVES, Signature
from eqkir.rules.sorts import RuleAst

#: a variable or literal as text, or (head, argument, …)
Term = str | tuple["Term", ...]


def term(n: Node) -> Term:
    """Literals keep their quotes, so that no variable is one."""
    return str(n) if n.kind != "list" else (n.head, *(term(x) for x in n.rest))


def is_variable(t: Term) -> bool:
    """Whether a term is a variable."""
    return isinstance(t, str) and not t.startswith('"') and not t.lstrip("+-").isdigit()


def variables(t: Term) -> Iterator[str]:
    """Every occurrence, in order."""
    if isinstance(t, tuple):
        for x in t[1:]:
            yield from variables(x)
    elif is_variable(t):
        yield t


def subterms(t: Term) -> Iterator[Term]:
    """A term and all terms in it."""
    yield t
    if isinstance(t, tuple):
        for x in t[1:]:
            yield from subterms(x)


def substitute(t: Term, s: Mapping[str, Term]) -> Term:
    """A term with its variables replaced."""
    if isinstance(t, tuple):
        return (t[0], *(substitute(x, s) for x in t[1:]))
    return s.get(t, t)


def size(t: Term) -> int:
    """Constructors in a term; sets of labels are finite, so what primitives make of them does not count."""
    return (not is_primitive(t)) + sum(map(size, t[1:])) if isinstance(t, tuple) else 0


@dataclass
class Pattern:
    """`defined`: variable -> terms that the query equates it with (constructor patterns and values of functions and primitives);
    `atoms`: conditions and relations; `lets` and `unions` of the actions, `inserts`: facts that they add."""

    rule: RuleAst
    defined: dict[str, list[Term]] = field(default_factory=dict)
    atoms: list[Term] = field(default_factory=list)
    lets: dict[str, Term] = field(default_factory=dict)
    unions: list[tuple[Term, Term, Node]] = field(default_factory=list)
    inserts: list[tuple[Term, Node]] = field(default_factory=list)

    def expanded(self, t: Term, known: Mapping[str, Signature], seen: frozenset[str] = frozenset()) -> Term:
        """`t` with each variable replaced by the constructor pattern that the query gives it (of several, the first)."""
        if isinstance(t, tuple):
            return (t[0], *(self.expanded(x, known, seen) for x in t[1:]))
        if t in seen:
            return t
        for d in self.defined.get(t, ()):
            if isinstance(d, tuple) and is_structure(d, known):
                return self.expanded(d, known, seen | {t})
        return t

    def made(self, t: Term) -> Term:
        """A term of the actions with its lets put in."""
        return substitute(t, self._closed())

    def _closed(self) -> dict[str, Term]:
        out: dict[str, Term] = {}
        for k, v in self.lets.items():
            out[k] = substitute(v, out)
        return out


def is_structure(t: Term, known: Mapping[str, Signature]) -> bool:
    """A constructor's or a request's application."""
    return isinstance(t, tuple) and str(t[0]) in known and known[str(t[0])].kind in ("constructor", "request")


def pattern(r: RuleAst) -> Pattern:
    """What a rule says: facts, definitions of variables, and unions."""
    p = Pattern(r)
    for f in r.query:
        if f.head == "=":
            sides = [term(x) for x in f.rest]
            names = [x for x in sides if is_variable(x)]
            for v in names:
                p.defined.setdefault(str(v), []).extend(x for x in sides if x != v)
            if not names:
                p.atoms.append(("=", *sides))
        else:
            p.atoms.append(term(f))
    for a in r.actions:
        match a.head:
            case "let":
                p.lets[a.items[1].text] = term(a.items[2])
            case "union":
                p.unions.append((term(a.items[1]), term(a.items[2]), a))
            case "set":
                p.inserts.append((("set", term(a.items[1]), term(a.items[2])), a))
            case _:
                p.inserts.append((term(a), a))
    return p


def query_terms(p: Pattern) -> list[Term]:
    """The terms of a query."""
    return [*p.atoms, *(("=", v, d) for v, ds in p.defined.items() for d in ds)]


def match(pat: Term, t: Term, s: dict[str, Term]) -> bool:
    """Extend `s` so that `pat` under it is `t`; a variable of `t` stands for any term, so a structure may meet it."""
    if isinstance(pat, tuple):
        if isinstance(t, tuple):
            return pat[0] == t[0] and len(pat) == len(t) and all(match(a, b, s) for a, b in zip(pat[1:], t[1:]))
        return False
    if is_variable(pat):
        if pat in s:
            return s[pat] == t
        s[pat] = t
        return True
    return pat == t or is_variable(t)


def is_primitive(t: Term) -> bool:
    """Whether a term is a call of a primitive."""
    return isinstance(t, tuple) and str(t[0]) in PRIMITIVES
