"""What Triton cannot express, refused with the reason. A pure check of a program whose parameters are bound."""

from __future__ import annotations

from eqkir.base.diagnostics import Diagnostic, register
from eqkir.base.expr import atoms
from eqkir.program.abi import parameter, traversal
from eqkir.program.model import Carry, Item, Let, Loop, Program, Region, Store, order_labels
from eqkir.program.ops import UNARY

UNBOUND = register("EQK-TRI-UNBOUND", "parameter without a value", "Emission needs a value for every physical parameter of the program.")
LANES = register(
    "EQK-TRI-LANES", "lanes are not a power of two",
    "Triton fragments have power-of-two extents. Choose a row whose parameters are powers of two.",
)  # fmt: skip
FRAGMENT = register("EQK-TRI-FRAGMENT", "fragment too large", "A Triton fragment holds at most 2**20 elements. Choose smaller parameters.")
DOT_SHAPE = register(
    "EQK-TRI-DOT-SHAPE", "matrix product with unsuitable axes",
    "tl.dot takes one left, one right and one contracted axis of at least 16 lanes (32 contracted lanes for 8-bit integers), and at most "
    "one batch axis. Use the multiply-and-reduce realisation, or block the axes differently.",
)  # fmt: skip
DOT_DTYPE = register(
    "EQK-TRI-DOT-DTYPE", "matrix product of unsupported dtypes",
    "tl.dot takes f16, bf16, f32 and 8-bit float operands with an f32 accumulator, and i8 operands with an i32 accumulator. Use the "
    "multiply-and-reduce realisation.",
)  # fmt: skip
DTYPE = register("EQK-TRI-DTYPE", "operation on an unsupported dtype", "The operation has no form on this dtype in Triton.")
OPTION = register("EQK-TRI-OPTION", "launch option out of range", "num_warps is a power of two up to 32, num_stages lies between 1 and 8.")
SYMBOL = register(
    "EQK-TRI-SYMBOL", "symbol without a source", "An extent symbol must be the extent of some view's axis: launch derives it from there."
)

OPERATION = register(
    "EQK-TRI-OPERATION", "construct without a Triton form", "The provider does not write this construct of physical programs."
)

ATOMIC = register(
    "EQK-TRI-ATOMIC", "atomic operation without a Triton form",
    "tl.atomic_* combine, load, store and exchange 32- and 64-bit integers; f16, bf16, f32 and f64 are added, f32 and f64 exchanged and "
    "stored. tl.atomic_cas takes 32- and 64-bit integers. A float maximum or minimum compares bits and can lose a NaN; an atomic load is "
    "an addition of zero, which would change the bits of a float.",
)  # fmt: skip
REGION = register(
    "EQK-TRI-REGION", "combine function that reads launch values",
    "A combine function of tl.reduce and tl.associative_scan reads its operands only: index expressions over symbols have no place in it.",
)  # fmt: skip

NUMEL = 1 << 20
LETS = frozenset(
    "Const Scalar Index Un Bin Tri Cast Bitcast Pick Load RedTree RedNTree Scan ScanN Last ConWhole ConAccWhole "
    "Active LoadM FragRed FragRedN FragScan FragScanN Dot Splat Trans".split()
)
CARRIES = frozenset("RedLoop RedNLoop ConLoop ConAccLoop Phi".split())
TRAVERSALS = frozenset("O1 OB L1 LC W S1 SC SW M1 MC MW".split())
DOTS = {
    ("f16", "f16", "f32"): 16, ("bf16", "bf16", "f32"): 16, ("f32", "f32", "f32"): 16, ("f8e4m3fn", "f8e4m3fn", "f32"): 32,
    ("f8e5m2", "f8e5m2", "f32"): 32, ("i8", "i8", "i32"): 32,
}  # fmt: skip


WORDS = frozenset("i32 i64 u32 u64 index".split())
#: mode of an atomic store -> dtypes
ATOMICS = {
    "add": WORDS | {"f16", "bf16", "f32", "f64"}, **dict.fromkeys(("exchange", "put"), WORDS | {"f32", "f64"}),
    **dict.fromkeys(("max", "min", "and", "or", "xor", "get", "compare_exchange"), WORDS),
}  # fmt: skip


def check(program: Program) -> list[Diagnostic]:
    """Every reason why the program has no Triton form; empty when it has one."""
    return _Check(program).run()


class _Check:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.out: dict[tuple[str, str], Diagnostic] = {}
        self.defs: dict[int, Let | Carry] = {}

    def say(self, code: str, message: str, where: str, accepted: str = "") -> None:
        self.out.setdefault((code, message), Diagnostic(code, message, where, accepted=accepted, stage="legality"))

    def run(self) -> list[Diagnostic]:
        p = self.program
        warps, stages = p.options.get("num_warps", 4), p.options.get("num_stages", 1)
        if warps not in (1, 2, 4, 8, 16, 32):
            self.say(OPTION, f"num_warps is {warps}", "/options/num_warps", "1, 2, 4, 8, 16 or 32")
        if not 1 <= stages <= 8:
            self.say(OPTION, f"num_stages is {stages}", "/options/num_stages", "1 to 8")
        given = {e.args[0] for v in p.abi.views if v.role != "workspace" for e in v.shape if e.op == "sym"}
        for x in p.abi.symbols:
            if x.name not in given:
                self.say(SYMBOL, f"{x.name} is no view's extent", "/abi/symbols")
        for n, s in enumerate(p.segments):
            for kind in [f"P:{s.group}"] * (s.mode == "stride") + [f"G:{s.group}"] * ("TSwz" in str(s.order)):
                if kind not in p.bindings:
                    self.say(UNBOUND, f"{kind} has no value", f"/segments/{n}")
            self.fragment(order_labels(s.order), f"/segments/{n}/order", labels_only=True)
            for k, ph in enumerate(s.phases):
                self.defs = {}
                self.block(ph, f"/segments/{n}/phases/{k}")
        return list(self.out.values())

    def fragment(self, dims: tuple[str, ...], where: str, labels_only: bool = False) -> None:
        numel = 1
        for d in dict.fromkeys(dims):
            self.known(traversal(d), TRAVERSALS, where)
            p = parameter(d)
            if p is None:
                continue
            if p not in self.program.bindings:
                self.say(UNBOUND, f"{p} has no value", where)
                continue
            n = self.program.bindings[p]
            if n < 1 or n & (n - 1):
                self.say(LANES, f"{p} is {n}", where, "a power of two")
            numel *= max(n, 1)
        if numel > NUMEL and not labels_only:
            self.say(FRAGMENT, f"a fragment over {', '.join(dims)} has {numel} elements", where, f"at most {NUMEL}")

    def known(self, name: str, names: frozenset[str], where: str) -> None:
        if name not in names:
            self.say(OPERATION, name, where, ", ".join(sorted(names)))

    def block(self, items: tuple[Item, ...], where: str) -> None:
        for n, i in enumerate(items):
            here = f"{where}/{n}"
            match i:
                case Let():
                    self.defs[i.id] = i
                    self.known(i.op, LETS, here)
                    self.fragment(i.dims, here)
                    self.operation(i, here)
                case Store():
                    self.fragment(i.dims, here)
                    if i.atomic and self.dtype(i.value) not in ATOMICS.get(i.mode, ()):
                        self.say(ATOMIC, f"{i.mode} of {self.dtype(i.value)}", here, " ".join(sorted(ATOMICS.get(i.mode, ()))))
                case Loop():
                    self.fragment((i.label,), here)
                    for c in i.carries:
                        if c.op == "Phi":
                            self.defs[c.id] = c
                    self.block(i.body, f"{here}/body")
                    for k, c in enumerate(i.carries):
                        self.defs[c.id] = c
                        self.known(c.op, CARRIES, f"{here}/carries/{k}")
                        self.carry(c, i.label, f"{here}/carries/{k}")

    def operation(self, x: Let, where: str) -> None:
        if x.op == "Un" and x.attrs[0] in UNARY:
            dtype = self.dtype(x.args[0])
            if x.attrs[0] in ("i0", "lgamma", "erfc") and dtype in ("bool",):
                self.say(DTYPE, f"{x.attrs[0]} on {dtype}", where)
        for r in x.attrs:
            if isinstance(r, Region):
                self.region(r, where)
        if x.op in ("ConWhole", "ConAccWhole"):
            self.contraction(x, x.attrs[0], x.attrs[1], where)
        if x.op in ("RedTree", "RedNTree"):
            for a in x.args[-1:]:
                self.fragment((*self.dims(a), x.attrs[1] if x.op == "RedTree" else x.attrs[0]), where)

    def region(self, r: Region, where: str) -> None:
        for x in r.body:
            if x.op == "Index" and any(a.op != "dep" for a in atoms(x.attrs[0])):
                self.say(REGION, str(x.attrs[0]), where)

    def carry(self, c: Carry, label: str, where: str) -> None:
        for r in c.attrs:
            if isinstance(r, Region):
                self.region(r, where)
        lanes = c.op in ("RedLoop", "RedNLoop") and "lanes" in c.attrs
        self.fragment((*c.dims, label) if lanes else c.dims, where)
        if c.op in ("ConLoop", "ConAccLoop"):
            self.contraction(c, c.attrs[0], label, where)

    def dims(self, i: int) -> tuple[str, ...]:
        return self.defs[i].dims if i in self.defs else ()

    def dtype(self, i: int) -> str:
        return self.defs[i].dtype if i in self.defs else ""

    def contraction(self, x: Let | Carry, impl: str, label: str, where: str) -> None:
        da, db = ({d for d in self.dims(a) if parameter(d)} for a in x.args[:2])
        if impl == "fma":
            self.fragment((*sorted(da | db), label), where)
            return
        ta, tb = (self.dtype(a) for a in x.args[:2])
        least = DOTS.get((ta, tb, x.dtype))
        if least is None:
            self.say(DOT_DTYPE, f"{ta} by {tb} into {x.dtype}", where, ", ".join(f"{a}·{b}→{c}" for a, b, c in DOTS))
            return
        batch, m, n = (da & db) - {label}, da - db - {label}, db - da - {label}
        if parameter(label) is None or len(m) != 1 or len(n) != 1 or len(batch) > 1:
            axes = f"left {_list(m)}, right {_list(n)}, contracted {label}, batch {_list(batch)}"
            self.say(DOT_SHAPE, axes, where, "one left, one right, at most one batch axis")
            return
        got = tuple(self.program.bindings.get(parameter(d) or "", 1) for d in (*m, *n, label))
        if got[0] < 16 or got[1] < 16 or got[2] < least:
            self.say(DOT_SHAPE, f"{got[0]}×{got[1]}×{got[2]} lanes", where, f"at least 16×16×{least}")


def _list(s: set[str]) -> str:
    return " ".join(sorted(s)) or "none"
