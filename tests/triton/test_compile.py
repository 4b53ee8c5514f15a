"""Emitted kernels compile for several architectures without a GPU; registers, spills and PTX are as they should be."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from eqkir.emit.triton import Artifact, emit
from eqkir.emit.triton.checks import EVEN, ODD, RAGGED, WIDE, Compiled, compile_batch, scan
from eqkir.program.model import Program
from tests.triton import programs as P

pytestmark = pytest.mark.compile
SWIZZLE = ("TSwz", ("TAx", "i:OB"), ("TAx", "j:OB"))
BIG = {"B_i": 128, "B_j": 256, "C_k": 64, "G_g0": 8}


def big_gemm(**kw: object) -> Program:
    return P.gemm(dtype="bf16", order=SWIZZLE, options={"num_warps": 8, "num_stages": 3}, **BIG, **kw)  # type: ignore[arg-type]


PROGRAMS: dict[str, Program] = {
    "elementwise": P.elementwise(("TAx", "i:OB"), B_i=1024),
    "P0": P.softmax(),
    "softmax": P.softmax("W", F_c=1024, dtype="bf16"),
    "softmax loops": P.softmax("LC", "OB", "lanes", C_c=256, B_r=4),
    "softmax trees": P.with_options(P.softmax("LC", "OB", "tree", C_c=256, B_r=4), num_stages=3),
    "gemm": big_gemm(bias=True),
    "gemm fma": P.gemm(impl="fma", B_i=4, B_j=8, C_k=16),
    "batched": P.batched(B_h=2, B_i=32, B_j=32, C_k=32),
    "i8": P.gemm(dtype="i8", acc="i32", B_i=64, B_j=64, C_k=64),
    "argmax": P.argmax("LC", "lanes", C_c=256),
    "argmax index": P.argmax("LC", "lanes", index="index", C_c=256),
    "segments": P.two_segments(mode="stride", B_i=256, B_j=16, B_k=32, P_g0=100, P_g1=50),
    "phases": P.two_phases(F_c=512),
    "gather": P.gather(B_i=256),
}


@pytest.fixture(scope="module")
def artifacts() -> dict[str, Artifact]:
    return {k: emit(p) for k, p in PROGRAMS.items()}


@pytest.fixture(scope="module")
def compiled(artifacts: dict[str, Artifact]) -> dict[tuple[str, int, str], Compiled]:
    keys = [(n, 90, s) for n in PROGRAMS for s in (EVEN, WIDE)] + [(n, c, EVEN) for n in PROGRAMS for c in (80, 100)]
    keys += [("gemm", 90, RAGGED), ("softmax loops", 90, ODD), ("softmax trees", 90, RAGGED)]
    results = compile_batch([(artifacts[n], c, s) for n, c, s in keys], processes=2)
    return {(n, c, s.name): r for (n, c, s), r in zip(keys, results, strict=True)}


def test_every_program_compiles_for_three_architectures(compiled: dict[tuple[str, int, str], Compiled]) -> None:
    for (name, capability, spec), c in compiled.items():
        assert not c.error, f"{name} sm_{capability} {spec}: {c.error}\n{c.log}"
        assert not c.findings, f"{name} sm_{capability} {spec}: {c.findings}"
        if spec == "even":
            assert not c.spills, f"{name} sm_{capability}: {c.spills} bytes spilled"
            assert c.registers * 32 * c.warps <= 65536


def test_the_exact_identity_in_front_of_loop_reductions_folds_away(compiled: dict[tuple[str, int, str], Compiled]) -> None:
    first = compiled["softmax trees", 90, "even"].ptx.split("0f3FB8AA3B")[0]  # the loop of maxima ends before log2(e) is used
    assert "max.NaN.f32" in first and first.count("fma.rn.f32") <= 1


def test_sums_of_products_stay_exact_sums() -> None:
    """Fragment products summed over the middle axis: no TF32 matrix product, and no instruction for the exact identity."""
    p = P.gemm(impl="fma", k="W", B_i=16, B_j=16, F_k=16)
    by_name = p.axis
    arts = [emit(replace(p, axes=tuple(by_name[x] for x in order))) for order in ("ijk", "ikj", "kij")]
    assert any(", 1, _sum_f32)" in a.source for a in arts)
    for c in compile_batch([(a, t, EVEN) for a in arts for t in (80, 90, 100)], processes=2):
        assert not c.error and not c.findings, f"sm_{c.target}: {c.findings}"
        assert "mma" not in c.ptx and "fma.rn.f32" not in c.ptx


def test_divisible_extents_leave_no_masks(compiled: dict[tuple[str, int, str], Compiled]) -> None:
    predicated = re.compile(r"@%p\d+ (ld|st)\.global|setp")
    assert not predicated.search(compiled["elementwise", 90, "even"].ptx)
    assert re.search(r"ld\.global\.v4", compiled["elementwise", 90, "even"].ptx), "16-byte loads"
    assert re.search(r"@%p\d+ ld\.global", compiled["elementwise", 90, "wide"].ptx)


def test_matrix_products_use_the_matrix_unit_through_16_byte_asynchronous_copies(compiled: dict[tuple[str, int, str], Compiled]) -> None:
    ptx = compiled["gemm", 90, "even"].ptx
    loop = ptx[ptx.index("wgmma") :]
    assert "wgmma.mma_async" in ptx and re.search(r"cp\.async\.cg\.shared\.global.*0x10", loop)
    assert not re.search(r"cp\.async\.ca\.shared\.global.*0x[248],", loop)
    ragged = compiled["gemm", 90, "ragged"]
    assert re.search(r"cp\.async\.cg\.shared\.global.*0x10", ragged.ptx) and not ragged.spills, "masks alone cost no wide copies"
    assert "mma.sync" in compiled["gemm", 80, "even"].ptx and "tcgen05.mma" in compiled["gemm", 100, "even"].ptx
    assert "mma.sync" in compiled["batched", 90, "even"].ptx and "wgmma" in compiled["i8", 90, "even"].ptx


def test_wide_indices_are_64_bit_all_the_way(compiled: dict[tuple[str, int, str], Compiled]) -> None:
    """No 32-bit product may reach an address; 32-bit ones in the prologue come from special registers only."""
    for name in ("elementwise", "softmax loops", "gemm", "gather"):
        ptx = compiled[name, 90, "wide"].ptx
        assert re.search(r"(mul|mad)\.lo\.s64", ptx)
        assert not re.search(r"mul\.lo\.s32|mul\.lo\.u32|mad\.lo\.s32|mul\.wide\.s32", ptx.replace("mul.wide.u32", "")), name


def test_functions_hold_only_permitted_forms() -> None:
    from eqkir.program.ops import UNARY

    fns = [f for f in UNARY if f != "not"]
    results = compile_batch([(emit(P.unary(f, "f32")), 90, EVEN) for f in fns], processes=2)
    for f, c in zip(fns, results, strict=True):
        assert not c.error and not c.findings, f"{f}: {c.error} {c.findings}"
        assert not c.spills, f
    flushing = {m for c in results for m in re.findall(r"\b(?:mul|add|fma|sub|cvt|max|min)[\w.]*\.ftz[\w.]*", c.ptx)}
    assert not flushing, "arithmetic that flushes subnormals"


@pytest.mark.slow
def test_f64_and_narrow_functions_hold_only_permitted_forms() -> None:
    from eqkir.program.ops import UNARY

    jobs = [(f, t) for f in UNARY if f != "not" for t in ("f64", "bf16", "f16")]
    for (f, t), c in zip(jobs, compile_batch([(emit(P.unary(f, t)), 90, EVEN) for f, t in jobs], processes=2), strict=True):
        assert not c.error and not c.findings, f"{f} {t}: {c.error} {c.findings}"


def test_division_and_narrow_arithmetic_are_exactly_rounded_forms() -> None:
    jobs = [("div", "f32"), ("div", "f64"), ("div", "bf16"), ("mul", "f16"), ("add", "bf16"), ("floordiv", "i64"), ("maximum", "f32")]
    for (fn, t), c in zip(jobs, compile_batch([(emit(P.binary(fn, t)), 90, EVEN) for fn, t in jobs]), strict=True):
        assert c.clean, f"{fn} {t}: {c.error} {c.findings}"
        if fn == "div" and t != "f64":
            assert "div.rn.f32" in c.ptx
        if fn == "maximum":
            assert "max.NaN.f32" in c.ptx


def test_the_scan_sees_what_is_not_permitted() -> None:
    ptx = "\tdiv.full.f32 %f1, %f2, %f3;\n\t@%p1 ex2.approx.ftz.f32 %f1, %f2;\n"
    ptx += "\tfma.rn.f32 %f1, %f2, %f3, %f4;\n\tmul.rn.f32 %f1, %f2, %f3;\n"
    assert scan(ptx, (), False) == ("div.full.f32", "ex2.approx.ftz.f32", "fma.rn.f32")
    assert scan(ptx, ("ex2.approx.ftz.f32",), True) == ("div.full.f32",)
    ptx = "\tmax.NaN.f32 %f1, %f2, %f3;\n\tmax.s32 %r1, %r2, %r3;\n\tmin.f16x2 %h1, %h2, %h3;\n"
    assert scan(ptx, (), False) == ("min.f16x2",)


def test_results_are_cached_by_everything_they_depend_on(tmp_path, artifacts: dict[str, Artifact]) -> None:  # type: ignore[no-untyped-def]
    jobs = [(artifacts["gather"], 90, EVEN)]
    first = compile_batch(jobs, cache=tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 1
    assert compile_batch(jobs, cache=tmp_path) == first
    compile_batch([(artifacts["gather"], 90, WIDE)], cache=tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 2
    for f in tmp_path.glob("*.json"):
        f.write_text(f.read_text()[:40])  # a truncated entry is not trusted
    assert compile_batch(jobs, cache=tmp_path) == first


def test_an_architecture_without_a_dtype_is_refused_with_the_reason() -> None:
    a = emit(P.gemm(dtype="f8e4m3fn", B_i=32, B_j=32, C_k=32))
    assert a.capability == 89
    c80, c90 = compile_batch([(a, 80, EVEN), (a, 90, EVEN)])
    assert "89" in c80.error and not c90.error
