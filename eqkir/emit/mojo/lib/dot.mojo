@always_inline
def eqk_words[W: Int](a: SIMD[DType.int8, 4 * W]) -> SIMD[DType.int32, W]:
    return bitcast[DType.int32, W](a)


# Each lane: acc + the sum over four bytes of (a, unsigned) times (b, signed), modulo 2^32. The instruction takes vectors of 4, 8 and 16
# lanes; other widths do not occur where its feature is asked for.
@always_inline
def eqk_dot4[W: Int](acc: SIMD[DType.int32, W], a: SIMD[DType.int32, W], b: SIMD[DType.int32, W]) -> SIMD[DType.int32, W]:
    comptime T = SIMD[DType.int32, W]
    var p, q = bitcast[DType.int8, 4 * W](a), bitcast[DType.int8, 4 * W](b)
    comptime if W == 16:
        return llvm_intrinsic["llvm.x86.avx512.vpdpbusd.512", T, has_side_effect=False](acc, p, q)
    comptime if W == 8:
        return llvm_intrinsic["llvm.x86.avx512.vpdpbusd.256", T, has_side_effect=False](acc, p, q)
    comptime if W == 4:
        return llvm_intrinsic["llvm.x86.avx512.vpdpbusd.128", T, has_side_effect=False](acc, p, q)
    var out = acc
    comptime for j in range(4):
        var x = (a >> T(Int32(8 * j))) & T(Int32(255))
        var y = (b << T(Int32(24 - 8 * j))) >> T(Int32(24))
        out += x * y
    return out
