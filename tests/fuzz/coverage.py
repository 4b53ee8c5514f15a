"""Which operations of a kernel a program realises, and how: cells (operation, realised form).

An operation is named by its literal and function; a value of a program is traced to the KIR value that it came from by the program's
origins, and its form is read from the program: the realised term, how a loop that carries it runs (single elements, chunks), and which
unit computes it. Operations that leave no value of their own (movement, domains, records, control) have the form ``program``: they were
part of a program that was run.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Sequence

from eqkir.kir import ops
from eqkir.kir.model import Kernel, Op
from eqkir.kir.scopes import regions_of
from eqkir.program.abi import traversal
from eqkir.program.model import Item, Let, Loop, Program, Store

Cell = tuple[str, str]


def every(kernel: Kernel) -> Iterator[Op]:
    """All operations, those of regions too."""
    yield from kernel.body
    for r in regions_of(kernel.body):
        yield from r.body


def labels(op: Op) -> list[str]:
    """The names under which an operation is counted."""
    name = op.op
    match op:
        case ops.Unary() | ops.Binary():
            marks = [f"{name} {op.fn} {m}" for m in ("approximate", "flush_to_zero") if getattr(op, m)]
            return [f"{name} {op.fn}", *marks]
        case ops.Compare() | ops.ArgReduce() | ops.ScatterReduce():
            return [f"{name} {op.fn}"]
        case ops.Reduce():
            return [f"{name} {op.fn or 'generic'}"]
        case ops.Scan():
            marks = ["exclusive"] * op.exclusive + ["reverse"] * op.reverse
            return [f"{name} {op.fn or 'generic'}", *([f"{' '.join(marks)} {name}"] if marks else [])]
        case ops.Cast():
            return [f"{name} to {op.dtype}"]
        case ops.SparseContract():
            return [f"{name} {op.pattern}"]
        case ops.ScaledContract():
            return [name, f"{op.lhs_format} by {op.rhs_format} {name}"]
    return [name]


def operations(kernel: Kernel) -> set[str]:
    """Names of all operations of a kernel."""
    return {x for op in every(kernel) for x in labels(op)}


REDUCED = ("RedTree", "RedLoop tree elements", "RedLoop tree chunks", "RedLoop lanes chunks")
COMBINED = tuple(f.replace("Red", "RedN") for f in REDUCED)
CARRIED = ("Phi elements", "Phi chunks")
CONTRACTED = ("ConWhole fma", "ConWhole mma", "ConLoop fma elements", "ConLoop fma chunks", "ConLoop mma chunks")
#: structured operations: the realised forms that compute them
FAMILY: dict[str, tuple[str, ...]] = {
    "reduce": REDUCED,
    "reduce generic": COMBINED,
    "arg_reduce": COMBINED,
    "scan": ("Scan whole", "Scan chunks", "Scan members", *CARRIED),
    "scan generic": ("ScanN whole", "ScanN chunks", *CARRIED),
    "contract": (*CONTRACTED, *(f.replace("Con", "ConAcc") for f in CONTRACTED), *REDUCED),
    "sparse_contract": CONTRACTED,
    "scaled_contract": (*CONTRACTED, *REDUCED),
    "histogram": REDUCED,
    "region_fold": ("Phi elements", "Phi slices"),
    "region_scan": ("Phi elements", "Phi slices"),
    "for": ("Phi elements",),
    "while": ("Phi elements",),
    "quantized_dot": ("Phi elements",),
    "quantize": REDUCED,
}
#: forms that rewriting may give to other operations, besides: they are not counted for them
REWRITTEN = dict.fromkeys(
    ("reduce sum", "histogram", "quantize", "quantized_dot"), (*CONTRACTED, *(f.replace("Con", "ConAcc") for f in CONTRACTED), *REDUCED)
)
#: functions of scans, as their realised terms name them
SCANNED = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}
SCATTER_MODES = ("add", "mul", "max", "min", "and", "or", "xor")
MODES = {f"atomic_{fn}": fn for fn in ("add", "max", "min", "and", "or", "xor")} | {
    "store": "store", "unique_scatter": "unique", "atomic_store": "put", "atomic_load": "get", "atomic_exchange": "exchange",
    "atomic_compare_exchange": "compare_exchange",
}  # fmt: skip
POINTWISE = {
    "unary": "Un", "binary": "Bin", "compare": "Bin", "select": "Tri", "fma": "Tri", "cast": "Cast", "bitcast": "Bitcast", "load": "Load",
    "gather": "Tri", "constant": "Const", "indices": "Index", "extent": "Index",
}  # fmt: skip


def agrees(label: str, fn: str) -> bool:
    """Whether a reduction or scan has the function of a realised term (an empty text where the term does not tell)."""
    mine = label.split(" ", 1)[1] if label.startswith(("reduce ", "scan ")) else ""
    return not fn or SCANNED.get(mine, mine) in ("", fn)


def family(label: str) -> tuple[str, ...]:
    """Realised terms of a structured operation."""
    return FAMILY.get(label) or FAMILY.get(label.split(" ", 1)[0], ())


def cells(kernel: Kernel, program: Program) -> set[Cell]:
    """The cells that a program touches. A form whose origin is lost counts where operations of one kind alone can have made it."""
    made: dict[str, list[str]] = {r: labels(op) for op in every(kernel) for r in op.results}
    names = operations(kernel)
    out: set[Cell] = {(x, "program") for x in names}
    for at, form, fn in forms(program):
        text = program.origins.get(at, "")
        mine = made.get(text.split("%", 1)[1].split(" ", 1)[0] if "%" in text else "", [])
        if not any(family(x) or form == POINTWISE.get(x.split(" ", 1)[0]) for x in mine):
            able = {x.split(" ", 1)[0] for x in names if form in (*family(x), *REWRITTEN.get(x, ())) and agrees(x, fn)}
            mine = sorted(x for x in names if form in family(x) and agrees(x, fn)) if len(able) == 1 else []
        out |= {(x, form) for x in mine if form == POINTWISE.get(x.split(" ", 1)[0]) or form in family(x) and agrees(x, fn)}
    modes = stored(program)
    for x in names:
        mode = x.split(" ")[1] if x.startswith("scatter_reduce") else MODES.get(x)
        if mode in modes:
            out.add((x, f"Store {mode}"))
    return out


#: parts of the names of forms that random structures seldom hold -> how much a drawn candidate is worth that does
SELDOM = {
    "mma": 8, "Acc": 8, "AccLoop fma": 8, "slices": 8, "whole": 4, "tree chunks": 4, "lanes": 4, "Tree": 3, "ConWhole": 4, "Loop mma": 6,
    "Phi chunks": 3,
}  # fmt: skip


def worth(cells: Iterable[Cell], known: Collection[Cell], seed: int) -> float:
    """What a candidate that holds `cells` adds to those that are known: seldom forms count more, each by the seed's own taste."""
    new = sorted(f for x, f in cells if (x, f) not in known and f in family(x))
    return sum(random.Random(f"{seed}/{f}").random() * (2 + sum(w for part, w in SELDOM.items() if part in f)) for f in new)


def stored(program: Program) -> set[str]:
    """Modes of the stores."""
    found: set[str] = set()

    def visit(items: Sequence[Item]) -> None:
        for i in items:
            if isinstance(i, Store):
                found.add(i.mode)
            elif isinstance(i, Loop):
                visit(i.body)

    for s in program.segments:
        for p in s.phases:
            visit(p)
    return found


def forms(program: Program) -> Iterator[tuple[str, str, str]]:
    """(key of `Program.origins`, form, function) of every value."""
    for n, s in enumerate(program.segments):
        for k, phase in enumerate(s.phases):
            for id, form, fn in _forms(phase):
                yield f"{n}/{k}/{id}", form, fn


STEP = {
    "L1": "elements", "LC": "chunks", "W": "whole", "S1": "elements", "SC": "slices", "SW": "one slice", "O1": "instances", "OB": "blocks",
    "M1": "members", "MC": "chunks of members", "MW": "whole slice",
}  # fmt: skip


def _forms(items: Sequence[Item]) -> Iterator[tuple[int, str, str]]:
    for i in items:
        if isinstance(i, Let):
            yield i.id, _let(i), str(i.attrs[0]) if i.op in ("RedTree", "Scan") else ""
        elif isinstance(i, Loop):
            step = STEP.get(traversal(i.label), traversal(i.label))
            for c in i.carries:
                mode = " ".join(str(a) for a in c.attrs if a in ("tree", "lanes", "mma", "fma"))
                yield c.id, " ".join(x for x in (c.op, mode, step) if x), str(c.attrs[0]) if c.op == "RedLoop" else ""
            yield from _forms(i.body)


def _let(i: Let) -> str:
    if i.op in ("ConWhole", "ConAccWhole"):
        return f"{i.op} {i.attrs[0]}"
    if i.op in ("Scan", "ScanN"):
        label = str(i.attrs[1] if i.op == "Scan" else i.attrs[0])
        return f"{i.op} {STEP.get(traversal(label), traversal(label))}"
    return i.op
