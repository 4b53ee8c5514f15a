"""How one operation on one dtype is written in Triton, by table. Every form meets the accuracy that kir.md section 5 states.

Floats below f32 compute in f32 and round once. Kernels are compiled with ``enable_fp_fusion=False``, so that products stay unfused, and
with ``enable_reflect_ftz`` on only where every function in them is one of `FLUSH_NEUTRAL`: the option replaces the device library's
subnormal-keeping instructions by shorter ones. Accuracy (NVIDIA device library unless said otherwise, f32): log log2 log1p expm1 1 ulp; sin
cos asin atan erf 2; tan erfc 4; i0 lgamma 6; ``rsqrt.approx`` 2 (CUDA programming guide, appendix on mathematical functions); `_exp`
2 + 1.2 |x|; `_tanh` 4. ``bench/accuracy.py`` measures them over all 2**32 inputs. `PERMITTED` lists, by function, the approximate and
the NaN-dropping PTX instructions that these forms contain; no other may occur.
"""

from __future__ import annotations

from collections.abc import Iterable

from eqkir.base import dtypes as D

NARROW = D.FLOATS - {"f32", "f64"}
TYPES = {
    "bool": "tl.int1", "i8": "tl.int8", "i16": "tl.int16", "i32": "tl.int32", "i64": "tl.int64", "u8": "tl.uint8", "u16": "tl.uint16",
    "u32": "tl.uint32", "u64": "tl.uint64", "f16": "tl.float16", "bf16": "tl.bfloat16", "f32": "tl.float32", "f64": "tl.float64",
    "f8e4m3fn": "tl.float8e4nv", "f8e5m2": "tl.float8e5", "index": "tl.int64",
}  # fmt: skip
INFIX = {
    "add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>", "eq": "==", "ne": "!=", "lt": "<",
    "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
COMPARE = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})

_LIB = "libdevice.{}({{x}})"
UNARY = {
    "neg": "{x} * -1.0", "abs": "tl.abs({x})", "exp": "_exp({x})", "exp2": "_exp2({x})", "log": "tl.log({x})",
    "log2": "tl.log2({x})", "log1p": _LIB.format("log1p"), "expm1": _LIB.format("expm1"), "sigmoid": "_sigmoid({x})",
    "tanh": "_tanh({x})", "exp2_fast": "tl.exp2({x})", "tanh_fast": "_tanh_fast({x})",
    "sin": "tl.sin({x})", "cos": "tl.cos({x})", "tan": _LIB.format("tan"), "asin": _LIB.format("asin"), "atan": _LIB.format("atan"),
    "erf": "tl.erf({x})", "erfc": _LIB.format("erfc"), "i0": _LIB.format("cyl_bessel_i0"), "lgamma": _LIB.format("lgamma"),
    "floor": "tl.floor({x})", "ceil": "tl.ceil({x})", "round_even": _LIB.format("rint"), "isnan": "{x} != {x}",
    "isinf": 'tl.abs({x}) == float("inf")', "isfinite": 'tl.abs({x}) < float("inf")',
}  # fmt: skip
BY_TYPE = {
    ("sqrt", "f32"): "tl.sqrt_rn({x})", ("sqrt", "f64"): "tl.sqrt({x})", ("rsqrt", "f32"): "tl.rsqrt({x})",
    ("rsqrt", "f64"): "libdevice.rsqrt({x})", ("sigmoid", "f64"): "_sigmoid64({x})",
    ("tanh", "f64"): "libdevice.tanh({x})", ("exp", "f64"): "libdevice.exp({x})",
    ("exp2", "f64"): "tl.exp2({x})",
}  # fmt: skip

#: spelled helper functions: text, and the helpers that they call
HELPERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "_sigmoid": (
        "@triton.jit\ndef _sigmoid(x):\n    # e = exp(-|x|) never overflows: 1 / (1 + e) or e / (1 + e)\n"
        "    e = libdevice.exp(tl.abs(x) * -1.0)\n"
        "    return tl.div_rn(tl.where(x >= 0.0, 1.0, e), 1.0 + e)\n",
        (),
    ),
    "_sigmoid64": (
        "@triton.jit\ndef _sigmoid64(x):\n    e = libdevice.exp(tl.abs(x) * -1.0)\n    return tl.where(x >= 0.0, 1.0, e) / (1.0 + e)\n",
        (),
    ),
    "_exp": (
        "@triton.jit\ndef _exp(x):\n    # 2^(x log2 e), within 0.97 (2 + 1.2 |x|) ulp: the addend centres the error of ex2.approx\n"
        "    return tl.exp2(tl.fma(x, 1.4426950408889634, 8e-9))\n",
        (),
    ),
    "_tanh": (
        "@triton.jit\ndef _tanh(x):\n"
        "    # both forms of |x| and a choice, no branch: x + x^3 p(x^2), minimax below 0.55, and 1 - 2 / (exp(2 x) + 1); then the sign\n"
        "    t = tl.abs(x)\n    z = x * x\n"
        "    p = tl.fma(tl.fma(z, 0.016437580348623682, -0.0526718130443064), z, 0.13320725046292428)\n"
        "    p = tl.fma(p, z, -0.3333294663591011)\n"
        "    near = tl.fma(p * z, t, t)\n"
        "    far = tl.fma(libdevice.fast_dividef(1.0, tl.exp2(t * 2.8853900817779268) + 1.0), -2.0, 1.0)\n"
        "    y = tl.where(t < 0.55, near, far).to(tl.int32, bitcast=True) | (x.to(tl.int32, bitcast=True) & -2147483648)\n"
        "    return y.to(tl.float32, bitcast=True)\n",
        (),
    ),
    "_exp2": (
        "@triton.jit\ndef _exp2(x):\n    # ex2.approx errs by 1.1 ulp at most where its result lies in [1, 2); scaling is exact\n"
        "    c = tl.where(x > 128.0, 128.0, tl.where(x < -152.0, -152.0, x))\n    n = tl.floor(c)\n    k = n.to(tl.int32)\n"
        "    h = k >> 1\n    a = ((h + 127) << 23).to(tl.float32, bitcast=True)\n"
        "    b = ((k - h + 127) << 23).to(tl.float32, bitcast=True)\n    return tl.exp2(c - n) * a * b\n",
        (),
    ),
    "_tanh_fast": (
        "@triton.jit\ndef _tanh_fast(x):\n    # near zero x - x**3 / 3, within 2.2e-4 of it relatively; beyond, 1 - 2 / (1 + exp(2 |x|))\n"
        "    a = tl.abs(x)\n    small = x * (1.0 - a * a * 0.33333334)\n"
        "    large = 1.0 - 2.0 / (1.0 + tl.exp2(a * 2.8853901))\n"
        "    return tl.where(a < 0.2, small, tl.where(x < 0.0, large * -1.0, large))\n",
        (),
    ),
    "_floordiv": (
        "@triton.jit\ndef _floordiv(a, b):\n    # toward minus infinity: the hardware quotient truncates\n    q = a // b\n    r = a % b\n"
        "    return q - ((r != 0) & ((r < 0) != (b < 0))).to(q.dtype)\n",
        (),
    ),
    "_floormod": (
        "@triton.jit\ndef _floormod(a, b):\n    r = a % b\n    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)\n",
        (),
    ),
    "_odd_f32": (
        "@triton.jit\ndef _odd_f32(x):\n    # f64 -> f32 rounded to odd, so that a second rounding is the only one\n"
        "    y = x.to(tl.float32)\n"
        "    z = y.to(tl.float64)\n    bits = y.to(tl.int32, bitcast=True)\n    step = tl.where(tl.abs(z) < tl.abs(x), 1, -1)\n"
        "    fix = (z != x) & ((bits & 1) == 0) & (x == x)\n    return tl.where(fix, bits + step, bits).to(tl.float32, bitcast=True)\n",
        (),
    ),
    "_widen_max": (
        "@triton.jit\ndef _widen_max(x):\n    # the largest index stands for the largest 64-bit integer\n    if x.dtype == tl.int32:\n"
        "        return tl.where(x == 2147483647, 9223372036854775807, x.to(tl.int64))\n    else:\n        return x\n",
        (),
    ),
    "_widen_min": (
        "@triton.jit\ndef _widen_min(x):\n    # the least index stands for the least 64-bit integer\n    if x.dtype == tl.int32:\n"
        "        return tl.where(x == -2147483648, -9223372036854775808, x.to(tl.int64))\n    else:\n        return x\n",
        (),
    ),
    "_widen_both": (
        "@triton.jit\ndef _widen_both(x):\n    # the extreme indices stand for the extreme 64-bit integers\n    if x.dtype == tl.int32:\n"
        "        y = tl.where(x == 2147483647, 9223372036854775807, x.to(tl.int64))\n"
        "        return tl.where(x == -2147483648, -9223372036854775808, y)\n    else:\n        return x\n",
        (),
    ),
    "_int_f64_odd": (
        "@triton.jit\ndef _int_f64_odd(x):\n    # 64-bit integers as f64, rounded to odd beyond 2**53\n    high = x >> 16\n"
        "    sticky = ((x & 0xFFFF) != 0).to(x.dtype)\n    big = (high >= 137438953472) | (high < -137438953472)\n"
        "    return tl.where(big, (high | sticky).to(tl.float64) * 65536.0, x.to(tl.float64))\n",
        (),
    ),
    "_uint_f64_odd": (
        "@triton.jit\ndef _uint_f64_odd(x):\n    high = x >> 16\n    sticky = ((x & 0xFFFF) != 0).to(x.dtype)\n"
        "    return tl.where(high >= 137438953472, (high | sticky).to(tl.float64) * 65536.0, x.to(tl.float64))\n",
        (),
    ),
    "_to_f8e5m2": (
        "@triton.jit\ndef _to_f8e5m2(x):\n    # nearest even, overflow to infinity (the hardware conversion saturates)\n"
        "    y = x.to(tl.float8e5).to(tl.uint8, bitcast=True)\n    sign = (x.to(tl.uint32, bitcast=True) >> 24).to(tl.uint8) & 0x80\n"
        "    return tl.where(tl.abs(x) >= 61440.0, sign | 0x7C, y).to(tl.uint8).to(tl.float8e5, bitcast=True)\n",
        (),
    ),
}

_EX2, _EX2F, _RCPF, _DIV = "ex2.approx.f32", "ex2.approx.ftz.f32", "rcp.approx.ftz.f32", "div.full.f32"
#: computing dtype -> types of instructions that take the greater or smaller number and drop a NaN
_NUMBERS = {"f16": ("f16", "f16x2", "f32"), "bf16": ("bf16", "bf16x2", "f32"), "f32": ("f32",)}
#: (function, computing dtype) -> approximate or NaN-dropping instructions inside its form
PERMITTED: dict[tuple[str, str], tuple[str, ...]] = {
    ("exp", "f32"): (_EX2,), ("exp2", "f32"): (_EX2,), ("sigmoid", "f32"): (_EX2F,), ("expm1", "f32"): (_EX2,),
    ("tanh", "f32"): (_EX2, _EX2F, "div.approx.f32", "div.approx.ftz.f32"),
    ("tan", "f32"): (_RCPF,), ("asin", "f32"): ("sqrt.approx.f32",), ("erf", "f32"): (_EX2F,), ("erfc", "f32"): (_EX2F, _RCPF),
    ("i0", "f32"): (_EX2, _RCPF, "rsqrt.approx.ftz.f32"), ("lgamma", "f32"): (_RCPF,), ("rsqrt", "f32"): ("rsqrt.approx.f32",),
    ("exp2_fast", "f32"): (_EX2,), ("tanh_fast", "f32"): (_EX2, _DIV), ("div_fast", "f32"): (_DIV,),
    **{(f, d): tuple(f"{f[:3]}.{t}" for t in ts) for f in ("maximum_num", "minimum_num") for d, ts in _NUMBERS.items()},
}  # fmt: skip
#: functions whose forms the library's option does not touch
EXACT = frozenset({"neg", "abs", "not", "isnan", "isinf", "isfinite", "fma", "maximum", "minimum", "maximum_num", "minimum_num", *INFIX})
#: functions whose forms are as accurate, for subnormals too, when the library flushes (``bench/accuracy.py run --flush``)
FLUSH_NEUTRAL = EXACT | {"tanh"}
#: functions whose forms contain fused multiply-adds
FUSED = frozenset({
    "fma", "log", "log2", "log1p", "expm1", "tanh", "sin", "cos", "tan", "asin", "atan", "erf", "erfc", "i0", "lgamma", "exp", "exp2",
    "sigmoid", "rsqrt", "sqrt", "div",
})  # fmt: skip


def computing(dtype: str) -> str:
    """The dtype in which an elementwise operation computes."""
    return "f32" if dtype in NARROW else dtype


class Forms:
    """Writes expressions; remembers the helpers used and the approximate instructions that came with them."""

    def __init__(self) -> None:
        self.helpers: set[str] = set()
        self.permits: set[str] = set()
        self.fused = False
        self._functions: set[str] = set()

    def use(self, text: str) -> str:
        for name in HELPERS:
            if name + "(" in text:
                self._need(name)
        return text

    def _need(self, name: str) -> None:
        self.helpers.add(name)
        for x in HELPERS[name][1]:
            self._need(x)

    def permit(self, fn: str, dtype: str) -> None:
        self.permits |= set(PERMITTED.get((fn, dtype), ()))
        self._functions.add(fn)
        self.fused |= fn in FUSED and (dtype == "f64" or fn not in ("div", "sqrt", "rsqrt", "exp2"))

    @property
    def flushes(self) -> bool:
        """Whether the library may flush: it matters to some function, and harms none."""
        return bool(self._functions & FLUSH_NEUTRAL - EXACT) and self._functions <= FLUSH_NEUTRAL

    def source(self) -> str:
        """The text of the helpers used, in a fixed order."""
        return "\n\n".join(HELPERS[n][0] for n in HELPERS if n in self.helpers)

    # ---------------------------------------------------------------- casts
    def cast(self, x: str, src: str, dst: str) -> str:
        """int -> int modulo, int -> float and float -> float nearest-even in one rounding, float -> int truncating."""
        return self.use(self._cast(x, src, dst))

    def _cast(self, x: str, src: str, dst: str) -> str:
        to = f".to({TYPES[dst]})"
        if TYPES[src] == TYPES[dst]:
            return x
        if dst == "bool":
            return f"({self.wide(x, src)} != 0)"
        if src == "bool":
            return f"{x}{to}" if dst not in NARROW else self._cast(f"{x}.to(tl.float32)", "f32", dst)
        if dst in D.INTS:
            return f"{self.wide(x, src)}{to}"
        if src in D.INTS:
            if dst in ("f32", "f64"):
                return f"{x}{to}"
            if dst == "bf16" and D.bits(src) > 16:
                odd = f"{x}.to(tl.float64)" if D.bits(src) == 32 else f"{'_uint' if src in D.UNSIGNED else '_int'}_f64_odd({x})"
                return f"_odd_f32({odd}){to}"
            return self._cast(f"{x}.to(tl.float32)", "f32", dst)  # exact below 2**24, and out of range beyond
        if src == "f64" and dst in ("bf16", "f8e4m3fn", "f8e5m2"):
            return self._cast(f"_odd_f32({x})", "f32", dst)
        if dst == "f8e5m2":
            return f"_to_f8e5m2({self.wide(x, src)})"
        if src in NARROW and dst != "f32" and not (src in ("f8e4m3fn", "f8e5m2") and dst == "f16"):
            return self._cast(f"{x}.to(tl.float32)", "f32", dst)
        return f"{x}{to}"

    def bitcast(self, x: str, src: str, dst: str) -> str:
        if TYPES[src] == TYPES[dst]:
            return x
        if dst == "bool":
            return f"({x} != 0)"
        return f"{x}.to({TYPES[dst]})" if src == "bool" else f"{x}.to({TYPES[dst]}, bitcast=True)"

    def wide(self, x: str, dtype: str) -> str:
        return f"{x}.to(tl.float32)" if dtype in NARROW else x

    def narrow(self, text: str, dtype: str) -> str:
        return self.cast(f"({text})", "f32", dtype) if dtype in NARROW else text

    # ---------------------------------------------------------------- pointwise
    def unary(self, fn: str, x: str, dtype: str) -> str:
        """`dtype` is the operand's."""
        if fn == "not":
            return f"~{x}"
        if dtype not in D.FLOATS:
            return {"neg": f"0 - {x}", "abs": x if dtype in D.UNSIGNED else f"tl.abs({x})"}[fn]
        at = computing(dtype)
        self.permit(fn, at)
        text = self.use(BY_TYPE.get((fn, at), UNARY.get(fn, "")).format(x=self.wide(x, dtype)))
        return text if fn in ("isnan", "isinf", "isfinite") else self.narrow(text, dtype)

    def binary(self, fn: str, x: str, y: str, dtype: str) -> str:
        """`dtype` is the operands'; comparisons give bool."""
        if dtype == "bool" and fn in ("maximum", "maximum_num", "minimum", "minimum_num"):
            return f"{x} {'|' if fn.startswith('max') else '&'} {y}"
        a, b = self.wide(x, dtype), self.wide(y, dtype)
        if fn in COMPARE:
            return f"{a} {INFIX[fn]} {b}"
        at = computing(dtype)
        self.permit(fn, at)
        if fn == "div":
            text = f"tl.div_rn({a}, {b})" if at == "f32" else f"{a} / {b}"
        elif fn == "div_fast":
            text = f"{a} / {b}"
        elif fn in ("floordiv", "mod"):
            if dtype in D.UNSIGNED:
                return f"{a} {'//' if fn == 'floordiv' else '%'} {b}"
            return self.use(f"{'_floordiv' if fn == 'floordiv' else '_floormod'}({a}, {b})")
        elif fn in ("maximum", "minimum") and dtype in D.FLOATS:
            text = f"tl.{fn}({a}, {b}, propagate_nan=tl.PropagateNan.ALL)"
        elif fn in ("maximum", "minimum", "maximum_num", "minimum_num"):
            text = f"tl.{fn[:7]}({a}, {b})"
        else:
            text = f"{a} {INFIX[fn]} {b}"
        return self.narrow(text, dtype)

    def ternary(self, fn: str, x: str, y: str, z: str, dtype: str) -> str:
        """`dtype` is the result's."""
        if fn == "select":
            return f"tl.where({x}, {y}, {z})"
        if dtype not in D.FLOATS:
            return f"{x} * {y} + {z}"
        self.permit("fma", computing(dtype))
        return self.narrow(f"tl.fma({', '.join(self.wide(v, dtype) for v in (x, y, z))})", dtype)

    def const(self, text: str, dtype: str) -> str:
        """A scalar constant of exactly this dtype."""
        if dtype == "bool":
            return f"tl.full((), {'True' if text == 'true' else 'False'}, tl.int1)"
        if dtype not in D.FLOATS:
            return f"tl.full((), {text}, {TYPES[dtype]})"
        if text == "-0.0":  # a zero value loses its sign in `full`
            bits = "-9223372036854775808, tl.int64).to(tl.float64" if dtype == "f64" else "-2147483648, tl.int32).to(tl.float32"
            return self.cast(f"tl.full((), {bits}, bitcast=True)", computing(dtype), dtype)
        value = f'float("{text}")' if text in ("inf", "-inf", "nan") else text
        return self.cast(f"tl.full((), {value}, {TYPES[computing(dtype)]})", computing(dtype), dtype)

    # ---------------------------------------------------------------- indices in the kernel's index type
    @staticmethod
    def small_const(text: str) -> str:
        """A small constant of dtype index; the extreme 64-bit integers become those of the index type."""
        if text in ("9223372036854775807", "-9223372036854775808"):
            narrow = "2147483647" if text[0] == "9" else "-2147483648"
            text = f"{narrow} if IDX == tl.int32 else {text}"
        return f"tl.full((), {text}, IDX)"

    def widen(self, x: str, extremes: frozenset[str]) -> str:
        """The 64-bit integer that a small index stands for."""
        if not extremes:
            return f"{x}.to(tl.int64)"
        return self.use(f"_widen_{'both' if len(extremes) == 2 else next(iter(extremes))}({x})")

    # ---------------------------------------------------------------- combine functions
    @staticmethod
    def carrier(dtype: str) -> str:
        """The dtype in which a component crosses lanes: bool as i32, 8-bit floats as f32."""
        return "i32" if dtype == "bool" else "f32" if dtype in ("f8e4m3fn", "f8e5m2") else dtype


def imports(texts: Iterable[str]) -> bool:
    """Whether the device library is needed."""
    return any("libdevice." in t for t in texts)
