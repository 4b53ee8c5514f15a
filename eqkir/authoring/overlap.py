"""Rules that another rule covers: wherever the one matches, the other matches too and does the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from eqkir.authoring.patterns import Pattern, Term, is_variable, query_terms
from eqkir.rules.signatures import Signature

Atom = tuple[Term, ...]
STEPS = 20_000


def flatten(p: Pattern) -> list[Atom]:
    """The query as atoms ``(head, variable or literal …, result)``; a value that has a name keeps it."""
    out: list[Atom] = []
    fresh = iter(range(1 << 30))

    def go(t: Term, name: str | None = None) -> Term:
        if not isinstance(t, tuple):
            return t
        args = [go(x) for x in t[1:]]
        v = name or f"?{next(fresh)}"
        out.append((t[0], *args, v))
        return v

    for t in query_terms(p):
        assert isinstance(t, tuple)
        if t[0] == "=" and is_variable(t[1]) and isinstance(t[2], tuple):
            go(t[2], str(t[1]))
        elif t[0] == "=":
            out.append(("=", *(go(x) for x in t[1:])))
        else:
            out.append((t[0], *(go(x) for x in t[1:])))
    return out


def covers(a: Pattern, b: Pattern) -> bool:
    """Whether rule `a` matches wherever `b` does and acts the same there."""
    atoms, targets = flatten(a), flatten(b)
    steps = 0

    def unify(x: Atom, y: Atom, s: dict[str, Term]) -> dict[str, Term] | None:
        if len(x) != len(y) or x[0] != y[0]:
            return None
        s = dict(s)
        for u, w in zip(x[1:], y[1:]):
            if is_variable(u):
                if s.setdefault(str(u), w) != w:
                    return None
            elif u != w:
                return None
        return s

    def search(i: int, s: dict[str, Term]) -> Iterator[dict[str, Term]]:
        nonlocal steps
        steps += 1
        if steps > STEPS:
            return
        if i == len(atoms):
            yield s
            return
        for y in targets:
            t = unify(atoms[i], y, s)
            if t is not None:
                yield from search(i + 1, t)

    want = _actions(b, {})
    return any(_actions(a, s) == want for s in search(0, {}))


def _actions(p: Pattern, s: Mapping[str, Term]) -> frozenset[Term]:
    from eqkir.authoring.patterns import substitute

    unions = {("union", *sorted((substitute(p.made(x), s), substitute(p.made(y), s)), key=repr)) for x, y, _ in p.unions}
    return frozenset(unions | {substitute(p.made(t), s) for t, _ in p.inserts})


def overlaps(patterns: Iterable[Pattern], known: Mapping[str, Signature]) -> Iterator[tuple[Pattern, Pattern]]:
    """(rule, a rule that covers it); of two that cover each other, the later one."""
    ps = list(patterns)
    shape = [frozenset(str(x[0]) for x in flatten(p)) for p in ps]
    for j, b in enumerate(ps):
        for i, a in enumerate(ps):
            if i != j and a.rule.node is not b.rule.node and shape[i] <= shape[j] and covers(a, b) and (i < j or not covers(b, a)):
                yield b, a
                break
