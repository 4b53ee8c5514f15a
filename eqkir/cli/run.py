"""`eqkir run`: a kernel on one set of inputs by one engine, compared with the reference's error envelope."""

from __future__ import annotations

import json
import sys
import time
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eqkir.base.diagnostics import EqkirError, fail
from eqkir.base.dtypes import NUMPY
from eqkir.driver import codes, programs
from eqkir.driver.artifacts import digest
from eqkir.driver.files import writable_file
from eqkir.driver.options import Options
from eqkir.driver.shapes import check_memory

if TYPE_CHECKING:
    from eqkir.kir.model import Kernel

ENGINES = ("reference", "program", "interpreter", "gpu", "native")


def main(
    file: Path, engine: str, kernel: str | None, seed: int, inputs: Path | None, shapes: Mapping[str, Any], save: Path | None,
    options: Options, as_json: bool, other: Path | None = None,
) -> int:  # fmt: skip
    """Run, compare, print; 1 when the result lies outside the envelope. `other`: a program of the kernel to run instead of the chosen."""
    if other and engine != "program":
        raise fail(codes.USAGE, f"--program runs on the engine `program`, not {engine!r}", accepted="--engine program", stage="options")
    if engine not in ENGINES:
        raise fail(codes.USAGE, f"unknown engine {engine!r}", accepted=", ".join(ENGINES), stage="options")
    if engine == "native" and options.provider != "mojo":
        if options.target != Options().target:
            raise fail(codes.USAGE, f"{options.target} has no native code", accepted="--target mojo:native", stage="options")
        options = replace(options, target="mojo:native")
    if save:
        writable_file(save)
    if programs.is_program(file):
        return _program(file, engine, seed, inputs, shapes, save, as_json)
    from eqkir.cli.kernels import chain, select
    from eqkir.driver.numeric import assignments, holds
    from eqkir.kir.envelope import compare, envelope
    from eqkir.kir.inputs import make_inputs
    from eqkir.kir.memory import ViewArg, clone

    task = select(file, kernel)
    c = chain(task, replace(options, shapes=shapes), pin=False)
    k = c.kernel
    rows = assignments(k, c.extents)
    symbols = rows[min(1, len(rows) - 1)]
    given = _npz(inputs) if inputs else {}
    symbols |= _symbols(k, given)
    _memory(k, symbols)
    args = make_inputs(k, symbols, seed, "plain", c.constexprs, _scalars(k, shapes, given))
    _fill(k, args, given)
    expected = envelope(k, args, symbols, c.constexprs, c.options.permit)
    mine = clone(args)
    start = time.perf_counter()
    if engine == "reference":
        from eqkir.kir.reference import run as reference

        reference(k, mine, symbols, c.constexprs)
    elif other:
        _given(other, mine, symbols)
    else:
        if not holds(c.program, symbols, args):
            raise fail(codes.SHAPE, "the chosen candidate's preconditions do not hold for these extents", stage="run")
        from eqkir.cli.text import stop_warning
        from eqkir.driver.engines import engine as make

        if warning := stop_warning(c.outcome):
            print(warning, file=sys.stderr)
        make(engine, c.program, options.target)(mine, symbols)
    seconds = time.perf_counter() - start
    outputs = {n: a.array() for n in expected if isinstance(a := mine[n], ViewArg)}
    verdict = compare(expected, outputs)
    row = {
        "kernel": k.name, "file": str(file), "engine": engine, "seed": seed, "symbols": symbols, "ok": bool(verdict.ok),
        "worst_error_over_bound": float(verdict.worst) if np.isfinite(verdict.worst) else "inf", "first": verdict.first,
        "seconds": round(seconds, 6), "outputs": {n: _summary(a) for n, a in sorted(outputs.items())},
    }  # fmt: skip
    _finish(row, outputs, save, as_json)
    return 0 if verdict.ok else 1


def _program(file: Path, engine: str, seed: int, inputs: Path | None, shapes: Mapping[str, Any], save: Path | None, as_json: bool) -> int:
    """A program.json, without KIR: nothing to compare with, the interpreter's own checks apply."""
    from eqkir.driver.abi_inputs import buffers
    from eqkir.program.interp import run as interpret
    from eqkir.program.verify import verify

    if engine != "program":
        raise fail(codes.USAGE, f"a program.json runs on the engine `program`, not {engine!r}", accepted="program", stage="options")
    p = programs.read(file)
    if bad := verify(p):
        raise EqkirError(*bad)
    args, symbols = buffers(p.abi, shapes, _npz(inputs) if inputs else {}, seed)
    start = time.perf_counter()
    report = interpret(p, args, symbols)
    outputs = {v.name: args[v.name].array() for v in p.abi.views if v.role in ("out", "inout")}
    row = {
        "kernel": p.abi.kernel, "file": str(file), "engine": engine, "seed": seed, "symbols": symbols, "ok": not report.unwritten,
        "unwritten": report.unwritten, "instances": report.instances, "seconds": round(time.perf_counter() - start, 6),
        "outputs": {n: _summary(a) for n, a in sorted(outputs.items())},
    }  # fmt: skip
    _finish(row, outputs, save, as_json)
    return 0 if not report.unwritten else 1


def _given(file: Path, args: dict[str, Any], symbols: Mapping[str, int]) -> None:
    """Verify a program and run it on the kernel's arguments. Raises EqkirError."""
    from eqkir.driver.numeric import interpreter
    from eqkir.program.verify import verify

    p = programs.read(file)
    if bad := verify(p):
        raise EqkirError(*bad)
    interpreter(p)(args, symbols)


def _finish(row: dict[str, Any], outputs: Mapping[str, Any], save: Path | None, as_json: bool) -> None:
    if save:
        with open(save, "wb") as f:
            np.savez(f, allow_pickle=False, **{n: _storable(a) for n, a in outputs.items()})
    if as_json:
        print(json.dumps(row, sort_keys=True))
        return
    print(f"{row['kernel']} on {row['engine']}: {', '.join(f'{k}={v}' for k, v in row['symbols'].items())}")
    for n, s in row["outputs"].items():
        print(f"  {n}: {s['dtype']}{s['shape']} min {s['min']} max {s['max']} nan {s['nan']} sha256 {s['sha256'][:16]}")
    if "first" in row:
        verdict = "within the reference's envelope" if row["ok"] else f"WRONG: {row['first']}"
        print(f"  {verdict}; largest error / bound {row['worst_error_over_bound']}")
    elif not row["ok"]:
        print(f"  unwritten output elements: {row['unwritten']}", file=sys.stderr)


def _summary(a: np.ndarray[Any, Any]) -> dict[str, Any]:
    wide = a.astype(np.float64)
    finite = wide[~np.isnan(wide)]
    low, high = (str(finite.min()), str(finite.max())) if finite.size else ("-", "-")
    dtype = next(k for k, v in NUMPY.items() if v == a.dtype)
    return {
        "dtype": dtype, "shape": list(a.shape), "min": low, "max": high, "nan": int(np.isnan(wide).sum()),
        "sha256": digest(np.ascontiguousarray(a).tobytes()),
    }  # fmt: skip


def _storable(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """numpy's own dtypes as they are; bf16 and f8 as unsigned integers of the same bits."""
    return a if a.dtype.kind in "biuf" and a.dtype.isbuiltin == 1 else a.view(f"u{a.dtype.itemsize}")


def _npz(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays by view name. Raises EqkirError EQK-RUN-INPUTS."""
    try:
        if not path.is_file():
            raise ValueError("not a regular file" if path.exists() else "no such file")
        with np.load(path, allow_pickle=False) as z:
            return {k: z[k] for k in z.files}
    except (OSError, ValueError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as e:
        raise fail(codes.INPUTS, f"{path}: {e}", stage="options") from None


def _memory(k: Kernel, symbols: Mapping[str, int]) -> None:
    """Raises EqkirError EQK-RUN-MEMORY when the views do not fit into this machine."""
    from eqkir.kir.model import View

    views = [p for p in k.params if isinstance(p, View)]
    check_memory(([n if isinstance(n, int) else symbols[n] for n in p.shape], NUMPY[p.dtype].itemsize) for p in views)


def _symbols(k: Kernel, given: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, int]:
    from eqkir.kir.model import View

    out: dict[str, int] = {}
    for p in k.params:
        if isinstance(p, View) and p.id in given:
            if given[p.id].ndim != len(p.shape):
                raise fail(codes.INPUTS, f"{p.id} has rank {given[p.id].ndim}", accepted=f"rank {len(p.shape)}", stage="options")
            out |= {e: int(n) for e, n in zip(p.shape, given[p.id].shape, strict=True) if isinstance(e, str)}
    return {s: n for s, n in out.items() if s in {x.id for x in k.symbols}}


def _scalars(k: Kernel, shapes: Mapping[str, Any], given: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
    from eqkir.kir.model import Scalar

    names = {p.id for p in k.params if isinstance(p, Scalar)}
    return {n: v for n, v in shapes.items() if n in names} | {n: given[n].item() for n in given if n in names and given[n].ndim == 0}


def _fill(k: Kernel, args: dict[str, Any], given: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Put given arrays into the views. Raises EqkirError EQK-RUN-INPUTS."""
    from eqkir.kir.model import View

    views = {p.id: p for p in k.params if isinstance(p, View)}
    for name, a in given.items():
        if name not in views:
            if name not in args:
                raise fail(codes.INPUTS, f"no view {name!r}", accepted=", ".join(views), stage="options")
            continue
        target = args[name].array()
        want = NUMPY[views[name].dtype]
        same_bits = a.dtype.kind == "u" and a.dtype.itemsize == want.itemsize and not want.isbuiltin == 1
        if a.shape != target.shape or not (a.dtype == want or same_bits):
            raise fail(
                codes.INPUTS, f"{name}: {a.dtype}{list(a.shape)}", accepted=f"{views[name].dtype}{list(target.shape)}", stage="options"
            )
        target[...] = a.view(want) if same_bits else a
