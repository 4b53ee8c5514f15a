"""Names, numbers of arguments and sorts of a rule, checked with positions before egglog sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from eqkir.base.diagnostics import Diagnostic, register
from eqkir.rules.reader import Node
from eqkir.rules.signatures import PRIMITIVES, SOURCE, UNIT, WRITABLE, Signature

E_COMMAND = register(
    "EQK-RUL-003",
    "command not allowed in a rule file",
    "A rule file holds rule, rewrite, birewrite and relation commands. Actions are union, let, facts of the file's own relations, "
    "and plan, base, en, orders, binds, narrows and formed; primitives are those of docs/rules.md.",
)
E_EGG = register(
    "EQK-RUL-008",
    "rule that does not fit the vocabulary",
    "A name, a number of arguments, a sort or an unbound variable; docs/rules.md lists the vocabulary.",
)
E_SOURCE = register(
    "EQK-RUL-009", "rule that writes a fact of the source", "Tables of the source and derived facts are read by rules and written by none."
)
#: actions that take terms
ACTIONS = ("union", "set", "let")


@dataclass(frozen=True, slots=True)
class RuleAst:
    """One direction of one rule: a rewrite is taken apart into query and actions."""

    name: str
    ruleset: str
    query: tuple[Node, ...]
    actions: tuple[Node, ...]
    node: Node  # the command


def rule_asts(n: Node, name: str, ruleset: str) -> list[RuleAst]:
    """The rules that a `rule`, `rewrite` or `birewrite` command stands for; `n` has passed the form check."""
    if n.head == "rule":
        return [RuleAst(name, ruleset, n.items[1].items, n.items[2].items, n)]
    left, right = n.items[1], n.items[2]
    when = options(n, 3).get(":when")
    more = when.items if when else ()

    def one(a: Node, b: Node) -> RuleAst:
        v = Node("name", "rewritten", (), a.line, a.column, a.start, a.end)
        eq, union = (Node("name", t, (), a.line, a.column, a.start, a.end) for t in ("=", "union"))
        return RuleAst(
            name, ruleset,
            (Node("list", "", (eq, v, a), a.line, a.column, a.start, a.end), *more),
            (Node("list", "", (union, v, b), b.line, b.column, b.start, b.end),), n,
        )  # fmt: skip

    return [one(left, right)] + ([one(right, left)] if n.head == "birewrite" else [])


def options(n: Node, at: int) -> dict[str, Node]:
    """``:key value`` pairs from item `at` on; those without a value are left out."""
    out: dict[str, Node] = {}
    items = n.items[at:]
    for k, v in zip(items[::2], items[1::2]):
        out[k.text] = v
    return out


@dataclass
class SortCheck:
    """Checks one rule against `known` signatures; the faults are in `found`."""

    known: Mapping[str, Signature]
    file: str
    found: list[Diagnostic] = field(default_factory=list)
    #: variable -> its sort, "" while unknown
    variables: dict[str, str] = field(default_factory=dict)
    first: dict[str, Node] = field(default_factory=dict)
    acting: bool = False  # inside the actions

    def fault(self, n: Node, message: str, accepted: str = "", code: str = E_EGG) -> None:
        d = Diagnostic(code, message, file=self.file, line=n.line, column=n.column, accepted=accepted, stage="rules")
        if d not in self.found:
            self.found.append(d)

    # ------------------------------------------------------------------------------------------ the rule
    def rule(self, r: RuleAst) -> None:
        for _ in range(3):  # sorts travel along equations
            self.found = [d for d in self.found if d.code != E_EGG]
            for f in r.query:
                self.fact(f)
        bound = set(self.variables)
        if not self.found:  # else a fault of the query is the reason
            for v in sorted(bound - self.grounded(r)):
                self.fault(self.first[v], f"{v} is bound by a condition alone", "a relation or a term that gives it a value")
            for v in sorted(v for v in bound & self.grounded(r) if not self.variables[v]):
                self.fault(self.first[v], f"the sort of {v} cannot be told", "a fact that gives it one")
        self.acting = True
        for a in r.actions:
            self.action(a, bound)

    def grounded(self, r: RuleAst) -> set[str]:
        """Variables that terms, relations and equations give a value; conditions only test them."""
        out: set[str] = set()
        equations: list[tuple[Node, ...]] = []

        def go(n: Node) -> None:
            if n.kind == "name":
                out.add(n.text)
            elif n.kind == "list" and n.head in self.known:
                for x in n.rest:
                    go(x)

        for f in r.query:
            if f.head == "=":
                equations.append(f.rest)
                for x in f.rest:
                    if x.kind == "list":
                        go(x)
            else:
                go(f)

        def given(n: Node) -> bool:
            return n.text in out if n.kind == "name" else n.kind != "list" or all(given(x) for x in n.rest)

        for _ in range(len(equations) + 1):
            for sides in equations:
                if any(x.kind == "list" and x.head in self.known or given(x) for x in sides):
                    out.update(x.text for x in sides if x.kind == "name")
        return out

    def fact(self, n: Node) -> None:
        if n.kind != "list" or not n.head:
            self.fault(n, "no fact", "(= a b), (relation …) or a condition")
            return
        if n.head == "=":
            if len(n.items) < 3:
                self.fault(n, "= takes two or more terms")
                return
            sort = ""
            for x in n.rest:
                sort = self.expression(x, sort, self.bind) or sort
            for x in n.rest:
                self.expression(x, sort, self.bind)
            return
        self.expression(n, UNIT, self.bind, top=True)

    def action(self, n: Node, bound: set[str]) -> None:
        use = self.use(bound)
        match n.head:
            case "union":
                if len(n.items) != 3:
                    self.fault(n, "union takes two terms")
                    return
                a = self.expression(n.items[1], "", use)
                b = self.expression(n.items[2], a, use)
                if not a and b:
                    self.expression(n.items[1], b, use)
                if (a or b) in ("i64", "String", "L", UNIT):
                    self.fault(n, f"a union of sort {a or b}", "terms")
            case "let":
                if len(n.items) != 3 or n.items[1].kind != "name":
                    self.fault(n, "let takes a name and a term")
                    return
                sort = self.expression(n.items[2], "", use)
                if n.items[1].text in bound:
                    self.fault(n.items[1], f"{n.items[1].text} has a value already", "a new name")
                self.variables[n.items[1].text] = sort
                self.first.setdefault(n.items[1].text, n.items[1])
                bound.add(n.items[1].text)
            case "set":
                if len(n.items) != 3 or n.items[1].kind != "list":
                    self.fault(n, "set takes a function's place and a value")
                    return
                target = n.items[1].head
                if target not in WRITABLE or target not in self.known:
                    self.fault(n.items[1], f"{target[:60]} is not set by rules", "base", E_SOURCE)
                    return
                s = self.known[target]
                if len(s.fields) != len(n.items[1].rest):
                    self.fault(n.items[1], f"{target} takes {len(s.fields)} arguments, not {len(n.items[1].rest)}")
                    return
                for x, f in zip(n.items[1].rest, s.fields, strict=True):
                    self.expression(x, f, use)
                self.expression(n.items[2], s.result, use)
            case name if name in self.known and self.known[name].kind in ("relation", "constructor", "request"):
                if name in SOURCE or (self.known[name].kind == "relation" and name not in WRITABLE and name in self._vocabulary()):
                    self.fault(n, f"{name} is not written by rules", ", ".join(sorted(WRITABLE)), E_SOURCE)
                self.expression(n, "", use)
            case _:
                self.fault(n, f"`{n.head[:60] or n.kind}` is no action of a rule", ", ".join((*ACTIONS, "a fact")), E_COMMAND)

    @staticmethod
    def _vocabulary() -> Mapping[str, Signature]:
        from eqkir.rules.signatures import vocabulary_signatures

        return vocabulary_signatures()

    # ------------------------------------------------------------------------------------------ terms
    def bind(self, n: Node, sort: str) -> str:
        """A variable of the query."""
        if n.text == "_":
            return sort
        self.first.setdefault(n.text, n)
        old = self.variables.get(n.text, "")
        if old and sort and old != sort:
            self.fault(n, f"{n.text} is a {old} elsewhere and a {sort} here")
            return old
        self.variables[n.text] = old or sort
        return old or sort

    def use(self, bound: set[str]) -> Callable[[Node, str], str]:
        def use(n: Node, sort: str) -> str:
            if n.text not in bound:
                near = get_close_matches(n.text, sorted(bound), 1, 0.5)
                self.fault(n, f"{n.text[:60]} is not bound by the query", ", ".join(near))
                return sort
            return self.bind(n, sort)

        return use

    def expression(self, n: Node, sort: str, variable: Callable[[Node, str], str], top: bool = False) -> str:
        """The sort of a term (`sort`: the one that is expected, or "")."""
        match n.kind:
            case "name":
                if n.text.startswith(":"):
                    self.fault(n, f"{n.text[:60]} is no term")
                    return sort
                return variable(n, sort)
            case "string" | "int":
                own = "String" if n.kind == "string" else "i64"
                if sort and sort != own:
                    self.fault(n, f"{n} is a {own}, not a {sort}")
                return own
        if not n.head:
            self.fault(n, "a term begins with a name")
            return sort
        s = self.known.get(n.head) or PRIMITIVES.get(n.head)
        if s is None:
            near = get_close_matches(n.head, [*self.known, *PRIMITIVES], 3, 0.6)
            self.fault(n.items[0], f"unknown name {n.head[:60]!r}", ", ".join(near))
            return sort
        if self.acting and s.kind == "function":
            self.fault(n, f"({n.head} …) is looked up in an action", f"(= x ({n.head} …)) in the query")
        fields = s.fields
        if fields[-1:] == ("*",):
            fields = (fields[0],) * len(n.rest)
        if len(fields) != len(n.rest):
            self.fault(n, f"{n.head} takes {len(fields)} arguments, not {len(n.rest)}", " ".join((n.head, *fields)))
            return s.result
        if fields == ("?", "?"):
            a = self.expression(n.items[1], "", variable)
            b = self.expression(n.items[2], a, variable)
            if b and not a:
                self.expression(n.items[1], b, variable)
        else:
            for x, f in zip(n.rest, fields, strict=True):
                self.expression(x, f, variable)
        if sort and s.result != sort and not (top and s.kind in ("constructor", "request", "function")):
            self.fault(n, f"({n.head} …) is a {s.result}, not a {sort}" if s.result != UNIT else f"({n.head} …) is a condition, no {sort}")
        return s.result
