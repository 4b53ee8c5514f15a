"""Groups, instance axes and phases from facts of stores alone."""

from __future__ import annotations

from dataclasses import replace

from eqkir.analysis.coords import Facts
from eqkir.analysis.phases import plan, safe
from eqkir.analysis.worksets import Read, Write, groups, instance_axes
from eqkir.base.expr import Coord, Expr, Sym, coords

I, J = Coord("i"), Coord("j")
FACTS = Facts({"i": Sym("M"), "j": Sym("N")}, {"M": 0, "N": 0})


def read(
    ixs: tuple[Expr, ...], view: str = "X", alias: int = 0, version: int = 0, node: int = 0, spans: tuple[str, ...] | None = None
) -> Read:
    free = frozenset(a for e in ixs for a in coords(e))
    return Read(node, view, alias, version, ixs, free, spans is None, frozenset() if spans is None else frozenset({frozenset(spans)}))


def write(ixs: tuple[Expr, ...], *reads: Read, view: str = "X", alias: int = 0, version: int = 1, producers: tuple[int, ...] = (),
          bound: tuple[str, ...] = ()) -> Write:  # fmt: skip
    axes = tuple(dict.fromkeys(a for e in ixs for a in sorted(coords(e))))
    return Write(view, alias, version, ixs, axes, frozenset(axes), frozenset(bound), frozenset(producers), reads)


def test_independent_stores_have_their_own_groups() -> None:
    a, b = write((I,), view="Y", alias=1), write((I,), view="Z", alias=2)
    assert groups([a, b], FACTS) == [(0,), (1,)]
    assert groups([replace(a, producers=frozenset({5})), replace(b, producers=frozenset({5}))], FACTS) == [(0, 1)]


def test_stores_ordered_by_memory_share_a_group() -> None:
    first = write((I,), view="T", alias=1)
    then = write((I,), read((I,), "T", 1, 1), view="Y", alias=2)
    assert groups([first, then], FACTS) == [(0, 1)]
    other = write((I,), view="Q", alias=3)
    assert groups([first, other, then], FACTS) == [(0, 2), (1,)]


def test_an_axis_that_is_bound_or_absent_somewhere_stays_inside() -> None:
    assert instance_axes([write((I, J), view="Y", alias=1)], FACTS) == ("i", "j")
    assert instance_axes([write((I, J), view="Y", alias=1, bound=("j",))], FACTS) == ("i",)
    assert instance_axes([write((I, J), view="Y", alias=1), write((I,), view="Z", alias=2)], FACTS) == ("i",)


def test_instances_are_separated_or_merged() -> None:
    same = write((I, J), read((I, J)))
    assert instance_axes([same], FACTS) == ("i", "j")
    assert instance_axes([write((I, J), read((I, J + 1)))], FACTS) == ("i",)
    assert instance_axes([write((I, J), read((J, I)))], FACTS) == ()
    assert instance_axes([write((I, J), read((I, J), view="W"))], FACTS) == (), "another view that may alias"
    scope = frozenset({("p", "i")})
    inside = replace(write((I, J), replace(read((J, I)), scope=scope)), scope=scope)
    assert instance_axes([inside], FACTS) == ("i",), "points of one parallel never conflict"
    other = replace(write((I, J), replace(read((J, I), view="W"), scope=scope)), scope=scope)
    assert instance_axes([other], FACTS) == (), "a program does not say so of different views that may overlap"
    sums = [replace(write((I,), view=x, version=n), scope=scope, atomic=True, combines="add") for n, x in enumerate("XW", 1)]
    assert instance_axes(sums, FACTS) == ("i",), "nobody sees the order of sums"


def test_reads_that_may_stay_in_the_phase_of_the_store() -> None:
    w = write((I, J))
    assert safe(read((I, J)), w, True, ("i",), FACTS)
    assert not safe(read((I, J)), w, False, ("i",), FACTS)
    assert not safe(read((I, J + 1)), w, True, ("i",), FACTS)
    assert safe(read((I, J + 1), spans=("i",)), w, True, ("i",), FACTS)
    assert not safe(read((I, J), spans=("i", "j")), w, True, ("i",), FACTS)
    assert not safe(read((I // 2, J)), write((I // 2, J)), True, ("i",), FACTS), "not injective"


def test_a_read_of_a_made_version_comes_in_a_later_phase() -> None:
    first = write((I,), view="T", alias=1)
    then = write((I,), read((I,), "T", 1, 1), view="Y", alias=2)
    p = plan([first, then], ("i",), FACTS)
    assert (p.phases, p.copies) == ([[0], [1]], [])


def test_a_late_reader_is_moved_before_the_store() -> None:
    first = write((I, J))
    late = write((J, I), read((I, J)), view="Y", alias=2)
    p = plan([first, late], (), FACTS)
    assert (p.phases, p.copies) == ([[1], [0]], [])


def test_what_no_order_saves_is_copied() -> None:
    own = plan([write((I, J), read((J, I), node=7))], (), FACTS)
    assert (own.phases, own.copies, own.reads_copy) == ([[], [0]], [(0, 7)], {(0, 7)})
    x = write((I, J), read((J, I), "Y", 1, 0, 8))
    y = write((J, I), read((I, J), "X", 0, 0, 9), view="Y", alias=1)
    swap = plan([x, y], (), FACTS)
    assert swap.copies == [(0, 9)], "the value that the earlier store overwrites"
    assert swap.phases.index([0]) < swap.phases.index([1])
