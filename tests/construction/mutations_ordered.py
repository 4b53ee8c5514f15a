"""Ways to break ordered loops: their versions, their barriers, and the carries that they keep in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from eqkir.program.abstract import Abstract, Put, VNode
from eqkir.program.model import Barrier, Loop
from tests.construct import loops
from tests.construction import good
from tests.construction.good import Triple

ORDERED: dict[tuple[str, str], Callable[[], Triple]] = {}


def breaks(check: str, how: str) -> Callable[[Callable[[], Triple]], Callable[[], Triple]]:
    def put(f: Callable[[], Triple]) -> Callable[[], Triple]:
        ORDERED[check, how] = f
        return f

    return put


def loads(t: Triple, view: str, old: int, new: int) -> Triple:
    """Every load of one version reads another."""

    return t.values(version(view, old, new))


def version(view: str, old: int, new: int) -> Callable[[VNode, Abstract], VNode | None]:
    def f(n: VNode, a: Abstract) -> VNode | None:
        return replace(n, attrs=(view, new, n.attrs[2])) if n.op == "Load" and n.attrs[:2] == (view, old) else None

    return f


@breaks("order-kept", "step-reads-what-it-has-yet-to-make")
def _() -> Triple:
    """A step reads the version that it stores itself."""
    t = good.built(loops.last_one_stays)
    return replace(t, abstract=good.rebuilt(t.abstract, version("Y", 1, 2), lambda p, a: p))


@breaks("order-kept", "step-reads-what-was-before-the-loop")
def _() -> Triple:
    return loads(good.built(loops.last_one_stays), "Y", 1, 0)


@breaks("order-kept", "result-read-before-the-loop")
def _() -> Triple:
    t = good.built(loops.prefix_in_place)
    top = max(n for _, n in t.abstract.inner) + 1
    return loads(t, "ws0", top, 1)


@breaks("order-kept", "version-lives-outside-its-loop")
def _() -> Triple:
    """The store of a step is said to be one store for all steps."""
    t = good.built(loops.prefix_in_place)
    top = max(t.abstract.inner)
    return replace(t, abstract=good.replaced(t.abstract, inner={k: x for k, x in t.abstract.inner.items() if k != top}))


@breaks("order-kept", "barrier-lost-between-the-steps")
def _() -> Triple:
    return good.built(loops.prefix_in_place).items(lambda i: () if isinstance(i, Barrier) else i)


@breaks("order-kept", "barrier-lost-inside-a-step")
def _() -> Triple:
    """Only the last barrier of every step stays."""

    def f(i: object) -> object:
        if not isinstance(i, Loop) or not i.body:
            return i
        return replace(i, body=(*(x for x in i.body[:-1] if not isinstance(x, Barrier)), i.body[-1]))

    return good.built(loops.ping_pong).items(f)


@breaks("order-kept", "loops-exchanged")
def _() -> Triple:
    """Two ordered loops are said to be each other."""
    t = good.built(loops.one_after_the_other)
    (a, x), (b, y) = sorted(t.abstract.ordered.items())
    return replace(t, abstract=good.replaced(t.abstract, ordered={a: y, b: x}))


@breaks("folds-complete", "carry-kept-otherwise")
def _() -> Triple:
    def f(p: Put, a: Abstract) -> Put:
        return replace(p, value=a.make("Un", ("neg",), (p.value,), "f32")) if p.version == NEXT and p.view != "Y" else p

    return good.built(loops.matrix_power).puts(f)


@breaks("folds-complete", "carry-starts-elsewhere")
def _() -> Triple:
    def f(p: Put, a: Abstract) -> Put:
        return replace(p, value=a.const("2", "i32")) if a.nodes[p.value].attrs == ("1",) else p

    return good.built(loops.swapped_and_reversed).puts(f)


@breaks("buffers-initialised", "first-write-owed-by-nobody")
def _() -> Triple:
    """A workspace that construction made claims its author's word."""
    t = good.built(loops.matrix_power)
    views = tuple(replace(v, owed=v.role == "workspace") for v in t.abstract.abi.views)
    return t.abstracted(good.replaced(t.abstract, abi=replace(t.abstract.abi, views=views)))


NEXT = 3

__all__ = ["ORDERED"]
