"""Rule files: a header, named rules, and nothing that could run anything.

A file is egglog text of `rule`, `rewrite`, `birewrite` and `relation` commands. Its header is ``; key: value`` lines (name, family,
version, permissions, claim, machine, removes); every rule carries ``:name`` and stands under a comment ``; before => after``. Files from
strangers are data: other commands (input, include, run, push, extract, panics …), other actions and other primitives are refused, and so is
whatever does not fit the vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from eqkir.base.diagnostics import Diagnostic, EqkirError, register
from eqkir.base.resources import data_dir
from eqkir.rules.reader import Comment, Node, read_nodes
from eqkir.rules.signatures import Signature, sorts, vocabulary_signatures
from eqkir.rules.sorts import E_COMMAND, RuleAst, SortCheck, options, rule_asts

E_READ = register(
    "EQK-RUL-001",
    "unreadable rule file",
    "The file cannot be read as UTF-8 text, or is larger than 1 MiB; a folder holds at most 200 files.",
)
E_HEADER = register(
    "EQK-RUL-004",
    "rule file without header",
    "The header names at least `name` and `family` as `; key: value` comment lines; values have at most 8000 characters.",
)
E_NAME = register("EQK-RUL-005", "rule without a name", "Every rule of a family carries `:name`; names are unique over all loaded files.")
E_FAMILY = register("EQK-RUL-006", "unknown rule family", "`--without` takes the family of a loaded rule file.")
E_PERMIT = register(
    "EQK-RUL-007", "permission not granted", "The rule file needs a permission that the compile call did not give (`--permit`)."
)
E_REMOVES = register("EQK-RUL-010", "no such rule to remove", "The header's `removes` names rules of the files that are loaded before.")
E_CLASH = register(
    "EQK-RUL-011", "name that is taken", "A relation has a name that neither the vocabulary nor a primitive nor another loaded file uses."
)

#: families of machines
MACHINES = ("gpu", "cpu")
#: rulesets of the vocabulary itself
RESERVED = frozenset({"place", "load", "load-sets"})
FILES = 200
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,60}")
_RULE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,79}")


@cache
def _taken() -> frozenset[str]:
    """Names that the vocabulary declares: a ruleset cannot have one of them."""
    from eqkir.terms.encode import loader
    from eqkir.terms.prelude import FAMILIES, vocabulary

    text = vocabulary() + loader()
    found = set(re.findall(r"\((?:relation|function|constructor|sort|ruleset)\s+([^\s()]+)", text))
    return frozenset(found - {*FAMILIES, "facts"})


#: permissions that a compile call may grant (kir.md section 5)
PERMISSIONS = ("relaxed_normalization", "zero_products")


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    family: str  # the ruleset that it belongs to; "facts" for auxiliary rules
    text: str
    comment: str  # "before => after"
    line: int
    node: Node = field(compare=False, repr=False)

    @property
    def asts(self) -> list[RuleAst]:
        return rule_asts(self.node, self.name, self.family)


@dataclass(frozen=True, slots=True)
class RuleFile:
    path: str
    name: str
    family: str
    version: str
    permissions: tuple[str, ...]
    claim: str
    commands: tuple[str, ...]  # relations first, then rules, each one complete command
    rules: tuple[Rule, ...]
    removes: tuple[str, ...] = ()  # names of rules of other files that are left out
    relations: tuple[Node, ...] = field(default=(), compare=False, repr=False)
    machine: str = ""  # the family of machines that it is for (`MACHINES`); empty: all

    @property
    def rulesets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(r.family for r in self.rules))


def parse(text: str, path: str) -> RuleFile:
    """A rule file from its text. Raises EqkirError."""
    nodes, comments = read_nodes(text, path)
    header = _header(nodes, comments)

    def err(code: str, message: str, n: Node | None = None, accepted: str = "") -> EqkirError:
        line, column = (n.line, n.column) if n else (1, None)
        return EqkirError(Diagnostic(code, message, file=path, line=line, column=column, accepted=accepted, stage="rules"))

    for n in nodes:
        _form(n, err)
    if "name" not in header or "family" not in header:
        raise err(E_HEADER, "no `; name:` and `; family:` header lines")
    for key, value in header.items():
        if len(value) > 8000 or not value.isprintable():
            raise err(E_HEADER, f"{key} is longer than 8000 characters, or not printable")
    for key in ("name", "family"):
        if not _NAME.fullmatch(header[key]) or header[key] in _taken():
            raise err(
                E_HEADER, f"{key} {header[key][:60]!r} is no name, or one that the vocabulary uses", None, "letters, digits and hyphens"
            )
    perms = _words(header.get("permissions", ""))
    if not set(perms) <= set(PERMISSIONS):
        raise err(E_PERMIT, f"unknown permission in {' '.join(perms)[:80]!r}", None, f"none, {', '.join(PERMISSIONS)}")
    if header.get("machine", MACHINES[0]) not in MACHINES:
        raise err(E_HEADER, f"no family of machines is called {header['machine'][:60]!r}", None, " ".join(MACHINES))
    rules, relations = [], []
    for n, comment in zip(nodes, _comments(nodes, comments), strict=True):
        body = text[n.start : n.end]
        if n.head == "relation":
            relations.append((n, body))
            continue
        given = options(n, 3)
        family, name = given.get(":ruleset"), given.get(":name")
        ruleset = family.text if family else header["family"]
        if ruleset in _taken() or not _NAME.fullmatch(ruleset):
            raise err(E_HEADER, f"ruleset {ruleset[:60]!r} is the vocabulary's own, or no name", family, "the file's family, or facts")
        if not name and ruleset != "facts":
            raise err(E_NAME, "rule without :name", n)
        if not family:
            body = f"{body[:-1]} :ruleset {ruleset})"
        rules.append(Rule(name.text if name else f"{header['name']}-fact-{n.line}", ruleset, body, comment, n.line, n))
    return RuleFile(
        path, header["name"], header["family"], header.get("version", "1"), perms, header.get("claim", ""),
        tuple([c for _, c in relations] + [r.text for r in rules]), tuple(rules), _words(header.get("removes", "")),
        tuple(n for n, _ in relations), header.get("machine", ""),
    )  # fmt: skip


def _words(text: str) -> tuple[str, ...]:
    return tuple(p for p in re.split(r"[,\s]+", text) if p and p != "none")


def _header(nodes: list[Node], comments: list[Comment]) -> dict[str, str]:
    """``; key: value`` lines in front of the first command; the first of a key counts."""
    out: dict[str, str] = {}
    for c in comments:
        k, sep, v = c.text.partition(":")
        if sep and re.fullmatch(r"[a-z]+", k) and (not nodes or c.line < nodes[0].line):
            out.setdefault(k, v.strip())
    return out


def _comments(nodes: list[Node], comments: list[Comment]) -> list[str]:
    """The comment ``before => after`` of each command: what stands above it, from the last line with an arrow on."""
    out = []
    at = 0
    for n in nodes:
        text = ""
        while at < len(comments) and comments[at].line <= n.line:
            body = comments[at].text
            text = f"{text} {body}".strip() if "=>" not in body or not text else body
            at += 1
        out.append(text)
    return out


def _form(n: Node, err: Any) -> None:
    """The shape of a command. Raises EqkirError."""
    for x in n.walk():
        if x.kind == "name" and x.text in ("panic", "extract", "input", "include", "delete", "subsume", ":subsume"):
            raise err(E_COMMAND, f"`{x.text}` is not allowed", x)
    allowed: tuple[str, ...]
    match n.head:
        case "relation":
            shape = len(n.items) == 3 and n.items[1].kind == "name" and n.items[2].kind == "list"
            if not shape or not all(x.kind == "name" and x.text in sorts() for x in n.items[2].items):
                raise err(E_COMMAND, "a relation has a name and a list of sorts", n, ", ".join(sorted(sorts())))
            return
        case "rule":
            lists = len(n.items) >= 3 and n.items[1].kind == n.items[2].kind == "list"
            allowed = (":name", ":ruleset")
        case "rewrite" | "birewrite":
            lists, allowed = len(n.items) >= 3, (":name", ":ruleset", ":when")
        case _:
            what = n.head or (n.items[0].kind if n.items else "()")
            raise err(E_COMMAND, f"`{what[:60]}` is not allowed", n, "rule, rewrite, birewrite, relation")
    if not lists:
        raise err(E_COMMAND, f"a {n.head} has two parts and options", n)
    rest = n.items[3:]
    if len(rest) % 2:
        raise err(E_COMMAND, "an option without a value", rest[-1], ", ".join(allowed))
    kinds = {":name": "string", ":ruleset": "name", ":when": "list"}
    for k, v in zip(rest[::2], rest[1::2]):
        if k.text not in allowed or v.kind != kinds[k.text]:
            raise err(E_COMMAND, f"`{k} {v.kind}` is no option of a {n.head}", k, ", ".join(allowed))
        if k.text == ":name" and not _RULE_NAME.fullmatch(v.text):
            raise err(E_NAME, f"{v.text[:60]!r} is no name of a rule", v, "letters, digits, hyphens")


def read(path: Path) -> RuleFile:
    """Raises EqkirError."""
    try:
        if not path.is_file():  # no device, no pipe
            raise ValueError("no regular file")
        with path.open("rb") as stream:
            data = stream.read((1 << 20) + 1)
        if len(data) > 1 << 20:
            raise ValueError("larger than 1 MiB")
        text = data.decode("utf-8")
    except (OSError, ValueError) as e:
        raise EqkirError(Diagnostic(E_READ, str(e), file=str(path), stage="rules")) from e
    return _parsed(text, path.name)


_parsed = lru_cache(maxsize=64)(parse)


def signatures(files: Iterable[RuleFile]) -> dict[str, Signature]:
    """The vocabulary and the relations of `files`. Raises EqkirError EQK-RUL-011."""
    from eqkir.rules.signatures import PRIMITIVES, UNIT

    out = dict(vocabulary_signatures())
    whose: dict[str, str] = {}
    for f in files:
        for n in f.relations:
            name = n.items[1].text
            if name in out or name in PRIMITIVES or name in _taken() or name in ("=", "union", "set", "let", "_"):
                by = f"relation of {whose[name]}" if name in whose else "name of the vocabulary"
                raise EqkirError(Diagnostic(E_CLASH, f"{name[:60]} is a {by}", file=f.path, line=n.line, column=n.column, stage="rules"))
            out[name] = Signature(name, "relation", tuple(x.text for x in n.items[2].items), UNIT)
            whose[name] = f.path
    return out


def sort_faults(f: RuleFile, known: Mapping[str, Signature]) -> list[Diagnostic]:
    """Everything in a file's rules that does not fit the vocabulary, in the order of the text."""
    out: list[Diagnostic] = []
    for r in f.rules:
        for ast in r.asts:
            c = SortCheck(known, f.path)
            c.rule(ast)
            out += [d for d in c.found if d not in out]
    return sorted(out, key=lambda d: (d.line or 0, d.column or 0))


def packages() -> dict[str, str]:
    """Installed rule packages: name -> module and folder, as their distributions say (entry points of the group ``eqkir.rules``)."""
    from importlib.metadata import entry_points

    return {e.name: e.value for e in sorted(entry_points(group="eqkir.rules"), key=lambda e: (e.name, e.value))}


def installed(name: str) -> Path | None:
    """The folder of an installed rule package, found without running any of its code: ``module`` or ``module:folder``, a top-level
    module. None where there is none of that name."""
    from importlib.util import find_spec

    module, _, folder = packages().get(name, "").partition(":")
    if not re.fullmatch(r"[A-Za-z_]\w*", module) or ".." in folder:
        return None
    spec = find_spec(module)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0], folder) if places else None


def _find(extra: Iterable[Path | str]) -> list[Path]:
    out: list[Path] = []
    for e in map(Path, extra):
        if not e.exists() and (folder := installed(str(e))):
            e = folder
        found = sorted(e.glob("*.egg")) if e.is_dir() else [e]
        if not found:
            raise EqkirError(Diagnostic(E_READ, "no .egg file in the folder", file=str(e), stage="rules"))
        if len(found) > FILES:
            raise EqkirError(Diagnostic(E_READ, f"more than {FILES} .egg files in the folder", file=str(e), stage="rules"))
        out += found
    return out


def load_rules(
    extra: Iterable[Path | str] = (), without: Iterable[str] = (), permit: Iterable[str] = (), machine: str = MACHINES[0]
) -> list[RuleFile]:
    """The shipped rule files and `extra` (files or folders) for a family of machines, less the families in `without` and the rules that a
    file in `extra` removes. A file with the name of a loaded one replaces it. Raises EqkirError."""
    files: dict[str, RuleFile] = {}
    granted = set(permit)
    shipped, given = sorted(data_dir("rulesets").glob("*.egg")), _find(extra)
    for p in [*shipped, *given]:
        f = read(p)
        if p in given and not set(f.permissions) <= granted:
            missing = " ".join(f"--permit {x}" for x in f.permissions if x not in granted)
            raise EqkirError(Diagnostic(E_PERMIT, "the file needs a permission", file=f.path, line=1, accepted=missing, stage="rules"))
        for name in f.removes:
            if not _remove(files, name):
                raise EqkirError(Diagnostic(E_REMOVES, f"no rule {name[:60]!r}", file=f.path, line=1, stage="rules"))
        files[f.name] = f
    files = {n: f for n, f in files.items() if f.machine in ("", machine)}
    families = {f.family for f in files.values()}
    for w in without:
        if w not in families:
            raise EqkirError(Diagnostic(E_FAMILY, f"no rule file of family {w!r}", accepted=", ".join(sorted(families)), stage="rules"))
    out = [f for f in files.values() if f.family not in set(without)]
    names: dict[str, str] = {}
    for f in out:
        for r in f.rules:
            if r.name in names:
                raise EqkirError(Diagnostic(E_NAME, f"{r.name!r} is also in {names[r.name]}", file=f.path, line=r.line, stage="rules"))
            names[r.name] = f.path
    out = [f for f in out if set(f.permissions) <= granted]
    known = signatures(out)
    for f in out:
        if faults := _faults(f, tuple(known.items())):
            raise EqkirError(*faults[:20])
    return out


@lru_cache(maxsize=64)
def _faults(f: RuleFile, known: tuple[tuple[str, Signature], ...]) -> tuple[Diagnostic, ...]:
    return tuple(sort_faults(f, dict(known)))


def _remove(files: dict[str, RuleFile], name: str) -> bool:
    """Take a rule out of the loaded files; whether there was one."""
    for key, f in files.items():
        gone = [r for r in f.rules if r.name == name]
        if gone:
            texts = {r.text for r in gone}
            files[key] = replace(
                f, commands=tuple(c for c in f.commands if c not in texts), rules=tuple(r for r in f.rules if r.name != name)
            )
            return True
    return False
