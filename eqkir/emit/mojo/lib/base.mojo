# Exact operations: comparison, integer arithmetic, rounding, conversion between formats. One definition a block, blocks begin with a decorator.

@always_inline
def eqk_ne[D: DType, W: Int](a: SIMD[D, W], b: SIMD[D, W]) -> SIMD[DType.bool, W]:
    return ~a.eq(b)  # the method `ne` is false for NaN


@always_inline
def eqk_isnan[D: DType, W: Int](a: SIMD[D, W]) -> SIMD[DType.bool, W]:
    return ~a.eq(a)


@always_inline
def eqk_abs_int[D: DType, W: Int](a: SIMD[D, W]) -> SIMD[D, W]:
    return a.lt(0).select(-a, a)


@always_inline
def eqk_abs_f32[W: Int](a: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    return bitcast[DType.float32, W](bitcast[DType.uint32, W](a) & 0x7FFFFFFF)


@always_inline
def eqk_abs_f64[W: Int](a: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    return bitcast[DType.float64, W](bitcast[DType.uint64, W](a) & 0x7FFFFFFFFFFFFFFF)


@always_inline
def eqk_neg_f32[W: Int](a: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    return bitcast[DType.float32, W](bitcast[DType.uint32, W](a) ^ 0x80000000)


@always_inline
def eqk_neg_f64[W: Int](a: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    return bitcast[DType.float64, W](bitcast[DType.uint64, W](a) ^ 0x8000000000000000)


@always_inline
def eqk_isinf_f32[W: Int](a: SIMD[DType.float32, W]) -> SIMD[DType.bool, W]:
    return (bitcast[DType.uint32, W](a) & 0x7FFFFFFF).eq(0x7F800000)


@always_inline
def eqk_isinf_f64[W: Int](a: SIMD[DType.float64, W]) -> SIMD[DType.bool, W]:
    return (bitcast[DType.uint64, W](a) & 0x7FFFFFFFFFFFFFFF).eq(0x7FF0000000000000)


@always_inline
def eqk_isfinite_f32[W: Int](a: SIMD[DType.float32, W]) -> SIMD[DType.bool, W]:
    return (bitcast[DType.uint32, W](a) & 0x7FFFFFFF).lt(0x7F800000)


@always_inline
def eqk_isfinite_f64[W: Int](a: SIMD[DType.float64, W]) -> SIMD[DType.bool, W]:
    return (bitcast[DType.uint64, W](a) & 0x7FFFFFFFFFFFFFFF).lt(0x7FF0000000000000)


@always_inline
def eqk_floor[D: DType, W: Int](a: SIMD[D, W]) -> SIMD[D, W]:
    return llvm_intrinsic["llvm.floor", SIMD[D, W], has_side_effect=False](a)


@always_inline
def eqk_ceil[D: DType, W: Int](a: SIMD[D, W]) -> SIMD[D, W]:
    return llvm_intrinsic["llvm.ceil", SIMD[D, W], has_side_effect=False](a)


@always_inline
def eqk_trunc[D: DType, W: Int](a: SIMD[D, W]) -> SIMD[D, W]:
    return llvm_intrinsic["llvm.trunc", SIMD[D, W], has_side_effect=False](a)


@always_inline
def eqk_round_even[D: DType, W: Int](a: SIMD[D, W]) -> SIMD[D, W]:
    return llvm_intrinsic["llvm.roundeven", SIMD[D, W], has_side_effect=False](a)


@always_inline
def eqk_sqrt[D: DType, W: Int](a: SIMD[D, W]) -> SIMD[D, W]:
    return llvm_intrinsic["llvm.sqrt", SIMD[D, W], has_side_effect=False](a)


# The greater (code 5) or the lesser (code 4) of two numbers by the instruction of AVX512-DQ, which knows the sign of a zero. Of a NaN and a
# number it gives the number if the NaN is quiet.
@always_inline
def eqk_range[D: DType, W: Int, code: Int](a: SIMD[D, W], b: SIMD[D, W]) -> SIMD[D, W]:
    comptime T = SIMD[D, W]
    comptime bytes = W * size_of[Scalar[D]]()
    comptime if bytes > 64:
        comptime H = W // 2
        var out = a.insert[offset=0](eqk_range[D, H, code](a.slice[H](), b.slice[H]()))
        return out.insert[offset=H](eqk_range[D, H, code](a.slice[H, offset=H](), b.slice[H, offset=H]()))
    elif D == DType.float32 and bytes == 64:
        return llvm_intrinsic["llvm.x86.avx512.mask.range.ps.512", T, has_side_effect=False](a, b, Int32(code), a, Int16(-1), Int32(4))
    elif D == DType.float32 and bytes == 32:
        return llvm_intrinsic["llvm.x86.avx512.mask.range.ps.256", T, has_side_effect=False](a, b, Int32(code), a, Int8(-1))
    elif D == DType.float32:
        return llvm_intrinsic["llvm.x86.avx512.mask.range.ps.128", T, has_side_effect=False](a, b, Int32(code), a, Int8(-1))
    elif bytes == 64:
        return llvm_intrinsic["llvm.x86.avx512.mask.range.pd.512", T, has_side_effect=False](a, b, Int32(code), a, Int8(-1), Int32(4))
    elif bytes == 32:
        return llvm_intrinsic["llvm.x86.avx512.mask.range.pd.256", T, has_side_effect=False](a, b, Int32(code), a, Int8(-1))
    else:
        return llvm_intrinsic["llvm.x86.avx512.mask.range.pd.128", T, has_side_effect=False](a, b, Int32(code), a, Int8(-1))


# Of numbers: what becomes of a NaN is nobody's matter.
@always_inline
def eqk_maximum_ordered[D: DType, W: Int](a: SIMD[D, W], b: SIMD[D, W]) -> SIMD[D, W]:
    comptime if CompilationTarget._has_feature["avx512dq"]() and W * size_of[Scalar[D]]() >= 16:
        return eqk_range[D, W, 5](a, b)
    else:
        return llvm_intrinsic["llvm.maximum", SIMD[D, W], has_side_effect=False](a, b)


@always_inline
def eqk_minimum_ordered[D: DType, W: Int](a: SIMD[D, W], b: SIMD[D, W]) -> SIMD[D, W]:
    comptime if CompilationTarget._has_feature["avx512dq"]() and W * size_of[Scalar[D]]() >= 16:
        return eqk_range[D, W, 4](a, b)
    else:
        return llvm_intrinsic["llvm.minimum", SIMD[D, W], has_side_effect=False](a, b)


# A sum with a NaN is a NaN: one comparison and an addition under its mask.
@always_inline
def eqk_maximum[D: DType, W: Int](a: SIMD[D, W], b: SIMD[D, W]) -> SIMD[D, W]:
    comptime if CompilationTarget._has_feature["avx512dq"]() and W * size_of[Scalar[D]]() >= 16:
        return (a.eq(a) & b.eq(b)).select(eqk_range[D, W, 5](a, b), a + b)
    else:
        return llvm_intrinsic["llvm.maximum", SIMD[D, W], has_side_effect=False](a, b)


@always_inline
def eqk_minimum[D: DType, W: Int](a: SIMD[D, W], b: SIMD[D, W]) -> SIMD[D, W]:
    comptime if CompilationTarget._has_feature["avx512dq"]() and W * size_of[Scalar[D]]() >= 16:
        return (a.eq(a) & b.eq(b)).select(eqk_range[D, W, 4](a, b), a + b)
    else:
        return llvm_intrinsic["llvm.minimum", SIMD[D, W], has_side_effect=False](a, b)


@always_inline
def eqk_maximum_num[D: DType, W: Int](a: SIMD[D, W], b: SIMD[D, W]) -> SIMD[D, W]:
    return a.eq(a).select(b.eq(b).select(eqk_maximum[D, W](a, b), a), b)


@always_inline
def eqk_minimum_num[D: DType, W: Int](a: SIMD[D, W], b: SIMD[D, W]) -> SIMD[D, W]:
    return a.eq(a).select(b.eq(b).select(eqk_minimum[D, W](a, b), a), b)


@always_inline
def eqk_max_int[D: DType, W: Int](a: SIMD[D, W], b: SIMD[D, W]) -> SIMD[D, W]:
    return a.gt(b).select(a, b)


@always_inline
def eqk_min_int[D: DType, W: Int](a: SIMD[D, W], b: SIMD[D, W]) -> SIMD[D, W]:
    return a.lt(b).select(a, b)


# Floor division. Nothing faults: lanes that no one reads may divide by zero, or the least number by -1.
@always_inline
def eqk_floordiv_signed[D: DType, W: Int](a: SIMD[D, W], b: SIMD[D, W]) -> SIMD[D, W]:
    var special = (b + 1).eq(0) | b.eq(0)
    return special.select(-a, a // special.select(SIMD[D, W](1), b))


@always_inline
def eqk_mod_signed[D: DType, W: Int](a: SIMD[D, W], b: SIMD[D, W]) -> SIMD[D, W]:
    var special = (b + 1).eq(0) | b.eq(0)
    return a % special.select(SIMD[D, W](1), b)


@always_inline
def eqk_floordiv_unsigned[D: DType, W: Int](a: SIMD[D, W], b: SIMD[D, W]) -> SIMD[D, W]:
    return a // b.eq(0).select(SIMD[D, W](1), b)


@always_inline
def eqk_mod_unsigned[D: DType, W: Int](a: SIMD[D, W], b: SIMD[D, W]) -> SIMD[D, W]:
    return a % b.eq(0).select(SIMD[D, W](1), b)


# Float to integer: truncation; NaN and what lies outside give 0. `low` is the least value, `high` the power of two above the greatest.
@always_inline
def eqk_truncate[S: DType, D: DType, W: Int](a: SIMD[S, W], low: SIMD[S, W], high: SIMD[S, W]) -> SIMD[D, W]:
    var t = eqk_trunc[S, W](a)
    return (t.ge(low) & t.lt(high)).select(t, SIMD[S, W](0)).cast[D]()


@always_inline
def eqk_wide_bf16[W: Int](a: SIMD[DType.bfloat16, W]) -> SIMD[DType.float32, W]:
    return bitcast[DType.float32, W](bitcast[DType.uint16, W](a).cast[DType.uint32]() << 16)


# To nearest even by integers.
@always_inline
def eqk_rounded_bf16[W: Int](a: SIMD[DType.float32, W]) -> SIMD[DType.bfloat16, W]:
    var u = bitcast[DType.uint32, W](a)
    var r = a.eq(a).select(u + (((u >> 16) & 1) + 0x7FFF), u | 0x400000)
    return bitcast[DType.bfloat16, W]((r >> 16).cast[DType.uint16]())


# The instruction of AVX512-BF16, which takes subnormal numbers for zeros.
@always_inline
def eqk_flushed_bf16[W: Int](a: SIMD[DType.float32, W]) -> SIMD[DType.bfloat16, W]:
    comptime T = SIMD[DType.bfloat16, W]
    comptime if W > 32:
        comptime H = W // 2
        var out = T().insert[offset=0](eqk_flushed_bf16[H](a.slice[H]()))
        return out.insert[offset=H](eqk_flushed_bf16[H](a.slice[H, offset=H]()))
    elif W == 32:
        return llvm_intrinsic["llvm.x86.avx512bf16.cvtne2ps2bf16.512", T, has_side_effect=False](a.slice[16, offset=16](), a.slice[16]())
    elif W == 16:
        return llvm_intrinsic["llvm.x86.avx512bf16.cvtneps2bf16.512", T, has_side_effect=False](a)
    else:
        return llvm_intrinsic["llvm.x86.avx512bf16.cvtneps2bf16.256", T, has_side_effect=False](a)


# Which numbers are subnormal.
@always_inline
def eqk_subnormal_f32[W: Int](a: SIMD[DType.float32, W]) -> SIMD[DType.bool, W]:
    comptime T = SIMD[DType.bool, W]
    comptime if W > 16:
        comptime H = W // 2
        var out = T(fill=False).insert[offset=0](eqk_subnormal_f32[H](a.slice[H]()))
        return out.insert[offset=H](eqk_subnormal_f32[H](a.slice[H, offset=H]()))
    elif W == 16:
        return llvm_intrinsic["llvm.x86.avx512.fpclass.ps.512", T, has_side_effect=False](a, Int32(32))
    else:
        return llvm_intrinsic["llvm.x86.avx512.fpclass.ps.256", T, has_side_effect=False](a, Int32(32))


# To nearest even, by the instruction where there is one and no number is subnormal.
@always_inline
def eqk_narrow_bf16[W: Int](a: SIMD[DType.float32, W]) -> SIMD[DType.bfloat16, W]:
    comptime if CompilationTarget._has_feature["avx512bf16"]() and CompilationTarget._has_feature["avx512dq"]() and W >= 8:
        if eqk_subnormal_f32[W](a).reduce_or():
            return eqk_rounded_bf16[W](a)
        return eqk_flushed_bf16[W](a)
    else:
        return eqk_rounded_bf16[W](a)


@always_inline
def eqk_wide_f16[W: Int](a: SIMD[DType.float16, W]) -> SIMD[DType.float32, W]:
    comptime if CompilationTarget.is_x86():
        return a.cast[DType.float32]()
    else:
        var u = bitcast[DType.uint16, W](a).cast[DType.uint32]()
        var m = bitcast[DType.float32, W]((u & 0x7FFF) << 13) * SIMD[DType.float32, W](5.192296858534828e33)  # 2**112
        var bits = bitcast[DType.uint32, W](m)
        bits = (u & 0x7FFF).ge(0x7C00).select(((u & 0x7FFF) << 13) | 0x7F800000, bits)
        return bitcast[DType.float32, W](bits | ((u & 0x8000) << 16))


@always_inline
def eqk_narrow_f16[W: Int](a: SIMD[DType.float32, W]) -> SIMD[DType.float16, W]:
    comptime if CompilationTarget.is_x86():
        return a.cast[DType.float16]()
    else:
        var s = bitcast[DType.uint32, W](a) & 0x80000000
        var u = bitcast[DType.uint32, W](a) ^ s
        var normal = (u + (((u >> 13) & 1) + 0xFFF) - 0x38000000) >> 13
        var small = bitcast[DType.uint32, W](bitcast[DType.float32, W](u) + 0.5) - 0x3F000000
        var r = u.lt(0x38800000).select(small, normal)
        r = u.ge(0x47800000).select(u.gt(0x7F800000).select(SIMD[DType.uint32, W](0x7E00), SIMD[DType.uint32, W](0x7C00)), r)
        return bitcast[DType.float16, W]((r | (s >> 16)).cast[DType.uint16]())


@always_inline
def eqk_wide_f8e4m3fn[W: Int](a: SIMD[DType.float8_e4m3fn, W]) -> SIMD[DType.float32, W]:
    var u = bitcast[DType.uint8, W](a).cast[DType.uint32]()
    var m = bitcast[DType.float32, W]((u & 0x7F) << 20) * SIMD[DType.float32, W](1.329227995784916e36)  # 2**120
    var bits = (u & 0x7F).eq(0x7F).select(SIMD[DType.uint32, W](0x7FC00000), bitcast[DType.uint32, W](m))
    return bitcast[DType.float32, W](bits | ((u & 0x80) << 24))


@always_inline
def eqk_wide_f8e5m2[W: Int](a: SIMD[DType.float8_e5m2, W]) -> SIMD[DType.float32, W]:
    return eqk_wide_f16[W](bitcast[DType.float16, W](bitcast[DType.uint8, W](a).cast[DType.uint16]() << 8))


# Beyond 448 (after rounding): NaN, the format has no infinity.
@always_inline
def eqk_narrow_f8e4m3fn[W: Int](a: SIMD[DType.float32, W]) -> SIMD[DType.float8_e4m3fn, W]:
    var s = bitcast[DType.uint32, W](a) & 0x80000000
    var u = bitcast[DType.uint32, W](a) ^ s
    var normal = (u + (((u >> 20) & 1) + 0x7FFFF) - 0x3C000000) >> 20
    var small = bitcast[DType.uint32, W](bitcast[DType.float32, W](u) + 16384.0) - 0x46800000  # one unit of 2**14 is 2**-9
    var r = u.lt(0x3C800000).select(small, normal)
    r = u.gt(0x43E80000).select(SIMD[DType.uint32, W](0x7F), r)
    return bitcast[DType.float8_e4m3fn, W]((r | (s >> 24)).cast[DType.uint8]())


@always_inline
def eqk_narrow_f8e5m2[W: Int](a: SIMD[DType.float32, W]) -> SIMD[DType.float8_e5m2, W]:
    var s = bitcast[DType.uint32, W](a) & 0x80000000
    var u = bitcast[DType.uint32, W](a) ^ s
    var normal = (u + (((u >> 21) & 1) + 0xFFFFF) - 0x38000000) >> 21
    var small = bitcast[DType.uint32, W](bitcast[DType.float32, W](u) + 128.0) - 0x43000000  # one unit of 2**7 is 2**-16
    var r = u.lt(0x38800000).select(small, normal)
    r = u.ge(0x47700000).select(u.gt(0x7F800000).select(SIMD[DType.uint32, W](0x7E), SIMD[DType.uint32, W](0x7C)), r)
    return bitcast[DType.float8_e5m2, W]((r | (s >> 24)).cast[DType.uint8]())


# f64 to f32 rounded to odd: a second rounding, to a narrower format, is then right (Boldo and Melquiond 2008).
@always_inline
def eqk_odd_f32[W: Int](a: SIMD[DType.float64, W]) -> SIMD[DType.float32, W]:
    var y = a.cast[DType.float32]()
    var back = y.cast[DType.float64]()
    var u = bitcast[DType.uint32, W](y)
    var above = eqk_abs_f64[W](back).gt(eqk_abs_f64[W](a))
    var odd = above.select(u - 1, u) | 1
    var exact = back.eq(a) | eqk_isnan[DType.float64, W](a)
    return bitcast[DType.float32, W](exact.select(u, odd))


# 64-bit integers to f64 rounded to odd.
@always_inline
def eqk_odd_u64[W: Int](a: SIMD[DType.uint64, W]) -> SIMD[DType.float64, W]:
    var sticky = ((a & 0x7FF) + 0x7FF) >> 11
    var high = ((a >> 11) | sticky).cast[DType.float64]() * 2048.0
    return (a >> 53).eq(0).select(a.cast[DType.float64](), high)


@always_inline
def eqk_odd_i64[W: Int](a: SIMD[DType.int64, W]) -> SIMD[DType.float64, W]:
    var magnitude = eqk_odd_u64[W](bitcast[DType.uint64, W](a.lt(0).select(-a, a)))
    return a.lt(0).select(-magnitude, magnitude)
