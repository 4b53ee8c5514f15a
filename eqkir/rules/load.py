"""Rule files: a header, named rules, and nothing that could run anything.

A file is egglog text of `rule`, `rewrite`, `birewrite` and `relation` commands. Its header is ``; key: value`` lines (name, family,
version, permissions, claim, machine); every rule carries ``:name`` and stands under a comment ``; before => after``. Files from strangers are data:
other commands (input, include, run, push, extract, panics …) are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from eqkir.base.diagnostics import Diagnostic, EqkirError, register
from eqkir.base.resources import data_dir

E_READ = register("EQK-RUL-001", "unreadable rule file", "The file cannot be read as UTF-8 text, or is larger than 1 MiB.")
E_SYNTAX = register("EQK-RUL-002", "malformed rule file", "Parentheses or strings do not balance, or nesting is deeper than 200.")
E_COMMAND = register(
    "EQK-RUL-003",
    "command not allowed in a rule file",
    "A rule file holds rule, rewrite, birewrite and relation commands, and no panic action.",
)
E_HEADER = register(
    "EQK-RUL-004", "rule file without header", "The header names at least `name` and `family` as `; key: value` comment lines."
)
E_NAME = register("EQK-RUL-005", "rule without a name", "Every rule of a family carries `:name`; names are unique over all loaded files.")
E_FAMILY = register("EQK-RUL-006", "unknown rule family", "`--without` takes the family of a loaded rule file.")
E_PERMIT = register(
    "EQK-RUL-007", "permission not granted", "The rule file needs a permission that the compile call did not give (`--permit`)."
)
E_EGG = register(
    "EQK-RUL-008", "egglog refused a rule", "The rule does not parse or type-check against the vocabulary; the message is egglog's own."
)

#: families of machines
MACHINES = ("gpu", "cpu")
#: rulesets of the vocabulary itself
RESERVED = frozenset({"place", "load", "load-sets"})
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,60}")


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
_TOKEN = re.compile(r'\s+|(?P<comment>;[^\n]*)|(?P<open>\()|(?P<close>\))|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<atom>[^\s();"]+)|(?P<bad>.)')


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    family: str  # the ruleset that it belongs to; "facts" for auxiliary rules
    text: str
    comment: str  # "before => after"
    line: int


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
    machine: str = ""  # the family of machines that it is for (`MACHINES`); empty: all

    @property
    def rulesets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(r.family for r in self.rules))


def parse(text: str, path: str) -> RuleFile:
    """A rule file from its text. Raises EqkirError."""

    def err(code: str, message: str, line: int, accepted: str = "") -> EqkirError:
        return EqkirError(Diagnostic(code, message, file=path, line=line, accepted=accepted, stage="rules"))

    header: dict[str, str] = {}
    commands: list[tuple[str, int, str]] = []  # text, line, comment above
    depth, start, line, comment, first = 0, 0, 1, "", ""
    for m in _TOKEN.finditer(text):
        kind = m.lastgroup
        if kind == "comment" and depth == 0:
            body = m.group()[1:].strip()
            k, sep, v = body.partition(":")
            if sep and re.fullmatch(r"[a-z]+", k) and not commands and k not in header:
                header[k] = v.strip()
            comment = f"{comment} {body}".strip() if "=>" not in body or not comment else body
        elif kind == "open":
            if depth == 0:
                start, first = m.start(), ""
            depth += 1
            if depth > 200:
                raise err(E_SYNTAX, "nested deeper than 200", line)
        elif kind == "close":
            depth -= 1
            if depth < 0:
                raise err(E_SYNTAX, "unbalanced )", line)
            if depth == 0:
                commands.append((text[start : m.end()], text.count("\n", 0, start) + 1, comment))
                if first not in ("rule", "rewrite", "birewrite", "relation"):
                    raise err(E_COMMAND, f"`{first}` is not allowed", line, "rule, rewrite, birewrite, relation")
                comment = ""
        elif kind in ("atom", "string"):
            if depth == 0:
                raise err(E_SYNTAX, f"{m.group()[:40]} outside a command", line)
            if not first:
                first = m.group()
            if m.group() in ("panic", "extract", "input", "include", "delete", "subsume"):
                raise err(E_COMMAND, f"`{m.group()}` is not allowed", line)
        elif kind == "bad":
            raise err(E_SYNTAX, f"unexpected {m.group()!r}", line)
        line += m.group().count("\n")
    if depth:
        raise err(E_SYNTAX, "unbalanced (", line)
    if "name" not in header or "family" not in header:
        raise err(E_HEADER, "no `; name:` and `; family:` header lines", 1)
    for key in ("name", "family"):
        if not _NAME.fullmatch(header[key]) or header[key] in _taken():
            raise err(E_HEADER, f"{key} {header[key][:60]!r} is no name, or one that the vocabulary uses", 1, "letters, digits and hyphens")
    rules = []
    for body, ln, com in commands:
        if body.startswith("(relation"):
            continue
        fam = re.search(r":ruleset\s+([\w-]+)", body)
        nm = re.search(r':name\s+"([^"]+)"', body)
        family = fam.group(1) if fam else header["family"]
        if family in _taken():
            raise err(E_HEADER, f"ruleset {family[:60]!r} is the vocabulary's own", ln, "the file's family, or facts")
        if not nm and family != "facts":
            raise err(E_NAME, "rule without :name", ln)
        if not fam:
            body = f"{body[:-1]} :ruleset {family})"
        rules.append(Rule(nm.group(1) if nm else f"{header['name']}-fact-{ln}", family, body, com, ln))
    perms = tuple(p for p in re.split(r"[,\s]+", header.get("permissions", "none")) if p and p != "none")
    if not set(perms) <= set(PERMISSIONS):
        raise err(E_PERMIT, f"unknown permission in {' '.join(perms)[:80]!r}", 1, f"none, {', '.join(PERMISSIONS)}")
    if header.get("machine", MACHINES[0]) not in MACHINES:
        raise err(E_HEADER, f"no family of machines is called {header['machine'][:60]!r}", 1, " ".join(MACHINES))
    return RuleFile(
        path, header["name"], header["family"], header.get("version", "1"), perms, header.get("claim", ""),
        tuple([c for c, _, _ in commands if c.startswith("(relation")] + [r.text for r in rules]), tuple(rules), header.get("machine", ""),
    )  # fmt: skip


def read(path: Path) -> RuleFile:
    """Raises EqkirError."""
    try:
        if not path.is_file():  # no device, no pipe
            raise ValueError("no regular file")
        with path.open("rb") as stream:
            data = stream.read((1 << 20) + 1)
        if len(data) > 1 << 20:
            raise ValueError("larger than 1 MiB")
        return parse(data.decode("utf-8"), path.name)
    except (OSError, ValueError) as e:
        raise EqkirError(Diagnostic(E_READ, str(e), file=str(path), stage="rules")) from e


def load_rules(
    extra: Iterable[Path | str] = (), without: Iterable[str] = (), permit: Iterable[str] = (), machine: str = MACHINES[0]
) -> list[RuleFile]:
    """The shipped rule files and `extra` (files or folders) for a family of machines, less the families in `without`. A file with the
    name of a shipped one replaces it. Raises EqkirError."""
    files: dict[str, RuleFile] = {}
    paths = sorted(data_dir("rulesets").glob("*.egg"))
    granted = set(permit)
    given: set[Path] = set()
    for e in map(Path, extra):
        found = sorted(e.glob("*.egg")) if e.is_dir() else [e]
        if not found:
            raise EqkirError(Diagnostic(E_READ, "no .egg file in the folder", file=str(e), stage="rules"))
        given |= set(found)
        paths += found
    for p in paths:
        f = read(p)
        if p in given and not set(f.permissions) <= granted:
            missing = " ".join(f"--permit {x}" for x in f.permissions if x not in granted)
            raise EqkirError(Diagnostic(E_PERMIT, "the file needs a permission", file=f.path, line=1, accepted=missing, stage="rules"))
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
    return [f for f in out if set(f.permissions) <= granted]
