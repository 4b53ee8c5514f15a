"""The static verifier of task programs: types, scopes, resources, captures. It repairs nothing.

What instances own and how they depend on each other is proved of the structured program (`eqkir.program.verify`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eqkir.base.diagnostics import Diagnostic
from eqkir.base.dtypes import NUMPY, parse
from eqkir.base.expr import Expr, atoms, product
from eqkir.cpu import codes
from eqkir.cpu.model import (
    ACCESSES,
    INDEX,
    OPS,
    OWNERS,
    Alloc,
    Atomic,
    For,
    Get,
    Group,
    If,
    Load,
    Op,
    Prefetch,
    Set,
    Statement,
    TaskProgram,
    Type,
    Var,
    While,
    Write,
    operands,
    statements,
)  # fmt: skip
from eqkir.program import ops as program_ops

LIMIT = 20


def verify(program: TaskProgram) -> list[Diagnostic]:
    """Findings (EQK-TSK-INVALID), at most 20; an empty list for a well-formed program."""
    out: list[Diagnostic] = []
    for text in _program(program):
        out.append(Diagnostic(codes.INVALID, text, stage="verify"))
        if len(out) >= LIMIT:
            break
    return out


def _program(p: TaskProgram) -> Iterator[str]:
    names = [v.name for v in p.abi.views if v.role != "workspace"] + [r.name for r in p.resources]
    if len(set(names)) != len(names):
        yield "two views or resources of one name"
    visible = {s.name for s in p.abi.symbols} | {s.name for s in p.abi.scalars if NUMPY[s.dtype].kind in "biu"}
    for r in p.resources:
        if r.owner not in OWNERS or r.align < NUMPY[r.dtype].itemsize or r.align & (r.align - 1):
            yield f"resource {r.name}: owner {r.owner}, aligned to {r.align}"
        yield from _launch(r.size, visible, f"the size of {r.name}")
    groups = [g for s in p.stages for g in s]
    every = [s for g in groups for s in statements(g.body)]
    filled = {s.place for s in every if isinstance(s, (Write, Atomic))}
    for r in p.resources:
        if r.name not in filled and any(isinstance(s, Load) and s.place == r.name for s in every):
            yield f"resource {r.name} is read, and nothing writes it"
    if len({g.name for g in groups}) != len(groups):
        yield "two groups of one name"
    for g in groups:
        yield from _launch(g.launch, visible, f"the instances of {g.name}")
        for _, radix in g.digits:
            yield from _launch(radix, visible, f"a digit of {g.name}")
        if g.launch != product([r for _, r in g.digits]):
            yield f"{g.name}: {g.launch} instances of the digits {', '.join(str(r) for _, r in g.digits)}"
        if g.grain < 1:
            yield f"{g.name}: a grain of {g.grain}"
        yield from _captures(p, g)
        yield from (f"{g.name}: {t}" for t in _Checker(p, g).findings())


def _launch(e: Expr, visible: set[str], what: str) -> Iterator[str]:
    for a in atoms(e):
        if a.op != "sym" or a.args[0] not in visible:
            yield f"{what} is no launch expression: {e}"


def _captures(p: TaskProgram, g: Group) -> Iterator[str]:
    every = statements(g.body)
    for kind, given, op in (("parameter", g.params, "Param"), ("scalar", g.scalars, "Scalar")):
        used = {s.attrs[0] for s in every if isinstance(s, Op) and s.op == op}
        if used - set(given):
            yield f"{g.name}: {kind} {sorted(used - set(given))[0]} is not captured"
    if set(g.params) - set(p.params):
        yield f"{g.name}: captures {sorted(set(g.params) - set(p.params))[0]}, which the launch has not"
    known = {v.name for v in p.abi.views if v.role != "workspace"} | {r.name for r in p.resources}
    for kind, given, there in (("scalar", g.scalars, {s.name for s in p.abi.scalars}), ("place", g.places, known)):
        if set(given) - there:
            yield f"{g.name}: captures the {kind} {sorted(set(given) - there)[0]}, which the launch has not"
    own = {s.name for s in every if isinstance(s, Alloc)}
    touched = {s.place for s in every if isinstance(s, (Load, Write, Prefetch, Atomic))}
    touched |= {s.attrs[0] for s in every if isinstance(s, Op) and s.op == "Address"}
    if touched - own - set(g.places):
        yield f"{g.name}: place {sorted(touched - own - set(g.places))[0]} is not captured"


def _constant(text: Any, dtype: str) -> bool:
    try:
        parse(text, dtype)
    except (ValueError, TypeError, KeyError):
        return False
    return True


class _Checker:
    """Scopes and types of one group."""

    def __init__(self, p: TaskProgram, g: Group) -> None:
        self.p, self.g = p, g
        self.types: dict[int, Type] = {}
        self.vars: dict[int, Type] = {}
        self.memory: dict[str, tuple[str, int]] = {}
        self.ids: set[int] = set()
        self.roles = {v.name: v.role for v in p.abi.views}

    def findings(self) -> Iterator[str]:
        for i, _ in self.g.digits:
            yield from self._define(i, INDEX)
        yield from self._block(self.g.body)

    def _define(self, i: int, t: Type) -> Iterator[str]:
        if i in self.ids:
            yield f"%{i} is defined twice"
        if t.width < 1 or t.width & (t.width - 1) or t.dtype not in NUMPY:
            yield f"%{i} has the type {t}"
        self.ids.add(i)
        self.types[i] = t

    def _block(self, body: tuple[Statement, ...]) -> Iterator[str]:
        """What a block defines ends with it."""
        tables: tuple[dict[Any, Any], ...] = (self.types, self.vars, self.memory)
        outer = [set(t) for t in tables]
        for s in body:
            missing = [i for i in operands(s) if i not in self.types]
            if missing:
                yield f"%{missing[0]} is read where it is not defined ({type(s).__name__})"
                return
            yield from self._statement(s)
        for table, kept in zip(tables, outer, strict=True):
            for k in [k for k in table if k not in kept]:
                del table[k]

    def _statement(self, s: Statement) -> Iterator[str]:
        t = self.types
        match s:
            case Op():
                yield from self._op(s)
                if s.op == "Scalar" and (s.attrs[0], s.type.dtype) not in {(x.name, x.dtype) for x in self.p.abi.scalars}:
                    yield f"%{s.id}: scalar {s.attrs[0]} of {s.type.dtype}"
                if s.op == "Const" and not _constant(s.attrs[0], s.type.dtype):
                    yield f"%{s.id}: {s.attrs[0]!r} is no constant of {s.type.dtype}"
                yield from self._define(s.id, s.type)
            case Load() | Write():
                yield from self._access(s)
                if isinstance(s, Load):
                    yield from self._define(s.id, s.type)
            case Prefetch():
                if t[s.at] != INDEX or self._place(s.place) is None:
                    yield f"prefetch {s.place}: at {t[s.at]}"
            case Atomic():
                yield from self._atomic(s)
                yield from self._define(s.id, s.type)
            case Var():
                if t[s.init] != s.type or s.name in self.ids:
                    yield f"variable v{s.name}: {s.type} from {t[s.init]}"
                self.ids.add(s.name)
                self.vars[s.name] = s.type
            case Get():
                if self.vars.get(s.var) != s.type:
                    yield f"variable v{s.var} is read as {s.type} where it is {self.vars.get(s.var)}"
                yield from self._define(s.id, s.type)
            case Set():
                if self.vars.get(s.var) != t[s.value]:
                    yield f"variable v{s.var} is set to {t[s.value]} where it is {self.vars.get(s.var)}"
            case Alloc():
                if s.size < 1 or s.align < 1 or s.align & (s.align - 1) or s.name in self.memory or s.name in self.roles:
                    yield f"memory {s.name}: {s.size} elements, aligned to {s.align}"
                self.memory[s.name] = s.dtype, s.size
            case For():
                if t[s.begin] != INDEX or t[s.end] != INDEX or s.step < 1:
                    yield f"the range of %{s.index}: {t[s.begin]}, {t[s.end]}, {s.step}"
                yield from self._define(s.index, INDEX)
                yield from self._block(s.body)
                self.types.pop(s.index, None)
            case While():
                # the body sees what the head defines
                yield from self._block((*s.head, _Test(s.cond), *s.body))  # type: ignore[arg-type]
            case If():
                if t[s.cond] != Type("bool"):
                    yield f"a branch on {t[s.cond]}"
                yield from self._block(s.then)
                yield from self._block(s.orelse)
            case _:
                if isinstance(s, _Test) and t.get(s.cond) != Type("bool"):
                    yield f"a loop condition of type {t.get(s.cond)}"

    # ---------------------------------------------------------------------------------------------- operations
    def _op(self, x: Op) -> Iterator[str]:
        if x.op not in OPS:
            yield f"unknown operation {x.op}"
            return
        attrs, args = OPS[x.op]
        ts = [self.types[a] for a in x.args]
        if len(x.attrs) != attrs or (args is not None and len(ts) != args and x.op != "Tri") or (x.op == "Tri" and len(ts) != 3):
            yield f"%{x.id} = {x.op} with {len(x.attrs)} attributes and {len(ts)} operands"
            return
        fault = _fault(x, ts)
        if fault:
            yield f"%{x.id} = {x.op} {' '.join(map(str, x.attrs))}: {fault} ({', '.join(map(str, ts))} -> {x.type})"

    # ---------------------------------------------------------------------------------------------- memory
    def _place(self, name: str) -> str | None:
        if name in self.memory:
            return self.memory[name][0]
        try:
            return self.p.dtype(name)
        except KeyError:
            return None

    def _access(self, s: Load | Write) -> Iterator[str]:
        t = self.types
        value = s.type if isinstance(s, Load) else t[s.value]
        what = f"{'load' if isinstance(s, Load) else 'store'} {s.place}"
        if self._place(s.place) != value.dtype:
            yield f"{what}: {value} where the place holds {self._place(s.place)}"
        if isinstance(s, Write) and self.roles.get(s.place) == "in":
            yield f"{what}: the view is only read"
        at = t[s.at]
        if s.access not in ACCESSES or at.dtype != "index" or at.width != (value.width if s.access == "gather" else 1):
            yield f"{what}: {s.access} at {at}"
        if (s.stride >= 0) != (s.access == "strided") or (s.stride >= 0 and t[s.stride] != INDEX):
            yield f"{what}: a stride of {t.get(s.stride)}"
        if s.mask >= 0 and t[s.mask] != Type("bool", value.width):
            yield f"{what}: a mask of {t[s.mask]} for {value}"
        if isinstance(s, Write) and s.stream and (s.access != "contiguous" or s.mask >= 0 or self.roles.get(s.place) != "out"):
            yield f"{what}: streamed, {s.access}"
        if isinstance(s, Load) and s.other >= 0 and (s.mask < 0 or t[s.other] != value):
            yield f"{what}: {t[s.other]} in lanes of {value} that are masked"

    def _atomic(self, s: Atomic) -> Iterator[str]:
        t = self.types
        known = s.mode in program_ops.STORE_MODES and s.mode not in program_ops.PLAIN_MODES and s.order in program_ops.MEMORY_ORDERS
        fits = self._place(s.place) == t[s.value].dtype == s.type.dtype and t[s.value].width == s.type.width == 1 and t[s.at] == INDEX
        expects = (s.expected >= 0) == (s.mode == "compare_exchange") and (s.expected < 0 or t[s.expected] == s.type)
        if not (known and fits and expects) or (s.mask >= 0 and t[s.mask] != Type("bool")) or self.roles.get(s.place) == "in":
            yield f"atomic {s.mode} {s.order} on {s.place} ({s.type})"


class _Test:
    """The condition of a while loop, between its head and its body."""

    def __init__(self, cond: int) -> None:
        self.cond = cond


def _fault(x: Op, ts: list[Type]) -> str:
    """What is wrong with an operation's types, or an empty text."""
    r = x.type
    match x.op:
        case "Const" | "Scalar" | "Param" | "Address":
            return "" if r.width == 1 and (x.op not in ("Param", "Address") or r == INDEX) else "not a scalar"
        case "Broadcast":
            return "" if ts[0] == Type(r.dtype) and r.width > 1 else "not one scalar in every lane"
        case "Iota":
            return "" if r.dtype == "index" else "not of indices"
        case "Lanes":
            return "" if ts[0] == INDEX and r.dtype == "bool" else "not lanes below a count"
        case "Build":
            return "" if len(ts) == r.width and all(t == Type(r.dtype) for t in ts) else "not one scalar a lane"
        case "Extract":
            return "" if r == Type(ts[0].dtype) and 0 <= x.attrs[0] < ts[0].width else "no such lane"
        case "Slice":
            return "" if r.dtype == ts[0].dtype and 0 <= x.attrs[0] <= ts[0].width - r.width else "no such lanes"
        case "Reverse":
            return "" if r == ts[0] else "another type"
        case "Permute":
            lanes = x.attrs[0]
            fits = isinstance(lanes, tuple) and len(lanes) == r.width and all(0 <= i < 2 * r.width for i in lanes)
            return "" if fits and ts[0] == ts[1] == r and r.dtype != "bool" else "no such lanes"
        case "Any":
            return "" if ts[0].dtype == "bool" and r == Type("bool") else "not of bools"
        case "Words":
            return "" if ts[0] == Type("i8", 4 * r.width) and r.dtype == "i32" else "not of four bytes a lane"
        case "Dot4":
            return "" if set(ts) == {r} and r.dtype == "i32" else "not of words"
        case "Extreme":
            return "" if set(ts) == {r} and r.dtype in ("f32", "f64") and x.attrs[0] in ("maximum", "minimum") else "no such extreme"
    if any(t.width != r.width for t in ts):
        return "widths differ"
    match x.op:
        case "Un":
            tests = ("isnan", "isinf", "isfinite")
            same = r.dtype == ts[0].dtype if x.attrs[0] not in tests else r.dtype == "bool"
            return "" if same and x.attrs[0] in (*program_ops.UNARY, *program_ops.FAST) else "no such function"
        case "Bin":
            compares = x.attrs[0] in program_ops.COMPARE
            known = compares or x.attrs[0] in (*program_ops.BINARY, *program_ops.FAST)
            return "" if known and ts[0] == ts[1] and (r.dtype == "bool" if compares else r == ts[0]) else "no such function"
        case "Tri" if x.attrs[0] == "select":
            return "" if ts[0].dtype == "bool" and ts[1] == ts[2] == r else "no selection"
        case "Tri":
            return "" if x.attrs[0] == "fma" and ts[0] == ts[1] == ts[2] == r else "no fma"
        case "Bitcast":
            return "" if NUMPY[ts[0].dtype].itemsize == NUMPY[r.dtype].itemsize else "sizes differ"
    return "" if x.attrs[0] == r.dtype else "another dtype"
