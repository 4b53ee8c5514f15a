"""Alias classes and memory versions in program order."""

from __future__ import annotations

from eqkir.analysis.effects import alias_classes, effects
from eqkir.kir.builder import Builder
from eqkir.kir.model import View


def views(**roles: str) -> list[View]:
    return [View(id=n, role=r, dtype="f32", shape=()) for n, r in roles.items()]  # type: ignore[arg-type]


def classes(noalias: tuple[tuple[str, ...], ...] = (), **roles: str) -> list[set[str]]:
    out: dict[int, set[str]] = {}
    for n, c in alias_classes(views(**roles), noalias).items():
        out.setdefault(c, set()).add(n)
    return [out[c] for c in sorted(out)]


def test_views_may_alias_unless_declared() -> None:
    assert classes(X="in", Y="out") == [{"X", "Y"}]
    assert classes((("X", "Y"),), X="in", Y="out") == [{"X"}, {"Y"}]


def test_inputs_do_not_conflict_with_each_other_but_through_an_output() -> None:
    assert classes(X="in", W="in") == [{"X"}, {"W"}]
    assert classes((("X", "Y"), ("W", "Y")), X="in", W="in", Y="out") == [{"X"}, {"W"}, {"Y"}]
    assert classes(X="in", W="in", Y="out") == [{"X", "W", "Y"}]
    assert classes((("X", "Y"),), X="out", Y="out", Z="inout") == [{"X", "Y", "Z"}]
    assert classes((("X", "Y", "Z"),), X="out", Y="out", Z="inout", W="in") == [{"X", "Y", "Z", "W"}]
    assert classes((("X", "Y", "Z", "W"),), X="out", Y="out", Z="inout", W="in") == [{"X"}, {"Y"}, {"Z"}, {"W"}]


def test_versions_follow_program_order_of_the_class() -> None:
    k = Builder("k")
    (N,) = k.symbols("N")
    X, Y, Z = k.view("X", "inout", "f32", (N,)), k.view("Y", "inout", "f32", (N,)), k.view("Z", "inout", "f32", (N,))
    k.noalias(X, Z)
    k.noalias(Y, Z)
    a = X[:]
    Y[:] = a  # class of X and Y
    b = X[:]
    Z[:] = b
    with k.parallel(N) as i:
        c = X[i]
        X[i] = c + Y[i]
        d = X[i]
        Z[i] = d
    e = effects(k.build(), "/kernels/0")
    assert [e.versions[v.id] for v in (a, b, c, d)] == [0, 1, 1, 2]
    assert [(s.op.view, s.version, len(s.scope)) for s in e.stores] == [("Y", 1, 0), ("Z", 1, 0), ("X", 2, 1), ("Z", 2, 1)]
    assert e.stores[2].pointer.startswith("/kernels/0/body/") and "/body/body/" in e.stores[2].pointer
    assert set(e.points) == set(e.stores[2].scope) and e.scopes[c.id] == e.stores[2].scope
