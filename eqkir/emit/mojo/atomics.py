"""Atomic operations on one element as calls of generated helpers, for every dtype.

Each is sequentially consistent, which is at least what any memory order of KIR asks for. Combinations without an instruction of their own
(floats, narrow types, minima) compare and exchange the element's bits until nothing has come between.
"""

from __future__ import annotations

from typing import Final

from eqkir.base.dtypes import FLOATS, INTS, bits
from eqkir.emit.mojo import ops
from eqkir.program.ops import COMBINING

PREFIX: Final = "eqk_atomic_"
#: operation -> function of the old value and the operand
_COMBINE: Final = {"add": "add", "max": "maximum", "min": "minimum", "and": "and", "or": "or", "xor": "xor"}
MODES: Final = (*COMBINING, "exchange", "compare_exchange", "put", "get")


def atomic(mode: str, dtype: str, pointer: str, offset: str, value: str = "", expected: str = "", mask: str = "") -> str:
    """The old value of an element (its present one for ``get``; zero for ``put`` and where `mask`, a bool, is false).

    `pointer`: to the elements in memory (bytes for bool); `offset`: an index scalar; `value`, `expected`: scalars; ``compare_exchange``
    compares bits. Raises `ops.Unsupported`.
    """
    dtype = "i64" if dtype == "index" else dtype
    if mode not in MODES or (mode in ("and", "or", "xor") and dtype in FLOATS) or (mode == "add" and dtype == "bool"):
        raise ops.Unsupported(f"atomic {mode} on {dtype}")
    t = ops.mojo_type(dtype, 1)
    operands = [pointer, offset, mask or f"{ops.mojo_type('bool', 1)}(True)"]
    operands += [] if mode == "get" else [value]
    return f"{PREFIX}{mode}_{dtype}({', '.join([*operands, *([expected or f'{t}(0)'] if mode == 'compare_exchange' else [])])})"


def definition(name: str) -> str:
    """The text of a helper that `atomic` names."""
    mode, _, dtype = name.removeprefix(PREFIX).rpartition("_")
    memory, t, raw = "DType.uint8" if dtype == "bool" else ops.mojo_dtype(dtype), ops.mojo_type(dtype, 1), f"u{bits(dtype)}"
    word = ops.mojo_dtype(raw)

    def of_bits(x: str) -> str:
        return ops.bitcast(f"SIMD[{word}, 1]({x})", raw, dtype, 1)

    def to_bits(x: str) -> str:
        return f"({ops.bitcast(x, dtype, raw, 1)})[0]"

    nothing = "SIMD[DType.bool, 1](False)" if dtype == "bool" else of_bits("0")
    parameters = [f"p: Pointer[Scalar[{memory}], MutAnyOrigin]", "i: SIMD[DType.int64, 1]", "mask: SIMD[DType.bool, 1]"]
    parameters += [] if mode == "get" else [f"v: {t}"]
    parameters += [f"expected: {t}"] if mode == "compare_exchange" else []
    lines = ["@always_inline", f"def {name}({', '.join(parameters)}) -> {t}:", "    if not mask[0]:", f"        return {nothing}"]
    lines.append(f"    var a = Pointer[Scalar[{word}], MutAnyOrigin](unsafe_from_address=Int(p.unsafe_offset(Int(i[0]))))")
    if mode == "get":
        return "\n".join([*lines, f"    return {of_bits(f'Atomic[Scalar[{word}]].load(a)')}", ""])
    if mode == "put":
        return "\n".join([*lines, f"    Atomic[Scalar[{word}]].store(a, {to_bits('v')})", f"    return {nothing}", ""])
    if mode == "add" and dtype in INTS:
        return "\n".join([*lines, f"    return {of_bits(f'Atomic[Scalar[{word}]].fetch_add(a, {to_bits("v")})')}", ""])
    attempt = f"a.unsafe_bitcast[Atomic[Scalar[{word}]]]()[].compare_exchange"
    if mode == "compare_exchange":
        lines += [f"    var seen = {to_bits('expected')}", f"    _ = {attempt}(seen, {to_bits('v')})", f"    return {of_bits('seen')}"]
        return "\n".join([*lines, ""])
    new = "v" if mode == "exchange" else ops.binary(_COMBINE[mode], "old", "v", dtype, 1)
    lines += [f"    var seen = Atomic[Scalar[{word}]].load(a)", "    while True:", f"        var old = {of_bits('seen')}"]
    lines += [f"        if {attempt}(seen, {to_bits(new)}):", "            return old"]
    return "\n".join([*lines, ""])
