"""The native check catches what is wrong in emitted Mojo: mutants of the text do not get past it."""

from __future__ import annotations

import pytest

from eqkir.emit.mojo import toolchain
from eqkir.targets.cpu import host_level
from tests.mutation import native
from tests.mutation.native import chosen, edits

SHARE = 0.95
#: kernels of the whole campaign: pointwise, a row reduction, a product of narrow floats, a shift, a scan, a histogram, integers
KERNELS = (
    "relu_f32", "softmax_f32", "gemm_nn_bf16", "shift", "cumsum_f32", "bit_flags_u32", "integer_mix", "sum_middle_f32", "swiglu_bf16",
    "argmax_inner_f32",
)  # fmt: skip
needs_compiler = pytest.mark.skipif(
    not toolchain.available() or not host_level(), reason="no Mojo compiler, or no described level of this machine"
)
TEXT = """\
def kt_g0(ctx: Int, lo: Int, hi: Int) abi("C"):
    var p0 = Pointer[Scalar[DType.float32], MutAnyOrigin](unsafe_from_address=Int(words[unsafe_offset=0]))  # X
    var p1 = Pointer[Scalar[DType.float32], MutAnyOrigin](unsafe_from_address=Int(words[unsafe_offset=1]))  # Y
    for _ in range(lo, hi):
        var v1 = SIMD[DType.int64, 1](16)
        var v2 = SIMD[DType.float32, 1](0.0)  # from k %a
        for i3 in range(Int(v0), Int(v1), 4):
            var v4 = eqk_load_masked[DType.float32, 16](p0, v3, v9, SIMD[DType.float32, 16](v2))
            var v5 = v4 - v4
            var v6 = v5.lt(v4)
            var v7 = v6.select(v4, v5)
            x8 = v7
            eqk_store[DType.float32, 16](p1, v3, v7)
        d0 += 1
"""


def test_every_operator_makes_one_change() -> None:
    found = edits(TEXT)
    assert {e.operator for e in found} == {
        "mask", "compare", "arithmetic", "constant", "identity", "loop", "lost", "place", "order", "instance",
    }  # fmt: skip
    for e in found:
        changed = [(a, b) for a, b in zip(TEXT.split("\n"), e.text.split("\n"), strict=True) if a != b]
        assert len(changed) == 1 and (e.before, e.after) == tuple(x.partition("  # ")[0].strip() for x in changed[0])
    assert "eqk_load[DType.float32, 16](p0, v3)" in next(e.after for e in found if e.operator == "mask")
    assert next(e.after for e in found if e.operator == "place" and "store" in e.before).endswith("(p0, v3, v7)")
    assert [str(e) for e in chosen(found, 2)] == [str(e) for e in chosen(edits(TEXT), 2)], "the same mutants every time"


@pytest.mark.compile
@needs_compiler
def test_a_sample_of_mutants_is_caught() -> None:
    verdicts = native.run("relu_f32", 1)
    left = [str(v.edit) for v in verdicts if not v.caught]
    assert len(verdicts) >= 6 and len(left) <= 1, left


@pytest.mark.slow
@pytest.mark.compile
@needs_compiler
def test_mutants_of_many_kernels_are_caught() -> None:
    verdicts = [v for k in KERNELS for v in native.run(k, 4)]
    left = [f"{v.kernel} {v.edit}" for v in verdicts if not v.caught]
    print(f"{len(verdicts)} mutants, {len(verdicts) - len(left)} caught", *left, sep="\n")
    assert len(verdicts) >= 200 and len(left) <= (1 - SHARE) * len(verdicts), "\n".join(left)
