"""Every pointwise operation on every dtype as one Mojo module: case k is the function ``kt_c<k>``, vectors first, then a scalar tail."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from eqkir.base.dtypes import ALL, FLOATS, INTS, NUMPY, bits
from eqkir.emit.mojo import ops
from eqkir.emit.mojo.build import Built, Module, build
from eqkir.program import ops as table

WIDTH = 16
DTYPES = tuple(d for d in ALL if d != "index")


@dataclass(frozen=True)
class Case:
    op: str
    attrs: tuple[Any, ...]
    args: tuple[str, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.op} {' '.join(map(str, self.attrs))} {' '.join(self.args)} -> {self.dtype}"


def legal(case: Case) -> bool:
    """Whether KIR has this operation on these dtypes (docs/operations.md)."""
    fn, src = case.attrs[0], case.args[0]
    match case.op:
        case "Un" if fn == "not":
            return src not in FLOATS
        case "Un" if fn in ("neg", "abs"):
            return src != "bool"
        case "Un" if fn in table.FAST:
            return src == "f32"
        case "Un":
            return src in FLOATS
        case "Bin" if fn in ("add", "sub", "mul"):
            return src != "bool"
        case "Bin" if fn == "div":
            return src in FLOATS
        case "Bin" if fn == "div_fast":
            return src == "f32"
        case "Bin" if fn in ("floordiv", "mod", "shl", "shr"):
            return src in INTS
        case "Bin" if fn in ("and", "or", "xor"):
            return src not in FLOATS
        case "Tri" if fn == "fma":
            return src in FLOATS
        case "Bitcast":
            return src != "bool" and case.dtype != "bool" and bits(src) == bits(case.dtype)
    return True


def cases() -> list[Case]:
    out = [Case("Un", (fn,), (d,), "bool" if fn in ops.TESTS else d) for fn in (*table.UNARY, "exp2_fast", "tanh_fast") for d in DTYPES]
    out += [Case("Bin", (fn,), (d, d), d) for fn in (*table.BINARY, "div_fast") for d in DTYPES]
    out += [Case("Bin", (fn,), (d, d), "bool") for fn in table.COMPARE for d in DTYPES]
    out += [Case("Tri", ("select",), ("bool", d, d), d) for d in DTYPES] + [Case("Tri", ("fma",), (d, d, d), d) for d in DTYPES]
    out += [Case("Cast", (t,), (d,), t) for d in DTYPES for t in DTYPES] + [Case("Bitcast", (t,), (d,), t) for d in DTYPES for t in DTYPES]
    return [c for c in out if legal(c)]


def body(case: Case, name: str) -> str:
    """The exported loop of one case over the words ``args…, result``."""
    word = "Pointer[{}, MutAnyOrigin](unsafe_from_address=t[unsafe_offset={}])"
    lines = ["@export", f'def {name}(ctx: Int, lo: Int, hi: Int) abi("C"):']
    lines.append("    var t = Pointer[Int, MutAnyOrigin](unsafe_from_address=ctx)")
    for k, d in enumerate((*case.args, case.dtype)):
        lines.append(f"    var p{k} = {word.format(f'Scalar[{ops.mojo_dtype(d)}]', k)}")
    lines.append("    var i = lo")
    for w in (WIDTH, 1):
        lines.append(f"    while i + {w} <= hi:")
        lines += [f"        var a{k} = p{k}.unsafe_load[width={w}](i)" for k in range(len(case.args))]
        e = ops.expression(case.op, case.attrs, [f"a{k}" for k in range(len(case.args))], case.args, case.dtype, w)
        lines += [f"        p{len(case.args)}.unsafe_store(i, {e})", f"        i += {w}"]
    return "\n".join(lines) + "\n"


def modules(chosen: Sequence[Case], size: int = 60) -> list[Module]:
    texts = [body(c, f"kt_c{k}") for k, c in enumerate(chosen)]
    return [Module(f"operations {at}", "\n\n".join(texts[at : at + size])) for at in range(0, len(texts), size)]


class Suite:
    """The compiled cases: `run` applies one to arrays."""

    def __init__(self, chosen: Sequence[Case], cpu: str = "native", size: int = 60, folder: Path | None = None) -> None:
        self.cases = list(chosen)
        self.functions: dict[Case, Any] = {}
        for n, b in enumerate(build(modules(self.cases, size), cpu, folder=folder)):
            assert isinstance(b, Built), b
            library = ctypes.CDLL(str(b.library))
            for k in range(n * size, min(len(self.cases), (n + 1) * size)):
                f = getattr(library, b.symbol(f"kt_c{k}"))
                f.argtypes, f.restype = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_ssize_t], None
                self.functions[self.cases[k]] = f

    def run(self, case: Case, *args: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        arrays = [np.ascontiguousarray(a) for a in args]
        assert [a.dtype for a in arrays] == [NUMPY[d] for d in case.args], case
        out = np.zeros(arrays[0].shape, NUMPY[case.dtype])
        words = (ctypes.c_uint64 * (len(arrays) + 1))(*(a.ctypes.data for a in (*arrays, out)))
        self.functions[case](ctypes.addressof(words), 0, arrays[0].size)
        return out


def functions(bodies: dict[Any, list[str]], size: int = 24) -> dict[Any, Any]:
    """Functions of a table of words ``w`` and a count ``n``: key -> body."""
    texts = []
    for k, body in enumerate(bodies.values()):
        head = ["@export", f'def kt_f{k}(words: Int, n: Int) abi("C"):']
        head.append("    var w = Pointer[Int, MutAnyOrigin](unsafe_from_address=words)")
        texts.append("\n".join([*head, *body]) + "\n")
    parts = [Module(f"functions {at}", "\n\n".join(texts[at : at + size])) for at in range(0, len(texts), size)]
    out: dict[Any, Any] = {}
    keys = list(bodies)
    for m, b in enumerate(build(parts, "native")):
        assert isinstance(b, Built), b
        library = ctypes.CDLL(str(b.library))
        for k in range(m * size, min(len(keys), (m + 1) * size)):
            f = getattr(library, b.symbol(f"kt_f{k}"))
            f.argtypes, f.restype = [ctypes.c_void_p, ctypes.c_ssize_t], None
            out[keys[k]] = f
    return out


def stores(bodies: dict[Any, tuple[str, list[str]]]) -> dict[Any, Any]:
    """Functions of an array: key -> (dtype, body); a body stores to ``p``, a pointer to the array's elements."""
    pointer = "    var p = Pointer[Scalar[{}], MutAnyOrigin](unsafe_from_address=w[])"
    made = functions({k: [pointer.format(ops.mojo_dtype(dtype)), *body] for k, (dtype, body) in bodies.items()})

    def call(f: Any, address: int) -> None:
        word = ctypes.c_int64(address)
        f(ctypes.addressof(word), 0)

    return {k: partial(call, f) for k, f in made.items()}
