"""Mutants of emitted Mojo text against the native check: native code on guarded memory beside the reference's envelope.

============  =====================================================================================================
mask          a masked load or store touches memory everywhere
compare       ``lt`` to ``le``, ``ge`` to ``gt``, ``eq`` to ``ne`` …
arithmetic    ``+`` to ``-``, ``*`` to ``+``, ``&`` to ``|``, ``maximum`` to ``minimum``, quotient to remainder
constant      an integer constant is one more
identity      a floating-point constant is one more
loop          a loop ends one step early, or begins one step late
lost          a variable is not set; a store does not happen
lane          another lane is taken out, another half of a vector
place         an access goes to another view of the same element type
order         operands of ``-``, of a quotient, branches of ``select``
instance      instances count in steps of two
============  =====================================================================================================

Every mutant is a text of its own; the mutants of one program are compiled together.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eqkir.base.diagnostics import EqkirError
from eqkir.cli.optimize import read_inputs
from eqkir.driver import pool, programs
from eqkir.driver.native import check
from eqkir.driver.options import Options
from eqkir.emit.mojo.build import Built, Module, build
from tests.matrix.cells import CORPUS, ROOT, Subject

TARGET: Final = "mojo:native"
SHAPES: Final = ROOT / "tests" / "corpus_shapes.json"
#: seconds that all launches of one mutant may take
SECONDS: Final = 60.0
_FLIP: Final = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "eq": "ne", "ne": "eq"}
_VALUE = re.compile(r"^\s*var [vx]\d+ = ")


@dataclass(frozen=True, slots=True)
class Edit:
    operator: str
    line: int
    before: str
    after: str
    text: str

    def __str__(self) -> str:
        return f"{self.operator}, line {self.line}: {self.before}  ->  {self.after}"


def _sub(pattern: str, new: str | Callable[[re.Match[str]], str]) -> Callable[[str], Iterator[str]]:
    """The line with one occurrence of a pattern replaced, for each."""
    compiled = re.compile(pattern)

    def go(line: str) -> Iterator[str]:
        for m in compiled.finditer(line):
            yield line[: m.start()] + (m.expand(new) if isinstance(new, str) else new(m)) + line[m.end() :]

    return go


def _drop_mask(line: str) -> Iterator[str]:
    m = re.search(r"eqk_(load|store|gather|scatter)_masked(\[[^\]]*\])\((.*)\)$", line)
    if m:
        kept = 2 if m[1] in ("load", "gather") else 3
        yield f"{line[: m.start()]}eqk_{m[1]}{m[2]}({', '.join(_arguments(m[3])[:kept])})"


def _arguments(text: str) -> list[str]:
    """The arguments of a call, split at commas outside brackets."""
    out, depth = [""], 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == "," and not depth:
            out.append("")
        else:
            out[-1] += c
    return [a.strip() for a in out]


#: operator -> rewritings of one line (without its comment)
OPERATORS: Final[dict[str, tuple[Callable[[str], Iterator[str]], ...]]] = {
    "mask": (_drop_mask,),
    "compare": (_sub(r"(?<=\.)(lt|le|gt|ge|eq|ne)(?=\(v)", lambda m: _FLIP[m[1]]),),
    "arithmetic": (
        _sub(r"(?<=\w) \+ (?=v\d+$)", " - "), _sub(r"(?<=\w) - (?=v\d+$)", " + "), _sub(r"(?<=\w) \* (?=v\d+$)", " + "),
        _sub(r"(?<=\w) & (?=v\d+$)", " | "), _sub(r"eqk_(max|min)(imum|_int)", lambda m: f"eqk_{'min' if m[1] == 'max' else 'max'}{m[2]}"),
        _sub(r"eqk_floordiv_", "eqk_mod_"),
    ),
    "constant": (_sub(r"(?<== SIMD\[DType\.int64, 1\]\()(\d+)(?=\)$)", lambda m: str(int(m[1]) + 1)),),
    "identity": (_sub(r"(?<=\[DType\.float32, 1\]\()(-?\d+\.\d+)(?=\))", lambda m: repr(float(m[1]) + 1)),),
    "loop": (
        _sub(r"range\(Int\((v\d+)\), Int\((v\d+)\)", r"range(Int(\1), Int(\2) - 1"),
        _sub(r"range\(Int\((v\d+)\), Int\((v\d+)\)", r"range(Int(\1) + 1, Int(\2)"),
    ),
    "lost": (_sub(r"^(\s+)x\d+ = v\d+$", r"\1pass"), _sub(r"^(\s+)eqk_(store|scatter).*$", r"\1pass")),
    "lane": (_sub(r"(?<=\(v)(\d+)\[(\d+)\]\)$", lambda m: f"{m[1]}[{int(m[2]) ^ 1}])"), _sub(r", offset=\d+(?=\]\(\))", "")),
    "order": (
        _sub(r"\b(v\d+) - (v\d+)$", r"\2 - \1"), _sub(r"(eqk_floordiv_\w+\[[^\]]*\])\((v\d+), (v\d+)\)", r"\1(\3, \2)"),
        _sub(r"\.select\((v\d+), (v\d+)\)", r".select(\2, \1)"),
    ),
    "instance": (_sub(r"^(\s+d\d+) \+= 1$", r"\1 += 2"),),
}  # fmt: skip


def _places(lines: Sequence[str]) -> dict[str, list[str]]:
    """Pointer -> other pointers of its element type, in the same function."""
    types: dict[str, str] = {}
    for line in lines:
        if m := re.match(r"    var (p\d+) = Pointer\[(.*?), MutAnyOrigin\]\(", line):
            types[m[1]] = m[2]
    return {p: [q for q, u in types.items() if u == t and q != p] for p, t in types.items()}


def _observed(lines: Sequence[str]) -> set[str]:
    """Names of one function's values that anything but an address to fetch ahead depends on."""
    defined: dict[str, set[str]] = {}
    out: set[str] = set()
    for line in lines:
        names = re.findall(r"\b[vxd]\d+\b", line.partition("  # ")[0])
        if _VALUE.match(line):
            defined.setdefault(names[0], set()).update(names[1:])
        elif "eqk_prefetch" not in line:
            out.update(names)
    todo = list(out)
    while todo:
        new = defined.get(todo.pop(), set()) - out
        out |= new
        todo += new
    return out


def edits(text: str) -> list[Edit]:
    """Every mutant of a module of one group or more, by operator and line; none of what only decides where memory is fetched ahead, which
    changes no result."""
    lines = text.split("\n")
    out = []
    heads = [n for n, line in enumerate(lines) if line.startswith("def kt_")]
    regions = {h: lines[h : min((g for g in heads if g > h), default=len(lines))] for h in [0, *heads]}
    observed = {h: _observed(region) for h, region in regions.items()}
    for n, whole in enumerate(lines):
        code, mark, comment = whole.partition("  # ")
        found = [(name, new) for name, ops in OPERATORS.items() for op in ops for new in op(code)]
        head = max((h for h in heads if h <= n), default=0)
        if "eqk_prefetch" in code or (_VALUE.match(code) and code.split()[1] not in observed[head]):
            continue
        end = min((h for h in heads if h > n), default=len(lines))
        for pointer, others in _places(lines[head:end]).items():
            if others and re.search(rf"\]\({pointer}, ", code):
                found.append(("place", code.replace(f"]({pointer}, ", f"]({others[0]}, ", 1)))
        for name, new in found:
            changed = "\n".join([*lines[:n], new + mark + comment, *lines[n + 1 :]])
            if new != code:
                out.append(Edit(name, n + 1, code.strip(), new.strip(), changed))
    return sorted({e.text: e for e in out}.values(), key=lambda e: (e.operator, e.line, e.after))


def chosen(found: Sequence[Edit], per_operator: int, seed: int = 0) -> list[Edit]:
    """So many of each operator, at random."""
    rng = random.Random(seed)
    out: list[Edit] = []
    for name in sorted({e.operator for e in found}):
        mine = [e for e in found if e.operator == name]
        out += sorted(rng.sample(mine, min(per_operator, len(mine))), key=lambda e: (e.line, e.after))
    return out


@dataclass(frozen=True, slots=True)
class Verdict:
    """`caught`: the mistake, or why the mutant has no code; empty for a survivor."""

    kernel: str
    edit: Edit
    caught: str


def run(name: str, per_operator: int, seed: int = 0, config: str = "chosen") -> list[Verdict]:
    """A sample of the mutants of one kernel, each compiled, then run in a worker of its own."""
    subject = Subject(name, TARGET)
    program = subject.program(config)
    artifact: Any = subject.base.provider.spell(program)
    todo = chosen(edits(artifact.module.text), per_operator, seed)
    modules = [artifact.module, *(Module(f"{name} {e.line}", e.text) for e in todo)]
    built = build(modules, artifact_cpu(subject))
    text = programs.dumps(program)
    runnable = [(k, b) for k, b in enumerate(built) if isinstance(b, Built)]
    mistakes = {k: f"no code: {b}"[:200] for k, b in enumerate(built) if isinstance(b, EqkirError)}
    for i, answer in pool.run("tests.mutation.native:launches", [(name, text, b) for _, b in runnable], 1, SECONDS):
        mistakes[runnable[i][0]] = f"{answer.kind}: {answer.message}" if isinstance(answer, pool.Failure) else answer
    if mistakes[0]:
        raise AssertionError(f"{name} itself: {mistakes[0]}")
    return [Verdict(name, e, mistakes[k]) for k, e in enumerate(todo, 1)]


def artifact_cpu(subject: Subject) -> str:
    target: Any = subject.base.target
    return str(target.cpu)


def launches(name: str, text: str, built: Built) -> str:
    """The first mistake that ``--check native`` finds, or "". In a worker."""
    file = CORPUS / f"{name}.json"
    ok, _, message = check(str(file), name, file.read_text(), text, built, Options(target=TARGET, inputs=read_inputs(SHAPES)))
    return "" if ok else message
