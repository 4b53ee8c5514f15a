"""Ways to break folds over slices: what is summed where a slice is meant, and whether the domain is the only slice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from eqkir.base.expr import Coord, substitute
from eqkir.kir.builder import Builder
from eqkir.program.abi import Axis
from eqkir.program.abstract import Abstract, VNode
from tests.construct.test_one_slice import attention, sums
from tests.construction import good
from tests.construction.good import Triple

SLICED: dict[tuple[str, str], Callable[[], Triple]] = {}


def breaks(check: str, how: str) -> Callable[[Callable[[], Triple]], Callable[[], Triple]]:
    def put(f: Callable[[], Triple]) -> Callable[[], Triple]:
        SLICED[check, how] = f
        return f

    return put


def widened(t: Triple) -> Triple:
    """What is summed over the members of a slice is summed over the whole domain."""
    member = next(x for x in t.abstract.axes if x.kind == "mem")
    along = {Coord(member.name): Coord("c9")}

    def moved(a: Abstract, i: int) -> int:
        n = a.nodes[i]
        args = tuple(moved(a, x) for x in n.args)
        ixs = tuple(substitute(e, along) for e in n.attrs[2]) if n.op == "Load" else ()
        return a.make(n.op, (*n.attrs[:2], ixs) if ixs else n.attrs, args, n.dtype)

    def f(n: VNode, a: Abstract) -> VNode | None:
        return replace(n, attrs=(n.attrs[0], "c9"), args=(moved(a, n.args[0]),)) if n.op == "Red" else None

    wide = good.replaced(t.abstract, axes=(*t.abstract.axes, Axis("c9", member.extent, "loop")))
    return t.abstracted(good.rebuilt(wide, f, lambda p, a: p))


def emitting() -> Triple:
    """Every output is its member, the sum of its slice, and that of what came before."""

    def fill(k: Builder) -> None:
        M, N = k.symbols("M", "N")
        x, y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
        k.noalias(x, y)
        zero = k.full((M,), 0.0)

        def emit(s: Any, a: Any, state: Any) -> Any:
            return (a + a.sum(axis=1)[:, None] + state[0][:, None],)

        (out,), _ = k.region_scan(
            N, [(x[:, :], 1)], (zero,), (zero,), lambda s, a: (a.sum(axis=1),), lambda a, b: (a[0] + b[0],), lambda t, s: (t[0] + s[0],),
            emit, (1,),
        )  # fmt: skip
        y[:, :] = out

    return good.built(fill, "emitting")


@breaks("structured-complete", "summary-of-the-whole-domain")
def _() -> Triple:
    return widened(good.corpus("fold_sum_rows"))


@breaks("structured-complete", "output-of-the-whole-domain")
def _() -> Triple:
    return widened(emitting())


@breaks("folds-complete", "one-slice-called-many")
def _() -> Triple:
    t = good.of(sums())
    return replace(t, abstract=good.replaced(t.abstract, whole=frozenset()))


@breaks("effects-covered-once", "many-slices-called-one")
def _() -> Triple:
    t = good.corpus("fold_sum_rows")
    op = next(op for op in t.kernel.body if op.op == "region_fold")
    return replace(t, abstract=good.replaced(t.abstract, whole=frozenset(op.results[:1])))


@breaks("effects-covered-once", "one-slice-starts-elsewhere")
def _() -> Triple:
    """The initial state of a scan in one slice."""
    t = good.of(attention("once"))
    return t.values(lambda n, a: replace(n, attrs=("2",)) if n.op == "Const" and (n.attrs, n.dtype) == (("1",), "i32") else None)


@breaks("structured-complete", "no-slice-at-all-has-a-summary")
def _() -> Triple:
    """An empty domain is summarised, too."""
    t = good.of(sums())
    return t.values(lambda n, a: n.args[1] if n.op == "Tri" and a.nodes[n.args[0]].op == "Index" and n.dtype == "i32" else None)


__all__ = ["SLICED"]
