"""The host side of emitted modules: refusals, launch sizes, the choice of index width; and emission as such."""

from __future__ import annotations

import ast
import importlib.util
import io
import os
import subprocess
import sys
import tokenize
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.base.expr import Coord, Sym, le
from eqkir.emit.triton import emit
from eqkir.emit.triton.checks import Case, interpret_batch
from eqkir.program.abi import SymbolParam
from eqkir.program.model import Barrier, Loop, Program
from tests.triton import programs as P
from tests.triton.against import poisoned

ROOT = Path(__file__).resolve().parents[2]


def module(p: Program, folder: Path) -> ModuleType:
    path = folder / "kernel.py"
    path.write_text(emit(p).source)
    spec = importlib.util.spec_from_file_location("kernel", path)
    assert spec and spec.loader
    m = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(m)
    return m


def errors(p: Program, *cases: Case) -> list[str]:
    return [o.error for o in interpret_batch([(emit(p), cases)])[0]]


@pytest.mark.interpreter
def test_arguments_that_do_not_fit_are_refused() -> None:
    x = np.zeros(40, np.float32)
    p = P.elementwise(("TAx", "i:OB"), B_i=16)
    got = errors(
        p,
        Case({"x": x, "y": x.copy()}, {"s": 1.0}),
        Case({"x": x.astype(np.float64), "y": x.copy()}, {"s": 1.0}),
        Case({"x": x.reshape(5, 8), "y": x.copy()}, {"s": 1.0}),
        Case({"x": x, "y": x[:30].copy()}, {"s": 1.0}),
        Case({"x": x[:20], "y": x[19:39]}, {"s": 1.0}),
        Case({"x": x[:20], "y": x[20:]}, {"s": 1.0}),
        Case({"x": x[::-2], "y": x[1::2]}, {"s": 1.0}),
        Case({"x": x, "y": np.broadcast_to(x[:1], (40,))}, {"s": 1.0}),
        Case({"x": x[:0], "y": x[:0]}, {"s": 1.0}),
    )
    want = ["", "dtype", "axes", "extent 30, expected 40", "overlap", "", "overlap", "zero stride", ""]
    for g, w in zip(got, want, strict=True):
        assert (w in g) if w else not g, (g, w)
        assert not w or g.startswith("ValueError: elementwise: "), g


@pytest.mark.interpreter
def test_preconditions_and_symbol_ranges_are_checked() -> None:
    p = P.softmax("W", F_c=16)
    assert "precondition" in errors(p, Case({"x": np.zeros((2, 17), np.float32), "y": poisoned([2, 17])}))[0]
    q = P.elementwise(("TAx", "i:OB"), B_i=16)
    q = replace(q, abi=replace(q.abi, symbols=(SymbolParam("N", 8, 64, 4),)))
    x = np.zeros(80, np.float32)
    got = errors(q, *(Case({"x": x[:n], "y": poisoned([n])}, {"s": 1.0}) for n in (4, 8, 10, 64, 68)))
    assert [bool(e) for e in got] == [True, False, True, False, True]
    assert "expected at least 8, at most 64, a multiple of 4" in got[0]


@pytest.mark.interpreter
def test_scalars_of_every_dtype_arrive_exactly() -> None:
    from eqkir.base.dtypes import FLOATS, NUMPY
    from tests.triton.against import Trial, check_all

    values: dict[str, list[Any]] = {
        "bool": [True, False], "i8": [-128, 127], "i32": [-(2**31), 1], "i64": [-(2**63), 2**63 - 1, 5], "u8": [255], "u32": [2**32 - 1],
        "u64": [2**64 - 1, 3], "f64": [0.1, -0.0, 1e-310, float("inf")], "f32": [0.5, 1e-40, -3.4e38], "f16": [1.5, 65504.0], "bf16": [3.0],
        "index": [2**40], "i16": [-5], "u16": [65535], "f8e5m2": [1.5], "f8e4m3fn": [448.0],
    }  # fmt: skip
    trials = []
    for dtype, vs in values.items():
        b, d = P.Block(), ("i:OB",)
        b.store("y", ("i",), b.let("Scalar", ("s",), dtype=dtype), d)
        p = P.program(P.abi("scalar", ("y", "out", dtype, ("N",)), scalars=(("s", dtype),)), "i=N/own", ("TAx", "i:OB"), b, B_i=16)
        for v in vs:
            exact = NUMPY[dtype].type(v).item() if dtype not in FLOATS else v
            trials.append(Trial(f"{dtype} {v}", p, {"y": np.zeros(3, NUMPY[dtype])}, {"s": exact}))
    check_all(trials)
    a = P.abi("k", ("y", "out", "i8", ("N",)), scalars=(("s", "i8"),))
    p = P.program(a, "i=N/own", ("TAx", "i:OB"), _store_scalar("i8"), B_i=16)
    y = np.zeros(3, np.int8)
    text = errors(p, Case({"y": y}, {"s": 200}), Case({"y": y}, {"s": 1.5}))
    assert "outside" in text[0] and "not an integer" in text[1]


def _store_scalar(dtype: str) -> P.Block:
    b = P.Block()
    b.store("y", ("i",), b.let("Scalar", ("s",), dtype=dtype), ("i:OB",))
    return b


def test_launch_sizes_and_index_width_past_two_to_the_31(tmp_path: Path) -> None:
    import triton.language as tl

    m = module(P.elementwise(("TAx", "i:OB"), B_i=16), tmp_path)
    n = 2**31
    for extent, stride, wide, grid in [
        (1000, 1, False, (63, 1, 1)), (n - 64, 1, False, ((n - 64) // 16, 1, 1)), (n - 8, 1, True, (n // 16, 1, 1)),
        (1000, -(2**22), True, (63, 1, 1)), (1000, 2**20, False, (63, 1, 1)), (3 * n, 1, True, (3 * n // 16, 1, 1)),
        (16 * (n + 5), 1, True, (715827884, 3, 1)),
    ]:  # fmt: skip
        plan = m._plan((extent,), (stride,), (extent,), (1,))
        spread, index, even = plan.flags
        assert plan.grid[0] * plan.grid[1] >= -(-extent // 16) and max(plan.grid) < n
        assert (index == tl.int64) == wide, extent
        assert plan.grid == grid or spread, (extent, plan.grid)
        assert spread == (-(-extent // 16) > n - 1) and even == (extent % 16 == 0)
    assert m._plan((0,), (1,), (0,), (1,)) is None
    with pytest.raises(ValueError, match="do not fit"):
        m._plan((2**60,), (1,), (2**60,), (1,))


def test_intermediate_index_values_count_for_the_index_width(tmp_path: Path) -> None:
    """x[(i * 100003) % N]: the product passes 2**31 long before the offset does."""
    import triton.language as tl

    b, d = P.Block(), ("i:OB",)
    b.store("y", ("i",), b.load("x", ((Coord("i") * 100003) % Sym("N"),), d), d)
    m = module(
        P.program(P.abi("mix", ("x", "in", "f32", ("N",)), ("y", "out", "f32", ("N",))), "i=N/own", ("TAx", "i:OB"), b, B_i=16), tmp_path
    )
    index = [m._plan((n,), (1,), (n,), (1,)).flags[1] for n in (20000, 22000)]
    assert index == [tl.int32, tl.int64]


@pytest.mark.interpreter
def test_spread_grids_and_64_bit_indices_compute_the_same() -> None:
    """The same source with the limits of one grid axis and of 32 bits lowered, so that both paths run on small data."""
    p = P.two_segments(B_i=16, B_j=4, B_k=8)
    q = P.softmax("LC", "OB", "lanes", C_c=16, B_r=2)
    rng = np.random.default_rng(5)
    for prog, arrays in [
        (
            p,
            {
                "x": rng.standard_normal(50, np.float32),
                "y": poisoned([50]),
                "u": rng.standard_normal((13, 9), np.float32),
                "w": poisoned([9, 13]),
            },
        ),
        (q, {"x": rng.standard_normal((9, 37), np.float32), "y": poisoned([9, 37])}),
    ]:
        a = emit(prog)
        low = a.source.replace("2147483647", "3").replace("1073741824", "3").replace("2147483648", "0")
        assert low != a.source
        plain, spread = (r[0] for r in interpret_batch([(a, [Case(arrays)]), (replace(a, source=low), [Case(arrays)])]))
        assert not plain.error and not spread.error, spread.error
        for k in arrays:
            np.testing.assert_array_equal(plain.arrays[k], spread.arrays[k])


@pytest.mark.interpreter
def test_the_interpreter_catches_accesses_outside_the_views() -> None:
    p = P.elementwise(("TAx", "i:OB"), B_i=16)
    a = emit(p)
    broken = a.source.replace(" < N) | EVEN_i_OB", " < N + 3) | EVEN_i_OB")
    assert broken != a.source
    x, y = np.zeros(64, np.float32)[:37], np.zeros(64, np.float32)[:37]
    assert "out of bounds" in interpret_batch([(replace(a, source=broken), [Case({"x": x, "y": y}, {"s": 1.0})])])[0][0].error
    twice = a.source.replace("tl.store(y + (i_at * y_s0) + (i_lane * y_s0)", "tl.store(y + (i_at * y_s0) + (i_lane // 2 * y_s0)")
    assert twice != a.source
    assert "same element" in interpret_batch([(replace(a, source=twice), [Case({"x": x, "y": y}, {"s": 1.0})])])[0][0].error


# ------------------------------------------------------------------------------------------------ emission
def test_what_triton_cannot_express_is_refused_with_a_code() -> None:
    for p, code in [
        (P.softmax("W", F_c=48), "EQK-TRI-LANES"),
        (P.softmax("W"), "EQK-TRI-UNBOUND"),
        (P.softmax("W", "OB", F_c=65536, B_r=64), "EQK-TRI-FRAGMENT"),
        (P.gemm(B_i=8, B_j=16, C_k=16), "EQK-TRI-DOT-SHAPE"),
        (P.gemm(dtype="i8", acc="i32", B_i=16, B_j=16, C_k=16), "EQK-TRI-DOT-SHAPE"),
        (P.gemm("O1", "LC", impl="mma", C_k=16), "EQK-TRI-DOT-SHAPE"),
        (P.gemm(dtype="f64", acc="f64", B_i=16, B_j=16, C_k=16), "EQK-TRI-DOT-DTYPE"),
        (P.gemm(impl="fma", B_i=128, B_j=128, C_k=128), "EQK-TRI-FRAGMENT"),
        (P.with_options(P.softmax(), num_warps=3), "EQK-TRI-OPTION"),
        (P.two_segments(mode="stride", B_i=16, B_j=4, B_k=8), "EQK-TRI-UNBOUND"),
    ]:
        with pytest.raises(EqkirError) as e:
            emit(p)
        assert code in {d.code for d in e.value.diagnostics}
        assert all(d.stage == "legality" and d.pointer for d in e.value.diagnostics)


def test_masks_vanish_where_symbols_say_so() -> None:
    p = P.elementwise(("TAx", "i:OB"), B_i=16)
    assert emit(p).specializations
    sure = replace(p, abi=replace(p.abi, symbols=(SymbolParam("N", 0, None, 32),)))
    a = emit(sure)
    assert not a.specializations and "mask=" not in a.source
    fixed = P.program(P.abi("k", ("y", "out", "f32", (64,))), "i=64/own", ("TAx", "i:OB"), _store_scalar_f32(), B_i=16)
    assert "mask=" not in emit(fixed).source


def _store_scalar_f32() -> P.Block:
    b = P.Block()
    b.store("y", ("i",), b.const("1.0"), ("i:OB",))
    return b


def test_a_store_after_loads_of_its_alias_class_waits_for_every_thread() -> None:
    def barriers(p: Program) -> int:
        def count(items: Any) -> int:
            return sum(count(i.body) if isinstance(i, Loop) else isinstance(i, Barrier) for i in items)

        return sum(count(ph) for s in emit(p).legal.segments for ph in s.phases)

    assert barriers(P.softmax("W", F_c=64, noalias=False)) == 1
    assert barriers(P.softmax("W", F_c=64)) == 0


def test_legal_programs_survive_serialisation_and_emit_the_same() -> None:
    from eqkir.program.serialize import dumps, loads

    for p in (P.softmax("LC", "OB", "lanes", C_c=16, B_r=4), P.gemm(B_i=16, B_j=16, C_k=16, bias=True), P.argmax("W", F_c=64)):
        a = emit(p)
        assert emit(loads(dumps(a.legal))).source == a.source
        assert emit(loads(dumps(p))).source == a.source


def test_legal_programs_verify() -> None:
    from eqkir.program.verify import verify

    for p in (P.elementwise(("TAx", "i:OB"), B_i=16), P.softmax("W", F_c=64), P.softmax("LC", "OB", "lanes", C_c=16, B_r=4),
              P.gemm(B_i=16, B_j=16, C_k=16, bias=True), P.gemm(impl="fma", B_i=4, B_j=8, C_k=16), P.argmax("LC", "lanes", C_c=16),
              P.two_segments(B_i=16, B_j=4, B_k=8), P.two_phases(F_c=32)):  # fmt: skip
        assert not verify(p) and not verify(emit(p).legal)


def without_comments(source: str) -> list[str]:
    return [t.string for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type not in (tokenize.COMMENT, tokenize.NL)]


def test_origins_are_comments_and_nothing_else() -> None:
    p = P.softmax("W", F_c=64)
    ids = {f"0/0/{i.id}": f"softmax/op{i.id} softmax.py:{10 + i.id}" for i in p.segments[0].phases[0] if hasattr(i, "id")}
    named, plain = emit(replace(p, origins=ids)).source, emit(p).source
    assert "# softmax/op" in named and "# softmax/op" not in plain
    assert without_comments(named) == without_comments(plain)


def test_bytes_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "import sys; sys.path.insert(0, '.'); from tests.triton import programs as P; from eqkir.emit.triton import emit;"
        "ps = [P.softmax('LC','OB','lanes',C_c=16,B_r=4), P.gemm(B_i=16,B_j=16,C_k=16,bias=True),"
        "P.two_segments(B_i=16,B_j=4,B_k=8), P.argmax('W',F_c=64)];"
        "print([emit(p).digest for p in ps])"
    )
    outs = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": s}, capture_output=True, text=True, check=True
        ).stdout
        for s in ("0", "1", "77")
    }
    assert len(outs) == 1


def test_emission_works_where_kir_and_triton_cannot_be_imported() -> None:
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "for m in ('eqkir.kir', 'eqkir.terms', 'triton', 'torch'): sys.modules[m] = None\n"
        "from tests.triton import programs as P\nfrom eqkir.emit.triton import emit\nprint(emit(P.softmax()).digest)"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    assert out.stdout.strip() == emit(P.softmax()).digest


def test_emitted_modules_stand_alone() -> None:
    for p in (P.softmax(), P.two_phases(F_c=16), P.gemm(B_i=16, B_j=16, C_k=16)):
        tree = ast.parse(emit(p).source)
        top = {a.name.split(".")[0] for n in tree.body if isinstance(n, ast.Import) for a in n.names}
        top |= {n.module.split(".")[0] for n in tree.body if isinstance(n, ast.ImportFrom) and n.module}
        assert top <= {"triton", "struct", "operator"}
        assert not any(isinstance(n, (ast.Break, ast.Continue)) for n in ast.walk(tree))


def test_programs_with_preconditions_state_them_in_words(tmp_path: Path) -> None:
    p = replace(P.elementwise(), preconditions=(le(Sym("N"), 100),))
    m = module(p, tmp_path)
    with pytest.raises(ValueError, match=r"elementwise: precondition \(N <= 100\) does not hold"):
        m._plan((101,), (1,), (101,), (1,))
