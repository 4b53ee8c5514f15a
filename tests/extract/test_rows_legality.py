"""Binding rows come from roles and data; legality from the target."""

from __future__ import annotations

from math import isfinite

import numpy as np
import pytest

from eqkir.base.expr import Int, Sym
from eqkir.extract.extents import Extents, next_pow2
from eqkir.extract.extractors import extract
from eqkir.extract.features import bound_label, free_labels
from eqkir.extract.graph import ENode
from eqkir.extract.labels import LabelTable
from eqkir.extract.legality import dot_dims, legality
from eqkir.extract.roles import axis_roles
from eqkir.extract.rows import Row, binding_rows, matches
from eqkir.program.abi import Abi, Axis, SymbolParam
from eqkir.targets import load_gpu, target_names

from ..terms import samples
from .programs import SHAPES, decoder, made, saturated, target

NAMES = ("softmax", "gemm", "two", "argmax", "in_place")


def test_roles() -> None:
    a = samples.gemm()
    roles = axis_roles(a, Extents(a.abi, {}))
    assert (
        {"own", "left"} <= roles["i0"] and {"own", "right", "contiguous"} <= roles["i1"] and {"loop", "contracted", "matrix"} <= roles["c0"]
    )
    a = samples.softmax()
    assert {"loop", "reduced", "folded", "contiguous"} <= axis_roles(a, Extents(a.abi, {}))["c0"]
    assert "short" in axis_roles(a, Extents(a.abi, {"C": 20}))["c0"] and "narrow" in axis_roles(a, Extents(a.abi, {"C": 200}))["c0"]


def test_selectors() -> None:
    assert (
        matches("own&!left", frozenset({"own", "right"}))
        and not matches("own&!left", frozenset({"own", "left"}))
        and not matches("own", frozenset())
    )


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_whole_distinct_and_powers_of_two(name: str) -> None:
    a = getattr(samples, name)()
    for t in (load_gpu(n) for n in target_names() if n.startswith("triton:")):
        rows = binding_rows(a, t, SHAPES[name])
        assert 1 <= len(rows) <= 96 and len({(r.bindings, r.options) for r in rows}) == len(rows)
        assert rows == binding_rows(a, t, SHAPES[name])
        for r in rows:
            values = r.values
            assert all(v > 0 and v & (v - 1) == 0 for v in values.values())
            assert all(f"{p}:{x.name}" in values for x in a.axes for p in (("B",) if x.kind == "own" else ("C",)))
            assert r.launch["num_warps"] <= t.max_warps_per_block


def test_fragments_need_a_bound_and_cover_it() -> None:
    a = samples.softmax()
    assert not any("F:c0" in r.values for r in binding_rows(a, target(), {}))
    pinned = [r.values["F:c0"] for r in binding_rows(a, target(), {"C": 1000}) if "F:c0" in r.values]
    assert pinned and set(pinned) == {1024}
    assert not any("F:c0" in r.values for r in binding_rows(a, target(), {"C": 1 << 20}))


def test_blocks_are_clipped_to_known_extents_but_not_below_the_dot_minimum() -> None:
    a = samples.gemm()
    for r in binding_rows(a, target(), {"M": 5, "N": 4096, "K": 100}):
        assert r.template == "plain" or (r.values["B:i0"] == 16 and r.values["C:c0"] <= 128)
    assert all(r.values["B:i0"] <= 8 for r in binding_rows(samples.softmax(), target(), {"R": 5, "C": 4096}))


def test_extents() -> None:
    abi = Abi("k", (), (), (SymbolParam("N", 0, 100), SymbolParam("M", 0, None, 16), SymbolParam("K")))
    e = Extents(abi, {"K": 7})
    assert e.bound(Sym("N")) == 100 and e.bound(Sym("M")) is None and e.bound(Sym("K")) == 7 and e.bound(Int(3)) == 3
    assert e.bound(Sym("N") * 2 + 1) == 201 and e.bound(Sym("K") - 9) == 0 and e.bound(Int(5) - Sym("N")) is None
    assert (
        e.bound(Sym("N") // 0) is None
        and e.estimate(Sym("M")) == 4096
        and e.estimate(Sym("N")) == 100
        and e.estimate(Sym("N") // 0) == 4096
    )
    assert [next_pow2(n) for n in (0, 1, 2, 3, 1000)] == [1, 1, 2, 4, 1024]


def table(bindings: dict[str, int], warps: int = 4, stages: int = 3, extents: dict[str, int] | None = None) -> LabelTable:
    axes = (Axis("i0", Sym("M"), "own"), Axis("i1", Sym("N"), "own"), Axis("c0", Sym("K"), "loop"))
    abi = Abi("k", (), (), (SymbolParam("M"), SymbolParam("N"), SymbolParam("K")))
    row = Row(tuple(sorted(bindings.items())), (("num_stages", stages), ("num_warps", warps)), "t")
    return LabelTable(axes, [row], Extents(abi, extents or {}), 32)


def legal(n: ENode, t: LabelTable, a: str = "bf16", b: str = "bf16", c: str = "f32") -> tuple[bool, dict[str, int]]:
    """Legality of one contraction-like e-node whose operands are loads."""
    from eqkir.extract.graph import FrozenGraph

    la = ENode("FLoad", ("c0:LC", "i0:OB"), (), ("A", 0, (), "ptr"), ())
    lb = ENode("FLoad", ("c0:LC", "i1:OB"), (), ("B", 0, (), "ptr"), ())
    g = FrozenGraph([(n,), (la,), (lb,)], ["F"] * 3, [c, a, b], 0)
    got = legality(g, t, target())
    return bool(got.legal[0, 0]), got.reasons


def con(impl: str, op: str = "FConLoop") -> ENode:
    return ENode(op, ("c0:LC", "i0:OB", "i1:OB"), (("c0", "c0:LC", 0),), (impl, "f32"), (1, 2))


def test_dot_needs_its_minima_and_dtypes() -> None:
    big = {"B:i0": 64, "B:i1": 64, "C:c0": 64}
    assert legal(con("mma"), table(big)) == (True, {})
    assert not legal(con("mma"), table({**big, "B:i0": 8}))[0]
    assert legal(con("mma"), table({**big, "B:i0": 8}))[1]["dot-minimum"] == 1
    assert legal(con("mma"), table({**big, "C:c0": 16}))[0] and not legal(con("mma"), table({**big, "C:c0": 16}), "i8", "i8", "i32")[0]
    assert legal(con("mma"), table(big), "bf16", "f32")[1] == {"dot-dtype": 1}
    assert legal(con("mma"), table({"B:i0": 256, "B:i1": 256, "C:c0": 128}, warps=16, stages=4))[1] == {"shared": 1}
    assert legal(con("fma"), table({"B:i0": 8, "B:i1": 8, "C:c0": 8}))[0] and not legal(con("fma"), table(big))[0]


def test_dot_shape() -> None:
    n = con("mma")
    assert bound_label(n) == "c0:LC" and free_labels(n) == ("i0:OB", "i1:OB")
    a, b = frozenset({"i0:OB", "c0:LC"}), frozenset({"i1:OB", "c0:LC"})
    assert dot_dims(n, a, b) == ("i0:OB", "c0:LC", "i1:OB")
    assert dot_dims(n, a, a) is None and dot_dims(n, a | b, b) is None and dot_dims(n, a, frozenset({"i1:OB"})) is None
    batch = ENode("FConLoop", ("b:O1", "c0:LC", "i0:OB", "i1:OB"), n.path, n.attrs, n.kids)
    assert dot_dims(batch, a | {"b:O1"}, b | {"b:O1"}) == ("i0:OB", "c0:LC", "i1:OB")


def test_unbound_parameters_uncovered_fragments_and_large_fragments() -> None:
    load = lambda *ls: ENode("FLoad", tuple(ls), (), ("A", 0, (), "ptr"), ())  # noqa: E731
    from eqkir.extract.graph import FrozenGraph

    def reasons(n: ENode, t: LabelTable) -> dict[str, int]:
        return legality(FrozenGraph([(n,)], ["F"], ["f32"], 0), t, target()).reasons

    assert reasons(load("i0:OB"), table({})) == {"bound": 1} and reasons(load("z9:O1"), table({})) == {"bound": 1}
    assert reasons(load("i0:O1", "c0:L1"), table({})) == {}
    assert reasons(load("c0:W"), table({"F:c0": 64})) == {"covers": 1}  # nothing bounds the extent
    assert reasons(load("c0:W"), table({"F:c0": 64}, extents={"K": 64})) == {} and reasons(
        load("c0:W"), table({"F:c0": 64}, extents={"K": 65})
    ) == {"covers": 1}
    assert reasons(load("i0:OB"), table({"B:i0": 1 << 17})) == {"lanes": 1} and reasons(load("i0:OB"), table({"B:i0": 1 << 15})) == {
        "registers": 1
    }
    assert reasons(load("i0:OB"), table({"B:i0": 1 << 15}, warps=8)) == {}


@pytest.mark.parametrize("name", NAMES)
def test_every_row_that_is_feasible_decodes(name: str) -> None:
    a, g, p = made(name)
    found = extract(p)
    assert found and len({c.row for c in found}) == len(found)
    for c in found[:6]:
        row = p.rows[c.row]
        program = decoder(a)(g, c.selection, row.values, row.launch)
        assert all(program.bindings[k] == row.values[k] for k in program.bindings)


def test_scalars_are_always_legal() -> None:
    _, g = saturated("gemm")
    a = samples.gemm()
    t = LabelTable(a.axes, [Row((), (("num_stages", 1), ("num_warps", 1)), "none")], Extents(a.abi, {}), 32)
    ok = legality(g, t, target()).legal
    scalar = [
        all(x.endswith(("O1", "L1")) for x in (*(n.labels or ()), *(p[1] for p in n.path or ()))) and n.op != "TAx"
        for ns in g.classes
        for n in ns
    ]
    fma = ["mma" not in n.attrs for ns in g.classes for n in ns]
    assert np.all(
        ok[:, 0]
        == (np.array(scalar) & np.array(fma) | np.array([n.op == "TAx" and n.attrs[0].endswith("O1") for ns in g.classes for n in ns]))
    )


def test_weights_are_finite_exactly_where_legal() -> None:
    for name in NAMES:
        _, g, p = made(name)
        assert isfinite(float(np.nanmin(p.weight))) and not np.isnan(p.weight).any() and (p.weight >= 0).all()
