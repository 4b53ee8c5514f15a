"""Structured program, legal program and emitted kernel compute the same, on odd shapes, strided views and special values."""

from __future__ import annotations

import numpy as np
import pytest

from tests.triton import programs as P
from tests.triton.against import Trial, check_all, inside, matmul_bound, poisoned, softmax_bound

pytestmark = pytest.mark.interpreter
RNG = np.random.default_rng(7)
SWIZZLE = ("TSwz", ("TAx", "i:OB"), ("TAx", "j:OB"))


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def test_elementwise_with_tail_and_zero_extent() -> None:
    forms = [
        P.elementwise(),
        P.elementwise(("TAx", "i:OB"), B_i=64),
        P.elementwise(("TRev", ("TAx", "i:OB")), B_i=16),
        P.elementwise(("TInter", ("TAx", "i:OB")), "stride", B_i=16, P_g0=3),
        P.elementwise(("TAx", "i:OB"), noalias=False, B_i=64),
        P.elementwise(("TAx", "i:OB"), B_i=1),
    ]
    trials = []
    for k, p in enumerate(forms):
        for n in (0, 1, 7, 64, 101) if k < 2 else (0, 37):
            trials.append(Trial(f"form {k} n {n}", p, {"x": f32(n), "y": poisoned([n])}, {"s": 1.5}))
    x, y = f32(41), poisoned([41])
    trials.append(Trial("negative stride", forms[1], {"x": x[::-1], "y": y}, {"s": 0.5}))
    big = poisoned([100])
    trials.append(Trial("gaps", forms[1], {"x": f32(90)[::3], "y": big[3:93:3]}, {"s": 0.5}))
    trials.append(Trial("zero stride", forms[1], {"x": np.broadcast_to(f32(1), (33,)), "y": poisoned([33])}, {"s": 2.0}))
    check_all(trials)


def test_blocks_that_never_fit_a_constant_extent() -> None:
    """An extent of 3 in blocks of 4: always masked, and no flag that says otherwise."""
    b, d = P.Block(), ("i:OB", "j:OB")
    b.store("y", ("i", "j"), b.load("x", ("i", "j"), d), d)
    a = P.abi("k", ("x", "in", "f32", ("N", 3)), ("y", "out", "f32", ("N", 3)))
    p = P.program(a, "i=N/own j=3/own", P.row_order(*d), b, B_i=4, B_j=4)
    (art, *_) = check_all([Trial(f"{n}", p, {"x": f32(n, 3), "y": poisoned([n, 3])}) for n in (5, 8, 1)])
    assert "EVEN_j" not in art.source and "EVEN_i" in art.source


def test_in_place_on_one_view() -> None:
    b, d = P.Block(), ("i:OB",)
    b.store("x", ("i",), b.bin("add", b.load("x", ("i",), d), b.const("1.0"), d), d)
    p = P.program(P.abi("inplace", ("x", "inout", "f32", ("N",))), "i=N/own", ("TAx", "i:OB"), b, B_i=16)
    a = check_all([Trial("in place", p, {"x": f32(37)})])[0]
    assert "debug_barrier" not in a.source, "one thread loads and stores the element: no barrier"


def test_softmax_forms() -> None:
    forms = [
        P.softmax("L1"),
        P.softmax("LC", "O1", "tree", C_c=16),
        P.softmax("LC", "OB", "lanes", C_c=16, B_r=4),
        P.softmax("W", "OB", F_c=64, B_r=2),
        P.softmax("W", noalias=False, F_c=64),
    ]
    trials = []
    for k, p in enumerate(forms):
        for m, n in [(3, 37), (1, 1), (2, 16)] + [(0, 5), (4, 0)] * (k > 0):
            trials.append(Trial(f"form {k} {m}x{n}", p, {"x": inside(f32(m, n)), "y": poisoned([m, n])}, bound=softmax_bound))
    odd = f32(5, 37)
    odd[0, 3], odd[1, 36], odd[2, :], odd[3, 5] = np.nan, np.inf, -np.inf, -np.inf
    trials += [Trial(f"special {k}", p, {"x": inside(odd), "y": poisoned([5, 37])}, bound=softmax_bound) for k, p in enumerate(forms)]
    check_all(trials)


def test_gemm_forms() -> None:
    tiles = {"B_i": 16, "B_j": 16, "C_k": 16}
    forms = [
        P.gemm("O1", "L1", impl="fma"),
        P.gemm(**tiles),
        P.gemm(order=SWIZZLE, G_g0=2, bias=True, **tiles),
        P.gemm(impl="fma", B_i=4, B_j=8, C_k=16),
        P.gemm(impl="fma", k="W", B_i=4, B_j=8, F_k=64),
        P.gemm(k="W", B_i=16, B_j=16, F_k=64),
        P.gemm(nt=True, **tiles),
    ]
    trials = []
    for k, p in enumerate(forms):
        shapes = [(7, 5, 3)] if k == 0 else [(33, 17, 37), (16, 32, 16), (1, 1, 1), (5, 3, 0)]
        for m, n, c in shapes:
            b = f32(n, c) if k == 6 else f32(c, n)
            arrays = {"a": inside(f32(m, c)), "b": inside(b), "c": inside(poisoned([m, n]))}
            if k == 2:
                arrays["bias"] = f32(n)
            ref = (lambda x: matmul_bound({"a": x["a"], "b": x["b"].T})) if k == 6 else (lambda x: matmul_bound(x, start=8.0))
            trials.append(Trial(f"form {k} {m}x{n}x{c}", p, arrays, bound=ref))
    check_all(trials)


def test_gemm_dtypes() -> None:
    import ml_dtypes

    trials = []
    for name, t, eps in [("bf16", ml_dtypes.bfloat16, 2.0**-8), ("f16", np.float16, 2.0**-11)]:
        p = P.gemm(dtype=name, B_i=16, B_j=16, C_k=32)
        arrays = {"a": f32(20, 40).astype(t), "b": f32(40, 18).astype(t), "c": poisoned([20, 18], t)}
        trials.append(Trial(name, p, arrays, bound=lambda x, e=eps: matmul_bound(x, eps=e)))
    p = P.gemm(dtype="i8", acc="i32", B_i=16, B_j=16, C_k=32)
    ints = [RNG.integers(-128, 128, s).astype(np.int8) for s in ((20, 40), (40, 18))]
    trials.append(Trial("i8", p, {"a": ints[0], "b": ints[1], "c": poisoned([20, 18], np.int32)}))
    for name, t in [("f8e4m3fn", ml_dtypes.float8_e4m3fn), ("f8e5m2", ml_dtypes.float8_e5m2)]:
        p = P.gemm(dtype=name, B_i=16, B_j=16, C_k=32)
        arrays = {"a": (f32(20, 40) / 4).astype(t), "b": (f32(40, 18) / 4).astype(t), "c": poisoned([20, 18], t)}
        trials.append(Trial(name, p, arrays, bound=lambda x: matmul_bound(x, eps=2.0**-3)))
    p = P.gemm(impl="fma", dtype="i8", acc="i32", B_i=4, B_j=4, C_k=16)
    trials.append(Trial("i8 fma", p, {"a": ints[0], "b": ints[1], "c": poisoned([20, 18], np.int32)}))
    check_all(trials)


def test_batched_matrix_product() -> None:
    p = P.batched(B_h=2, B_i=16, B_j=16, C_k=16)
    arrays = {"a": f32(3, 20, 37).astype(np.float16), "b": f32(3, 37, 21).astype(np.float16), "c": poisoned([3, 20, 21])}
    check_all([Trial("batched", p, arrays, bound=matmul_bound)])


def test_padded_contraction_lanes_never_meet_the_neighbours() -> None:
    """Infinities beside the operands, and inside them next to padded lanes: 0 * inf must not appear."""
    a, b = f32(18, 21), f32(21, 19)
    a[3, 20] = np.inf
    arrays = {"a": inside(a, np.inf), "b": inside(b, np.inf), "c": poisoned([18, 19])}
    forms = [P.gemm(B_i=16, B_j=16, C_k=16), P.gemm(k="W", B_i=16, B_j=16, F_k=32), P.gemm(impl="fma", B_i=4, B_j=8, C_k=16)]
    check_all([Trial(f"form {k}", p, arrays, bound=lambda x: matmul_bound(x, start=1.0)) for k, p in enumerate(forms)])


def test_argmax_ties_and_nan() -> None:
    x = f32(6, 37)
    x[1, 5] = np.nan
    x[2, 3] = x[2, 9] = np.inf
    x[3, 30] = x[3, 36] = 9.0
    x[4] = -np.inf
    x[5] = 0.0
    x[5, 7] = -0.0
    forms = [
        P.argmax("L1"), P.argmax("W", F_c=64), P.argmax("LC", "lanes", C_c=16), P.argmax("LC", "tree", row="OB", C_c=16, B_r=4),
        P.argmax("W", row="OB", F_c=64, B_r=4),
    ]  # fmt: skip
    trials = [Trial(f"form {k}", p, {"x": inside(x), "v": poisoned([6]), "p": poisoned([6], np.int32)}) for k, p in enumerate(forms)]
    check_all(trials)
    want = np.array([np.argmax(x[0]), 5, 3, 30, 0, 0])
    from eqkir.emit.triton import emit
    from eqkir.emit.triton.checks import Case, interpret_batch

    for p, t in zip(forms, trials, strict=True):
        got = interpret_batch([(emit(p), [Case(t.arrays)])])[0][0]
        np.testing.assert_array_equal(got.arrays["p"], want)


def test_indices_carried_narrow_come_back_as_64_bit_integers() -> None:
    """The identity of an arg-reduction is the largest 64-bit integer: it must survive where a row is empty."""
    from dataclasses import replace

    forms = [
        P.argmax("L1", index="index"), P.argmax("W", index="index", F_c=64), P.argmax("LC", "lanes", index="index", C_c=16),
        P.argmax("LC", "tree", row="OB", index="index", C_c=16, B_r=4),
    ]  # fmt: skip
    trials = []
    for k, p in enumerate(forms):
        for m, n in ((5, 37), (3, 0), (2, 1)):
            arrays = {"x": f32(m, n), "v": poisoned([m]), "p": poisoned([m], np.int64), "q": poisoned([m], np.int64), "f": poisoned([m])}
            trials.append(Trial(f"form {k} {m}x{n}", p, arrays))
    artifacts = check_all(trials)
    assert "_widen_max" in artifacts[-1].source and "tl.int64)" not in artifacts[-1].source.split("tl.range")[1].split("tl.reduce")[0]
    from eqkir.emit.triton.checks import Case, interpret_batch

    wide = [
        (replace(a, source=a.source.replace("2147483648 else", "0 else")), [Case(t.arrays)]) for a, t in zip(artifacts, trials, strict=True)
    ]
    narrow = interpret_batch([(a, [Case(t.arrays)]) for a, t in zip(artifacts, trials, strict=True)])
    for t, x, y in zip(trials, interpret_batch(wide), narrow, strict=True):
        assert not x[0].error, f"{t.name}: {x[0].error}"
        for k in t.arrays:
            np.testing.assert_array_equal(x[0].arrays[k], y[0].arrays[k])


def test_segments_orders_and_strides() -> None:
    def arrays(n: int, p: int, q: int) -> dict[str, np.ndarray]:
        return {"x": f32(n), "y": poisoned([n]), "u": f32(p, q), "w": poisoned([q, p])}

    forms = [
        P.two_segments("O1"), P.two_segments(B_i=16, B_j=4, B_k=8), P.two_segments(mode="stride", B_i=16, B_j=4, B_k=8, P_g0=3, P_g1=2),
    ]  # fmt: skip
    shapes = [(7, 3, 2), (50, 13, 9), (0, 5, 6), (20, 0, 3), (1, 1, 1)]
    check_all([Trial(f"form {k} {s}", p, arrays(*s)) for k, p in enumerate(forms) for s in (shapes[:1] if k == 0 else shapes)])


def test_phases_exchange_through_a_workspace() -> None:
    p = P.two_phases(F_c=32)
    trials = [Trial("phases", p, {"x": f32(3, 29), "y": poisoned([3, 29])})]
    a = check_all(trials)[0]
    assert "tl.debug_barrier()" in a.source


def test_gather_with_validity_and_fill() -> None:
    p = P.gather(B_i=32)
    k = RNG.integers(0, 20, 50).astype(np.int32)
    k[1::2] = 2**31 - 1  # invalid: must not be read
    check_all([Trial("gather", p, {"x": f32(20), "k": k, "y": poisoned([50])})])


def test_names_of_a_program_may_collide_with_each_other_and_with_the_module() -> None:
    from eqkir.base.expr import Coord, Sym
    from eqkir.program.abi import Abi, Axis, ScalarParam, SymbolParam, ViewParam
    from eqkir.program.model import Program, Segment

    b, d = P.Block(), ("tl:OB",)
    s = b.let("Scalar", ("pid",))
    v = b.bin("add", b.load("x", ("tl",), d), b.load("x_s0", ("tl",), d), d)
    b.store("lambda", (Coord("tl"),), b.bin("mul", v, s, d), d)
    views = tuple(ViewParam(n, r, "f32", (Sym("kernel"),), k) for k, (n, r) in enumerate([("x", "in"), ("x_s0", "in"), ("lambda", "out")]))
    a = Abi("names", views, (ScalarParam("pid", "f32"),), (SymbolParam("kernel"),))
    p = Program(a, (Axis("tl", Sym("kernel"), "own"),), (Segment("x", ("TAx", "tl:OB"), "grid", (tuple(b.items),)),), {"B:tl": 16})
    check_all([Trial("names", p, {"x": f32(37), "x_s0": f32(37), "lambda": poisoned([37])}, {"pid": 2.0})])


def test_ordered_recurrence_with_stores() -> None:
    forms = [P.recurrence("O1"), P.with_options(P.recurrence(B_r=8), num_stages=3)]
    shapes = [(3, 7), (9, 5), (1, 0)]
    arrays = [{"x": inside(f32(m, n)), "y": poisoned([m, n]), "last": poisoned([m])} for m, n in shapes]
    a = check_all([Trial(f"form {k} {n}", p, x) for k, p in enumerate(forms) for n, x in zip(shapes, arrays, strict=True)])
    assert "num_stages=3" in a[-1].source and "num_stages" not in a[0].source.split("OPTIONS")[1].split("def kernel")[1]


def test_loads_are_not_prefetched_over_stores_that_they_may_depend_on() -> None:
    from dataclasses import replace

    p = P.with_options(P.recurrence(B_r=8), num_stages=3)
    alias = replace(p, abi=replace(p.abi, views=tuple(replace(v, alias=0) for v in p.abi.views), noalias=()))
    a = check_all([Trial("may alias", alias, {"x": f32(9, 5), "y": poisoned([9, 5]), "last": poisoned([9])})])[0]
    assert "num_stages=" not in a.source.split("def kernel")[1].split("_PLANS")[0] and "tl.debug_barrier()" in a.source
