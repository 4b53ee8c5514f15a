"""Reads of views, gathers from values, and the validity of accesses.

An access happens where its own validity holds, where it stands (branches, steps of loops), and at coordinates that are members: of a
subregion, or of what a gather may read.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol

from eqkir.analysis.effects import Condition
from eqkir.base.dtypes import FLOATS, bits
from eqkir.base.expr import ZERO, Dep, Expr, Sym, atoms, conj, le, lt, substitute
from eqkir.kir import model as kir
from eqkir.program import construct_index as ix
from eqkir.program.abstract import axes_in
from eqkir.program.construct_env import Ixs, Request, Steps, construction
from eqkir.program.construct_loops import both, choice, holds
from eqkir.program.construct_values import Values


class _Coordinates(Protocol):
    @property
    def view(self) -> str: ...
    @property
    def coords(self) -> tuple[str, ...]: ...
    @property
    def valid(self) -> str | None: ...


Access = Generator[Request, int, tuple[Ixs, tuple[int, ...], int]]


def access(v: Values, op: _Coordinates, ixs: Ixs, conditions: tuple[Condition, ...]) -> Access:
    """(index expressions, data operands, validity) of an access at a point of its iteration space."""
    exprs: list[Expr] = []
    deps: list[int] = []
    for c in op.coords:
        e, ds = ix.coordinate(v, (yield v.operand(c, ixs)))
        deps += [d for d in ds if d not in deps]
        exprs.append(v.fold(ix.renumber(e, ds, deps)))
    valid = v.const(True, "bool") if op.valid is None else (yield v.operand(op.valid, ixs))
    valid = both(v, (yield from holds(v, conditions)), valid)
    free = frozenset().union(*map(axes_in, exprs), *map(v.program.free, deps))
    valid = inbounds(v, members(v, valid, ixs, free), exprs, deps, v.resource(op.view), op.valid is None)
    return (*v.owner(op.view), *exprs), tuple(deps), valid


def filled(v: Values, op: kir.Buffer, ixs: Ixs, conditions: tuple[Condition, ...]) -> Access:
    """Like `access`, of a buffer's initial value."""
    valid = yield from holds(v, conditions)
    return (*v.owner(op.results[0]), *ixs), (), valid


def inbounds(v: Values, valid: int, exprs: Sequence[Expr], deps: Sequence[int], shape: Sequence[Expr], all: bool) -> int:
    """`valid`, and coordinates that are data (with `all`: that are not known to be inside) lie inside `shape`.

    An author owes coordinates inside the resource; the guard keeps a program that cannot prove it from touching anything else.
    """
    for e, extent in zip(exprs, shape, strict=True):
        data = any(a.op == "dep" for a in atoms(e))
        if not data and (not all or (v.facts.nonneg(e) and v.facts.less(e, extent))):
            continue
        used = sorted({a.args[0] for a in atoms(e) if a.op == "dep"})
        x = substitute(e, {Dep(i): Dep(k) for k, i in enumerate(used)})
        valid = both(v, valid, v.index(conj(le(ZERO, x), lt(x, extent)), tuple(deps[i] for i in used), "bool"))
    return valid


def together(v: Values, exprs: Sequence[Expr]) -> tuple[tuple[Expr, ...], tuple[int, ...]]:
    """Index expressions over one list of data operands."""
    deps: list[int] = []
    out = []
    for e in exprs:
        r, ds = v.resolved(e, ())
        deps += [d for d in ds if d not in deps]
        out.append(substitute(r, {Dep(i): Dep(deps.index(d)) for i, d in enumerate(ds)}))
    return tuple(out), tuple(deps)


def members(v: Values, valid: int, ixs: Sequence[Expr], free: frozenset[str] = frozenset()) -> int:
    """`valid`, and every coordinate is that of a member."""
    for name in sorted({a.args[0] for e in ixs for a in atoms(e) if a.op == "sym" and a.args[0].startswith("#")}):
        valid = both(v, valid, v.data(name)[1])
    for axis in sorted(free.union(*map(v.axes_of, ixs))):
        member = v.member(axis) if axis in v.regions else None
        if member is not None:
            valid = both(v, valid, member)
    return valid


@construction("load", "view coords valid fill")
def _load(v: Values, op: kir.Load, n: int, ixs: Ixs) -> Steps:
    dtype, id = v.element(op.view), op.results[0]
    fill = v.const(0, dtype) if op.fill is None else (yield v.operand(op.fill, ixs))
    exprs, deps, valid = yield from access(v, op, ixs, v.effects.conditions[id])
    if v.is_const(valid, "false"):
        return fill
    node = v.make("Load", (op.view, v.effects.versions[id], exprs), (valid, fill, *deps), dtype)
    scope = frozenset((p, v.point_axis[p]) for p in v.effects.scopes[id] if p in v.point_axis)
    v.load_scopes[node] = v.load_scopes.get(node, scope) & scope
    v.load_loops[node] = v.load_loops.get(node, frozenset()) | frozenset(v.effects.homes[id])
    return node


ATOMIC = "view coords value valid order"


@construction("atomic_load", "view coords valid order")
@construction("atomic_compare_exchange", f"{ATOMIC} expected")
@construction("atomic_exchange", ATOMIC)
@construction("atomic_add", ATOMIC)
@construction("atomic_max", ATOMIC)
@construction("atomic_min", ATOMIC)
@construction("atomic_and", ATOMIC)
@construction("atomic_or", ATOMIC)
@construction("atomic_xor", ATOMIC)
def _old(v: Values, op: kir.AtomicUpdate | kir.AtomicLoad | kir.AtomicCompareExchange, n: int, ixs: Ixs) -> Steps:
    """What the operation found (zero where it was not valid): it happens once, as a statement that keeps its old values in a workspace.
    Whether a compare-exchange succeeded follows from its old value."""
    id = op.results[0]
    dtype = v.element(id)
    place, deps = together(v, (*v.owner(id), *ixs))
    valid = inbounds(v, members(v, v.const(True, "bool"), ixs), place, deps, v.views_kept[id][1], False)
    old = v.make("Load", (id, 1, place), (valid, v.const(0, dtype), *deps), dtype)
    scope = frozenset((p, v.point_axis[p]) for p in v.effects.scopes[id] if p in v.point_axis)
    v.load_scopes[old] = v.load_scopes.get(old, scope) & scope
    v.load_loops[old] = v.load_loops.get(old, frozenset()) | frozenset(v.effects.homes[id])
    if n == 0 or not isinstance(op, kir.AtomicCompareExchange):
        return old
    want = yield v.operand(op.expected, ixs)
    if dtype in FLOATS:
        word = f"u{bits(dtype)}"
        old, want = (v.make("Bitcast", (word,), (x,), word) for x in (old, want))
    same = v.make("Bin", ("eq",), (old, want), "bool")
    return same if op.valid is None else both(v, (yield v.operand(op.valid, ixs)), same)


@construction("gather", "x coords valid fill", records=False)
def _gather(v: Values, op: kir.Gather, n: int, ixs: Ixs) -> Steps:
    """The value instantiated at the coordinates; where they are not valid, nothing below is read."""
    dtype = v.dtype(op.x)
    fill = v.const(0, dtype) if op.fill is None else (yield v.operand(op.fill, ixs))
    valid = v.const(True, "bool") if op.valid is None else (yield v.operand(op.valid, ixs))
    valid = both(v, (yield from holds(v, v.effects.conditions[op.results[0]])), valid)
    valid = members(v, valid, ixs)
    if v.is_const(valid, "false"):
        return fill
    at: list[Expr] = []
    for c in op.coords:
        node = v.widened((yield v.operand(c, ixs)))
        e = ix.as_index(v, node)
        plain = e is not None and not e[1] and v.is_const(valid, "true")
        at.append(e[0] if plain and e is not None else Sym(f"#{node}.{valid}"))
    x = yield op.x, tuple(at)
    return choice(v, valid, x, fill)


@construction("assume_in_bounds", "x view axis")
def _assume(v: Values, op: kir.AssumeInBounds, n: int, ixs: Ixs) -> Steps:
    return (yield op.x, ixs)


__all__ = ["Access", "access", "inbounds", "members", "together"]
