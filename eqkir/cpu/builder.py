"""Building blocks of a task program: fresh ids, folding of index arithmetic, and one id for equal pure operations in scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from eqkir.base.dtypes import literal, parse
from eqkir.cpu.model import BOOL, INDEX, Alloc, Atomic, For, Get, If, Load, Op, Prefetch, Set, Statement, Type, Var, While, Write

_Key = tuple[str, tuple[Any, ...], tuple[int, ...], Type]
_FOLD: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "minimum": min, "maximum": max,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}  # fmt: skip
COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})


class Builder:
    """Statements are appended to the innermost open block. Pure operations are numbered: an equal one that is still in scope is reused.
    Operations of no operands (constants, parameters) go to the group's outermost block."""

    def __init__(self) -> None:
        self._blocks: list[list[Statement]] = [[]]
        self._scopes: list[dict[_Key, int]] = [{}]
        self._next = 0
        self.types: dict[int, Type] = {}
        self.inits: dict[int, int] = {}  # variable -> what it starts as
        self._defs: dict[int, Op] = {}
        self.prologue: list[Statement] = []
        self._global: dict[_Key, int] = {}
        self.origin = ""  # of the operation that is being expanded
        self.origins: dict[int, str] = {}

    # ---------------------------------------------------------------------------------------------- ids and blocks
    def fresh(self, t: Type) -> int:
        self._next += 1
        self.types[self._next - 1] = t
        if self.origin:
            self.origins[self._next - 1] = self.origin
        return self._next - 1

    def finish(self) -> tuple[Statement, ...]:
        """The whole body."""
        assert len(self._blocks) == 1
        return (*self.prologue, *self._blocks[0])

    def emit(self, s: Statement) -> None:
        self._blocks[-1].append(s)

    @contextmanager
    def part_of(self, origin: str) -> Iterator[None]:
        """What is built inside is part of an operation of KIR; an empty text: of that around."""
        saved, self.origin = self.origin, origin or self.origin
        try:
            yield
        finally:
            self.origin = saved

    @contextmanager
    def block(self, out: list[Statement]) -> Iterator[None]:
        """Statements built inside go to `out`."""
        self._blocks.append(out)
        self._scopes.append({})
        try:
            yield
        finally:
            self._blocks.pop()
            self._scopes.pop()

    @contextmanager
    def loop(self, begin: int, end: int, step: int = 1) -> Iterator[int]:
        """``for index in range(begin, end, step)``; gives the index."""
        index, body = self.fresh(INDEX), list[Statement]()
        with self.block(body):
            yield index
        self.emit(For(index, begin, end, step, tuple(body)))

    @contextmanager
    def when(self, cond: int) -> Iterator[None]:
        """``if cond``; nothing is built for a condition that is known to be false."""
        body: list[Statement] = []
        with self.block(body):
            yield
        known = self.known(cond)
        if known is True:
            for s in body:
                self.emit(s)
        elif known is None and body:
            self.emit(If(cond, tuple(body)))

    def branch(self, cond: int, then: list[Statement], orelse: list[Statement]) -> None:
        known = self.known(cond)
        if known is None:
            self.emit(If(cond, tuple(then), tuple(orelse)))
        else:
            for s in then if known else orelse:
                self.emit(s)

    def while_(self, head: list[Statement], cond: int, body: list[Statement]) -> None:
        self.emit(While(tuple(head), cond, tuple(body)))

    # ---------------------------------------------------------------------------------------------- operations
    def op(self, op: str, attrs: tuple[Any, ...], args: tuple[int, ...], t: Type) -> int:
        """The value of a pure operation."""
        folded = self._folded(op, attrs, args, t)
        if folded is not None:
            return folded
        key = (op, attrs, args, t)
        if not args and op != "Build":
            if key not in self._global:
                self._global[key] = self._make(key, self.prologue)
            return self._global[key]
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        i = self._scopes[-1][key] = self._make(key, self._blocks[-1])
        return i

    def _make(self, key: _Key, block: list[Statement]) -> int:
        op, attrs, args, t = key
        i = self.fresh(t)
        self._defs[i] = Op(i, op, attrs, args, t)
        block.append(self._defs[i])
        return i

    def known(self, i: int) -> Any:
        """The number or truth value of a constant scalar, else None."""
        d = self._defs.get(i)
        return parse(d.attrs[0], d.type.dtype) if d is not None and d.op == "Const" else None

    def const(self, value: Any, dtype: str = "index") -> int:
        """A scalar constant; `value` is a number, or the canonical text."""
        text = value if isinstance(value, str) else literal(value, dtype)
        return self.op("Const", (text,), (), Type(dtype))

    def splat(self, i: int, width: int) -> int:
        """The scalar `i` in every lane (itself for width 1, and for a vector of that width)."""
        t = self.types[i]
        return i if t.width == width else self.op("Broadcast", (), (i,), Type(t.dtype, width))

    def bin(self, fn: str, a: int, b: int) -> int:
        """A binary function of operands of one type (comparisons give bool)."""
        t = self.types[a]
        return self.op("Bin", (fn,), (a, b), Type("bool", t.width) if fn in COMPARISONS else t)

    def select(self, c: int, a: int, b: int) -> int:
        return a if a == b else self.op("Tri", ("select",), (c, a, b), self.types[a])

    def conj(self, a: int, b: int) -> int:
        """Both of two bools (-1: true)."""
        if a < 0 or b < 0:
            return max(a, b)
        w = max(self.types[a].width, self.types[b].width)
        return self.bin("and", self.splat(a, w), self.splat(b, w))

    def negation(self, a: int) -> int:
        return self.op("Un", ("not",), (a,), self.types[a])

    def _folded(self, op: str, attrs: tuple[Any, ...], args: tuple[int, ...], t: Type) -> int | None:
        if op == "Extract" and (d := self._defs.get(args[0])) is not None:
            if d.op == "Broadcast":
                return d.args[0]
            if d.op == "Build":
                return int(d.args[attrs[0]])
            if d.op == "Iota":
                return self.const(attrs[0])
        if op == "Reverse" and ((d := self._defs.get(args[0])) is not None and d.op == "Broadcast" or t.width == 1):
            return args[0]
        if op == "Broadcast" and t.width == 1:
            return args[0]
        if op == "Build" and len(args) == 1:
            return args[0]
        if op == "Slice" and t.width == self.types[args[0]].width:
            return args[0]
        if op == "Tri" and attrs == ("select",) and (c := self.known(self.source(args[0]))) is not None:
            return args[1] if c else args[2]
        if op == "Un" and attrs == ("not",) and t == BOOL and (c := self.known(args[0])) is not None:
            return self.const(not c, "bool")
        if op == "Bin" and t.width == 1 and self.types[args[0]] in (INDEX, BOOL):
            return self._folded_scalar(attrs[0], args[0], args[1], t)
        if op == "Bin" and attrs[0] in ("and", "or") and t.dtype == "bool":
            for a, b in (args, args[::-1]):
                d = self._defs.get(a)
                if d is not None and d.op == "Broadcast" and (c := self.known(d.args[0])) is not None:
                    return b if c == (attrs[0] == "and") else a
        return None

    def terms(self, i: int) -> tuple[int, int]:
        """An index as a value and a constant that is added to it (value -1: the constant alone)."""
        c = self.known(i)
        if c is not None:
            return -1, int(c)
        d = self._defs.get(i)
        if d is not None and d.op == "Bin" and d.attrs == ("add",) and (c := self.known(d.args[1])) is not None:
            return d.args[0], int(c)
        return i, 0

    def _sum(self, a: int, b: int) -> int | None:
        """The sum of two indices with its constant at the end, so that addresses which differ by constants share all else."""
        (x, c), (y, d) = self.terms(a), self.terms(b)
        if self.types[a] != INDEX or not (c or d) or (y < 0 and not c):
            return None  # already so
        if x < 0 and not d:
            return self.bin("add", b, a)
        inner = y if x < 0 else x if y < 0 else self.bin("add", x, y)
        return self.bin("add", inner, self.const(c + d))

    def scaled(self, a: int, by: int) -> int:
        """The product of two indices; where the first ends in a constant, that part is multiplied by itself."""
        x, c = self.terms(a)
        if x < 0 or not c:
            return self.bin("mul", a, by)
        return self.bin("add", self.bin("mul", x, by), self.bin("mul", self.const(c), by))

    def _folded_scalar(self, fn: str, a: int, b: int, t: Type) -> int | None:
        x, y = self.known(a), self.known(b)
        if self.types[a] == BOOL:
            for p, q, c in ((a, b, x), (b, a, y)):
                if c is not None and fn in ("and", "or"):
                    return q if c == (fn == "and") else p
            return a if a == b and fn in ("and", "or") else None
        if x is not None and y is not None:
            if fn in _FOLD:
                return self.const(_FOLD[fn](x, y), t.dtype)
            if fn in ("floordiv", "mod") and y > 0:
                return self.const(x // y if fn == "floordiv" else x % y)
        if fn == "add" and 0 in (x, y):
            return b if x == 0 else a
        if fn == "add" and (split := self._sum(a, b)) is not None:
            return split
        if fn == "sub" and y == 0:
            return a
        if fn == "mul" and 0 in (x, y):
            return self.const(0)
        if fn == "mul" and 1 in (x, y):
            return b if x == 1 else a
        if fn in ("floordiv", "mod") and y == 1:
            return a if fn == "floordiv" else self.const(0)
        return None

    # ---------------------------------------------------------------------------------------------- state and memory
    def var(self, init: int) -> int:
        """A new variable, starting as `init`; its name."""
        t = self.types[init]
        name = self.fresh(t)
        self.emit(Var(name, init, t))
        self.inits[name] = init
        return name

    def get(self, var: int) -> int:
        i = self.fresh(self.types[var])
        self.emit(Get(i, var, self.types[var]))
        return i

    def set(self, var: int, value: int) -> None:
        self.emit(Set(var, value))

    def load(self, place: str, at: int, t: Type, access: str = "contiguous", stride: int = -1, mask: int = -1, other: int = -1) -> int:
        i = self.fresh(t)
        self.emit(Load(i, place, at, t, access, stride, mask, other))
        return i

    def write(
        self, place: str, at: int, value: int, access: str = "contiguous", stride: int = -1, mask: int = -1, stream: bool = False
    ) -> None:
        self.emit(Write(place, at, value, access, stride, mask, stream=stream))

    def prefetch(self, place: str, at: int) -> None:
        self.emit(Prefetch(place, at))

    def atomic(self, place: str, at: int, value: int, mode: str, order: str, expected: int = -1, mask: int = -1) -> int:
        t = self.types[value]
        i = self.fresh(t)
        self.emit(Atomic(i, place, at, value, mode, order, t, expected, mask))
        return i

    def alloc(self, name: str, dtype: str, size: int, align: int = 64) -> None:
        self.emit(Alloc(name, dtype, size, align))

    def source(self, i: int) -> int:
        """The scalar that a vector repeats, or the value itself."""
        d = self._defs.get(i)
        return d.args[0] if d is not None and d.op == "Broadcast" else i
