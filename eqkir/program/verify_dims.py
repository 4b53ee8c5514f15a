"""Dimensions and dtypes of every value."""

from __future__ import annotations

from eqkir.base.dtypes import FLOATS, INTS, NUMPY, bits, literal, parse
from eqkir.base.expr import PREDICATES, Expr, atoms
from eqkir.program.abi import axis_of, parameter, slice_axis, traversal
from eqkir.program.model import Carry, Let, Loop, Region, Store
from eqkir.program.ops import COMBINING, COMPARE, UNARY
from eqkir.program.verify_labels import label_of
from eqkir.program.verify_scope import Phase, Report, lane_labels
from eqkir.program.verify_structure import region_of

ARITHMETIC = FLOATS - {"f8e4m3fn", "f8e5m2"}  # the 8-bit floats are storage and operands of contractions
NUMBERS = INTS | ARITHMETIC
BITS = INTS | {"bool"}
SAME = {"neg": NUMBERS, "abs": NUMBERS, "not": BITS, **dict.fromkeys(("exp2_fast", "tanh_fast"), frozenset({"f32"}))}
BINARY = {
    **dict.fromkeys(("add", "sub", "mul", "maximum", "minimum", "maximum_num", "minimum_num"), NUMBERS), "div": ARITHMETIC,
    "div_fast": frozenset({"f32"}),
    **dict.fromkeys(("floordiv", "mod", "shl", "shr"), INTS), **dict.fromkeys(("and", "or", "xor"), BITS),
    **dict.fromkeys(COMPARE, NUMBERS | {"bool"}),
}  # fmt: skip
REDUCED = {**dict.fromkeys(("any", "all"), frozenset({"bool"})), **dict.fromkeys(("sum", "prod", "max", "min"), NUMBERS)}


class Dims:
    """The rule of dimensions: the union of the operands' and of the coordinates read; a structured operation removes its label.

    Labels without lanes may come on top: of loops whose state a value reads, and all of them in the legal stage.
    """

    def __init__(self, phase: Phase, say: Report) -> None:
        self.phase, self.say, self.defs = phase, say, phase.defs
        self.legal = phase.program.stage == "legal"
        self.states: set[str] = set()  # labels of the loops around that carry states

    def slack(self, got: set[str]) -> set[str]:
        """Labels without lanes that a value may name besides: of loops whose state it may read; any in the legal stage."""
        return {d for d in got if parameter(d) is None and (self.legal or d in self.states)}

    def of(self, ids: tuple[int, ...]) -> set[str]:
        return {d for i in ids for d in self.defs[i].dims}

    def same(self, have: tuple[str, ...], want: set[str], what: str, at: str) -> None:
        got = set(have)
        one = {d for d in want if traversal(d) == "SW"}  # the one slice that is the whole axis
        if not (got >= want - one and got - want <= self.slack(got)):
            self.say(f"{what} has dimensions {' '.join(sorted(got)) or 'none'} instead of {' '.join(sorted(want)) or 'none'}", at)

    def within(self, ids: tuple[int, ...], dims: tuple[str, ...], what: str, at: str) -> None:
        extra = {d for d in self.of(ids) - set(dims) if traversal(d) != "SW"}  # one slice that is the whole axis: its summary is the result
        if self.legal:  # what a label without lanes binds is the operand itself
            extra = {d for d in extra if traversal(d) not in ("S1", "SC", "M1")}
        for d in sorted(extra):
            self.say(f"an operand of {what} has the dimension {d} besides", at)

    def read(self, exprs: tuple[Expr, ...], dims: tuple[str, ...], what: str, at: str) -> set[str]:
        by_axis = {axis_of(d): d for d in dims}
        found = {a.args[0] for e in exprs for a in atoms(e) if a.op == "coord"}
        axes = sorted(found | {slice_axis(a) for a in found})  # a member depends on its slice
        for a in axes:
            if a not in by_axis:
                self.say(f"{what} reads the coordinate of {a} without that dimension", at)
        return {by_axis[a] for a in axes if a in by_axis}

    def let(self, i: Let, at: str) -> None:
        label = label_of(i)
        match i.op:
            case "Const" | "Scalar":
                self.same(i.dims, set(), i.op, at)
            case "Index":
                self.same(i.dims, self.of(i.args) | self.read((i.attrs[0],), i.dims, i.op, at), i.op, at)
            case "Load" | "LoadM":
                steps = {f"{a}:L1" for a in self.inner(i)}
                if i.op == "LoadM" and i.attrs[3] == "wide":  # lanes that hold copies load them, too
                    steps |= set(i.dims)
                self.same(i.dims, self.of(i.args) | self.read(i.attrs[2], i.dims, i.op, at) | steps, i.op, at)
            case "Active":
                self.same(i.dims, {label}, i.op, at)
            case "Splat":
                self.within(i.args, i.dims, i.op, at)
            case "Dot":
                self.dot(i, label, at)
            case "Scan" | "ScanN" | "FragScan" | "FragScanN":
                if label not in i.dims:
                    self.say(f"no operand of {i.op} has the dimension {label}", at)
                self.same(i.dims, self.of(i.args), i.op, at)
            case "RedTree" | "FragRed" | "FragRedN" | "ConWhole" | "Last":
                self.bound(i, i.args, (), label, at)
            case "RedNTree":
                n = len(i.args) // 2
                self.bound(i, i.args[n:], i.args[:n], label, at)
            case "ConAccWhole":
                self.bound(i, i.args[:2], i.args[2:], label, at)
            case _:
                self.same(i.dims, self.of(i.args), i.op, at)

    def inner(self, i: Let) -> tuple[str, ...]:
        program = self.phase.program
        return program.inner.get((program.abi.view(i.attrs[0]).alias, i.attrs[1]), ())

    def bound(self, i: Let | Carry, main: tuple[int, ...], inits: tuple[int, ...], label: str, at: str) -> None:
        if label not in self.of(main):
            self.say(f"no operand of {i.op} has the dimension {label}", at)
        if i.op.startswith("Con") and i.attrs[:1] == ("mma",):
            self.matrix(i, main, label, at)
        self.same(i.dims, self.of(main) - {label}, i.op, at)
        self.within(inits, i.dims, i.op, at)

    def matrix(self, i: Let | Carry, main: tuple[int, ...], label: str, at: str) -> None:
        """The matrix unit takes fragments: lanes along the axis that is reduced, and along one of its own in either operand."""
        a, b = (set(lane_labels(self.defs[x].dims)) for x in main)
        if label not in a & b or not a - b or not b - a:
            self.say(f"{i.op} on the matrix unit over {label} of {' '.join(sorted(a)) or '-'} and {' '.join(sorted(b)) or '-'}", at)

    def dot(self, i: Let, label: str, at: str) -> None:
        a, b, acc = (lane_labels(self.defs[x].dims) for x in i.args)
        batch = a[:-2]
        shaped = len(a) >= 2 and len(b) == len(a) and a[-1] == label and b[:-1] == (*batch, label) and acc == (*batch, a[-2], b[-1])
        if not shaped or len({*a, *b}) != len(batch) + 3:
            self.say(f"Dot over {label} of {' '.join(a)} and {' '.join(b)} into {' '.join(acc)}", at)
        elif lane_labels(i.dims) != acc:
            self.say(f"Dot has dimensions {' '.join(i.dims)}", at)


def check_dims(phase: Phase, say: Report) -> None:
    """Dimensions of every value, carry and store."""
    d = Dims(phase, say)
    for at in phase.places:
        i = at.item
        d.states = {x.label for x in at.loops if any(c.op == "Phi" for c in x.carries)}
        match i:
            case Store():
                d.read((*i.ixs, *i.at), i.dims, "a store", at.pointer)
                d.within((i.value, i.valid, *i.deps), i.dims, "a store", at.pointer)
            case Loop():
                for c in i.carries:
                    if i.cond >= 0:
                        d.within((i.cond,), (*c.dims, i.label), "the carry of a while loop: its condition", at.pointer)
                    if c.op == "Phi":
                        point = () if parameter(i.label) else (i.label,)  # a scalar label has no lanes to carry
                        d.within(c.args, (*c.dims, *point), "Phi", at.pointer)
                        d.within(c.inits, c.dims, "Phi", at.pointer)
                    else:
                        d.bound(c, c.args, c.inits, i.label, at.pointer)
            case Let():
                d.let(i, at.pointer)


# ------------------------------------------------------------------------------------------------ dtypes
def check_types(phase: Phase, say: Report) -> None:
    """Every operation is defined on its operands' dtypes and gives the dtype that it says."""
    views = {v.name: v.dtype for v in phase.program.abi.views}
    scalars = {s.name: s.dtype for s in phase.program.abi.scalars}
    t = {i: x.dtype for i, x in phase.defs.items()}

    def integers(ids: tuple[int, ...], at: str) -> None:
        for i in ids:
            if t[i] not in BITS:
                say(f"an index expression reads %{i} of dtype {t[i]}", at)

    for at in phase.places:
        i = at.item
        if isinstance(i, Store):
            integers(i.places, at.pointer)
            if i.mode in COMBINING and t[i.value] not in (BITS if i.mode in ("and", "or", "xor") else NUMBERS):
                say(f"an atomic {i.mode} of {t[i.value]}", at.pointer)
            if i.expected >= 0 and t[i.expected] != t[i.value]:
                say(f"{i.mode} of {t[i.value]} expects {t[i.expected]}", at.pointer)
            if i.into and (t[i.live] != "bool" or views[i.into] != t[i.value]):
                say(f"the old value of {t[i.value]} is kept in {i.into} of dtype {views[i.into]} where {t[i.live]}", at.pointer)
            if t[i.value] != views[i.view] or t[i.valid] != "bool":
                say(f"a store of {t[i.value]} where {t[i.valid]} to {i.view} of dtype {views[i.view]}", at.pointer)
        elif isinstance(i, Loop):
            if i.cond >= 0 and t[i.cond] != "bool":
                say(f"a condition of dtype {t[i.cond]}", at.pointer)
            for c in i.carries:
                wrong = carry_fault(c, t)
                if wrong:
                    say(f"{c.op}: {wrong}", at.pointer)
        elif isinstance(i, Let):
            if i.op in ("Load", "LoadM"):
                integers(i.args[2:], at.pointer)
                if i.dtype != views[i.attrs[0]] or t[i.args[0]] != "bool" or t[i.args[1]] != i.dtype:
                    say(f"a load of {i.attrs[0]} of dtype {views[i.attrs[0]]} as {i.dtype}", at.pointer)
                continue
            if i.op == "Scalar":
                wrong = "" if i.dtype == scalars[i.attrs[0]] else f"scalar {i.attrs[0]} has dtype {scalars[i.attrs[0]]}"
            elif i.op == "Pick":
                r = region_of(phase.defs[i.args[0]])
                ok = r is not None and 0 <= i.attrs[0] < len(r.dtypes) and r.dtypes[i.attrs[0]] == i.dtype
                wrong = "" if ok else f"component {i.attrs[0]} of dtype {i.dtype}"
            else:
                wrong = let_fault(i, [t[a] for a in i.args])
            r = region_of(i)
            wrong = wrong or (region_fault(r) if r is not None else "")
            if wrong:
                say(f"{i.op}: {wrong}", at.pointer)


def region_fault(r: Region) -> str:
    """The first ill-typed let of a combine region, or an empty text."""
    t: dict[int, str] = {}
    for x in r.body:
        wrong = "" if x.op == "Arg" else let_fault(x, [t[a] for a in x.args])
        if wrong:
            return f"in the combine region, {x.op}: {wrong}"
        t[x.id] = x.dtype
    return ""


def let_fault(x: Let, args: list[str]) -> str:
    """What is wrong with the dtypes of a let, or an empty text."""
    shown = f"{' '.join(args)} -> {x.dtype}"
    match x.op:
        case "Const":
            try:
                text = literal(parse(x.attrs[0], x.dtype), x.dtype)
            except (ValueError, KeyError, OverflowError):
                text = ""
            return "" if text == x.attrs[0] else f"{x.attrs[0]!r} is no canonical {x.dtype}"
        case "Index":
            if any(a not in BITS for a in args):
                return f"operands {' '.join(args)}"
            return "" if x.dtype == ("bool" if predicate(x.attrs[0]) else "index") or _both(x) else f"{x.attrs[0]} as {x.dtype}"
        case "Un":
            fn = x.attrs[0]
            want = SAME.get(fn, ARITHMETIC if fn in UNARY else frozenset())
            result = "bool" if fn in ("isnan", "isinf", "isfinite") else args[0]
            return "" if args[0] in want and x.dtype == result else f"{fn} {shown}"
        case "Bin":
            fn = x.attrs[0]
            result = "bool" if fn in COMPARE else args[0]
            return "" if args[0] == args[1] and args[0] in BINARY.get(fn, ()) and x.dtype == result else f"{fn} {shown}"
        case "Tri" if x.attrs[0] == "select":
            return "" if args[0] == "bool" and args[1] == args[2] == x.dtype != "tuple" else f"select {shown}"
        case "Tri":
            return "" if x.attrs[0] == "fma" and args[0] in ARITHMETIC and set(args) == {x.dtype} else f"{x.attrs[0]} {shown}"
        case "Supply":
            return "" if args[0] == x.dtype != "tuple" and x.attrs[1] in x.dims else shown
        case "Cast":
            return "" if x.attrs[0] == x.dtype != "tuple" and args[0] in NUMPY else shown
        case "Bitcast":
            fits = x.attrs[0] == x.dtype and "bool" not in (x.dtype, args[0]) and {x.dtype, args[0]} <= set(NUMPY)
            return "" if fits and bits(x.dtype) == bits(args[0]) else shown
        case "RedTree" | "FragRed" | "Scan" | "FragScan":
            return "" if args[0] == x.dtype and x.dtype in REDUCED[x.attrs[0]] else f"{x.attrs[0]} {shown}"
        case "RedNTree" | "FragRedN" | "ScanN" | "FragScanN":
            r = region_of(x)
            parts = list(r.dtypes) * (2 if x.op == "RedNTree" else 1) if r else []
            return "" if args == parts and x.dtype == "tuple" else shown
        case "ConWhole" | "ConAccWhole" | "Dot":
            return contraction_fault(args, x.dtype)
        case "Active":
            return "" if x.dtype == "bool" else shown
        case "Splat" | "Trans" | "Last":
            return "" if args[0] == x.dtype != "tuple" else shown
    return ""


def _both(x: Let) -> bool:
    """0 and 1 are predicates as well as integers."""
    return x.attrs[0].op == "int" and x.dtype in ("bool", "index") and (x.dtype == "index" or x.attrs[0].value in (0, 1))


def predicate(e: Expr) -> bool:
    """Whether the value is 0 or 1 by construction."""
    return e.op in PREDICATES or (e.op == "select" and all(predicate(a) or a.value in (0, 1) for a in e.args[1:]))


def contraction_fault(args: list[str], acc: str) -> str:
    """Operands of one dtype; floats accumulate in a float, integers in an integer that is not narrower."""
    a, b = args[:2]
    kinds = (a in FLOATS and acc in ARITHMETIC) or (a in INTS and acc in INTS)
    return "" if a == b and kinds and bits(acc) >= bits(a) and all(x == acc for x in args[2:]) else f"{' '.join(args)} -> {acc}"


def carry_fault(c: Carry, t: dict[int, str]) -> str:
    """What is wrong with the dtypes of a carry, or an empty text."""
    args, inits = [t[a] for a in c.args], [t[a] for a in c.inits]
    shown = f"{' '.join((*inits, *args))} -> {c.dtype}"
    match c.op:
        case "RedLoop":
            return "" if args[0] == c.dtype and c.dtype in REDUCED[c.attrs[0]] else f"{c.attrs[0]} {shown}"
        case "RedNLoop":
            r = region_of(c)
            ok = r is not None and args == inits == list(r.dtypes) and c.dtype == "tuple"
            return (region_fault(r) if r is not None else "") if ok else shown
        case "ConLoop" | "ConAccLoop":
            return contraction_fault([*args, *inits], c.dtype)
    return "" if args == inits == [c.dtype] else shown
