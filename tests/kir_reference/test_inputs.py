"""Inputs are deterministic, poisoned where they are not data, and laid out as their variant says."""

from __future__ import annotations

import numpy as np
import pytest

from eqkir.base.dtypes import FLOATS, NUMPY
from eqkir.kir.inputs import VARIANTS, make_inputs
from eqkir.kir.memory import ViewArg
from eqkir.kir.reference import run
from tests.kir_reference.support import indices, kernel, op, view

DTYPES = ["f32", "bf16", "f8e4m3fn", "f8e5m2", "f16", "f64", "i8", "u64", "bool"]


def copy_kernel(dtype: str, **more):
    body = [*indices(["M", "N"]), op("load", "v", view="A", coords=["i0", "i1"]), op("store", view="Y", coords=["i0", "i1"], value="v")]
    return kernel([view("A", "in", dtype, "M", "N"), view("Y", "out", dtype, "M", "N")], body, "M N", **more)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_variant_runs_and_repeats(dtype: str, variant: str) -> None:
    k = copy_kernel(dtype)
    for shape in ((1, 1), (7, 13), (0, 4), (3, 0)):
        symbols = dict(zip("MN", shape))
        a, b = (make_inputs(k, symbols, 5, variant) for _ in range(2))
        for n in ("A", "Y"):
            assert a[n].memory.tobytes() == b[n].memory.tobytes() and a[n].strides == b[n].strides and a[n].offset == b[n].offset
        data = a["A"].array().copy()
        run(k, a)
        np.testing.assert_array_equal(a["Y"].array().astype(np.float64), data.astype(np.float64))


def test_seeds_and_variants_differ() -> None:
    k = copy_kernel("f32")
    seen = {make_inputs(k, {"M": 5, "N": 6}, seed, v)["A"].array().tobytes() for seed in range(3) for v in ("plain", "strided", "negative")}
    assert len(seen) == 9


def test_layouts() -> None:
    k = copy_kernel("f32")
    symbols = {"M": 6, "N": 9}

    def strides(variant: str, view: str = "A") -> tuple[int, ...]:
        return make_inputs(k, symbols, 1, variant)[view].strides

    assert strides("plain") == (9, 1) and strides("transposed") == (1, 6)
    assert min(strides("strided")) >= 2 and min(strides("negative")) < 0
    assert 0 in strides("broadcast") and 0 not in strides("broadcast", "Y")
    assert make_inputs(k, symbols, 1, "offset")["A"].offset > 0
    a = make_inputs(k, symbols, 1, "overlap")
    assert a["A"].memory is a["Y"].memory
    apart = make_inputs(copy_kernel("f32", noalias=[["A", "Y"]]), symbols, 1, "overlap")
    assert apart["A"].memory is not apart["Y"].memory


@pytest.mark.parametrize("dtype", DTYPES)
def test_outputs_and_gaps_are_poisoned(dtype: str) -> None:
    a = make_inputs(copy_kernel(dtype), {"M": 4, "N": 5}, 2, "strided")
    y = a["Y"].memory
    if dtype in FLOATS:
        assert np.isnan(y.astype(np.float64)).all()
        inside = np.zeros(a["A"].memory.size, bool)
        ViewArg(inside, 0, a["A"].shape, a["A"].strides).array()[...] = True
        assert np.isnan(a["A"].memory.astype(np.float64)[~inside]).all()
    elif dtype == "bool":  # no value is none: both occur, so neither passes for a result
        assert y.any() and not y.all()
    else:
        assert (y == y[0]).all() and y[0]


def test_special_values_occur() -> None:
    x = make_inputs(copy_kernel("f32"), {"M": 60, "N": 60}, 3, "special")["A"].array()
    assert np.isnan(x).any() and np.isinf(x).any() and (x == 0).any() and (np.abs(x[x != 0]) < 1e-38).any() and (np.abs(x) > 1e38).any()
    assert (np.isfinite(x)).mean() > 0.9


def test_integers_are_small_and_of_full_range() -> None:
    x = make_inputs(copy_kernel("i8"), {"M": 30, "N": 30}, 3)["A"].array()
    assert (np.abs(x.astype(int)) <= 8).mean() > 0.4 and x.min() < -100 and x.max() > 100


def test_scalars_and_constexprs() -> None:
    k = kernel(
        [view("Y", "out", "f32", "C"), {"kind": "scalar", "id": "s", "dtype": "f32"}, {"kind": "scalar", "id": "n", "dtype": "i32"}]
        + [{"kind": "constexpr", "id": "C", "type": "int", "default": 3}],
        [*indices(["C"]), op("store", view="Y", coords=["i0"], value="s")],
    )
    a = make_inputs(k, {}, 1, scalars={"s": 2.5})
    assert a["Y"].shape == (3,) and a["s"] == np.float32(2.5) and a["n"].dtype == NUMPY["i32"]
    run(k, a)
    assert a["Y"].array().tolist() == [2.5] * 3
    b = make_inputs(k, {}, 1, constexprs={"C": 5})
    run(k, b, constexprs={"C": 5})
    assert b["Y"].shape == (5,)


def test_an_unknown_variant_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown variant"):
        make_inputs(copy_kernel("f32"), {"M": 1, "N": 1}, 0, "sideways")


# ------------------------------------------------------------------------------------------------ contents with a meaning
def steering(body, *views, symbols="N T", **more):
    return kernel([view("I", "in", "i32", "N"), *views, view("Y", "inout", "f32", "T")], [*indices(["N"]), *body], symbols, **more)


def drawn(k, symbols, view_name="I", **more):
    return [make_inputs(k, symbols, seed, v, **more)[view_name].array() for seed in range(5) for v in ("plain", "strided", "broadcast")]


def test_coordinates_lie_within_their_axis() -> None:
    one = op("constant", "one", dtype="f32", value=1.0)
    k = steering([one, op("load", "c", view="I", coords=["i0"]), op("scatter_reduce", view="Y", coords=["c"], value="one", fn="add")])
    for x in drawn(k, {"N": 40, "T": 7}):
        assert x.min() >= 0 and x.max() < 7
    scaled = [
        one,
        op("load", "c", view="I", coords=["i0"]),
        op("constant", "four", dtype="i32", value=4),
        op("binary", "s", fn="mul", x="c", y="four"),
        op("scatter_reduce", view="Y", coords=["s"], value="one", fn="add"),
    ]
    assert max(x.max() for x in drawn(steering(scaled), {"N": 40, "T": 19})) == 3
    distinct = [one, op("load", "c", view="I", coords=["i0"]), op("unique_scatter", view="Y", coords=["c"], value="one")]
    for x in drawn(steering(distinct), {"N": 7, "T": 9}):
        assert len(set(x.tolist())) == 7


def test_offsets_are_sorted_within_their_domain() -> None:
    from tests.kir_reference.test_control import ragged

    for x in drawn(ragged(), {"N": 5, "P": 6, "T": 11}, "O"):
        assert x[0] == 0 and x[-1] == 11 and (np.diff(x) >= 0).all()


def test_told_contents_come_before_inferred_ones() -> None:
    k = steering([op("load", "c", view="I", coords=["i0"])])
    for x in drawn(k, {"N": 40, "T": 7}, data={"I": {"range": [3, 4]}}):
        assert set(x.tolist()) <= {3, 4}
    with pytest.raises(ValueError, match="unknown contents"):
        make_inputs(k, {"N": 1, "T": 1}, 0, data={"I": {"sideways": 1}})


@pytest.mark.parametrize(
    "entry", [{"falling": 0.5}, {"probabilities": "descending"}, {"matrix": "positive"}, {"matrix": "lower"}, {"normal": 2.0}]
)
def test_contents_of_floats(entry) -> None:
    k = kernel([view("A", "in", "f32", "B", "N", "N"), view("Y", "inout", "f32", "N")], [], "B N")
    a = make_inputs(k, {"B": 3, "N": 5}, 1, "special", data={"A": entry})["A"].array().astype(float)
    assert np.isfinite(a).all()
    if entry == {"matrix": "positive"}:
        assert (np.linalg.eigvalsh(a) > 0).all()
    if "probabilities" in entry:
        np.testing.assert_allclose(a.sum(-1), 1, rtol=1e-6)
        assert (np.diff(a, axis=-1) <= 0).all()


def test_records_places_and_codes_are_valid() -> None:
    from eqkir.kir import encodings

    params = [
        view("A", "in", "u8", "N", 144),
        view("B", "in", "u8", "N", 292),
        view("C", "in", "u8", "N", 8),
        view("D", "in", "u8", "N", 8),
    ]
    k = kernel([*params, view("Y", "inout", "f32", "N")], [], "N")
    data = {"A": {"records": "q4_K"}, "B": {"records": "q8_K"}, "C": {"places": 4}, "D": {"codes": "e4m3"}}
    a = make_inputs(k, {"N": 6}, 1, data=data)
    encodings.places(a["C"].array(), "two_of_four")
    ds, q, sums = encodings.unpack_q8k(a["B"].array())
    np.testing.assert_array_equal(q.reshape(6, 16, 16).sum(-1), sums)
    assert np.isfinite(ds).all() and np.isfinite(encodings.unpack_q4k(a["A"].array())[0]).all()
    assert np.isfinite(encodings.e4m3(a["D"].array())).all()
