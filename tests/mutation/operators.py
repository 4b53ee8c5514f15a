"""Mutation operators on emitted modules: each finds its sites in the syntax tree and rewrites one of them, everything else stays as it is.

=================  ==================================================================================================
mask-dropped       ``tl.load``/``tl.store`` lose their mask (and fill)
compare            ``<`` to ``<=``, ``<=`` to ``<``, ``>`` to ``>=``, ``>=`` to ``>``, ``==`` to ``!=`` and back
wrong-identity     a constant that is an identity, a neutral element or an operand gets another value
carry-reset        an accumulator starts anew in every iteration
carry-lost         an iteration's result does not reach the accumulator
narrow-stride      a stride is truncated to 32 bits
narrow-index       the launch always chooses 32-bit index arithmetic
reach-forgotten    the launch leaves one product out when it chooses the index width
stride-swapped     two strides of a view change places in one access
stride-wrong       one occurrence of a stride becomes another stride of the view
operands-swapped   operands of ``-``, ``//``, ``%``, ``div_rn``, branches of ``where``
arith              ``+`` to ``-``, ``maximum`` to ``minimum``, ``exp`` to ``exp2`` …
lane-off-by-one    lanes are numbered from one
loop-start, loop-end, loop-step    a loop begins late, ends early, or skips
ceil-off-by-one    a rounded-up quotient rounds up too little
reduce-axis        another axis is reduced
cast-dropped       a widening or narrowing cast goes
nan-dropped        ``maximum``/``minimum`` no longer propagate NaN
even-flag          a launch claims that an extent divides evenly
grid-short         the grid lacks its last program
instance-shifted   a program takes its neighbour's instance
check-removed      the launch no longer refuses some wrong argument
broadcast          a fragment is broadcast along the other axis
permute            a permutation of axes goes
approximate        (in the PTX) an exactly rounded form becomes an approximate one, an option permits flushing
=================  ==================================================================================================
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Sites = Iterator[tuple[ast.AST, str, str]]  # node, its new text, the operator


@dataclass(frozen=True)
class Edit:
    """One mutant. `line` is 1-based; `before` and `after` are the changed line, stripped."""

    operator: str
    function: str
    line: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.operator} in {self.function}, line {self.line}: {self.before}  ->  {self.after}"


class Module:
    """A parsed module with access to the text of its nodes."""

    def __init__(self, source: str) -> None:
        self.source, self.tree = source, ast.parse(source)
        self.starts = [0]
        for line in source.encode().splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.functions = [f for f in self.tree.body if isinstance(f, (ast.FunctionDef, ast.ClassDef))]
        self.device = [f for f in self.functions if isinstance(f, ast.FunctionDef) and f.decorator_list]
        self.kernels = [f for f in self.device if f.name == "kernel" or f.name.startswith("segment_")]

    def span(self, n: ast.AST) -> tuple[int, int]:
        return self.starts[n.lineno - 1] + n.col_offset, self.starts[n.end_lineno - 1] + n.end_col_offset  # type: ignore[attr-defined]

    def text(self, n: ast.AST) -> str:
        a, b = self.span(n)
        return self.source.encode()[a:b].decode()

    def edit(self, operator: str, function: str, n: ast.AST, text: str) -> Edit:
        a, b = self.span(n)
        data = self.source.encode()
        new = (data[:a] + text.encode() + data[b:]).decode()
        line = n.lineno  # type: ignore[attr-defined]
        old_line, new_line = self.source.splitlines()[line - 1].strip(), new.splitlines()[line - 1].strip()
        return Edit(operator, function, line, old_line, new_line, new)


def edits(source: str) -> list[Edit]:
    """Every mutant of a module, in the order of operators and lines; none equals the module."""
    m = Module(source)
    out: list[Edit] = []
    for f in m.functions:
        if f in m.device:
            device = f in m.kernels
            for op in (*DEVICE, *(KERNEL if device else ())):
                out += [m.edit(name, f.name, n, text) for n, text, name in op(m, f)]
        else:
            for op in HOST:
                out += [m.edit(name, f.name, n, text) for n, text, name in op(m, f)]
    for op in WHOLE:
        out += [m.edit(name, "module", n, text) for n, text, name in op(m, m.tree)]
    good = [e for e in out if e.source != source and _parses(e.source)]
    return sorted(good, key=lambda e: (e.operator, e.line, e.after))


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


# ------------------------------------------------------------------------------------------------ helpers
def called(n: ast.AST) -> str:
    """Dotted name of a call's function, or ""."""
    return ast.unparse(n.func) if isinstance(n, ast.Call) else ""


def walk(f: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a function but those that only the two-axis grid runs (large launches have tests of their own)."""
    todo = [f]
    while todo:
        n = todo.pop(0)
        if isinstance(n, ast.If) and ast.unparse(n.test) == "SPREAD":
            continue
        if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "programs" and not _strides(f):
            continue
        yield n
        todo[:0] = list(ast.iter_child_nodes(n))


def _strides(f: ast.AST) -> bool:
    return any(
        called(n) == "tl.range" and ast.unparse(n.args[-1]) == "programs"
        for n in ast.walk(f)
        if isinstance(n, ast.Call) and len(n.args) == 3
    )


def without(m: Module, n: ast.Call, *keywords: str) -> str:
    kept = [m.text(a) for a in n.args] + [f"{k.arg}={m.text(k.value)}" for k in n.keywords if k.arg not in keywords]
    return f"{m.text(n.func)}({', '.join(kept)})"


def replaced(m: Module, n: ast.AST, part: ast.AST, text: str) -> str:
    """The text of n with one part rewritten."""
    (a, _), (p, q) = m.span(n), m.span(part)
    data = m.text(n).encode()
    return (data[: p - a] + text.encode() + data[q - a :]).decode()


# ------------------------------------------------------------------------------------------------ device code
def masks(m: Module, f: ast.AST) -> Sites:
    for n in walk(f):
        if isinstance(n, ast.Call) and called(n) in ("tl.load", "tl.store") and any(k.arg == "mask" for k in n.keywords):
            yield n, without(m, n, "mask", "other"), "mask-dropped"


COMPARE = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}


def compares(m: Module, f: ast.AST) -> Sites:
    for n in walk(f):
        if isinstance(n, ast.Compare) and type(n.ops[0]) in COMPARE:
            yield n, f"({m.text(n.left)}) {COMPARE[type(n.ops[0])]} ({m.text(n.comparators[0])})", "compare"


def identities(m: Module, f: ast.AST) -> Sites:
    """Constants that reach more than the fill of a load."""
    fills = {id(k.value) for n in ast.walk(f) if isinstance(n, ast.Call) for k in n.keywords if k.arg == "other"}
    used = {n.id for n in ast.walk(f) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and id(n) not in fills}
    for n in walk(f):
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and n.targets[0].id in used:
            full = next((c for c in ast.walk(n.value) if called(c) == "tl.full"), None)
            if isinstance(full, ast.Call):
                old = m.text(full.args[1])
                yield full, replaced(m, full, full.args[1], another(old)), "wrong-identity"


def another(literal: str) -> str:
    """A different constant of the same kind."""
    swap = {"True": "False", "False": "True", "0.0": "1.0", "1.0": "0.0", "0": "1"}
    if literal in swap:
        return swap[literal]
    if literal.startswith("float("):
        return "0.0"
    return f"({literal} * 1.5)" if "." in literal or "e" in literal else f"({literal} - 1)"


def carries(m: Module, f: ast.AST) -> Sites:
    for block in ast.walk(f):
        body = getattr(block, "body", None)
        if not isinstance(body, list):
            continue
        for k, n in enumerate(body):
            if not (isinstance(n, ast.For) and isinstance(n.body[-1], ast.Assign)):
                continue
            last = n.body[-1]
            targets = last.targets[0].elts if isinstance(last.targets[0], ast.Tuple) else [last.targets[0]]
            names = [ast.unparse(t) for t in targets]
            inits = {ast.unparse(b.targets[0]): m.text(b.value) for b in body[:k] if isinstance(b, ast.Assign)}
            if not all(x in inits for x in names):
                continue
            first = n.body[0]
            pad = " " * first.col_offset
            for x in names:
                yield first, f"{x} = {inits[x]}\n{pad}{m.text(first)}", "carry-reset"
            if len(names) == 1:
                yield last, "pass", "carry-lost"
            else:
                values = [m.text(v) for v in last.value.elts]  # type: ignore[attr-defined]
                for j, x in enumerate(names):
                    yield last, f"{', '.join(names)} = {', '.join([*values[:j], x, *values[j + 1 :]])}", "carry-lost"


def narrow_strides(m: Module, f: ast.AST) -> Sites:
    for n in walk(f):
        if isinstance(n, ast.Assign) and called(n.value) == "tl.cast" and re.fullmatch(r"\w+_s\d+", ast.unparse(n.targets[0])):
            yield n, m.text(n).replace("IDX", "tl.int32"), "narrow-stride"


def stride_names(text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"\b\w+_s\d+\b", text)))


def strides(m: Module, f: ast.AST) -> Sites:
    for n in walk(f):
        if isinstance(n, ast.Call) and called(n) in ("tl.load", "tl.store"):
            pointer = n.args[0]
            text, names = m.text(pointer), stride_names(m.text(pointer))
            if len(names) < 2:
                continue
            swap = {names[0]: names[1], names[1]: names[0]}
            yield pointer, re.sub(r"\b\w+_s\d+\b", lambda k, s=swap: s.get(k[0], k[0]), text), "stride-swapped"  # type: ignore[misc]
            for x in ast.walk(pointer):
                if isinstance(x, ast.Name) and x.id in swap:
                    yield x, swap[x.id], "stride-wrong"


SWAPPED = (ast.Sub, ast.FloorDiv, ast.Mod)
FLIP = {
    "tl.maximum": "tl.minimum", "tl.minimum": "tl.maximum", "tl.exp": "tl.exp2", "tl.log": "tl.log2",
    "libdevice.tanh": "tl.sin", "tl.erf": "tl.exp",
}  # fmt: skip


def operands(m: Module, f: ast.AST) -> Sites:
    for n in walk(f):
        if isinstance(n, ast.BinOp) and isinstance(n.op, SWAPPED):
            sign = {ast.Sub: "-", ast.FloorDiv: "//", ast.Mod: "%"}[type(n.op)]  # type: ignore[index]
            yield n, f"({m.text(n.right)}) {sign} ({m.text(n.left)})", "operands-swapped"
        elif isinstance(n, ast.Call) and called(n) == "tl.div_rn":
            yield n, f"tl.div_rn({m.text(n.args[1])}, {m.text(n.args[0])})", "operands-swapped"
        elif isinstance(n, ast.Call) and called(n) == "tl.where":
            a, b, c = (m.text(x) for x in n.args)
            yield n, f"tl.where({a}, {c}, {b})", "operands-swapped"


def arithmetic(m: Module, f: ast.AST) -> Sites:
    for n in walk(f):
        if isinstance(n, ast.Call) and called(n) in FLIP and any(isinstance(a, ast.Name) for a in n.args):
            yield n.func, FLIP[called(n)], "arith"
        elif isinstance(n, ast.Assign) and isinstance(n.value, ast.BinOp) and isinstance(n.value.op, (ast.Add, ast.Mult)):
            if re.fullmatch(r"(p\d+_)?v\d+", ast.unparse(n.targets[0])):
                sign = "-" if isinstance(n.value.op, ast.Add) else "+"
                yield n.value, f"({m.text(n.value.left)}) {sign} ({m.text(n.value.right)})", "arith"


def loops(m: Module, f: ast.AST) -> Sites:
    for n in walk(f):
        if isinstance(n, ast.Call) and called(n) == "tl.arange":
            yield n, f"({m.text(n)} + 1)", "lane-off-by-one"
        elif isinstance(n, ast.Call) and called(n) == "tl.range" and len(n.args) == 3:
            a, b, c = n.args
            yield n, replaced(m, n, a, f"{m.text(a)} + 1"), "loop-start"
            yield n, replaced(m, n, b, f"{m.text(b)} - 1"), "loop-end"
            yield n, replaced(m, n, c, f"{m.text(c)} * 2"), "loop-step"


def ceilings(m: Module, f: ast.AST) -> Sites:
    for n in walk(f):
        if (
            isinstance(n, ast.BinOp)
            and isinstance(n.op, ast.FloorDiv)
            and isinstance(n.left, ast.BinOp)
            and isinstance(n.right, ast.Constant)
        ):
            k = n.left.right
            if isinstance(n.left.op, ast.Add) and isinstance(k, ast.Constant) and k.value == n.right.value - 1:  # type: ignore[operator]
                yield n, replaced(m, n, k, str(int(k.value) - 1)), "ceil-off-by-one"  # type: ignore[arg-type]


def host_ceilings(m: Module, f: ast.AST) -> Sites:
    """In the numbers of programs only: what bounds the index width may be off by one."""
    for n in ast.walk(f):
        if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]).startswith("programs_"):
            yield from ceilings(m, n)


def axes(m: Module, f: ast.AST) -> Sites:
    for n in walk(f):
        if isinstance(n, ast.Call) and called(n) == "tl.reduce" and isinstance(a := n.args[1], ast.Constant) and isinstance(a.value, int):
            axis = a.value
            yield n, replaced(m, n, n.args[1], str(1 - axis if axis < 2 else 0)), "reduce-axis"
        elif isinstance(n, ast.Call) and called(n) == "tl.permute":
            yield n, m.text(n.args[0]), "permute"
        elif isinstance(n, ast.Subscript) and m.text(n.slice) in (":, None", "None, :"):
            yield n, f"({m.text(n.value)})[{'None, :' if m.text(n.slice) == ':, None' else ':, None'}]", "broadcast"


def casts(m: Module, f: ast.AST) -> Sites:
    """Narrowing casts whose value is computed with (a store casts by itself); all widening casts of a function together (one alone would
    be made up for by its neighbours)."""
    stored = {ast.unparse(n.args[1]) for n in ast.walk(f) if isinstance(n, ast.Call) and called(n) == "tl.store"}
    widening = re.compile(r"(?<=\w)\.to\(tl\.float32\)")
    body = list(getattr(f, "body", []))
    text = "\n".join(m.source.splitlines()[body[0].lineno - 1 : body[-1].end_lineno]) if body else ""
    wide = re.findall(r"(\w+) = \w+\.to\(tl\.float32\)$", text, re.M)
    one = "(?:" + "|".join(map(re.escape, wide)) + r")(?:\[[:, None]*\])?"
    if wide and re.search(rf"= (?:{one} [-+*] {one}|tl\.(?:exp|log|erf)\({one}\))", text):  # elsewhere the other operand widens them
        whole = ast.Module(body, [])
        whole.lineno, whole.col_offset, whole.end_lineno, whole.end_col_offset = (
            body[0].lineno,
            body[0].col_offset,
            body[-1].end_lineno,
            body[-1].end_col_offset,
        )  # type: ignore[attr-defined]
        yield whole, widening.sub("", m.text(whole)), "cast-dropped"
    for n in walk(f):
        if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) not in stored:
            v = n.value
            if (
                isinstance(v, ast.Call)
                and isinstance(v.func, ast.Attribute)
                and v.func.attr == "to"
                and len(v.args) == 1
                and not v.keywords
            ):
                if m.text(v.args[0]) in NARROW and called(v.func.value) not in ("tl.full", "tl.arange"):
                    yield v, f"({m.text(v.func.value)})", "cast-dropped"


NARROW = ("tl.bfloat16", "tl.float16", "tl.int8", "tl.int16", "tl.uint8", "tl.uint16", "tl.float8e4nv", "tl.float8e5")


def nans(m: Module, f: ast.AST) -> Sites:
    for n in walk(f):
        if isinstance(n, ast.Call) and any(k.arg == "propagate_nan" for k in n.keywords):
            yield n, without(m, n, "propagate_nan"), "nan-dropped"


def instances(m: Module, f: ast.AST) -> Sites:
    for n in walk(f):
        if isinstance(n, ast.Assign) and m.text(n) in ("lid = pid", "lid = first"):
            yield n, m.text(n) + " + 1", "instance-shifted"


def approximations(m: Module, f: ast.AST) -> Sites:
    for n in walk(f):
        if isinstance(n, ast.Call) and called(n) == "tl.div_rn":
            yield n, f"({m.text(n.args[0])}) / ({m.text(n.args[1])})", "approximate"
        elif isinstance(n, ast.Call) and called(n) == "tl.sqrt_rn":
            yield n.func, "tl.sqrt", "approximate"
        elif isinstance(n, ast.Call) and any(k.arg == "input_precision" for k in n.keywords):
            yield n, without(m, n, "input_precision"), "approximate"


# ------------------------------------------------------------------------------------------------ host code
def checks(m: Module, f: ast.AST) -> Sites:
    for n in ast.walk(f):
        if isinstance(n, ast.If) and n.body and isinstance(n.body[0], ast.Raise):
            test = m.text(n.test)
            if "device" in test or "65535" in test:  # arguments on several devices, launches beyond any device: no interpreter has them
                continue
            yield n.test, "False", "check-removed"
        elif isinstance(n, ast.Expr) and called(n.value) in ("_check", "_disjoint", "check_argument", "check_disjoint"):
            yield n, "pass", "check-removed"


def plans(m: Module, f: ast.AST) -> Sites:
    for n in ast.walk(f):
        if isinstance(n, ast.IfExp) and m.text(n.body) == "tl.int32":
            yield n, "tl.int32", "narrow-index"
        elif isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "flags" and isinstance(n.value, ast.Tuple):
            for e in n.value.elts[2:]:
                yield e, "True", "even-flag"
        elif isinstance(n, ast.Call) and called(n).endswith("grid") and m.text(n.args[0]) == "programs":
            yield n.args[0], "programs - 1", "grid-short"
        elif isinstance(n, ast.Assign) and called(n.value) == "max" and ast.unparse(n.targets[0]) == "reach":
            for a in n.value.args:  # type: ignore[attr-defined]
                if m.text(a).count("abs(") > 0 and "*" in m.text(a):
                    yield a, "0", "reach-forgotten"


def options(m: Module, f: ast.AST) -> Sites:
    """The library's option that keeps subnormals. (Fusing a product with a sum is granted by KIR, so permitting it is no fault.)"""
    for n in ast.walk(f):
        if isinstance(n, ast.Dict):
            for k, v in zip(n.keys, n.values, strict=True):
                if isinstance(k, ast.Constant) and k.value == "enable_reflect_ftz" and ("libdevice." in m.source or "tl.exp2" in m.source):
                    if m.text(v) == "False":
                        yield v, "True", "approximate"


Operator = Callable[[Module, ast.AST], Sites]
DEVICE: tuple[Operator, ...] = (masks, compares, operands, arithmetic, nans, axes)
KERNEL: tuple[Operator, ...] = (identities, carries, narrow_strides, strides, loops, ceilings, casts, instances, approximations)
HOST: tuple[Operator, ...] = (checks, plans, host_ceilings)
WHOLE: tuple[Operator, ...] = (options,)
