"""Text of the host side of an emitted module: argument checks, launch sizes, specialization, the launch itself."""

from __future__ import annotations

from dataclasses import dataclass

from eqkir.base.dtypes import itemsize
from eqkir.base.expr import Expr, Int, Param, atoms, substitute
from eqkir.emit.triton import runtime_text as T
from eqkir.emit.triton.address import host
from eqkir.emit.triton.names import Naming
from eqkir.program.abi import ScalarParam, SymbolParam, ViewParam
from eqkir.program.model import Program

#: dtype -> name of the tensor dtype of the caller's framework
TENSOR = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32",
    "u64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2", "index": "int64",
}  # fmt: skip
LIMITS = {
    **{f"i{w}": (-(1 << (w - 1)), (1 << (w - 1)) - 1) for w in (8, 16, 32, 64)},
    **{f"u{w}": (0, (1 << w) - 1) for w in (8, 16, 32, 64)},
    "index": (-(1 << 63), (1 << 63) - 1),
}
NARROW = ("f16", "bf16", "f8e4m3fn", "f8e5m2")


@dataclass(frozen=True)
class Sizes:
    """Launch expressions: programs of each segment, every integer that 32-bit index arithmetic must hold."""

    programs: tuple[Expr, ...]
    reach: tuple[Expr, ...]
    offsets: tuple[tuple[str, tuple[Expr, ...]], ...]  # view -> bound of the index of each axis, padded lanes included


def launch_source(program: Program, names: Naming, sizes: Sizes) -> str:
    """`launch` and its helpers. Shapes, strides and extents are elements; addresses bytes."""
    return _Host(program, names, sizes).source()


def host_imports(program: Program) -> list[str]:
    """Modules of the standard library that the host side needs."""
    dtypes = {s.dtype for s in program.abi.scalars}
    return ["operator"] * bool(dtypes & LIMITS.keys()) + ["struct"] * bool(dtypes & {"f64", *NARROW})


class _Host:
    def __init__(self, program: Program, names: Naming, sizes: Sizes) -> None:
        self.program, self.names, self.sizes = program, names, sizes
        self.bound = {Param(p): Int(v) for p, v in program.bindings.items()}
        self.views = [v for v in program.abi.views if v.role != "workspace"]
        self.spaces = [v for v in program.abi.views if v.role == "workspace"]
        used = {a.args[0] for e in self.all_exprs() for a in atoms(e) if a.op == "sym"}
        self.keyed = [names.scalars[s.name] for s in program.abi.scalars if s.name in used]  # scalars that sizes depend on
        self.lines: list[str] = []

    def all_exprs(self) -> list[Expr]:
        p, s = self.program, self.sizes
        out = [*p.preconditions, *s.programs, *s.reach, *(e for _, e in p.specializations), *(e for v in p.abi.views for e in v.shape)]
        return out + [e for _, bs in s.offsets for e in bs]

    def text(self, e: Expr) -> str:
        return host(substitute(e, self.bound), self.names.integer)

    def id(self, v: ViewParam) -> str:
        return self.names.views[v.name]

    def add(self, *lines: str) -> None:
        self.lines += lines

    def source(self) -> str:
        dtypes = {s.dtype for s in self.program.abi.scalars}
        parts = [T.BASE]
        parts += [T.SPAN] * bool(self.pairs()) + [T.EMPTY] * bool(self.spaces)
        parts += [T.INTEGER] * bool(dtypes & LIMITS.keys()) + [T.NARROW] * bool(dtypes & set(NARROW)) + [T.BITS] * ("f64" in dtypes)
        self.plan()
        plan = "\n".join(self.lines)
        self.lines = []
        self.launch()
        return "\n\n\n".join([*(p.strip("\n") for p in parts), plan, "\n".join(self.lines)]) + "\n"

    # ---------------------------------------------------------------- everything that follows from shapes, strides and integer scalars
    def plan_arguments(self) -> str:
        return ", ".join([f"{self.id(v)}_{p}" for v in self.views for p in ("shape", "strides")] + self.keyed)

    def plan(self) -> None:
        abi = self.program.abi
        self.add(f"def _plan({self.plan_arguments()}):")
        self.shapes()
        for s in abi.symbols:
            self.symbol(s)
        for e in self.program.preconditions:
            self.add(f"    if not {self.text(e)}:")
            self.add(f'        raise ValueError("{abi.kernel}: precondition {self.text(e)} does not hold")')
        for v in self.views:
            if v.role != "in" and v.shape:
                self.add(f'    _written("{v.name}", {self.id(v)}_shape, {self.id(v)}_strides)')
        for v in self.spaces:
            self.add(f"    {self.id(v)}_shape = {_tuple([self.text(e) for e in v.shape])}")
            strides = [" * ".join(f"{self.id(v)}_shape[{j}]" for j in range(k + 1, len(v.shape))) or "1" for k in range(len(v.shape))]
            self.add(f"    {self.id(v)}_strides = {_tuple(strides)}")
        for g, e in zip(self.program.segments, self.sizes.programs, strict=True):
            self.add(f"    programs_{self.names.groups[g.group]} = {self.text(e)}")
        total = " + ".join(f"programs_{self.names.groups[g.group]}" for g in self.program.segments)
        self.add(f"    programs = {total or '0'}", "    if not programs:", "        return None")
        self.index_width()
        flags = ["programs > 2147483647", "tl.int32 if reach < 2147483648 else tl.int64"]
        even: dict[str, str] = {}
        for label, e in self.program.specializations:
            even.setdefault(self.names.flags[label], self.text(e))
        self.add(f"    flags = {_tuple([*flags, *even.values()])}")
        spaces = _tuple([f"{self.id(v)}_shape" for v in self.spaces])
        spans = [f"_span({self.id(v)}_shape, {self.id(v)}_strides, {itemsize(v.dtype)})" for v in self.spanned()]
        self.add(f"    return _Plan(_grid(programs), {_tuple(self.integers())}, flags, {spaces}, {_tuple(spans)})")

    def pairs(self) -> list[tuple[ViewParam, ViewParam]]:
        """Views that the caller keeps apart, where one of them is written."""
        out = []
        for group in self.program.abi.noalias:
            members = [v for v in self.views if v.name in group]
            out += [(v, w) for k, v in enumerate(members) for w in members[k + 1 :] if v.role != "in" or w.role != "in"]
        return list(dict.fromkeys(out))

    def spanned(self) -> list[ViewParam]:
        names = {v.name for pair in self.pairs() for v in pair}
        return [v for v in self.views if v.name in names]

    def shapes(self) -> None:
        """Symbols from the axes that are them, then every other axis against its expression."""
        known: set[str] = set()
        checks: list[str] = []
        for v in self.views:
            for k, e in enumerate(v.shape):
                here = f"{self.id(v)}_shape[{k}]"
                if e.op == "sym" and e.args[0] in self.names.symbols and e.args[0] not in known:
                    known.add(e.args[0])
                    self.add(f"    {self.names.symbols[e.args[0]]} = {here}")
                    continue
                message = f"axis {k} of {v.name} has extent {{{here}}}, expected {{{self.text(e)}}}"
                checks += [f"    if {here} != {self.text(e)}:", f'        raise ValueError(f"{{KERNEL}}: {message}")']
        self.add(*checks)

    def symbol(self, s: SymbolParam) -> None:
        n = self.names.symbols[s.name]
        tests = [f"{n} < {s.lo}"] * (s.lo > 0) + [f"{n} > {s.hi}"] * (s.hi is not None) + [f"{n} % {s.multiple_of}"] * (s.multiple_of > 1)
        if tests:
            what = f"at least {s.lo}" + f", at most {s.hi}" * (s.hi is not None) + f", a multiple of {s.multiple_of}" * (s.multiple_of > 1)
            self.add(f"    if {' or '.join(tests)}:", f'        raise ValueError(f"{{KERNEL}}: {s.name} is {{{n}}}, expected {what}")')

    def integers(self) -> list[str]:
        strides = [f"{self.id(v)}_strides[{k}]" for v in self.program.abi.views for k in range(len(v.shape))]
        return strides + [self.names.symbols[s] for s in self.names.kernel_symbols]

    def index_width(self) -> None:
        """The largest integer of the kernel's index arithmetic, padded lanes included."""
        self.add("    # the largest integer that index arithmetic meets, padded lanes included", "    reach = max(", "        programs,")
        ints = self.integers()
        if ints:
            self.add(f"        {', '.join(f'abs({i})' for i in ints)},")
        for e in self.sizes.reach:
            self.add(f"        {self.text(e)},")
        for name, bounds in self.sizes.offsets:
            if bounds:
                terms = [f"abs({self.names.views[name]}_strides[{k}]) * {self.text(b)}" for k, b in enumerate(bounds)]
                self.add(f"        {' + '.join(terms)},")
        self.add("        0,", "    )")

    # ---------------------------------------------------------------- launch
    def launch(self) -> None:
        abi, first = self.program.abi, self.views[0] if self.views else None
        scalars = list(self.names.scalars.values())
        self.add(f"def launch({', '.join([*map(self.id, self.views), *scalars])}):")
        self.add('    """Launch on the tensors\' device and current stream.', "")
        self.add("    Raises ValueError for arguments that the kernel was not made for.", '    """')
        for s in abi.scalars:
            self.scalar(s)
        for v in self.views:
            n = self.id(v)
            self.add(f"    {n}_p, {n}_shape, {n}_strides = {n}.data_ptr(), {n}.shape, {n}.stride()")
        key = [f'{n}.dtype, {n}_shape, {n}_strides, getattr({n}, "device", None)' for n in map(self.id, self.views)] + self.keyed
        self.add("    key = (", *(f"        {k}," for k in key), "    )")
        self.add("    plan = _PLANS.get(key, _PLANS)", "    if plan is _PLANS:")
        self.add(f'        device = getattr({self.id(first)}, "device", None)' if first else "        device = None")
        for v in self.views:
            self.add(f'        _check("{v.name}", {self.id(v)}, "{TENSOR[v.dtype]}", {len(v.shape)}, device)')
        self.add("        if len(_PLANS) >= 1024:", "            _PLANS.clear()")
        self.add(f"        plan = _plan({self.plan_arguments()})")
        self.add("        plan = _PLANS[key] = plan and plan.on(device)")
        self.add("    if plan is None:  # no program: nothing to do", "        return")
        spanned = self.spanned()
        if spanned:
            self.add(f"    {', '.join(f'({n}_a, {n}_z)' for n in map(self.id, spanned))} = plan.spans")
        for v, w in self.pairs():
            x, y = self.id(v), self.id(w)
            self.add(f"    if {x}_p + {x}_a < {y}_p + {y}_z and {y}_p + {y}_a < {x}_p + {x}_z:")
            self.add(f'        _overlap("{v.name}", "{w.name}")')
        for k, v in enumerate(self.spaces):
            n = self.id(v)
            self.add(f'    {n} = _empty({self.id(first) if first else None}, plan.spaces[{k}], "{TENSOR[v.dtype]}")')
            self.add(f"    {n}_p = {n}.data_ptr()")
        tensors, pointers = _tuple([self.id(v) for v in abi.views]), _tuple([f"{self.id(v)}_p" for v in abi.views])
        widths = [f"{self.names.scalars[s.name]}.bit_length() // 32" for s in abi.scalars if s.dtype in LIMITS or s.dtype == "f64"]
        aligned = [f"{self.id(v)}_p % 16 == 0" for v in abi.views]
        self.add(f"    plan.run({_tuple([*aligned, *widths])}, {tensors}, {pointers}, {_tuple(scalars)})")

    def scalar(self, s: ScalarParam) -> None:
        n = self.names.scalars[s.name]
        if s.dtype in LIMITS:
            low, high = LIMITS[s.dtype]
            self.add(f'    {n} = _integer("{s.name}", {n}, {low}, {high})')
        elif s.dtype == "bool":
            self.add(f"    {n} = int(bool({n}))")
        else:
            self.add(f"    {n} = {'_bits' if s.dtype == 'f64' else '_odd' if s.dtype in NARROW else 'float'}({n})")


def _tuple(xs: list[str]) -> str:
    return f"({', '.join(xs)}{',' if len(xs) == 1 else ''})"
