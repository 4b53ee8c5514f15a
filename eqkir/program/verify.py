"""The static verifier of programs, structured and legal. It is pure: it changes nothing and repairs nothing.

Structural checks run in order, each only when those before found nothing, since it relies on them; then all checks of memory run. What
cannot be proved for all values of symbols, scalars and data is rejected.

==============  ===================================================================================================================
group           checks
==============  ===================================================================================================================
interface       ``INTERFACE`` names, roles, ranges; ``LAUNCH`` extents and predicates are launch-visible; ``BINDING`` parameters bound
form            ``STAGE`` operations of the stage; ``SCOPE`` single assignment and scoping; ``NAME`` views, scalars, symbols exist
operations      ``STRUCTURED`` attributes, operands, inits, closed regions; ``LABEL`` labels in scope, one traversal an axis
values          ``TYPE`` dtypes; ``DIMS`` dimensions are the union of the operands', minus the bound label
memory          ``COVER`` stores traverse their axes; ``WHOLE`` fragments cover extents; ``OWNER`` one owner an element; ``BOUNDS``;
                ``EFFECT`` each version made once; ``CROSS`` independent instances; ``VERSION`` order of loads and stores; ``PHASE`` what a
                load sees; ``BUFFER`` written before read; ``NARROW`` what bounds of loops exclude is neutral; ``MASK``, ``PADDING``,
                ``BARRIER`` (legal stage)
==============  ===================================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from eqkir.base.diagnostics import Diagnostic, register
from eqkir.base.expr import Sym
from eqkir.program import verify_dims as dims
from eqkir.program import verify_labels as labels
from eqkir.program import verify_memory as memory
from eqkir.program import verify_structure as structure
from eqkir.program.model import Program
from eqkir.program.verify_memory import Memory
from eqkir.program.verify_padding import check_padding
from eqkir.program.verify_scope import Phase, Report, accesses, phases

EXPLAIN = {
    "INTERFACE": ("bad interface", "A name occurs twice, or a role, dtype, axis kind or range of the program's interface is not legal."),
    "LAUNCH": ("not launch-visible", "An extent or predicate depends on something that is unknown before the launch."),
    "BINDING": ("unbound parameter", "A traversal needs a physical parameter that the program does not bind."),
    "STAGE": ("operation of another stage", "The program holds an operation that its stage does not allow."),
    "SCOPE": ("value out of scope", "A value is defined twice, or read where it is not defined."),
    "NAME": ("unknown name", "An access or expression names a view, scalar, symbol, axis or operand that does not exist."),
    "STRUCTURED": ("incomplete operation", "An operation lacks operands, attributes or inits, or its combine region is not closed."),
    "LABEL": ("label out of scope", "A label does not exist, is not traversed where it is used, or gives an axis a second traversal."),
    "TYPE": ("wrong dtype", "An operation is not defined on its operands' dtypes, or does not give the dtype that it says."),
    "DIMS": ("wrong dimensions", "A value's dimensions are not the union of its operands' (minus the label that it binds)."),
    "COVER": ("store without coverage", "A store does not traverse exactly its axes, so elements would be missed or written again."),
    "WHOLE": ("fragment does not cover", "A whole fragment has fewer lanes than its axis may have elements."),
    "OWNER": ("no unique owner", "An index map of a store is not known to be injective: two owners might write one element."),
    "BOUNDS": ("access not in bounds", "An access is not known to be inside its view for all symbols and data."),
    "EFFECT": ("effect lost or repeated", "A memory version is not made by exactly one store, or an output is never stored."),
    "CROSS": ("dependence between instances", "Two accesses, one a store, may meet in one element from different, unordered instances."),
    "VERSION": ("wrong order of memory accesses", "A load or store may run after a store that ends the version that it needs."),
    "PHASE": ("no barrier before a load", "A load sees what its own or a later phase stores; threads only meet between phases."),
    "BUFFER": ("read before write", "An element of a workspace or `out` view may be read before it is written."),
    "MASK": ("mask does not exclude inactive lanes", "A store's mask, or a launch predicate, does not imply that the lanes are active."),
    "PADDING": ("inactive lanes count", "Inactive lanes of a reduction or contraction do not hold its neutral element."),
    "NARROW": ("a skipped member counts", "A loop's bounds exclude a member that is not known to be neutral for its carries."),
    "BARRIER": ("missing barrier", "A thread may overwrite an element that another thread of the instance has yet to load."),
}
CODES = {k: register(f"EQK-PRG-{k}", *v) for k, v in EXPLAIN.items()}

WholeCheck = Callable[[Program, Report], None]
PhaseCheck = Callable[[Phase, Report], None]
MemoryCheck = Callable[[Memory, Report], None]

INTERFACE: dict[str, WholeCheck] = {
    "INTERFACE": structure.check_interface, "LAUNCH": structure.check_launch, "BINDING": labels.check_parameters
}  # fmt: skip
FORM: dict[str, PhaseCheck] = {"STAGE": structure.check_stage, "SCOPE": structure.check_scope, "NAME": structure.check_names}
OPERATIONS: dict[str, PhaseCheck] = {"STRUCTURED": structure.check_structured, "LABEL": labels.check_labels}
VALUES: dict[str, PhaseCheck] = {"TYPE": dims.check_types, "DIMS": dims.check_dims}
MEMORY: dict[str, MemoryCheck] = {
    "COVER": memory.check_cover, "WHOLE": memory.check_whole, "OWNER": memory.check_owner, "BOUNDS": memory.check_bounds,
    "EFFECT": memory.check_effect, "CROSS": memory.check_cross, "VERSION": memory.check_version, "PHASE": memory.check_phase,
    "BUFFER": memory.check_buffer, "MASK": memory.check_mask, "PADDING": lambda m, say: _padding(m, say), "BARRIER": memory.check_barrier,
    "NARROW": lambda m, say: _narrow(m, say),
}  # fmt: skip


def verify(program: Program) -> list[Diagnostic]:
    """Everything wrong with a program; empty when it is accepted."""
    found: list[Diagnostic] = []
    for name, whole in INTERFACE.items():
        found += _run(name, lambda say, f=whole: f(program, say))  # type: ignore[misc]
    program = unbounded(program)
    ps = phases(program)
    for name, check in {**FORM, **OPERATIONS, **VALUES}.items():
        if found:
            return found
        for p in ps:
            found += _run(name, lambda say, f=check, p=p: f(p, say))  # type: ignore[misc]
    if found:
        return found
    m = Memory(program, ps, accesses(ps))
    for name, judge in MEMORY.items():
        found += _run(name, lambda say, f=judge: f(m, say))  # type: ignore[misc]
    return found


def unbounded(program: Program) -> Program:
    """The program with a number of steps that nothing is known of as the extent of each while axis."""
    axes = tuple(replace(a, extent=Sym(f"steps({a.name})")) if a.kind == "while" else a for a in program.axes)
    return replace(program, axes=axes)


def _run(name: str, check: Callable[[Report], None]) -> list[Diagnostic]:
    say = Report(CODES[name])
    check(say)
    return say.found


def _narrow(m: Memory, say: Report) -> None:
    from eqkir.program.verify_narrow import check_narrow

    check_narrow(m, say)


def _padding(m: Memory, say: Report) -> None:
    for p in m.phases:
        check_padding(p, m.facts, say)


__all__ = ["CODES", "verify"]
