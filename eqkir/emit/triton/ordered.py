"""Legal forms of what depends on an order: scans, the last lane, while loops."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from eqkir.base import dtypes as D
from eqkir.base.expr import Coord, Expr, Int, conj, disj, eq, lt
from eqkir.emit.triton.scope import Block, Val, identity_text
from eqkir.program.abi import axis_of, parameter, traversal
from eqkir.program.items import needed
from eqkir.program.model import Barrier, Carry, Let, Loop

if TYPE_CHECKING:
    from eqkir.emit.triton.legalize import Phase


def scan(p: Phase, x: Let, args: list[Val]) -> Val | tuple[Val, ...]:
    """Inclusive prefixes; inactive lanes are a tail, so what they hold reaches no active lane. One lane is its own prefix."""
    b, label = p.b, x.attrs[1] if x.op == "Scan" else x.attrs[0]
    if not parameter(label):
        return args[0] if x.op == "Scan" else tuple(args)
    dims = b.sort((*x.dims, label, *(d for a in args for d in a.dims)))
    args = [b.arranged(b.splat(a, dims), b.lanes(dims)) for a in args]
    if x.op == "Scan":
        return b.let("FragScan", x.attrs, tuple(args), args[0].dims, x.dtype)
    union = b.sort(d for a in args for d in a.dims)
    t = b.let("FragScanN", x.attrs, tuple(args), union, "tuple")
    return tuple(b.let("Pick", (k,), (t,), union, dtype) for k, dtype in enumerate(x.attrs[1].dtypes))


def last(p: Phase, label: str, a: Val) -> Val:
    """The value in the last active lane, bit by bit: the bits of every other lane are cleared, then summed. A sum commutes, as tl.reduce
    asks of a combine function."""
    b = p.b
    if not parameter(label):
        return a
    e = _is_last(p, label)
    chosen = b.shared(("last", label), b.depth(label), lambda: b.let("Index", (e,), (), b.sort((label,)), "bool", b.depth(label)))
    if a.dtype == "bool":
        return b.let("FragRed", ("any", label), (m := b.over("Bin", ("and",), (chosen, a), "bool"),), b.without(m.dims, label), "bool")
    bits = f"i{D.bits(a.dtype)}"
    v = a if a.dtype in D.INTS and a.dtype != "index" else b.over("Bitcast", (bits,), (a,), bits)
    m = b.over("Tri", ("select",), (chosen, v, p.zero(v.dtype)), v.dtype)
    r = b.let("FragRed", ("sum", label), (m,), b.without(m.dims, label), v.dtype)
    return r if v.dtype == a.dtype else b.over("Bitcast", (a.dtype,), (r,), a.dtype)


def _is_last(p: Phase, label: str) -> Expr:
    """Whether a lane is the last active one of its block, a predicate of its coordinate."""
    axis = p.program.axis[axis_of(label)]
    at, n = Coord(axis.name), p.program.lanes(label)
    end = eq(at, axis.extent - 1)
    return end if traversal(label) in ("W", "MW") else conj(lt(at, axis.extent), disj(end, eq(at % n, Int(n - 1))))


def while_loop(p: Phase, x: Loop) -> None:
    """Steps as long as the condition holds in some lane. What the condition needs comes first in a step; the rest of the step takes part
    where every condition so far held: there memory is accessed, and there the carries change."""
    b = p.b
    plans = [p.carry_inits(c, x.label) for c in x.carries]
    phis = [tuple(Val(b.fresh(), i.dims, i.dtype) for i in inits) for inits in plans]
    for c, v in zip(x.carries, phis, strict=True):
        p.env[c.id] = v[0]
    dims = b.sort(d for d in p.defs[x.cond].dims if d != x.label)
    start = b.guarded(b.mask(dims), dims)
    start = b.arranged(b.splat(start, dims), b.lanes(dims)) if b.lanes(dims) else start
    start = replace(start, dims=b.sort((*dims, *start.dims)))
    on = Val(b.fresh(), start.dims, "bool")
    b.blocks.append(Block(label=x.label, guard=on))
    first = needed(x)
    for n, i in enumerate(x.body):
        if n in first:
            p.item(i)
    now = b.over("Bin", ("and",), (on, p.val(x.cond)), "bool")
    b.blocks[-1].guard = now
    for n, i in enumerate(x.body):
        if n not in first:
            p.item(i)
    nexts = []
    for c, v in zip(x.carries, phis, strict=True):
        (new,) = p.carry_next(c, x.label, v)
        nexts.append(b.over("Tri", ("select",), (now, new, v[0]), c.dtype, v[0].dims))
    block = b.blocks.pop()
    if block.barrier_at_end and (not block.items or not isinstance(block.items[-1], Barrier)):
        block.items.append(Barrier())
    carries = [Carry(on.id, "Phi", (), (now.id,), (start.id,), on.dims, "bool")]
    for inits, states, new in zip(plans, phis, nexts, strict=True):
        state = states[0]
        carries.append(Carry(state.id, "Phi", (), (new.id,), (inits[0].id,), state.dims, state.dtype))
    b.blocks[-1].items.append(Loop(x.axis, x.label, x.stage, tuple(carries), tuple(block.items), 1, now.id))
    for c, inits, states, new in zip(x.carries, plans, phis, nexts, strict=True):
        p.env[c.id] = replace(states[0], reads=inits[0].reads | new.reads)


def bounds(phase: Phase, x: Loop) -> tuple[int, int]:
    """The bounds of a loop as one number each for all lanes, -1 for none: the least and the greatest of the active lanes that count."""
    b = phase.b

    def edge(v: Val, fn: str) -> int:
        if x.on >= 0:
            v = b.over("Tri", ("select",), (phase.val(x.on), v, b.const(identity_text(fn, "index"), "index")), "index")
        for label in b.lanes(v.dims):
            v = phase.fragred(fn, label, phase.neutral(v, label, fn))
        return v.id

    lo = edge(phase.val(x.lo), "min") if x.lo >= 0 else -1
    if x.hi < 0 and x.on < 0:
        return lo, -1
    end = phase.val(x.hi) if x.hi >= 0 else b.let("Index", (phase.program.axis[x.axis].extent,), (), (), "index")
    return lo, edge(end, "max")


__all__ = ["bounds", "last", "scan", "while_loop"]
