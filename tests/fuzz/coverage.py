"""Which operations of a kernel a program realises, and how: cells (operation, realised form).

An operation is named by its literal and function; a value of a program is traced to the KIR value that it came from by the program's
origins, and its form is read from the program: the realised term, how a loop that carries it runs (single elements, chunks), and which
unit computes it. Operations that leave no value of their own (movement, domains, records, control) have the form ``program``: they were
part of a program that was run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

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
            return [f"{name} {op.fn or 'generic'}", *([f"{name} {' '.join(marks)}"] if marks else [])]
        case ops.Cast():
            return [f"{name} to {op.dtype}"]
        case ops.SparseContract():
            return [f"{name} {op.pattern}"]
        case ops.ScaledContract():
            return [f"{name} {op.lhs_format} {op.rhs_format}"]
    return [name]


def operations(kernel: Kernel) -> set[str]:
    """Names of all operations of a kernel."""
    return {x for op in every(kernel) for x in labels(op)}


def cells(kernel: Kernel, program: Program) -> set[Cell]:
    """The cells that a program touches."""
    made: dict[str, list[str]] = {r: labels(op) for op in every(kernel) for r in op.results}
    stores = {x.removeprefix("scatter_reduce ") for x in operations(kernel)}
    out: set[Cell] = set()
    for at, form in forms(program):
        text = program.origins.get(at, "")
        id = text.split("%", 1)[1].split(" ", 1)[0] if "%" in text else ""
        out |= {(x, form) for x in made.get(id, ())}
    out |= {(f"into memory: {s}", f"Store {s}") for s in stored(program)}
    out |= {(x, "program") for x in operations(kernel)}
    del stores
    return out


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


def forms(program: Program) -> Iterator[tuple[str, str]]:
    """(key of `Program.origins`, form) of every value."""
    for n, s in enumerate(program.segments):
        for k, phase in enumerate(s.phases):
            for id, form in _forms(phase):
                yield f"{n}/{k}/{id}", form


def _forms(items: Sequence[Item]) -> Iterator[tuple[int, str]]:
    for i in items:
        if isinstance(i, Let):
            yield i.id, _let(i)
        elif isinstance(i, Loop):
            step = {"L1": "elements", "LC": "chunks"}.get(traversal(i.label), traversal(i.label))
            for c in i.carries:
                mode = " ".join(str(a) for a in c.attrs if a in ("tree", "lanes", "mma", "fma"))
                yield c.id, " ".join(x for x in (c.op, mode, step) if x)
            yield from _forms(i.body)


def _let(i: Let) -> str:
    if i.op in ("ConWhole", "ConAccWhole"):
        return f"{i.op} {i.attrs[0]}"
    return i.op
