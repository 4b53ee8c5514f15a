# Functions of f64 within kir.md's accuracy, right at NaN, infinities, zeros of both signs and subnormal numbers.


@always_inline
def eqk_copysign_f64[W: Int](a: SIMD[DType.float64, W], s: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    var u = bitcast[DType.uint64, W](a) & 0x7FFFFFFFFFFFFFFF
    return bitcast[DType.float64, W](u | (bitcast[DType.uint64, W](s) & 0x8000000000000000))


# y * 2**n in two steps, so that a subnormal result rounds once; -2044 <= n <= 2046.
@always_inline
def eqk_scale_f64[W: Int](y: SIMD[DType.float64, W], n: SIMD[DType.int64, W]) -> SIMD[DType.float64, W]:
    var h = n >> 1
    return y * bitcast[DType.float64, W]((h + 1023) << 52) * bitcast[DType.float64, W]((n - h + 1023) << 52)


@always_inline
def eqk_exp_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    comptime F = SIMD[DType.float64, W]
    var c = x.lt(F(-746.0)).select(F(-746.0), x)
    c = c.gt(F(710.0)).select(F(710.0), c)
    var k = fma(c, F(1.4426950408889634), F(6755399441055744.0))
    var n = k - 6755399441055744.0
    var r = fma(n, F(-2.3190468138462996e-17), fma(n, F(-0.6931471805599453), c))
    var y = fma(eqk_p_exp_f64[W](r), r * r, r) + 1.0
    return eqk_scale_f64[W](y, bitcast[DType.int64, W](k) - 0x4338000000000000)


@always_inline
def eqk_exp2_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    comptime F = SIMD[DType.float64, W]
    var c = x.lt(F(-1076.0)).select(F(-1076.0), x)
    c = c.gt(F(1025.0)).select(F(1025.0), c)
    var k = c + 6755399441055744.0
    var r = c - (k - 6755399441055744.0)
    return eqk_scale_f64[W](fma(eqk_p_exp2_f64[W](r), r, F(1.0)), bitcast[DType.int64, W](k) - 0x4338000000000000)


@always_inline
def eqk_sigmoid_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    comptime F = SIMD[DType.float64, W]
    var e = eqk_exp_f64[W](eqk_neg_f64[W](eqk_abs_f64[W](x)))
    return x.lt(F(0.0)).select(e, F(1.0)) / (e + 1.0)


# exp(x) - 1 on [-700, 710] as 2 (2**(n-1) (exp(r) - 1) + (2**(n-1) - 1/2)).
@always_inline
def eqk_expm1_core_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    comptime F = SIMD[DType.float64, W]
    var k = fma(x, F(1.4426950408889634), F(6755399441055744.0))
    var n = k - 6755399441055744.0
    var r = fma(n, F(-2.3190468138462996e-17), fma(n, F(-0.6931471805599453), x))
    var s = bitcast[DType.float64, W]((bitcast[DType.int64, W](k) - (0x4338000000000000 - 1022)) << 52)
    var y = fma(s, fma(eqk_p_exp_f64[W](r), r * r, r), s - 0.5)
    return y + y


@always_inline
def eqk_expm1_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    comptime F = SIMD[DType.float64, W]
    var c = x.lt(F(-40.0)).select(F(-40.0), x)
    var y = eqk_expm1_core_f64[W](c.gt(F(710.0)).select(F(710.0), c))
    return eqk_abs_f64[W](x).gt(F(5.551115123125783e-17)).select(y, x)


@always_inline
def eqk_tanh_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    comptime F = SIMD[DType.float64, W]
    var a = eqk_abs_f64[W](x)
    var c = a.gt(F(20.0)).select(F(20.0), a)
    var e = eqk_expm1_core_f64[W](c + c)
    return eqk_copysign_f64[W](e / (e + 2.0), x)


# log(1 + f) - f for sqrt(1/2) <= 1 + f <= sqrt(2), by s = f / (2 + f): log(1 + f) = 2 artanh(s) = f - (f f/2 - s (f f/2 + R(s s))).
@always_inline
def eqk_log_rest_f64[W: Int](f: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    var s = f / (f + 2.0)
    var z = s * s
    var h = f * f * 0.5
    return s * fma(eqk_p_log_f64[W](z), z, h) - h


# The exponent e of v = 2**e m with sqrt(1/2) <= m < sqrt(2), for positive normal v.
@always_inline
def eqk_exponent_f64[W: Int](v: SIMD[DType.float64, W]) -> SIMD[DType.int64, W]:
    return (bitcast[DType.int64, W](v) - 0x3FE6A09E667F3BCD) >> 52


# An integer below 2**51 as f64, by bits.
@always_inline
def eqk_small_f64[W: Int](e: SIMD[DType.int64, W]) -> SIMD[DType.float64, W]:
    return bitcast[DType.float64, W](e + 0x4338000000000000) - 6755399441055744.0


# The values of a logarithm at 0, below it and at infinity.
@always_inline
def eqk_log_ends_f64[W: Int](x: SIMD[DType.float64, W], y: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    comptime F = SIMD[DType.float64, W]
    comptime U = SIMD[DType.uint64, W]
    var inf = bitcast[DType.float64, W](U(0x7FF0000000000000))
    var low = bitcast[DType.float64, W](x.eq(F(0.0)).select(U(0xFFF0000000000000), U(0x7FF8000000000000)))
    return x.gt(F(0.0)).select(x.lt(inf).select(y, x), low)


@always_inline
def eqk_log_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    comptime F = SIMD[DType.float64, W]
    comptime I = SIMD[DType.int64, W]
    var small = x.lt(F(2.2250738585072014e-308))
    var v = small.select(x * 4503599627370496.0, x)
    var e = eqk_exponent_f64[W](v)
    var f = bitcast[DType.float64, W](bitcast[DType.int64, W](v) - (e << 52)) - 1.0
    var k = eqk_small_f64[W](e - small.select(I(52), I(0)))
    var y = fma(k, F(0.6931471805599453), f) + fma(k, F(2.3190468138462996e-17), eqk_log_rest_f64[W](f))
    return eqk_log_ends_f64[W](x, y)


@always_inline
def eqk_log2_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    comptime F = SIMD[DType.float64, W]
    comptime I = SIMD[DType.int64, W]
    var small = x.lt(F(2.2250738585072014e-308))
    var v = small.select(x * 4503599627370496.0, x)
    var e = eqk_exponent_f64[W](v)
    var f = bitcast[DType.float64, W](bitcast[DType.int64, W](v) - (e << 52)) - 1.0
    var k = eqk_small_f64[W](e - small.select(I(52), I(0)))
    var h = f * 1.4426950408889634
    var l = fma(f, F(2.0355273740931033e-17), fma(f, F(1.4426950408889634), eqk_neg_f64[W](h)))
    l = fma(eqk_log_rest_f64[W](f), F(1.4426950408889634), l)
    return eqk_log_ends_f64[W](x, k + (h + l))


# 1 + x = u + c exactly; c / 2**e joins the reduced argument.
@always_inline
def eqk_log1p_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    comptime F = SIMD[DType.float64, W]
    var u = x + 1.0
    var b = u - 1.0
    var c = (F(1.0) - (u - b)) + (x - b)
    var e = eqk_exponent_f64[W](u)
    var f = bitcast[DType.float64, W](bitcast[DType.int64, W](u) - (e << 52)) - 1.0
    var d = SIMD[DType.int64, W](1023) - e
    f += c * bitcast[DType.float64, W](d.gt(0).select(d, SIMD[DType.int64, W](0)) << 52)  # beyond 2**1022, c is nothing
    var k = eqk_small_f64[W](e)
    var y = fma(k, F(0.6931471805599453), f) + fma(k, F(2.3190468138462996e-17), eqk_log_rest_f64[W](f))
    return eqk_abs_f64[W](x).lt(F(5.551115123125783e-17)).select(x, eqk_log_ends_f64[W](u, y))


@always_inline
def eqk_rsqrt_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    return SIMD[DType.float64, W](1.0) / eqk_sqrt[DType.float64, W](x)


# x modulo pi / 2: the integer n as the low bits of the result, which is n + 1.5 * 2**52. Beyond 2**50 nothing is promised.
@always_inline
def eqk_quadrant_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    return fma(x, SIMD[DType.float64, W](0.6366197723675814), SIMD[DType.float64, W](6755399441055744.0))


# sin(h + l) and cos(h + l) for the reduced argument, chosen by the quadrant, with the sign of the quadrant.
@always_inline
def eqk_circle_f64[W: Int](x: SIMD[DType.float64, W], turns: SIMD[DType.uint64, W]) -> SIMD[DType.float64, W]:
    comptime F = SIMD[DType.float64, W]
    var d = eqk_abs_f64[W](x).lt(F(1125899906842624.0)).select(x, x * 0.0)
    var k = eqk_quadrant_f64[W](d)
    var n = k - 6755399441055744.0
    var r = fma(n, F(-1.5707963267948966), d)
    var p = n * -6.123233995736766e-17
    var h = r + p
    var b = h - r
    var l = (r - (h - b)) + (p - b)
    l += fma(n, F(1.4973849048591698e-33), eqk_neg_f64[W](fma(n, F(6.123233995736766e-17), p)))
    var z = h * h
    var z2 = z * 0.5
    var s = h + fma(eqk_p_sin_f64[W](z) * z, h, l * (F(1.0) - z2))
    var w = F(1.0) - z2
    var c = w + (((F(1.0) - w) - z2) + fma(eqk_p_cos_f64[W](z) * z, z, eqk_neg_f64[W](h * l)))
    var q = bitcast[DType.uint64, W](k) + turns
    return bitcast[DType.float64, W](bitcast[DType.uint64, W]((q & 1).eq(0).select(s, c)) ^ ((q & 2) << 62))


@always_inline
def eqk_sin_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    var y = eqk_circle_f64[W](x, SIMD[DType.uint64, W](0))
    return eqk_abs_f64[W](x).lt(SIMD[DType.float64, W](7.450580596923828e-09)).select(x, y)


@always_inline
def eqk_cos_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    return eqk_circle_f64[W](x, SIMD[DType.uint64, W](1))


@always_inline
def eqk_tan_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    var s = eqk_circle_f64[W](x, SIMD[DType.uint64, W](0))
    var y = s / eqk_circle_f64[W](x, SIMD[DType.uint64, W](1))
    return eqk_abs_f64[W](x).lt(SIMD[DType.float64, W](7.450580596923828e-09)).select(x, y)


# Beyond 1/2: pi/2 - 2 asin(sqrt((1 - |x|) / 2)).
@always_inline
def eqk_asin_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    comptime F = SIMD[DType.float64, W]
    var a = eqk_abs_f64[W](x)
    var large = a.gt(F(0.5))
    var z = large.select((F(1.0) - a) * 0.5, a * a)
    var s = large.select(eqk_sqrt[DType.float64, W](z), a)
    var p = fma(eqk_p_asin_f64[W](z) * z, s, s)
    return eqk_copysign_f64[W](large.select(fma(p, F(-2.0), F(1.5707963267948966)) + 6.123233995736766e-17, p), x)


# Three intervals of |x| around 0, 1 and infinity.
@always_inline
def eqk_atan_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    comptime F = SIMD[DType.float64, W]
    var a = eqk_abs_f64[W](x)
    var middle = a.gt(F(0.41421356237309503))
    var large = a.gt(F(2.414213562373095))
    var t = large.select(F(-1.0), middle.select(a - 1.0, a)) / large.select(a, middle.select(a + 1.0, F(1.0)))
    var z = t * t
    var low = large.select(F(6.123233995736766e-17), middle.select(F(3.061616997868383e-17), F(0.0)))
    var base = large.select(F(1.5707963267948966), middle.select(F(0.7853981633974483), F(0.0)))
    return eqk_copysign_f64[W](base + (t + fma(eqk_p_atan_f64[W](z) * z, t, low)), x)


# erfc(a) for 1/2 <= a, zero from 28 on: exp(-a a) g(a) / (1 + 2 a), with the rounding error of a a.
@always_inline
def eqk_erfc_far_f64[W: Int](a: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    comptime F = SIMD[DType.float64, W]
    var c = a.gt(F(28.0)).select(F(28.0), a)
    var s = c * c
    var e = fma(c, c, eqk_neg_f64[W](s))
    var x = eqk_exp_f64[W](eqk_neg_f64[W](s))
    x = fma(x, eqk_neg_f64[W](e), x)
    return x * (eqk_p_erfcx_f64[W]((c - 4.0) / (c + 4.0)) / fma(c, F(2.0), F(1.0)))


@always_inline
def eqk_erf_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    comptime F = SIMD[DType.float64, W]
    var a = eqk_abs_f64[W](x)
    var far = eqk_copysign_f64[W](F(1.0) - eqk_erfc_far_f64[W](a), x)
    return a.lt(F(1.0)).select(fma(eqk_p_erf_f64[W](a * a), x, x), far)


@always_inline
def eqk_erfc_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    comptime F = SIMD[DType.float64, W]
    var a = eqk_abs_f64[W](x)
    var near = F(1.0) - fma(eqk_p_erf_f64[W](a * a), x, x)
    var far = eqk_erfc_far_f64[W](a)
    return a.lt(F(0.5)).select(near, x.lt(F(0.0)).select(F(2.0) - far, far))


@always_inline
def eqk_i0_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    comptime F = SIMD[DType.float64, W]
    var a = eqk_abs_f64[W](x)
    var small = a.lt(F(8.0))
    var near = eqk_p_i0_small_f64[W](a * a * 0.25)
    var c = small.select(F(8.0), a.gt(F(1500.0)).select(F(1500.0), a))
    var e = eqk_exp_f64[W](c * 0.5)
    var far = e * (eqk_p_i0_large_f64[W](F(16.0) / c - 1.0) / eqk_sqrt[DType.float64, W](c)) * e
    return small.select(near, far)


# On (-19.5, 8.5) by the recurrence from [1.5, 2.5], with the rounding errors of the product; beyond by Stirling's series, of negative x
# by reflection: no f64 below -19.5 comes near a zero.
@always_inline
def eqk_lgamma_f64[W: Int](x: SIMD[DType.float64, W]) -> SIMD[DType.float64, W]:
    comptime F = SIMD[DType.float64, W]
    var a = eqk_abs_f64[W](x)
    var near = x.gt(F(-19.5)) & x.lt(F(8.5))
    var c = near.select(x, F(2.0))
    var m = eqk_round_even[DType.float64, W](c)
    var up = m.gt(F(2.0))
    var q = F(1.0)
    var e = F(0.0)
    for i in range(22):
        var k = F(Float64(i))
        var f = up.select(c - (k + 1.0), c + k)
        var more = k.lt(eqk_abs_f64[W](m - 2.0))
        var p = q * f
        e = more.select(fma(e, f, fma(q, f, eqk_neg_f64[W](p))), e)
        q = more.select(p, q)
    var t = e / q
    var l = eqk_log_f64[W](eqk_abs_f64[W](q)) + t.eq(t).select(t, F(0.0))
    var w = c - m
    var y = fma(w, eqk_p_lgamma_f64[W](w), up.select(l, eqk_neg_f64[W](l)))
    var b = a.lt(F(8.5)).select(F(8.5), a)
    var far = fma(b - 0.5, eqk_log_f64[W](b) - 1.0, eqk_p_stirling_f64[W](F(1.0) / (b * b)) / b + 0.4189385332046727)
    var r = a - eqk_round_even[DType.float64, W](a)
    var s = eqk_abs_f64[W](r * eqk_p_sinpi_f64[W](r * r))
    far = x.lt(F(0.0)).select(eqk_log_f64[W](F(3.141592653589793) / (a * s)) - far, far)
    y = eqk_isinf_f64[W](x).select(a, near.select(y, far))
    return x.eq(x).select(y, x)
