"""Labels and dimensions: parameters are bound, labels are well formed and traversed, no axis occurs twice."""

from __future__ import annotations

from eqkir.program import ops
from eqkir.program.abi import (
    STEPS,
    TRAVERSALS,
    axis_of,
    member_labels,
    parameter,
    slice_label,
    step_parameter,
    traversal,
)
from eqkir.program.model import Let, Loop, Program, Store, order_labels
from eqkir.program.ops import ORDERS
from eqkir.program.verify_scope import Phase, Report


def check_parameters(program: Program, say: Report) -> None:
    """Every physical parameter that a label, an order or a stride segment needs has a value >= 1."""
    need: dict[str, str] = {}
    for n, s in enumerate(program.segments):
        labels = set(order_labels(s.order))
        if s.mode == "stride":
            need.setdefault(f"P:{s.group}", f"/segments/{n}")
        if "TSwz" in str(s.order):
            need.setdefault(f"G:{s.group}", f"/segments/{n}/order")
        for ph in s.phases:
            labels |= _labels(ph)
        for label in sorted(labels):
            if _well_formed(label):
                for name in (parameter(label), step_parameter(label) if traversal(label) in STEPS else None):
                    if name:
                        need.setdefault(name, f"/segments/{n}")
    for name, pointer in need.items():
        if program.bindings.get(name, 0) < 1:
            say(f"parameter {name} has no value", pointer)


def _labels(items: object) -> set[str]:
    out: set[str] = set()
    for i in items:  # type: ignore[attr-defined]
        if isinstance(i, Loop):
            out |= {i.label, *(d for c in i.carries for d in c.dims)} | _labels(i.body)
        elif isinstance(i, (Let, Store)):
            out |= set(i.dims) | ({label_of(i)} if isinstance(i, Let) and label_of(i) else set())
    return out


def label_of(x: Let) -> str:
    """The label that a structured let binds (or Active speaks of), or an empty text."""
    return ops.label_of(x.op, x.attrs)


def well_formed_order(t: object) -> bool:
    """Whether a tuple is an order term."""
    if not isinstance(t, tuple) or not t or t[0] not in ORDERS:
        return False
    if t[0] == "TAx":
        return len(t) == 2 and isinstance(t[1], str)
    return len(t) == ORDERS[t[0]] + 1 and all(map(well_formed_order, t[1:]))


def _well_formed(label: str) -> bool:
    return label.count(":") == 1 and traversal(label) in TRAVERSALS


#: traversals that a value may have anywhere
WHOLE = ("W", "SW", "MW")
_FRAGMENT = ("W", "M1", "MC", "MW")
#: operation -> traversals of the label that it binds
BOUND = {
    **dict.fromkeys(("RedNTree", "ConWhole", "ConAccWhole"), _FRAGMENT), "RedTree": (*_FRAGMENT, "OB"),
    **dict.fromkeys(("Scan", "ScanN", "Last"), ("LC", *_FRAGMENT)),
    **dict.fromkeys(("FragRedN", "FragScan", "FragScanN", "Dot"), ("W", "LC", "MC", "MW")),
    "FragRed": ("W", "LC", "MC", "MW", "OB"),
    "Active": ("W", "LC", "OB", "MC", "MW"),
}  # fmt: skip


def check_labels(phase: Phase, say: Report) -> None:
    """Labels exist, stand in scope (the order, enclosing loops, or a whole fragment), and give an axis one traversal at a place."""
    program, legal = phase.program, phase.program.stage == "legal"
    order = phase.order
    for label in order:
        if not exists(program, label) or traversal(label) not in ("O1", "OB"):
            say(f"{label} is no instance label", f"/segments/{phase.number[0]}/order")
    if len({axis_of(x) for x in order}) != len(order):
        say("an axis occurs twice in the order", f"/segments/{phase.number[0]}/order")
    for at in phase.places:
        around = [y for x in at.loops if _well_formed(x.label) for y in (x.label, *member_labels(x.label, program.axis))]
        scope = {*order, *around}
        i = at.item
        if isinstance(i, Loop):
            kind = program.axis[i.axis].kind if i.axis in program.axis else ""
            if not exists(program, i.label) or axis_of(i.label) != i.axis or traversal(i.label) not in STEPS:
                say(f"a loop over {i.axis} has the label {i.label}", at.pointer)
            elif (kind == "while") != (i.cond >= 0):
                say(f"a loop over the {kind} axis {i.axis} {'with a' if i.cond >= 0 else 'without a'} condition", at.pointer)
            elif i.axis in {axis_of(x) for x in scope}:
                say(f"axis {i.axis} is traversed twice here", at.pointer)
            for c in i.carries:
                _check_dims(program, c.dims, {*scope, i.label} if legal else scope, legal, say, at.pointer)
        elif isinstance(i, (Let, Store)):
            lanes = legal and isinstance(i, Let) and i.op not in ("Index", "LoadM")  # those read coordinates
            _check_dims(program, i.dims, scope, lanes, say, at.pointer)
            if isinstance(i, Let) and (label := label_of(i)):
                finished = i.op in ("FragRed", "FragRedN") and exists(program, label) and traversal(label) == "LC"
                if not exists(program, label) or traversal(label) not in BOUND[i.op]:
                    say(f"{i.op} over {label}", at.pointer, " ".join(BOUND[i.op]))
                elif traversal(label) == "OB" and i.op != "Active" and (i.attrs[0] not in ("max", "min") or i.dtype != "index"):
                    say(f"{i.op} {i.attrs[0]} of {i.dtype} over the block {label}", at.pointer, "max or min of coordinates")
                elif traversal(label) not in WHOLE and label not in scope and not finished:
                    say(f"{i.op} over {label} outside its traversal", at.pointer)


def exists(program: Program, label: str) -> bool:
    """Whether a label is one of its axis."""
    return _well_formed(label) and axis_of(label) in program.axis and label in program.axis[axis_of(label)].labels


def _check_dims(program: Program, dims: tuple[str, ...], scope: set[str], free_lanes: bool, say: Report, pointer: str) -> None:
    """`free_lanes` (legal stage, no coordinate read): a fragment may keep the lanes of a finished loop, and name labels without lanes."""
    if len({axis_of(d) for d in dims}) != len(dims):
        say(f"an axis occurs twice in {' '.join(dims)}", pointer)
    for d in dims:
        if not exists(program, d):
            say(f"{d} is no label of an axis", pointer)
        elif d not in scope and traversal(d) not in WHOLE and not (free_lanes and (traversal(d) == "LC" or parameter(d) is None)):
            say(f"{d} is not traversed here", pointer)
        elif traversal(d)[0] == "M" and slice_label(d) not in dims:
            say(f"{d} without the slice that it belongs to", pointer)
