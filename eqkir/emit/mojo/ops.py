"""Pointwise operations, casts and constants as Mojo expressions of any width, exact per dtype (kir.md section 5).

An operand is a Mojo expression of type ``SIMD[DType, width]`` (a scalar has width 1, ``index`` is ``DType.int64``), and so is every result.
Below f32 an operation computes in f32 and rounds once. Nothing faults on values that no one reads: division by zero, shifts beyond the
width and casts out of range give some value. Expressions call helpers whose names begin with ``eqk_``; `prelude` is their text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from eqkir.base.dtypes import FLOATS, INTS, NUMPY, SIGNED, bits, parse
from eqkir.emit.mojo.library import IMPORTS, definitions, helpers_in, needed

#: dtype -> name of Mojo's element type, a member of ``DType``
MOJO: Final = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32",
    "u64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2", "index": "int64",
}  # fmt: skip
NARROW: Final = ("f16", "bf16", "f8e4m3fn", "f8e5m2")
#: functions of f32 and f64 that the library defines, one definition a dtype
FUNCTIONS: Final = (
    "rsqrt", "exp", "exp2", "log", "log2", "log1p", "expm1", "sigmoid", "tanh", "sin", "cos", "tan", "asin", "atan", "erf", "erfc", "i0",
    "lgamma",
)  # fmt: skip
ROUNDING: Final = ("floor", "ceil", "round_even", "sqrt")
TESTS: Final = ("isnan", "isinf", "isfinite")
EXTREMES: Final = ("maximum", "minimum", "maximum_num", "minimum_num")
COMPARE: Final = {"eq": "eq", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}
COMBINE: Final = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}


class Unsupported(Exception):
    """No expression for this operation on these dtypes; the text says which."""


def mojo_dtype(dtype: str) -> str:
    """``"f32"`` -> ``"DType.float32"``."""
    return f"DType.{MOJO[dtype]}"


def mojo_type(dtype: str, width: int | str) -> str:
    """The type of a value: ``SIMD[DType.float32, 16]``."""
    return f"SIMD[{mojo_dtype(dtype)}, {width}]"


def prelude(used: set[str]) -> str:
    """Imports, and the definitions of the helpers in `used` with all that they call. Raises KeyError for a name that is no helper."""
    from eqkir.emit.mojo import atomics  # (it spells with this module)

    generated = {n: reduction(n) for n in sorted(used) if n.startswith("eqk_reduce_")}
    generated |= {n: atomics.definition(n) for n in sorted(used) if n.startswith(atomics.PREFIX)}
    called = {n for text in generated.values() for n in helpers_in(text)} - generated.keys()
    texts = [*definitions(needed((used - generated.keys()) | called)), *generated.values()]
    return "\n\n".join([IMPORTS, *texts])


def constant(text: str, dtype: str, width: int | str) -> str:
    """A canonical literal (`base.dtypes.literal`) as a value: the same bits whatever Mojo's literals round to."""
    t = mojo_type(dtype, width)
    if dtype == "bool":
        return f"{t}(fill={'True' if text == 'true' else 'False'})"
    if dtype in INTS:
        return f"{t}({text})"
    value = np.asarray(parse(text, dtype), np.float64).astype(NUMPY[dtype])
    v = float(value.astype(np.float64))
    plain = abs(v) < 2**20 and (v * 2**12).is_integer() and (v != 0 or not np.signbit(v))  # few bits: exact however it is read
    if plain and dtype in ("f32", "f64"):
        return f"{t}({v!r})"
    raw = int(value.reshape(1).view(f"u{bits(dtype) // 8}")[0])
    return f"bitcast[{mojo_dtype(dtype)}, {width}]({mojo_type(f'u{bits(dtype)}', width)}(0x{raw:X}))"


def expression(op: str, attrs: tuple[Any, ...], args: Sequence[str], arg_dtypes: Sequence[str], dtype: str, width: int | str) -> str:
    """The expression of a let. `op` and `attrs` as in `eqkir.program.ops`: ``Const Un Bin Tri Cast Bitcast``; `dtype` is the result's.

    Raises `Unsupported` for an operation or a dtype that KIR does not have.
    """
    match op:
        case "Const":
            return constant(str(attrs[0]), dtype, width)
        case "Un":
            return unary(str(attrs[0]), args[0], arg_dtypes[0], width)
        case "Bin":
            return binary(str(attrs[0]), args[0], args[1], arg_dtypes[0], width)
        case "Tri" if attrs[0] == "select":
            return f"{_receiver(args[0])}.select({args[1]}, {args[2]})"
        case "Tri" if attrs[0] == "fma":
            return fma(args[0], args[1], args[2], dtype, width)
        case "Cast":
            return cast(args[0], arg_dtypes[0], dtype, width)
        case "Bitcast":
            return bitcast(args[0], arg_dtypes[0], dtype, width)
    raise Unsupported(f"{op} {' '.join(map(str, attrs))}")


def _receiver(x: str) -> str:
    """An expression that a method may be called on, or an operator applied to."""
    return x if re.fullmatch(r"[\w.]+|\w+(\[[^()\[\]]*\])?\([^()]*\)", x) else f"({x})"


def _call(name: str, dtype: str, width: int | str, *args: str) -> str:
    """A helper that is generic in the dtype."""
    return f"eqk_{name}[{mojo_dtype(dtype)}, {width}]({', '.join(args)})"


def _own(name: str, dtype: str, width: int | str, *args: str) -> str:
    """A helper with a definition for each dtype."""
    return f"eqk_{name}_{dtype}[{width}]({', '.join(args)})"


def widen(x: str, dtype: str, width: int | str) -> str:
    """The value in the dtype that arithmetic runs in: f32 for the narrow floats, else its own."""
    return _own("wide", dtype, width, x) if dtype in NARROW else x


def narrow(x: str, dtype: str, width: int | str) -> str:
    """An f32 value rounded to a narrow float; `x` itself for the other dtypes."""
    return _own("narrow", dtype, width, x) if dtype in NARROW else x


def computing(dtype: str) -> str:
    return "f32" if dtype in NARROW else dtype


def unary(fn: str, x: str, dtype: str, width: int | str) -> str:
    """`dtype` is the operand's."""
    r = _receiver(x)
    if fn == "not" and dtype not in FLOATS:
        return f"~{r}"
    if dtype in NARROW and fn in ("neg", "abs"):
        raw, mask = f"u{bits(dtype)}", 1 << bits(dtype) - 1
        as_bits = f"bitcast[{mojo_dtype(raw)}, {width}]({x})"
        return f"bitcast[{mojo_dtype(dtype)}, {width}]({as_bits} {'^' if fn == 'neg' else '&'} 0x{mask if fn == 'neg' else mask - 1:X})"
    if dtype in FLOATS:
        wide = computing(dtype)
        y = widen(x, dtype, width)
        if fn in TESTS:
            return _call("isnan", wide, width, y) if fn == "isnan" else _own(fn, wide, width, y)
        if fn in ("neg", "abs"):
            return _own(fn, wide, width, y)
        if fn in ROUNDING:
            return narrow(_call(fn, wide, width, y), dtype, width)
        if fn in FUNCTIONS or (fn in ("exp2_fast", "tanh_fast") and wide == "f32"):
            return narrow(_own(fn.removesuffix("_fast"), wide, width, y), dtype, width)
    elif dtype in INTS:
        if fn == "neg":
            return f"-{r}"
        if fn == "abs":
            return _call("abs_int", dtype, width, x) if dtype in SIGNED else x
        if fn in TESTS:
            return f"{mojo_type('bool', width)}(fill={fn == 'isfinite'})"
        if fn in ("floor", "ceil", "round_even"):
            return x
    raise Unsupported(f"Un {fn} on {dtype}")


_OPERATORS: Final = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^"}


def binary(fn: str, x: str, y: str, dtype: str, width: int | str) -> str:
    """`dtype` is the operands'; comparisons give bool."""
    if dtype == "bool":
        return _logical(fn, x, y, width)
    wide = computing(dtype)
    a, b = widen(x, dtype, width), widen(y, dtype, width)
    if fn == "ne":
        return _call("ne", wide, width, a, b)
    if fn in COMPARE:
        return f"{_receiver(a)}.{COMPARE[fn]}({b})"
    if dtype in FLOATS:
        if fn in EXTREMES:
            return narrow(_call(fn, wide, width, a, b), dtype, width)
        if fn in ("add", "sub", "mul", "div") or (fn == "div_fast" and wide == "f32"):
            return narrow(f"{_receiver(a)} {_OPERATORS[fn.removesuffix('_fast')]} {_receiver(b)}", dtype, width)
    elif fn in EXTREMES:
        return _call("max_int" if fn.startswith("max") else "min_int", dtype, width, a, b)
    elif fn in ("floordiv", "mod"):
        return _call(f"{fn}_{'signed' if dtype in SIGNED else 'unsigned'}", dtype, width, a, b)
    elif fn in ("shl", "shr"):
        return f"{_receiver(a)} {'<<' if fn == 'shl' else '>>'} ({_receiver(b)} & {bits(dtype) - 1})"
    elif fn in _OPERATORS and fn != "div":
        return f"{_receiver(a)} {_OPERATORS[fn]} {_receiver(b)}"
    raise Unsupported(f"Bin {fn} on {dtype}")


_LOGICAL: Final[dict[str, Callable[[str, str], str]]] = {
    "and": lambda a, b: f"{a} & {b}", "or": lambda a, b: f"{a} | {b}", "xor": lambda a, b: f"{a} ^ {b}",
    "maximum": lambda a, b: f"{a} | {b}", "minimum": lambda a, b: f"{a} & {b}",
    "maximum_num": lambda a, b: f"{a} | {b}", "minimum_num": lambda a, b: f"{a} & {b}",
    "eq": lambda a, b: f"~({a} ^ {b})", "ne": lambda a, b: f"{a} ^ {b}", "lt": lambda a, b: f"~{a} & {b}",
    "le": lambda a, b: f"~{a} | {b}", "gt": lambda a, b: f"{a} & ~{b}", "ge": lambda a, b: f"{a} | ~{b}",
}  # fmt: skip


def _logical(fn: str, x: str, y: str, width: int | str) -> str:
    if fn not in _LOGICAL:
        raise Unsupported(f"Bin {fn} on bool")
    return _LOGICAL[fn](_receiver(x), _receiver(y))


def fma(x: str, y: str, z: str, dtype: str, width: int | str) -> str:
    """x * y + z rounded once (below f32: once in f32, once to the dtype)."""
    if dtype in INTS:
        return f"{_receiver(x)} * {_receiver(y)} + {_receiver(z)}"
    return narrow(f"fma({', '.join(widen(v, dtype, width) for v in (x, y, z))})", dtype, width)


def cast(x: str, src: str, dst: str, width: int | str) -> str:
    """int -> int modulo; int -> float and narrowing to nearest even, once; float -> int truncates; to bool: x != 0."""
    if src == dst or NUMPY[src] == NUMPY[dst]:
        return x
    r = _receiver(x)
    if dst == "bool":
        wide = computing(src)
        return _call("ne", wide, width, widen(x, src, width), f"{mojo_type(wide, width)}(0)")
    if src == "bool" or (src in INTS and dst in INTS):
        return narrow(f"{r}.cast[{mojo_dtype(computing(dst))}]()", dst, width)
    if src in INTS:
        return _from_integer(x, src, dst, width)
    if dst in INTS:
        return _to_integer(widen(x, src, width), computing(src), dst, width)
    if src == "f64":
        return narrow(f"eqk_odd_f32[{width}]({x})", dst, width) if dst in NARROW else f"{r}.cast[{mojo_dtype(dst)}]()"
    wide32 = widen(x, src, width)
    if dst == "f64":
        return f"{_receiver(wide32)}.cast[DType.float64]()"
    return narrow(wide32, dst, width)


def _from_integer(x: str, src: str, dst: str, width: int | str) -> str:
    r = _receiver(x)
    if dst not in NARROW:
        return f"{r}.cast[{mojo_dtype(dst)}]()"
    if bits(src) <= 16:
        return narrow(f"{r}.cast[DType.float32]()", dst, width)
    wide = f"{r}.cast[DType.float64]()" if bits(src) == 32 else f"eqk_odd_{'i64' if src in SIGNED else 'u64'}[{width}]({x})"
    return narrow(f"eqk_odd_f32[{width}]({wide})", dst, width)


def _to_integer(x: str, src: str, dst: str, width: int | str) -> str:
    low, high = (-(2.0 ** (bits(dst) - 1)), 2.0 ** (bits(dst) - 1)) if dst in SIGNED else (0.0, 2.0 ** bits(dst))
    limits = ", ".join(constant(repr(v), src, width) for v in (low, high))
    return f"eqk_truncate[{mojo_dtype(src)}, {mojo_dtype(dst)}, {width}]({x}, {limits})"


def bitcast(x: str, src: str, dst: str, width: int | str) -> str:
    """Reinterpretation between dtypes of one width."""
    if NUMPY[src] == NUMPY[dst]:
        return x
    if dst == "bool":
        raw = x if src == "u8" else f"bitcast[DType.uint8, {width}]({x})"
        return f"eqk_ne[DType.uint8, {width}]({raw}, {mojo_type('u8', width)}(0))"
    if src == "bool":
        raw = f"{_receiver(x)}.cast[DType.uint8]()"
        return raw if dst == "u8" else f"bitcast[{mojo_dtype(dst)}, {width}]({raw})"
    return f"bitcast[{mojo_dtype(dst)}, {width}]({x})"


def reduce_expression(fn: str, x: str, dtype: str, width: int | str) -> str:
    """The scalar (width 1) that the lanes of `x` reduce to, pairwise by halves: lane i with lane i + width/2 first.

    `fn`: ``sum prod max min any all`` (`COMBINE`), `width` a power of two. Narrow floats round after every step, as KIR's operations do.
    """
    if width == 1:
        return x
    if isinstance(width, int) and width & (width - 1):
        raise Unsupported(f"a reduction of {width} lanes")
    if fn not in COMBINE:
        raise Unsupported(f"reduction {fn}")
    dtype = "i64" if dtype == "index" else dtype
    combine(fn, "a", "b", dtype, width)
    return f"eqk_reduce_{fn}_{dtype}[{width}]({x})"


def combine(fn: str, x: str, y: str, dtype: str, width: int | str) -> str:
    """One step of a built-in reduction."""
    return binary(COMBINE[fn], x, y, dtype, width)


def reduction(name: str) -> str:
    """The definition of a helper that `reduce_expression` names: halves are combined until one lane is left."""
    fn, dtype = name.removeprefix("eqk_reduce_").split("_", 1)
    step = combine(fn, "x.slice[H]()", "x.slice[H, offset=H]()", dtype, "H")
    t = mojo_dtype(dtype)
    return f"""\
@always_inline
def {name}[W: Int](x: SIMD[{t}, W]) -> SIMD[{t}, 1]:
    comptime if W == 1:
        return x[0]
    else:
        comptime H = W // 2
        return {name}[H]({step})
"""
