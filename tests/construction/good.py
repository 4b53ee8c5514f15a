"""Good triples of kernel, abstract program and P0, and tools that change one thing in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eqkir.base.expr import Expr
from eqkir.kir.builder import Builder
from eqkir.kir.helpers import link
from eqkir.kir.load import load_file
from eqkir.kir.model import Kernel
from eqkir.kir.types import Type, infer
from eqkir.program.abstract import Abstract, Group, Put, VNode
from eqkir.program.construct import construct
from eqkir.program.lower import conservative
from eqkir.program.model import Loop, Program, Segment

CORPUS = Path(__file__).parents[2] / "corpus"


@dataclass(frozen=True)
class Triple:
    kernel: Kernel
    types: dict[str, Type]
    abstract: Abstract
    program: Program

    def abstracted(self, a: Abstract, lower: bool = True) -> Triple:
        """With another abstract program, and its P0."""
        return replace(self, abstract=a, program=conservative(a) if lower else self.program)

    def values(self, f: Callable[[VNode, Abstract], VNode | int | None]) -> Triple:
        """Every node that `f` changes replaced (None: not), and P0 made anew. `f` sees nodes with new operands."""
        return self.abstracted(rebuilt(self.abstract, f, lambda p, a: p))

    def puts(self, f: Callable[[Put, Abstract], Put | None], groups: Callable[[Group], Group] = lambda g: g) -> Triple:
        """Every store replaced, or left out (None)."""
        a = rebuilt(self.abstract, lambda n, a: None, f)
        return self.abstracted(replaced(a, groups=tuple(groups(g) for g in a.groups)))

    def items(self, f: Callable[[Any], Any]) -> Triple:
        """Every item of P0 replaced by the items of a tuple, or by one."""
        segments = tuple(replace(s, phases=tuple(_block(ph, f) for ph in s.phases)) for s in self.program.segments)
        return replace(self, program=replace(self.program, segments=segments))

    def segments(self, f: Callable[[Segment], Segment]) -> Triple:
        return replace(self, program=replace(self.program, segments=tuple(map(f, self.program.segments))))


def _block(items: tuple[Any, ...], f: Callable[[Any], Any]) -> tuple[Any, ...]:
    out: list[Any] = []
    for i in items:
        new = f(replace(i, body=_block(i.body, f)) if isinstance(i, Loop) else i)
        out += new if isinstance(new, tuple) else (new,)
    return tuple(out)


def replaced(a: Abstract, **fields: Any) -> Abstract:
    """A copy without the caches of the old one."""
    out = Abstract(a.abi, a.axes, list(a.nodes), a.groups, dict(a.origins), dict(a.inner), dict(a.ordered), a.whole, _ids=dict(a._ids))
    for k, v in fields.items():
        setattr(out, k, v)
    return out


def rebuilt(a: Abstract, node: Callable[[VNode, Abstract], VNode | int | None], put: Callable[[Put, Abstract], Put | None]) -> Abstract:
    out = Abstract(a.abi, a.axes, inner=dict(a.inner), ordered=dict(a.ordered), whole=a.whole)
    new: dict[int, int] = {}
    for i, n in enumerate(a.nodes):
        moved = replace(n, args=tuple(new[x] for x in n.args))
        got = node(moved, out)
        new[i] = got if isinstance(got, int) else out.make(*_fields(moved if got is None else got))
    groups = []
    for g in a.groups:
        phases = []
        for ph in g.phases:
            puts = []
            for p in ph:
                q = put(replace(p, value=new[p.value], valid=new[p.valid], deps=tuple(new[d] for d in p.deps)), out)
                puts += [] if q is None else [q]
            phases.append(tuple(puts))
        groups.append(replace(g, phases=tuple(phases)))
    out.groups = tuple(groups)
    return out


def _fields(n: VNode) -> tuple[Any, ...]:
    return n.op, n.attrs, n.args, n.dtype


# ------------------------------------------------------------------------------------------------ kernels
def of(kernel: Kernel) -> Triple:
    a = construct(kernel)
    return Triple(kernel, dict(infer(kernel)), a, conservative(a))


def corpus(name: str) -> Triple:
    for folder in ("json", "pending"):
        path = CORPUS / folder / f"{name}.json"
        if path.exists():
            return of(link(load_file(path)).kernels[0])
    raise FileNotFoundError(name)


def built(fill: Callable[[Builder], None], name: str = "sample") -> Triple:
    k = Builder(name)
    fill(k)
    return of(k.build())


def masked() -> Triple:
    """Odd columns of a square, elsewhere 7; transposed."""

    def fill(k: Builder) -> None:
        (n,) = k.symbols("N")
        x, y = k.view("X", "in", "f32", (n, n)), k.view("Y", "out", "f32", (n, n))
        k.noalias(x, y)
        i = k.indices(n)
        odd = i.reshape(1, n) % 2 == 1
        y[:, :] = x.load((i.reshape(n, 1), i.reshape(1, n)), valid=odd, fill=7.0).transpose(1, 0)

    return built(fill, "masked")


def masked_store() -> Triple:
    def fill(k: Builder) -> None:
        (n,) = k.symbols("N")
        x, y = k.view("X", "in", "f32", (n,)), k.view("Y", "inout", "f32", (n,))
        k.noalias(x, y)
        i = k.indices(n)
        y.store((i,), x[:], valid=i % 2 == 1)

    return built(fill, "masked_store")


def twice() -> Triple:
    """A store, a load of what it left, a store, in one element."""

    def fill(k: Builder) -> None:
        (n,) = k.symbols("N")
        x, y = k.view("X", "in", "f32", (n,)), k.view("Y", "inout", "f32", (n,))
        k.noalias(x, y)
        y[:] = y[:] + x[:]
        y[:] = y[:] * 2.0

    return built(fill, "twice")


def overlapping() -> Triple:
    """Views that may overlap."""

    def fill(k: Builder) -> None:
        (n,) = k.symbols("N")
        x, y = k.view("X", "in", "f32", (n,)), k.view("Y", "inout", "f32", (n,))
        y[:] = x[:] * 2.0

    return built(fill, "overlapping")


def scaled() -> Triple:
    """A scalar parameter, two views of one shape, a reduction of each row."""

    def fill(k: Builder) -> None:
        m, n = k.symbols("M", "N")
        x, y, z = (k.view(v, r, "f32", (m, n)) for v, r in (("X", "in"), ("Y", "inout"), ("Z", "inout")))
        s = k.scalar("s", "f32")
        k.noalias(x, y, z)
        y[:, :] = x[:, :] * s
        z[:, :] = x[:, :] - x[:, :].sum(axis=1).reshape(m, 1)

    return built(fill, "scaled")


def mapped(e: Expr, f: Callable[[Expr], Expr | None]) -> Expr:
    """An expression with the parts that `f` knows replaced."""
    from eqkir.base.expr import ATOMS, rebuild

    got = f(e)
    return got if got is not None else e if e.op in ATOMS else rebuild(e.op, tuple(mapped(a, f) for a in e.args))
