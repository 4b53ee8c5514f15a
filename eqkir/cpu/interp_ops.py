"""Pure operations of task programs in numpy: lane by lane as in the program interpreter, and those that move lanes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eqkir.base.dtypes import NUMPY, parse
from eqkir.cpu.model import Op
from eqkir.program import interp_scalar as S
from eqkir.program.interp import Args
from eqkir.program.interp_memory import Array


def function(x: Op, src: str, param: Callable[[str], int], args: Args) -> Callable[..., Array]:
    """An operation as a function of its operands' lanes, arrays ``(N or 1, width)``. `src`: dtype of the first operand; `param`: the value
    of an index parameter; `args`: of the launch."""
    w, t = x.type.width, NUMPY[x.type.dtype]
    match x.op:
        case "Const":
            c = np.array([[parse(x.attrs[0], x.type.dtype)]]).astype(t)
            return lambda: c
        case "Address":
            return lambda: np.zeros((1, 1), np.int64)
        case "Param":
            n = np.array([[param(x.attrs[0])]], np.int64)
            return lambda: n
        case "Scalar":
            v = np.array([[args[x.attrs[0]]]]).astype(t)
            return lambda: v
        case "Iota":
            lanes = np.arange(w, dtype=np.int64)[None]
            return lambda: lanes
        case "Un":
            return lambda a: S.unary(x.attrs[0], a, src)
        case "Bin":
            return lambda a, b: S.binary(x.attrs[0], a, b, src)
        case "Tri" if x.attrs[0] == "select":
            return _select
        case "Tri":
            return lambda a, b, c: S.fma(a, b, c, src)
        case "Cast":
            return lambda a: S.cast(a, src, x.type.dtype)
        case "Bitcast":
            return lambda a: S.bitcast(a, x.type.dtype)
        case "Broadcast":
            return lambda a: np.repeat(a, w, axis=1)
        case "Lanes":
            at = np.arange(w, dtype=np.int64)[None]
            return lambda n: at < n
        case "Build":
            return lambda *vs: np.concatenate(np.broadcast_arrays(*vs), axis=1)
        case "Extract":
            return lambda a: a[:, x.attrs[0] : x.attrs[0] + 1]
        case "Slice":
            return lambda a: a[:, x.attrs[0] : x.attrs[0] + w]
        case "Reverse":
            return lambda a: a[:, ::-1]
        case "Permute":
            return lambda a, b: np.concatenate(np.broadcast_arrays(a, b), axis=1)[:, list(x.attrs[0])]
        case "Any":
            return lambda a: a.any(axis=1, keepdims=True)
        case "Words":
            return lambda a: np.ascontiguousarray(a).view("<i4")
        case "Dot4":
            return _dot4
        case "Extreme":
            return lambda a, b: np.where(np.isnan(a) | np.isnan(b), t.type(0), S.binary(x.attrs[0], a, b, src))
    raise AssertionError(x.op)


def _dot4(acc: Array, a: Array, b: Array) -> Array:
    """acc + products of unsigned and signed bytes, in 64 bits, cut to 32."""
    out = acc.astype(np.int64)
    for j in range(4):
        x, y = (a.astype(np.int64) >> 8 * j) & 255, (b.astype(np.int64) >> 8 * j) & 255
        out = out + x * (y - 256 * (y > 127))
    return (out & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def _select(c: Array, a: Array, b: Array) -> Array:
    return np.where(c, a, b)
