"""The polynomials of the Mojo library's functions: ``python -m tools.polynomials`` writes eqkir/emit/mojo/lib/polynomials.mojo.

Each approximates a function on an interval, fitted by weighted least squares at Chebyshev nodes in 80 digits, where the coefficients are
then rounded one by one, lowest power first, and the rest fitted again. Needs mpmath (extra ``dev``). The text of a polynomial states
its interval and the largest error relative to the weight's inverse; `tests/mojo` measures the functions that are built from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

TARGET = Path(__file__).resolve().parent.parent / "eqkir" / "emit" / "mojo" / "lib" / "polynomials.mojo"
Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Polynomial:
    """`f` on [a, b] to `degree`; the error is weighed by `weight`; `what` says it in words."""

    name: str
    dtype: str
    degree: int
    a: Any
    b: Any
    f: Function
    weight: Function
    what: str


def _series(f: Function, limit: Function, below: float) -> Function:
    """`f`, or its limit near zero, where `f` cancels."""
    return lambda x: limit(x) if abs(x) < below else f(x)


def _one(_: Any) -> Any:
    return mp.mpf(1)


def _root(f: Function) -> Function:
    return lambda z: f(mp.sqrt(z))


def _atanh2(z: Any) -> Any:
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s - 2) / z


def _erfcx(t: Any) -> Any:
    x = 4 * (1 + t) / (1 - t)
    return mp.erfc(x) * mp.exp(x * x) * (1 + 2 * x)


def _stirling(u: Any) -> Any:
    """(lgamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2)) x with u = 1 / x^2."""
    x = 1 / mp.sqrt(u)
    return (mp.loggamma(x) - ((x - 0.5) * mp.log(x) - x + mp.log(2 * mp.pi) / 2)) * x


def _i0_large(t: Any) -> Any:
    x = 16 / (t + 1)
    return mp.besseli(0, x) * mp.exp(-x) * mp.sqrt(x)


def polynomials() -> list[Polynomial]:
    e, ln2, half_ln2 = mp.mpf("1e-30"), mp.log(2), mp.mpf("0.34675")
    low, high, quarter = mp.sqrt(0.5) - 1, mp.sqrt(2) - 1, (mp.pi / 4 + mp.mpf("0.001")) ** 2
    exp = _series(lambda r: (mp.expm1(r) - r) / r**2, lambda r: mp.mpf(1) / 2 + r / 6, 1e-20)
    exp2 = _series(lambda r: mp.expm1(r * ln2) / r, lambda r: ln2 + r * ln2**2 / 2, 1e-20)
    log = _series(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, lambda f: mp.mpf(1) / 3 - f / 4, 1e-12)
    sin = _root(_series(lambda r: (mp.sin(r) - r) / r**3, lambda r: -mp.mpf(1) / 6, 1e-12))
    cos = _root(_series(lambda r: (mp.cos(r) - 1 + r * r / 2) / r**4, lambda r: mp.mpf(1) / 24, 1e-12))
    erf = _root(_series(lambda x: mp.erf(x) / x - 1, lambda x: 2 / mp.sqrt(mp.pi) - 1, 1e-20))
    asin = _root(_series(lambda x: (mp.asin(x) / x - 1) / x**2, lambda x: mp.mpf(1) / 6, 1e-12))
    atan = _root(_series(lambda x: (mp.atan(x) / x - 1) / x**2, lambda x: -mp.mpf(1) / 3, 1e-12))
    square, linear = (lambda x: x * x), (lambda x: abs(x))
    p = Polynomial
    return [
        p("exp_f32", "f32", 4, -half_ln2, half_ln2, exp, square, "(exp(x) - 1 - x) / x^2"),
        p("exp2_f32", "f32", 5, mp.mpf(-0.5), mp.mpf(0.5), exp2, linear, "(2^x - 1) / x"),
        p("log_f32", "f32", 8, low, high, log, square, "(log(1 + x) - x + x^2/2) / x^3"),
        p("erf_f32", "f32", 6, e, mp.mpf("0.9"), erf, _one, "erf(sqrt x) / sqrt x - 1"),
        p("log_erfc_f32", "f32", 8, mp.mpf("0.94"), mp.mpf(4), lambda x: mp.log(mp.erfc(x)), mp.erfc, "log(erfc(x))"),
        p("sin_f32", "f64", 3, e, quarter, sin, _root(square), "(sin(sqrt x) - sqrt x) / sqrt(x)^3"),
        p("cos_f32", "f64", 3, e, quarter, cos, square, "(cos(sqrt x) - 1 + x/2) / x^2"),
        p("exp_f64", "f64", 9, -half_ln2, half_ln2, exp, square, "(exp(x) - 1 - x) / x^2"),
        p("exp2_f64", "f64", 11, mp.mpf(-0.5), mp.mpf(0.5), exp2, linear, "(2^x - 1) / x"),
        p("log_f64", "f64", 6, e, mp.mpf("0.02945"), _atanh2, linear, "(2 artanh(sqrt x) / sqrt x - 2) / x"),
        p("sin_f64", "f64", 5, e, quarter, sin, linear, "(sin(sqrt x) - sqrt x) / sqrt(x)^3"),
        p("cos_f64", "f64", 5, e, quarter, cos, square, "(cos(sqrt x) - 1 + x/2) / x^2"),
        p("asin_f64", "f64", 12, e, mp.mpf("0.25"), asin, linear, "(asin(sqrt x) / sqrt x - 1) / x"),
        p("atan_f64", "f64", 11, e, mp.mpf("0.17158"), atan, linear, "(atan(sqrt x) / sqrt x - 1) / x"),
        p("erf_f64", "f64", 12, e, mp.mpf(1), erf, _one, "erf(sqrt x) / sqrt x - 1"),
        p("erfcx_f64", "f64", 20, mp.mpf(-7) / 9, mp.mpf(3) / 4, _erfcx, lambda t: 1 / _erfcx(t),
          "erfc(y) exp(y^2) (1 + 2 y) with x = (y - 4) / (y + 4)"),
        p("i0_small_f64", "f64", 19, e, mp.mpf(16), lambda z: mp.besseli(0, 2 * mp.sqrt(z)), lambda z: 1 / mp.besseli(0, 2 * mp.sqrt(z)),
          "I0(2 sqrt x)"),
        p("i0_large_f64", "f64", 22, mp.mpf("-0.99999"), mp.mpf(1), _i0_large, _one, "I0(y) exp(-y) sqrt(y) with x = 16/y - 1"),
        p("lgamma_f64", "f64", 19, mp.mpf("-0.501"), mp.mpf("0.501"),
          _series(lambda w: mp.loggamma(2 + w) / w, lambda w: 1 - mp.euler, 1e-20), _one, "log(gamma(2 + x)) / x"),
        p("stirling_f64", "f64", 7, mp.mpf("1e-6"), 1 / mp.mpf("8.4") ** 2, _stirling, _one,
          "(log(gamma(y)) - (y - 1/2) log(y) + y - log(2 pi)/2) y with x = 1/y^2"),
        p("sinpi_f64", "f64", 10, e, mp.mpf("0.25"), _root(_series(lambda x: mp.sin(mp.pi * x) / x, lambda x: mp.pi, 1e-20)), _one,
          "sin(pi sqrt x) / sqrt x"),
    ]  # fmt: skip


def rounded(x: Any, dtype: str) -> Any:
    """To nearest in the dtype (by way of a decimal that holds it exactly enough)."""
    return mp.mpf(float(np.float32(float(x)) if dtype == "f32" else float(x)))


def fit(p: Polynomial) -> tuple[list[Any], Any]:
    """Coefficients, lowest power first, and the largest weighted error on a finer grid."""
    n = 3 * (p.degree + 1)
    nodes = [(p.a + p.b) / 2 + (p.b - p.a) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    weights = [p.weight(x) for x in nodes]
    left = [p.f(x) for x in nodes]
    done: list[Any] = []
    while len(done) <= p.degree:
        at = len(done)
        rows = mp.matrix([[w * x ** (k - at) * x**at for k in range(at, p.degree + 1)] for x, w in zip(nodes, weights, strict=True)])
        c, _ = mp.qr_solve(rows, mp.matrix([w * y for w, y in zip(weights, left, strict=True)]))
        keep = rounded(c[0], p.dtype) if at < 3 else None
        if keep is None:  # beyond the first three, rounding does not show
            done += [rounded(c[k], p.dtype) for k in range(p.degree + 1 - at)]
            break
        done.append(keep)
        left = [y - keep * x**at for x, y in zip(nodes, left, strict=True)]
    grid = [(p.a + p.b) / 2 + (p.b - p.a) / 2 * mp.cos(mp.pi * k / 300) for k in range(301)]
    error = max(abs(p.weight(x) * (sum(c * x**k for k, c in enumerate(done)) - p.f(x))) for x in grid)
    return done, error


def text(p: Polynomial) -> str:
    """The definition in Mojo, by Horner's scheme."""
    coefficients, error = fit(p)
    t = f"SIMD[DType.float{p.dtype[1:]}, W]"
    lines = [f"# {p.what} for {mp.nstr(p.a, 6)} <= x <= {mp.nstr(p.b, 6)}; weighted error 2^{mp.nstr(mp.log(error, 2), 4)}."]
    lines += ["@always_inline", f"def eqk_p_{p.name}[W: Int](x: {t}) -> {t}:", f"    var y = {t}({float(coefficients[-1])!r})"]
    lines += [f"    y = fma(y, x, {t}({float(c)!r}))" for c in coefficients[-2::-1]]
    return "\n".join([*lines, "    return y"])


def source() -> str:
    """The whole file."""
    mp.mp.dps = 80
    head = "# Polynomials, written by `python -m tools.polynomials`."
    return "\n\n\n".join([head, *(text(p) for p in polynomials())]) + "\n"


def main() -> None:
    TARGET.write_text(source(), encoding="utf-8")


if __name__ == "__main__":
    main()
