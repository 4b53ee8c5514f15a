"""Transforms by stages on a buffer: workload 49."""

from __future__ import annotations

import math

from eqkir.kir.builder import Builder, kernel


@kernel(name="fft_radix2_f32")
def fft_radix2(k: Builder) -> None:
    """Rows of 2^bits complex numbers, decimation in time: bit reversal, then butterflies of growing span."""
    M = k.symbol("M")
    k.constexpr("width", 32)
    bits = k.constexpr("bits", 5)
    n = k.named("width")
    XR, XI = k.view("XR", "in", "f32", (M, n)), k.view("XI", "in", "f32", (M, n))
    YR, YI = k.view("YR", "out", "f32", (M, n)), k.view("YI", "out", "f32", (M, n))
    k.noalias(XR, XI, YR, YI)
    i, width = k.indices(n), k.value(n)
    with k.for_(k.domain(bits), i * 0) as loop:
        loop.yield_(loop.carried[0] * 2 + ((i >> loop.i) & 1))
    order = XR.assume_in_bounds(loop.result, 1)
    with k.parallel(M) as m:
        re, im = k.buffer("f32", (n,), XR[m, order]), k.buffer("f32", (n,), XI[m, order])
        with k.while_(k.const(1, "index")) as stage:
            (half,) = stage.test(stage.carried[0] < width)
            upper = (i & half) != 0
            angle = (i & (half - 1)).cast("f32") * (-math.pi) / half.cast("f32")
            c, s = angle.cos(), angle.sin()
            partner = re.assume_in_bounds(i ^ half, 0)
            a, b = (re[i], im[i]), (re[partner], im[partner])
            low = [k.where(upper, y, x) for x, y in zip(a, b, strict=True)]  # the even element of the pair
            high = [k.where(upper, x, y) for x, y in zip(a, b, strict=True)]
            turned = (high[0] * c - high[1] * s, high[0] * s + high[1] * c)
            re[i], im[i] = (k.where(upper, x - t, x + t) for x, t in zip(low, turned, strict=True))
            stage.yield_(half * 2)
        YR[m, :], YI[m, :] = re[:], im[:]


@kernel(name="haar_f32")
def haar(k: Builder) -> None:
    """Rows of 2^n values: halves of sums and of differences, the sums again, until one is left."""
    M = k.symbol("M")
    k.constexpr("width", 32)
    n = k.named("width")
    X, Y = k.view("X", "in", "f32", (M, n)), k.view("Y", "out", "f32", (M, n))
    k.noalias(X, Y)
    row = k.domain(n)
    with k.parallel(M) as m:
        b = k.buffer("f32", (n,), X[m, :])
        with k.while_(k.value(n)) as loop:
            (length,) = loop.test(loop.carried[0] > 1)
            half = length // 2
            i = k.indices(row[0:half])
            even, odd = b[b.assume_in_bounds(i * 2, 0)], b[b.assume_in_bounds(i * 2 + 1, 0)]
            b[i], b[b.assume_in_bounds(i + half, 0)] = (even + odd) * math.sqrt(0.5), (even - odd) * math.sqrt(0.5)
            loop.yield_(half)
        Y[m, :] = b[:]


KERNELS = [fft_radix2, haar]
