"""Task programs as Mojo text, statement by statement; nothing is decided here.

A group becomes one exported function ``kt_<group>(ctx, lo, hi)`` that runs the instances lo … hi - 1. `ctx` is the address of the launch's
table of 64-bit words (`TaskProgram.words`). Values are ``SIMD[dtype, width]``; bools lie in memory as bytes. A narrow float is held as its
bits and becomes a float only as the operand of an operation: the compiler may keep a value that it thinks of as a float in a wider
register, and the instruction that narrows it again flushes subnormal numbers. Comments ``# from …`` say from which operation of KIR a line
and those below it come.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from eqkir.base.dtypes import bits
from eqkir.base.expr import Expr
from eqkir.cpu.model import (
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
    defined,
    operands,
    statements,
)  # fmt: skip
from eqkir.emit.mojo import atomics, ops
from eqkir.emit.mojo.build import Module
from eqkir.emit.mojo.lines import Place, runs

PAD = "    "
#: statements of a side of a test from which it is a function of its own
APART = 40
_COMPARE = {"lt": "<", "le": "<=", "eq": "==", "ne": "!="}


def entry(group: Group) -> str:
    """The name of a group's function."""
    return "kt_" + re.sub(r"\W", "_", group.name)


def module(program: TaskProgram) -> Module:
    """The text of a task program. Raises `ops.Unsupported` for an operation that has no expression."""
    groups = [g for stage in program.stages for g in stage]
    return Module(program.abi.kernel, "\n\n".join(_Speller(program, g).text() for g in groups))


def held(dtype: str) -> str:
    """The dtype as which a value is held in registers and in memory."""
    return f"u{bits(dtype)}" if dtype in ops.NARROW else dtype


def bits_as(x: str, source: str, target: str, width: int) -> str:
    """The same bits as another dtype."""
    return x if source == target else f"bitcast[{ops.mojo_dtype(target)}, {width}]({x})"


class _Speller:
    def __init__(self, program: TaskProgram, group: Group) -> None:
        self.program, self.group = program, group
        self.word = {key: n for n, key in enumerate(program.words)}
        self.types: dict[int, Type] = {}
        self.ops: dict[int, Op] = {}
        self.out: list[str] = []
        self.apart: list[str] = []  # functions beside the group's own
        self.depth = 0
        self.leaves: dict[int, Op] = {}  # operations without operands, which a function repeats
        self.captured: dict[str, str] = {}
        self.shown = ""
        self.reserved: list[str] = []  # memory of blocks, at the head of the present function

    # ---------------------------------------------------------------------------------------------- the function
    def text(self) -> str:
        g = self.group
        head = ["@export", f'def {entry(g)}(ctx: Int, lo: Int, hi: Int) abi("C"):']
        head += [f"{PAD}var words = Pointer[Int64, MutAnyOrigin](unsafe_from_address=ctx)"]
        for n, place in enumerate(self.places):
            word = self.word["view" if ("view", place) in self.word else "resource", place]
            where = f"Int(words[unsafe_offset={word}])"
            head.append(f"{PAD}var p{n} = Pointer[Scalar[{self.memory(place)}], MutAnyOrigin](unsafe_from_address={where})  # {place}")
        names = [("param", p) for p in g.params] + [("scalar", s) for s in g.scalars]
        launch = sorted({a.args[0] for _, r in g.digits for a in _symbols(r)} - {n for _, n in names})
        names += [("param" if ("param", n) in self.word else "scalar", n) for n in launch]
        self.name = {n: f"s{i}" for i, (_, n) in enumerate(names)}
        self.dtypes = {s.name: s.dtype for s in self.program.abi.scalars}
        self.captured = {n: "index" if kind == "param" else self.dtypes[n] for kind, n in names}
        for kind, name in names:
            at = self.word[kind, name]
            value = f"SIMD[DType.int64, 1](words[unsafe_offset={at}])" if kind == "param" else self.scalar(name, at)
            head.append(f"{PAD}var {self.name[name]} = {value}  # {name}")
        body = self.instances()
        return "\n\n".join([*self.apart, "\n".join([*head, *body]) + "\n"])

    def scalar(self, name: str, at: int) -> str:
        dtype = self.dtypes[name]
        if dtype == "bool":
            return f"SIMD[DType.bool, 1](words[unsafe_offset={at}] & 255 != 0)"
        return f"Pointer[Scalar[{ops.mojo_dtype(held(dtype))}], MutAnyOrigin](unsafe_from_address=ctx + {8 * at})[]"

    @cached_property
    def places(self) -> list[str]:
        """Views and resources of the launch that the group touches (a block's own memory is no word)."""
        return [p for p in self.group.places if ("view", p) in self.word or ("resource", p) in self.word]

    def memory(self, place: str) -> str:
        dtype = self.allocated.get(place) or self.program.dtype(place)
        return "DType.uint8" if dtype == "bool" else ops.mojo_dtype(held(dtype))

    @cached_property
    def allocated(self) -> dict[str, str]:
        return {s.name: s.dtype for s in statements(self.group.body) if isinstance(s, Alloc)}

    def instances(self) -> list[str]:
        """The loop over instances; the digits of their number count along."""
        digits, lines = self.group.digits, []
        for k, (i, radix) in enumerate(digits):
            lines.append(f"{PAD}var r{k} = max({self.launch(radix)}, 1)")
            self.types[i] = Type("index")
        lines.append(f"{PAD}var rest = lo")
        for k in range(len(digits) - 1, -1, -1):
            lines += [f"{PAD}var d{k} = rest % r{k}", f"{PAD}rest = rest // r{k}"]
        lines.append(f"{PAD}for _ in range(lo, hi):")
        lines += [f"{PAD * 2}var v{i} = SIMD[DType.int64, 1](Int64(d{k}))" for k, (i, _) in enumerate(digits)]
        self.out = []
        self.block(self.group.body, PAD * 2)
        lines = [*self.reserved, *lines, *self.out]
        pad = PAD * 2
        for k in range(len(digits) - 1, -1, -1):
            lines.append(f"{pad}d{k} += 1")
            if k:
                lines += [f"{pad}if d{k} == r{k}:", f"{pad}{PAD}d{k} = 0"]
                pad += PAD
        if any(isinstance(s, Write) and s.stream for s in statements(self.group.body)):
            lines.append(f"{PAD}eqk_stream_end()")
        return lines

    def launch(self, e: Expr) -> str:
        """A launch expression as an ``Int``."""
        if e.op == "int":
            return f"Int({e.args[0]})"
        if e.op == "sym":
            n = e.args[0]
            return f"Int({self.name[n]})"
        xs = [self.launch(a) for a in e.args]
        match e.op:
            case "min" | "max":
                return f"{e.op}({xs[0]}, {xs[1]})"
            case "select":
                return f"({xs[1]} if {xs[0]} != 0 else {xs[2]})"
            case "not":
                return f"Int({xs[0]} == 0)"
            case "and" | "or":
                return f"Int({xs[0]} != 0 {e.op} {xs[1]} != 0)"
            case "lt" | "le" | "eq" | "ne":
                return f"Int({xs[0]} {_COMPARE[e.op]} {xs[1]})"
        sign = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}[e.op]
        return f"({xs[0]} {sign} {xs[1]})"

    # ---------------------------------------------------------------------------------------------- statements
    def block(self, body: Sequence[Statement], pad: str) -> None:
        if not body:
            self.out.append(f"{pad}pass")
        joined = runs(body, self.ops, self.types)
        for n, s in enumerate(body):
            if n in joined and isinstance(s, Write):
                self.out += [pad + line for line in self.line(s, joined[n])]
            else:
                self.statement(s, pad)

    def line(self, x: Write, place: Place) -> list[str]:
        """A streamed store of a run."""
        generic = f"[{self.memory(x.place)}, {self.types[x.value].width}]({self.pointer(x.place)}, v{x.at}"
        value, at, memory = place.run
        part = f"m{value}_{at}_{self.pointer(memory)}"
        out = []
        if place.before < 0:
            out += [f"var {part} = eqk_line_part{generic})", f"eqk_line_head{generic}, v{x.value}, {part})"]
        else:
            out.append(f"eqk_line{generic}, v{place.before}, v{x.value}, {part})")
        if place.last:
            out.append(f"eqk_line_tail{generic}, v{x.value}, {part})")
        return out

    def origin(self, s: Statement) -> str:
        """A comment where a statement comes from another operation of KIR than the line above it."""
        i = s.index if isinstance(s, For) else s.name if isinstance(s, Var) else defined(s)
        text = " ".join(self.group.origins.get(i, "").split())
        if not text or text == self.shown:
            return ""
        self.shown = text
        return f"  # from {text}"

    def statement(self, s: Statement, pad: str) -> None:
        origin = self.origin(s)

        def line(text: str) -> None:
            nonlocal origin
            self.out.append(text + origin)
            origin = ""

        match s:
            case Op():
                self.types[s.id], self.ops[s.id] = s.type, s
                if not s.args:
                    self.leaves[s.id] = s
                line(f"{pad}var v{s.id} = {self.operation(s)}")
            case Load():
                self.types[s.id] = s.type
                line(f"{pad}var v{s.id} = {self.load(s)}")
            case Write():
                line(f"{pad}{self.write(s)}")
            case Prefetch():
                line(f"{pad}eqk_prefetch[{self.memory(s.place)}]({self.pointer(s.place)}, v{s.at})")
            case Atomic():
                self.types[s.id] = s.type
                line(f"{pad}var v{s.id} = {self.atomic(s)}")
            case Var():
                self.types[s.name] = s.type
                line(f"{pad}var x{s.name} = v{s.init}")
            case Get():
                self.types[s.id] = s.type
                line(f"{pad}var v{s.id} = x{s.var}")
            case Set():
                line(f"{pad}x{s.var} = v{s.value}")
            case Alloc():
                self.reserve(s)
            case For():
                self.types[s.index] = Type("index")
                step = f", {s.step}" if s.step != 1 else ""
                line(f"{pad}for i{s.index} in range(Int(v{s.begin}), Int(v{s.end}){step}):")
                line(f"{pad}{PAD}var v{s.index} = SIMD[DType.int64, 1](Int64(i{s.index}))")
                self.block(s.body, pad + PAD)
            case While():
                line(f"{pad}while True:")
                self.block(s.head, pad + PAD)
                line(f"{pad}{PAD}if not v{s.cond}:")
                line(f"{pad}{PAD * 2}break")
                self.block(s.body, pad + PAD)
            case If():
                line(f"{pad}if v{s.cond}:")
                self.branch(s.then, pad + PAD)
                if s.orelse:
                    line(f"{pad}else:")
                    self.branch(s.orelse, pad + PAD)

    def reserve(self, s: Alloc) -> None:
        """Memory of a block: in the stack frame of the function, however often the block is run."""
        t = f"Scalar[{self.memory(s.name)}]"
        where = f"Int(stack_allocation[{s.size}, {t}, alignment={s.align}]())"
        self.reserved.append(f"{PAD}var m_{s.name} = Pointer[{t}, MutAnyOrigin](unsafe_from_address={where})")

    def branch(self, body: tuple[Statement, ...], pad: str) -> None:
        """One side of a test. Long sides of the tests between bodies are functions of their own: together, the compiler would keep what
        they share, hundreds of addresses, across all of them."""
        if self.depth or len(statements(body)) < APART or (len(body) == 1 and isinstance(body[0], If)) or changes(body):
            self.block(body, pad)
            return
        used = sorted(free(body))
        leaves, taken = [i for i in used if i in self.leaves], [i for i in used if i not in self.leaves]
        name = f"{entry(self.group)}_{len(self.apart)}"
        outer, self.out, self.depth = self.out, [], 1
        reserved, self.reserved = self.reserved, []
        inner = {s.name for s in statements(body) if isinstance(s, Alloc)}
        blocks = sorted({s.place for s in statements(body) if isinstance(s, (Load, Write)) and s.place in self.allocated} - inner)
        parameters = [f"p{n}: Pointer[Scalar[{self.memory(p)}], MutAnyOrigin]" for n, p in enumerate(self.places)]
        parameters += [f"{s}: SIMD[{ops.mojo_dtype(held(self.captured[n]))}, 1]" for n, s in self.name.items()]
        parameters += [f"v{i}: {ops.mojo_type(held(self.types[i].dtype), self.types[i].width)}" for i in taken]
        parameters += [f"m_{m}: Pointer[Scalar[{self.memory(m)}], MutAnyOrigin]" for m in blocks]
        self.block((*(self.leaves[i] for i in leaves), *body), PAD)
        self.apart.append("\n".join(["@no_inline", f"def {name}({', '.join(parameters)}):", *self.reserved, *self.out]) + "\n")
        self.out, self.depth, self.reserved = outer, 0, reserved
        given = [f"p{n}" for n in range(len(self.places))] + list(self.name.values()) + [f"v{i}" for i in taken]
        given += [f"m_{m}" for m in blocks]
        self.out.append(f"{pad}{name}({', '.join(given)})")

    def operation(self, x: Op) -> str:
        args, t = [f"v{a}" for a in x.args], ops.mojo_type(held(x.type.dtype), x.type.width)
        match x.op:
            case "Param" | "Scalar":
                return self.name[x.attrs[0]]
            case "Address":
                return f"SIMD[DType.int64, 1](Int64(Int({self.pointer(x.attrs[0])})))"
            case "Broadcast":
                return f"{t}({args[0]})"
            case "Iota":
                return f"eqk_iota[{x.type.width}]()"
            case "Lanes":
                return f"eqk_lanes[{x.type.width}]({args[0]})"
            case "Build":
                return f"{t}({', '.join(f'{a}[0]' for a in args)})"
            case "Extract":
                return f"{t}({args[0]}[{x.attrs[0]}])"
            case "Slice":
                at = x.attrs[0]
                return f"{args[0]}.slice[{x.type.width}{f', offset={at}' if at else ''}]()"
            case "Reverse":
                return f"{args[0]}.reversed()"
            case "Permute":
                return f"{args[0]}.shuffle[{', '.join(map(str, x.attrs[0]))}]({args[1]})"
            case "Any":
                return f"{t}({args[0]}.reduce_or())"
            case "Words":
                return f"eqk_words[{x.type.width}]({args[0]})"
            case "Dot4":
                return f"eqk_dot4[{x.type.width}]({', '.join(args)})"
            case "Extreme":
                return f"eqk_{x.attrs[0]}_ordered[{ops.mojo_dtype(x.type.dtype)}, {x.type.width}]({', '.join(args)})"
        dtypes, dtype, w = [self.types[a].dtype for a in x.args], x.type.dtype, x.type.width
        if x.op == "Tri" and x.attrs[0] == "select":
            return ops.expression(x.op, x.attrs, args, [held(d) for d in dtypes], held(dtype), w)
        values = [bits_as(a, held(d), d, w) for a, d in zip(args, dtypes, strict=True)]
        return bits_as(ops.expression(x.op, x.attrs, values, dtypes, dtype, w), dtype, held(dtype), w)

    # ---------------------------------------------------------------------------------------------- memory
    def pointer(self, place: str) -> str:
        places = self.places
        return f"p{places.index(place)}" if place in places else f"m_{place}"

    def offset(self, s: Load | Write, width: int) -> tuple[str, bool]:
        """The offset operand, and whether each lane has its own."""
        if s.access == "strided" and width > 1:
            each = ops.mojo_type("index", width)
            return f"{each}(v{s.at}) + {each}(v{s.stride}) * eqk_iota[{width}]()", True
        return f"v{s.at}", s.access == "gather"

    def load(self, x: Load) -> str:
        w, dtype = x.type.width, x.type.dtype
        memory = self.memory(x.place)
        at, each = self.offset(x, w)
        call = f"eqk_{'gather' if each else 'load'}{'_masked' if x.mask >= 0 else ''}[{memory}, {w}]({self.pointer(x.place)}, {at}"
        if x.mask >= 0:
            other = f"SIMD[{memory}, {w}](0)"
            if x.other >= 0:
                other = f"v{x.other}.cast[DType.uint8]()" if dtype == "bool" else f"v{x.other}"
            call += f", v{x.mask}, {other}"
        call += ")"
        return f"eqk_ne[DType.uint8, {w}]({call}, SIMD[DType.uint8, {w}](0))" if dtype == "bool" else call

    def write(self, x: Write) -> str:
        t = self.types[x.value]
        at, each = self.offset(x, t.width)
        value = f"v{x.value}.cast[DType.uint8]()" if t.dtype == "bool" else f"v{x.value}"
        name = f"eqk_{'scatter' if each else 'stream' if x.stream else 'store'}{'_masked' if x.mask >= 0 else ''}"
        mask = f", v{x.mask}" if x.mask >= 0 else ""
        return f"{name}[{self.memory(x.place)}, {t.width}]({self.pointer(x.place)}, {at}, {value}{mask})"

    def atomic(self, x: Atomic) -> str:
        expected = f"v{x.expected}" if x.expected >= 0 else ""
        mask = f"v{x.mask}" if x.mask >= 0 else ""
        dtype, pointer, value = x.type.dtype, self.pointer(x.place), f"v{x.value}"
        if held(dtype) != dtype:
            pointer = f"{pointer}.unsafe_bitcast[Scalar[{ops.mojo_dtype(dtype)}]]()"
            value, expected = (bits_as(v, held(dtype), dtype, 1) if v else "" for v in (value, expected))
        return bits_as(atomics.atomic(x.mode, dtype, pointer, f"v{x.at}", value, expected, mask), dtype, held(dtype), 1)


def changes(body: tuple[Statement, ...]) -> set[int]:
    """Variables of the blocks around that a block sets."""
    every = statements(body)
    return {s.var for s in every if isinstance(s, Set)} - {s.name for s in every if isinstance(s, Var)}


def free(body: tuple[Statement, ...]) -> set[int]:
    """Values that a block reads and does not define."""
    read: set[int] = set()
    made: set[int] = set()
    for s in statements(body):
        read.update(operands(s))
        made.add(defined(s))
        if isinstance(s, While):
            read.add(s.cond)
        elif isinstance(s, For):
            made.add(s.index)
    return read - made


def _symbols(e: Expr) -> list[Expr]:
    from eqkir.base.expr import atoms

    return [a for a in atoms(e) if a.op == "sym"]
