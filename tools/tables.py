"""The tables of the Mojo library's functions: ``python -m tools.tables`` writes eqkir/emit/mojo/lib/tables.mojo.

A function of f32 is cut into 32 pieces, a polynomial each; its coefficients lie in registers, where a permutation looks them up by the low
five bits of an index. Coefficients are fitted by least squares at Chebyshev nodes, weighted for the relative error, and rounded one by
one, lowest power first. Needs mpmath (extra ``dev``).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

TARGET = Path(__file__).resolve().parent.parent / "eqkir" / "emit" / "mojo" / "lib" / "tables.mojo"
PIECES = 32
Function = Callable[[Any], Any]
Rows = list[list[float]]

HEAD = """\
# Tables, written by `python -m tools.tables`: functions in 32 pieces, whose coefficients a permutation of AVX-512 looks up by the low five
# bits of an index."""


def rounded(x: Any) -> float:
    """To nearest in f32."""
    return float(np.float32(float(x)))


def fit(f: Function, low: Any, high: Any, centre: Any, degree: int) -> tuple[list[float], Any]:
    """Coefficients in x - centre, lowest power first, and the largest relative error, on [low, high]."""
    n = 4 * (degree + 1)
    xs = [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    ys = [f(x) for x in xs]
    ds = [x - centre for x in xs]
    left, done = list(ys), []
    for at in range(degree + 1):
        rows = mp.matrix([[d**k / y for k in range(at, degree + 1)] for d, y in zip(ds, ys, strict=True)])
        c, _ = mp.qr_solve(rows, mp.matrix([v / y for v, y in zip(left, ys, strict=True)]))
        done.append(rounded(c[0]))
        left = [v - done[-1] * d**at for v, d in zip(left, ds, strict=True)]
    return done, max(abs(v / y) for v, y in zip(left, ys, strict=True))


def times(c: list[float], x: Any, d: Any) -> Any:
    """x times the polynomial at d as the library computes it: arrays of f32, every step rounded."""
    y = np.full(x.shape, np.float32(c[-1]))
    for k in c[-2::-1]:
        y = (y.astype(np.float64) * d + np.float64(np.float32(k))).astype(np.float32)
    return y * x


def at_most_one(c: list[float], x: Any, d: Any) -> list[float]:
    """Coefficients with which x times the polynomial stays within 1 on the arrays: the first one is lowered, bit by bit."""
    while (times(c, x, d) > 1).any():
        c = [float(np.nextafter(np.float32(c[0]), np.float32(0))), *c[1:]]
    return c


def erf() -> tuple[Rows, Any]:
    """erf(x) / x on pieces of width 1/8 around multiples of it."""
    f, step, rows, worst = (lambda x: mp.erf(x) / x), mp.mpf(1) / 8, [], mp.mpf(0)
    for j in range(PIECES):
        c, e = fit(f, j * step - step / 2, j * step + step / 2, j * step, 4)
        x = np.arange(2 * max(j, 1) - 1, 2 * j + 1, 2.0**-16, np.float32) / np.float32(16)
        rows.append(at_most_one(c, x, x - np.float32(j / 8)))
        worst = max(worst, e)
    return rows, worst


def tanh() -> tuple[Rows, Any]:
    """tanh(x) / x on pieces that the exponent and three bits of x + 5/8 tell apart, in powers of the distance from their middle."""
    shift, rows, worst = mp.mpf(5) / 8, [[0.0] * 5 for _ in range(PIECES)], mp.mpf(0)
    first = int(np.float32(0.625).view(np.uint32)) >> 20
    for word in range(first, first + PIECES):
        low, high = (mp.mpf(float(np.uint32(w << 20).view(np.float32))) for w in (word, word + 1))
        c, e = fit(lambda y: mp.tanh(y - shift) / (y - shift), low, high, (low + high) / 2, 4)
        y = np.linspace(float(low), float(high), 1 << 16, endpoint=False).astype(np.float32)
        rows[word % PIECES] = at_most_one(c, y - np.float32(0.625), y - np.float32(float(low + high) / 2))
        worst = max(worst, e)
    return rows, worst


def exp2() -> tuple[Rows, Any]:
    """2^(j / 32)."""
    return [[rounded(mp.mpf(2) ** (mp.mpf(j) / PIECES))] for j in range(PIECES)], mp.mpf(0)


def vector(values: list[float]) -> str:
    """16 lanes as a Mojo constant."""
    lines = [", ".join(repr(v) for v in values[at : at + 4]) for at in range(0, 16, 4)]
    inner = ",\n        ".join(lines)
    return f"SIMD[DType.float32, 16](\n        {inner},\n    )"


def text(name: str, what: str, rows: Rows, error: Any) -> str:
    """The definition in Mojo: the polynomial of the piece `i` at `d`."""
    close = f"; relative error 2^{mp.nstr(mp.log(error, 2), 4)}" if error else ""
    of = "i: SIMD[DType.uint32, 16]"
    if len(rows[0]) > 1:
        of += ", d: SIMD[DType.float32, 16]"
    lines = [f"# {what}{close}.", "@always_inline", f"def eqk_t_{name}({of}) -> SIMD[DType.float32, 16]:"]
    for k in range(len(rows[0]) - 1, -1, -1):
        for half, at in (("l", 0), ("h", 16)):
            lines.append(f"    comptime {half}{k} = {vector([r[k] for r in rows[at : at + 16]])}")
    top = len(rows[0]) - 1
    lines.append(f"    var y = eqk_lookup_f32(l{top}, i, h{top})")
    lines += [f"    y = fma(y, d, eqk_lookup_f32(l{k}, i, h{k}))" for k in range(top - 1, -1, -1)]
    return "\n".join([*lines, "    return y"])


def source() -> str:
    """The whole file."""
    mp.mp.dps = 40
    made = [("erf_f32", erf), ("tanh_f32", tanh), ("exp2_f32", exp2)]
    return "\n\n\n".join([HEAD, *(text(name, " ".join((f.__doc__ or "").split()).rstrip("."), *f()) for name, f in made)]) + "\n"


def main() -> None:
    TARGET.write_text(source(), encoding="utf-8")


if __name__ == "__main__":
    main()
