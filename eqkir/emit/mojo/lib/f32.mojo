# Functions of f32 within kir.md's accuracy, right at NaN, infinities, zeros of both signs and subnormal numbers.
# Rounding to an integer n adds 1.5 * 2**23 (f64: 2**52), whose low bits are then n; arguments are reduced by exact products in fma.


@always_inline
def eqk_copysign_f32[W: Int](a: SIMD[DType.float32, W], s: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    var u = bitcast[DType.uint32, W](a) & 0x7FFFFFFF
    return bitcast[DType.float32, W](u | (bitcast[DType.uint32, W](s) & 0x80000000))


# y * 2**n in two steps, so that a subnormal result rounds once; -252 <= n <= 254.
@always_inline
def eqk_scale_f32[W: Int](y: SIMD[DType.float32, W], n: SIMD[DType.int32, W]) -> SIMD[DType.float32, W]:
    var h = n >> 1
    return y * bitcast[DType.float32, W]((h + 127) << 23) * bitcast[DType.float32, W]((n - h + 127) << 23)


# The same for k = n + 1.5 * 2**23, by the instruction where there is one: it rounds once, too.
@always_inline
def eqk_scale_biased_f32[W: Int](y: SIMD[DType.float32, W], k: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    comptime if CompilationTarget.has_avx512f() and W >= 16:
        return eqk_scalef_f32[W](y, k - 12582912.0)
    else:
        return eqk_scale_f32[W](y, bitcast[DType.int32, W](k) - 0x4B400000)


# 32 numbers at the low five bits of an index.
@always_inline
def eqk_lookup_f32(low: SIMD[DType.float32, 16], i: SIMD[DType.uint32, 16], high: SIMD[DType.float32, 16]) -> SIMD[DType.float32, 16]:
    return llvm_intrinsic["llvm.x86.avx512.vpermi2var.ps.512", SIMD[DType.float32, 16], has_side_effect=False](low, i, high)


# 2**(j/32) for k = n + 1.5 * 2**18, n in units of 1/32; lanes beside the register's are cut off or added.
@always_inline
def eqk_exponential_f32[W: Int](k: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    comptime if W > 16:
        comptime H = W // 2
        var out = k.insert[offset=0](eqk_exponential_f32[H](k.slice[H]()))
        return out.insert[offset=H](eqk_exponential_f32[H](k.slice[H, offset=H]()))
    elif W == 16:
        return rebind[SIMD[DType.float32, W]](eqk_t_exp2_f32(rebind[SIMD[DType.uint32, 16]](bitcast[DType.uint32, W](k))))
    else:
        return eqk_exponential_f32[16](SIMD[DType.float32, 16](0).insert[offset=0](k)).slice[W]()


# y * 2**floor(n), rounded once.
@always_inline
def eqk_scalef_f32[W: Int](y: SIMD[DType.float32, W], n: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    comptime if W > 16:
        comptime H = W // 2
        var out = y.insert[offset=0](eqk_scalef_f32[H](y.slice[H](), n.slice[H]()))
        return out.insert[offset=H](eqk_scalef_f32[H](y.slice[H, offset=H](), n.slice[H, offset=H]()))
    elif W == 16:
        return llvm_intrinsic["llvm.x86.avx512.mask.scalef.ps.512", SIMD[DType.float32, W], has_side_effect=False](y, n, y, Int16(-1), Int32(4))
    else:
        comptime V = SIMD[DType.float32, 16]
        return eqk_scalef_f32[16](V(0).insert[offset=0](y), V(0).insert[offset=0](n)).slice[W]()


# exp on [-104, 89]: n = round(x / ln 2), the remainder by one product: ln 2 in f32 is off by 1.9e-9, which costs n times that much, less
# than 0.05 |x| ulp. Where a table is looked up, n counts in units of 1/32.
@always_inline
def eqk_exp_core_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    comptime F = SIMD[DType.float32, W]
    comptime if CompilationTarget.has_avx512f():
        var k = fma(x, F(1.4426950216293335), F(393216.0))
        var n = k - 393216.0
        var r = fma(n, F(-0.6931471824645996), x)
        var t = eqk_exponential_f32[W](k)
        return eqk_scalef_f32[W](fma(fma(r, F(0.500004072672042), F(1.0000147233514786)), t * r, t), n)
    else:
        var k = fma(x, F(1.4426950216293335), F(12582912.0))
        var r = fma(k - 12582912.0, F(-0.6931471824645996), x)
        var y = fma(fma(eqk_p_exp_f32[W](r), r, F(1.0)), r, F(1.0))
        return eqk_scale_biased_f32[W](y, k)


@always_inline
def eqk_exp_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    comptime F = SIMD[DType.float32, W]
    var c = x.lt(F(-104.0)).select(F(-104.0), x)
    return eqk_exp_core_f32[W](c.gt(F(89.0)).select(F(89.0), c))


@always_inline
def eqk_exp2_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    comptime F = SIMD[DType.float32, W]
    var c = x.lt(F(-151.0)).select(F(-151.0), x)
    c = c.gt(F(129.0)).select(F(129.0), c)
    comptime if CompilationTarget.has_avx512f():
        var k = c + 393216.0
        var n = k - 393216.0
        var r = c - n
        var t = eqk_exponential_f32[W](k)
        return eqk_scalef_f32[W](fma(fma(r, F(0.24022845923900604), F(0.6931573152542114)), t * r, t), n)
    else:
        var k = c + 12582912.0
        var r = c - (k - 12582912.0)
        return eqk_scale_biased_f32[W](fma(eqk_p_exp2_f32[W](r), r, F(1.0)), k)


@always_inline
def eqk_sigmoid_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    comptime F = SIMD[DType.float32, W]
    var c = x.lt(F(-104.0)).select(F(-104.0), x)
    var e = eqk_exp_core_f32[W](c.gt(F(88.0)).select(F(88.0), c))
    return e / (e + 1.0)


# Half of exp(x) - 1 on [-87, 89]: 2**(n-1) (exp(r) - 1) + (2**(n-1) - 1/2).
@always_inline
def eqk_expm1_core_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    comptime F = SIMD[DType.float32, W]
    var k = fma(x, F(1.4426950216293335), F(12582912.0))
    var n = k - 12582912.0
    var r = fma(n, F(1.9046542121259336e-09), fma(n, F(-0.6931471824645996), x))
    var s = bitcast[DType.float32, W]((bitcast[DType.int32, W](k) - (0x4B400000 - 126)) << 23)
    return fma(s, fma(eqk_p_exp_f32[W](r), r * r, r), s - 0.5)


@always_inline
def eqk_expm1_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    comptime F = SIMD[DType.float32, W]
    var c = x.lt(F(-20.0)).select(F(-20.0), x)
    var y = eqk_expm1_core_f32[W](c.gt(F(89.0)).select(F(89.0), c))
    return eqk_abs_f32[W](x).gt(F(2.9802322387695312e-08)).select(y + y, x)


# 16 lanes: x times tanh(x) / x, in pieces.
@always_inline
def eqk_tanh_pieces_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    comptime if W > 16:
        comptime H = W // 2
        var out = x.insert[offset=0](eqk_tanh_pieces_f32[H](x.slice[H]()))
        return out.insert[offset=H](eqk_tanh_pieces_f32[H](x.slice[H, offset=H]()))
    elif W < 16:
        return eqk_tanh_pieces_f32[16](SIMD[DType.float32, 16](0).insert[offset=0](x)).slice[W]()
    else:
        comptime F = SIMD[DType.float32, 16]
        var v = rebind[F](x)
        var a = eqk_abs_f32[16](v)
        var c = a.gt(F(9.0)).select(F(9.0), a)
        var s = c + 0.625
        var u = bitcast[DType.uint32, 16](s)
        var y = eqk_t_tanh_f32(u >> 20, s - bitcast[DType.float32, 16]((u & 0xFFF00000) | 0x00080000))
        return rebind[SIMD[DType.float32, W]](y * eqk_copysign_f32[16](c, v))


@always_inline
def eqk_tanh_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    comptime if CompilationTarget.has_avx512f():
        return eqk_tanh_pieces_f32[W](x)
    comptime F = SIMD[DType.float32, W]
    var a = eqk_abs_f32[W](x)
    var c = a.gt(F(10.0)).select(F(10.0), a)
    # half of exp(2 c) - 1; what one product for the remainder costs is lost in the quotient
    var k = fma(c, F(2.885390043258667), F(12582912.0))
    var r = fma(k - 12582912.0, F(-0.6931471824645996), c + c)
    var s = eqk_scale_biased_f32[W](F(0.5), k)
    var e = fma(s, fma(eqk_p_exp_f32[W](r), r * r, r), s - 0.5)
    return eqk_copysign_f32[W](e / (e + 1.0), x)


# log(1 + f) - f for sqrt(1/2) <= 1 + f <= sqrt(2).
@always_inline
def eqk_log_rest_f32[W: Int](f: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    comptime F = SIMD[DType.float32, W]
    return f * f * fma(eqk_p_log_f32[W](f), f, F(-0.5))


# The exponent e of v = 2**e m with sqrt(1/2) <= m < sqrt(2), for positive normal v.
@always_inline
def eqk_exponent_f32[W: Int](v: SIMD[DType.float32, W]) -> SIMD[DType.int32, W]:
    return (bitcast[DType.int32, W](v) - 0x3F3504F3) >> 23


# The values of a logarithm at 0, below it and at infinity.
@always_inline
def eqk_log_ends_f32[W: Int](x: SIMD[DType.float32, W], y: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    comptime F = SIMD[DType.float32, W]
    var inf = bitcast[DType.float32, W](SIMD[DType.uint32, W](0x7F800000))
    var low = bitcast[DType.float32, W](x.eq(F(0.0)).select(SIMD[DType.uint32, W](0xFF800000), SIMD[DType.uint32, W](0x7FC00000)))
    return x.gt(F(0.0)).select(x.lt(inf).select(y, x), low)


@always_inline
def eqk_log_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    comptime F = SIMD[DType.float32, W]
    comptime I = SIMD[DType.int32, W]
    var small = x.lt(F(1.1754943508222875e-38))
    var v = small.select(x * 8388608.0, x)
    var e = eqk_exponent_f32[W](v)
    var f = bitcast[DType.float32, W](bitcast[DType.int32, W](v) - (e << 23)) - 1.0
    var k = (e - small.select(I(23), I(0))).cast[DType.float32]()
    var y = fma(k, F(0.6931471824645996), f) + fma(k, F(-1.9046542121259336e-09), eqk_log_rest_f32[W](f))
    return eqk_log_ends_f32[W](x, y)


@always_inline
def eqk_log2_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    comptime F = SIMD[DType.float32, W]
    comptime I = SIMD[DType.int32, W]
    var small = x.lt(F(1.1754943508222875e-38))
    var v = small.select(x * 8388608.0, x)
    var e = eqk_exponent_f32[W](v)
    var f = bitcast[DType.float32, W](bitcast[DType.int32, W](v) - (e << 23)) - 1.0
    var k = (e - small.select(I(23), I(0))).cast[DType.float32]()
    var h = f * 1.4426950216293335
    var l = fma(f, F(1.925963033500011e-08), fma(f, F(1.4426950216293335), eqk_neg_f32[W](h)))
    l = fma(eqk_log_rest_f32[W](f), F(1.4426950216293335), l)
    return eqk_log_ends_f32[W](x, k + (h + l))


# 1 + x = u + c exactly; c / 2**e joins the reduced argument.
@always_inline
def eqk_log1p_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    comptime F = SIMD[DType.float32, W]
    var u = x + 1.0
    var b = u - 1.0
    var c = (F(1.0) - (u - b)) + (x - b)
    var e = eqk_exponent_f32[W](u)
    var f = bitcast[DType.float32, W](bitcast[DType.int32, W](u) - (e << 23)) - 1.0
    var d = SIMD[DType.int32, W](127) - e
    f += c * bitcast[DType.float32, W](d.gt(0).select(d, SIMD[DType.int32, W](0)) << 23)  # beyond 2**126, c is nothing
    var k = e.cast[DType.float32]()
    var y = fma(k, F(0.6931471824645996), f) + fma(k, F(-1.9046542121259336e-09), eqk_log_rest_f32[W](f))
    return eqk_abs_f32[W](x).lt(F(2.9802322387695312e-08)).select(x, eqk_log_ends_f32[W](u, y))


@always_inline
def eqk_rsqrt_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    return SIMD[DType.float32, W](1.0) / eqk_sqrt[DType.float32, W](x)


# 16 lanes: x times erf(x) / x, in pieces; k counts in units of 1/8.
@always_inline
def eqk_erf_pieces_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    comptime if W > 16:
        comptime H = W // 2
        var out = x.insert[offset=0](eqk_erf_pieces_f32[H](x.slice[H]()))
        return out.insert[offset=H](eqk_erf_pieces_f32[H](x.slice[H, offset=H]()))
    elif W < 16:
        return eqk_erf_pieces_f32[16](SIMD[DType.float32, 16](0).insert[offset=0](x)).slice[W]()
    else:
        comptime F = SIMD[DType.float32, 16]
        var v = rebind[F](x)
        var a = eqk_abs_f32[16](v)
        var c = a.gt(F(3.875)).select(F(3.875), a)
        var k = c + 1572864.0
        var y = eqk_t_erf_f32(bitcast[DType.uint32, 16](k), c - (k - 1572864.0))
        return rebind[SIMD[DType.float32, W]](y * eqk_copysign_f32[16](c, v))


@always_inline
def eqk_erf_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    comptime if CompilationTarget.has_avx512f():
        return eqk_erf_pieces_f32[W](x)
    comptime F = SIMD[DType.float32, W]
    var a = eqk_abs_f32[W](x)
    var near = fma(eqk_p_erf_f32[W](a * a), x, x)
    var far = F(1.0) - eqk_exp_core_f32[W](eqk_p_log_erfc_f32[W](a.gt(F(4.0)).select(F(4.0), a)))
    return a.lt(F(0.945)).select(near, eqk_copysign_f32[W](far, x))


# sin(x + turns pi / 2), computed in f64; beyond 2**50, where nothing is promised, of zero.
@always_inline
def eqk_turn_f32[W: Int](x: SIMD[DType.float32, W], turns: SIMD[DType.uint64, W]) -> SIMD[DType.float32, W]:
    comptime F = SIMD[DType.float64, W]
    var d = x.cast[DType.float64]()
    d = eqk_abs_f64[W](d).lt(F(1125899906842624.0)).select(d, d * 0.0)
    var k = fma(d, F(0.6366197723675814), F(6755399441055744.0))
    var n = k - 6755399441055744.0
    var r = fma(n, F(-6.123233995736766e-17), fma(n, F(-1.5707963267948966), d))
    var z = r * r
    var s = r * fma(eqk_p_sin_f32[W](z), z, F(1.0))
    var c = fma(eqk_p_cos_f32[W](z), z * z, fma(z, F(-0.5), F(1.0)))
    var q = bitcast[DType.uint64, W](k) + turns
    var y = bitcast[DType.uint64, W]((q & 1).eq(0).select(s, c)) ^ ((q & 2) << 62)
    return bitcast[DType.float64, W](y).cast[DType.float32]()


@always_inline
def eqk_sin_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    return eqk_turn_f32[W](x, SIMD[DType.uint64, W](0))


@always_inline
def eqk_cos_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    return eqk_turn_f32[W](x, SIMD[DType.uint64, W](1))


@always_inline
def eqk_tan_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    return eqk_tan_f64[W](x.cast[DType.float64]()).cast[DType.float32]()


@always_inline
def eqk_asin_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    return eqk_asin_f64[W](x.cast[DType.float64]()).cast[DType.float32]()


@always_inline
def eqk_atan_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    return eqk_atan_f64[W](x.cast[DType.float64]()).cast[DType.float32]()


@always_inline
def eqk_erfc_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    return eqk_erfc_f64[W](x.cast[DType.float64]()).cast[DType.float32]()


@always_inline
def eqk_i0_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    return eqk_i0_f64[W](x.cast[DType.float64]()).cast[DType.float32]()


@always_inline
def eqk_lgamma_f32[W: Int](x: SIMD[DType.float32, W]) -> SIMD[DType.float32, W]:
    return eqk_lgamma_f64[W](x.cast[DType.float64]()).cast[DType.float32]()
