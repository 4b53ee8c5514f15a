"""The task pool and the loader: joins, threads, fork, the caller's floating-point mode, arguments that do not fit, no leak, clean exit."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqkir.emit.mojo import toolchain
from eqkir.emit.mojo.build import Built, Module, build_one
from eqkir.emit.mojo.native import FILES
from eqkir.runtime import native
from eqkir.runtime.native import LoadError, load, stages
from eqkir.runtime.pool import thread_count
from tests.mojo import handmade

pytestmark = [pytest.mark.compile, pytest.mark.skipif(not toolchain.available(), reason="no Mojo compiler")]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("native")
    for made in (handmade.scaled(), handmade.staged(), handmade.sums()):
        handmade.made(made, base / made.program.abi.kernel)
    handmade.made(handmade.scaled(noalias=True), base / "apart")
    return base


def child(code: str, folder: Path, **environment: str) -> str:
    """The output of a Python process that runs `code`, which sees `folder`, `np` and `load`. Small arrays are cut into many tasks, too."""
    head = f"import numpy as np, os, sys, threading, time\nfrom eqkir.runtime.native import load\nfolder = {str(folder)!r}\n"
    head += "import eqkir.runtime.native as native\nnative.TASK_BYTES = 1\n"
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run([sys.executable, "-c", head + textwrap.dedent(code)], env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


STAGED = """
k = load(folder + "/staged")
for n in (1, 2, 3, 17, 1000):
    X = np.arange(n); Y = np.zeros_like(X)
    for _ in range(200):
        Y[:] = -1
        k(X, Y)
        assert (Y == np.roll(X, -6) + 6).all(), (n, Y)
"""


@pytest.mark.parametrize("threads", ["1", "2", "4", "7"])
@pytest.mark.parametrize("eager", [0, 1 << 40])
def test_stages_are_joined_with_any_number_of_threads(folder: Path, threads: str, eager: int) -> None:
    """Sleeping workers are woken at once, or after a while."""
    child(f"native.EAGER_BYTES = {eager}\n" + STAGED, folder, EQKIR_NUM_THREADS=threads)


def test_calls_from_many_threads_at_once(folder: Path) -> None:
    child(
        """
        k = load(folder + "/staged")
        wrong = []
        def go(seed):
            X = np.random.default_rng(seed).integers(0, 1000, 300 + seed); Y = np.zeros_like(X)
            bound = k.bind(X, Y)
            for n in range(150):
                Y[:] = -1
                bound() if n % 2 else k(X, Y)
                if not (Y == np.roll(X, -6) + 6).all():
                    wrong.append(seed)
        ts = [threading.Thread(target=go, args=(s,)) for s in range(5)]
        [t.start() for t in ts]; [t.join() for t in ts]
        assert not wrong, wrong
        """,
        folder, EQKIR_NUM_THREADS="3",
    )  # fmt: skip


def test_a_forked_child_has_threads_of_its_own(folder: Path) -> None:
    out = child(
        """
        k = load(folder + "/staged")
        X = np.arange(500); Y = np.zeros_like(X); bound = k.bind(X, Y)
        def right():
            Y[:] = 0
            bound()
            return (Y == np.roll(X, -6) + 6).all()
        def threads():
            return len(os.listdir("/proc/self/task"))
        assert right() and threads() >= 3
        for depth in range(3):
            pid = os.fork()
            if pid == 0:
                assert threads() == 1
                assert right() and threads() == 3
                sys.exit(0)
            assert os.waitpid(pid, 0)[1] == 0 and right()
        print("fine")
        """,
        folder, EQKIR_NUM_THREADS="3", OPENBLAS_NUM_THREADS="1",
    )  # fmt: skip
    assert out.split() == ["fine"]


def test_a_fork_during_a_call_of_another_thread(folder: Path) -> None:
    child(
        """
        k = load(folder + "/staged")
        stop = []
        def busy():
            X = np.arange(20000); Y = np.zeros_like(X)
            while not stop:
                k(X, Y)
        t = threading.Thread(target=busy); t.start()
        for _ in range(20):
            time.sleep(0.005)
            pid = os.fork()
            if pid == 0:
                X = np.arange(100); Y = np.zeros_like(X)
                k(X, Y)
                os._exit(0 if (Y == np.roll(X, -6) + 6).all() else 1)
            assert os.waitpid(pid, 0)[1] == 0
        stop.append(1); t.join()
        """,
        folder, EQKIR_NUM_THREADS="2",
    )  # fmt: skip


def test_the_process_ends_while_workers_wait_or_work(folder: Path) -> None:
    child("k = load(folder + '/staged'); X = np.arange(9); k(X, X.copy())", folder, EQKIR_NUM_THREADS="4")
    busy = "k = load(folder + '/staged'); X = np.arange(100000)\ndef go():\n    while True:\n        k(X, X.copy())\n"
    child(busy + "threading.Thread(target=go, daemon=True).start(); time.sleep(0.2)", folder, EQKIR_NUM_THREADS="2")


def test_waiting_workers_take_no_time(folder: Path) -> None:
    out = child(
        """
        k = load(folder + "/staged"); X = np.arange(100); k(X, X.copy())
        time.sleep(0.3)
        before = time.process_time(); time.sleep(1.0)
        print(time.process_time() - before)
        """,
        folder, EQKIR_NUM_THREADS="4",
    )  # fmt: skip
    assert float(out) < 0.1


def control_module() -> Built:
    """Functions that read and write the control word of SSE arithmetic."""
    text = (
        '@export\ndef kt_get() abi("C") -> Int32:\n    var v = Int32(0)\n'
        '    llvm_intrinsic["llvm.x86.sse.stmxcsr", NoneType](Pointer(to=v))\n    return v\n\n\n'
        '@export\ndef kt_put(x: Int32) abi("C"):\n    var v = x\n    llvm_intrinsic["llvm.x86.sse.ldmxcsr", NoneType](Pointer(to=v))\n'
    )
    return build_one(Module("control", text), "native")


@pytest.fixture(scope="module")
def control() -> Any:
    """Read and write the control word of SSE arithmetic."""
    built = control_module()
    library = ctypes.CDLL(str(built.library))
    get, put = getattr(library, built.symbol("kt_get")), getattr(library, built.symbol("kt_put"))
    get.restype, get.argtypes, put.restype, put.argtypes = ctypes.c_int32, [], None, [ctypes.c_int32]
    return get, put


@pytest.mark.parametrize("mode", [0x1F80, 0x9FC0, 0x1F80 | 0x2000, 0x1F80 | 0x4000, 0x1F80 | 0x6000, 0x8040 | 0x1F80 | 0x6000])
def test_results_do_not_depend_on_the_callers_floating_point_mode(folder: Path, control: Any, mode: int) -> None:
    """Flushing of operands and results, rounding up, down and to zero: right results, and the mode is the caller's afterwards."""
    get, put = control
    k = load(folder / "sums")
    x = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    y, want = np.zeros_like(x), np.zeros_like(x)
    k(x, want)
    small = x * np.array([16], np.uint32).view(np.float32)
    assert np.array_equal(want, small * np.float32(8.507059173023462e37) + x / np.float32(3))
    go = k.bind(x, y)
    before = get()
    try:
        put(mode)
        go()
        after = get()
    finally:
        put(before)
    assert after & ~0x3F == mode & ~0x3F and np.array_equal(y, want)


@pytest.mark.parametrize("mode", [0x9FC0, 0x8040 | 0x1F80 | 0x6000])
def test_threads_that_start_under_another_mode_compute_the_same(folder: Path, mode: int) -> None:
    """The caller flushes and truncates when it starts the pool's threads, which inherit that, and between all calls; each of many tasks is
    right, whichever thread runs it."""
    built = control_module()
    out = child(
        f"""
        import ctypes
        library = ctypes.CDLL({str(built.library)!r})
        put, get = library[{built.symbol("kt_put")!r}], library[{built.symbol("kt_get")!r}]
        """
        + """
        x = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
        small = x * np.array([16], np.uint32).view(np.float32)
        want = small * np.float32(8.507059173023462e37) + x / np.float32(3)
        put(MODE)
        k = load(folder + "/sums"); ys = [np.zeros_like(x) for _ in range(50)]
        for y in ys:
            k(x, y)
        after = get(); put(0x1F80)
        assert len(os.listdir("/proc/self/task")) >= 4
        assert all(np.array_equal(y, want) for y in ys)
        print(after & ~0x3F == MODE & ~0x3F)
        """.replace("MODE", str(mode)),
        folder, EQKIR_NUM_THREADS="4", OPENBLAS_NUM_THREADS="1",
    )  # fmt: skip
    assert out.split() == ["True"]


def test_a_hundred_thousand_calls_leak_nothing(folder: Path) -> None:
    out = child(
        """
        k = load(folder + "/scaled")
        def resident():
            return int(open("/proc/self/statm").read().split()[1])
        def calls(n):
            for i in range(n):
                X = np.ones(64 + i % 3, np.float32); Y = np.empty_like(X)
                k(X, Y, 2.0)
                if i % 10 == 0:
                    k.bind(X, Y, 3.0)()
        calls(5000); before = resident(); calls(100000)
        print(resident() - before)
        """,
        folder, EQKIR_NUM_THREADS="2",
    )  # fmt: skip
    assert int(out) < 200  # pages


def test_kept_workspaces_are_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls on many shapes keep neither all plans nor all workspaces; a plan that is larger than the bound is kept alone."""
    monkeypatch.setattr(native, "KEPT_PLANS", 8)
    monkeypatch.setattr(native, "KEPT_BYTES", 1 << 16)
    k = load(folder / "staged")

    def right(n: int) -> None:
        x = np.arange(n)
        y = np.zeros_like(x)
        k(x, y)
        assert np.array_equal(y, np.roll(x, -6) + 6)

    for n in range(1, 40):
        right(n)
    assert len(k._plans) == 8
    for n in range(900, 940):  # 16 n bytes of workspace each
        right(n)
    assert sum(p.frame_bytes * len(p.frames) for p in k._plans.values()) <= 1 << 16 and len(k._plans) > 1
    right(1 << 14)
    assert len(k._plans) == 1
    bound = k.bind(np.arange(900), y := np.zeros(900, np.int64))
    right(1 << 14)
    bound()
    assert np.array_equal(y, np.roll(np.arange(900), -6) + 6)


def test_a_fork_shares_no_state_of_the_pool(folder: Path) -> None:
    """What a child writes to its pool's words, the parent's workers do not see."""
    child(
        """
        import ctypes
        k = load(folder + "/staged"); X = np.arange(500); Y = np.zeros_like(X); k(X, Y)
        words = ctypes.c_int64 * 64
        state = words.from_address(k.pool.state); before = list(state)[32:]
        pid = os.fork()
        if pid == 0:
            for n in range(64):
                state[n] = -1
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0 and list(state)[32:] == before
        k(X, Y); assert (Y == np.roll(X, -6) + 6).all()
        """,
        folder, EQKIR_NUM_THREADS="3",
    )  # fmt: skip


def test_loading_and_calling_need_ctypes_and_numpy_alone(folder: Path) -> None:
    out = child(
        """
        k = load(folder + "/scaled"); X = np.ones(9, np.float32); Y = np.zeros_like(X); k(X, Y, 2.0)
        print(sorted({m.split(".")[0] for m in sys.modules} & {"egglog", "pydantic", "ml_dtypes", "z3", "typer", "mojo", "triton"}))
        print(sorted(m for m in sys.modules if m.startswith("eqkir")))
        """,
        folder,
    )  # fmt: skip
    names = ["eqkir", *(f"eqkir.runtime{n}" for n in ("", ".host", ".libraries", ".machine", ".native", ".pool", ".scalars"))]
    assert out.splitlines() == ["[]", str(names)]


def test_views_of_any_strides_and_no_elements(folder: Path) -> None:
    k = load(folder / "scaled")
    base = np.arange(24, dtype=np.float32)
    for x in (base[::-1], base[::3], base[5:5], np.broadcast_to(base[3], (7,)), base.reshape(4, 6)[:, 2]):
        y = np.full(2 * x.size, -1, np.float32)[::2]
        k(x, y, 1.5)
        assert np.array_equal(y, x * np.float32(1.5))
    k.bind(X=base[:0], Y=base[:0], factor=1)()


def test_arguments_that_do_not_fit_are_refused(folder: Path) -> None:
    k, apart = load(folder / "scaled"), load(folder / "apart")
    x, y = np.zeros(8, np.float32), np.zeros(8, np.float32)
    frozen = y.copy()
    frozen.flags.writeable = False
    odd = np.zeros(33, np.uint8)[1:].view(np.float32)
    packed = np.zeros(4, np.dtype([("a", np.uint8), ("b", np.float32)]))["b"]
    cases: list[tuple[tuple[Any, ...], type[Exception], str]] = [
        ((list(x), y, 1.0), TypeError, "X is list"),
        ((x.astype(np.float64), y, 1.0), ValueError, "dtype float64, expected float32"),
        ((x.astype(">f4"), y, 1.0), ValueError, "dtype >f4"),
        ((x.reshape(2, 4), y, 1.0), ValueError, "2 axes, expected 1"),
        ((x, y[:4], 1.0), ValueError, "axis 0 of Y has extent 4, expected 8"),
        ((x, np.broadcast_to(y[0], 8), 1.0), ValueError, "overlaps itself|read-only"),
        ((x, frozen, 1.0), ValueError, "Y is written, but read-only"),
        ((odd, y, 1.0), ValueError, "not aligned"),
        ((packed, y[:4], 1.0), ValueError, "no multiples of its element"),
        ((x, y, "one"), ValueError, "could not convert"),
        ((x, y), TypeError, "factor"),
    ]
    for arguments, error, message in cases:
        for use in (k, k.bind):
            with pytest.raises(error, match=message):
                use(*arguments)
    k(x[:4], x[2:6], 2.0)  # may overlap
    with pytest.raises(ValueError, match="X and Y overlap, but are declared not to"):
        apart(x[:4], x[2:6], 2.0)
    apart(x[:4], x[4:], 2.0)


def test_a_folder_without_a_kernel_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="no native kernel"):
        load(tmp_path)
    for name in FILES:
        (tmp_path / name).write_bytes((folder / "scaled" / name).read_bytes())
    (tmp_path / "kernel.so").write_bytes(b"nothing")
    with pytest.raises(LoadError, match="kernel.so is not the file"):
        load(tmp_path)
    for text, message in (('{"native": 99}', "another format"), ("[]", "another format"), ('{"native": 1}', "not whole")):
        (tmp_path / "native.json").write_text(text)
        with pytest.raises(LoadError, match=message):
            load(tmp_path)


def test_code_for_another_machine_is_not_loaded(folder: Path, tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).write_bytes((folder / "scaled" / name).read_bytes())
    told = json.loads((tmp_path / "native.json").read_text())
    for change, words in (({"needs": ["avx512f", "avx1024"]}, "lacks avx1024"), ({"machine": "riscv64"}, "it is for riscv64")):
        (tmp_path / "native.json").write_text(json.dumps(told | change))
        with pytest.raises(LoadError, match=words):
            load(tmp_path)


def test_plans_cut_groups_into_tasks() -> None:
    large = 1 << 30
    assert stages([[(7, 10, 4)], [(8, 0, 1)], []], 2, large) == [1, 1, 1, 3, 7, 10, 4, 0]
    assert stages([[(7, 1000, 1), (9, 5, 2)]], 2, large) == [1, 1, 2, 16 + 3, 7, 1000, 63, 0, 9, 5, 2, 16]
    assert stages([[(7, 1000, 1)]], 1, large) == [1, 1, 1, 1, 7, 1000, 1000, 0]
    assert stages([[(7, 1000, 1)]], 2, 4 * 8192) == [1, 0, 1, 4, 7, 1000, 250, 0]
    assert stages([[(7, 1000, 1)]], 2, 100) == [1, 0, 1, 1, 7, 1000, 1000, 0]
    assert stages([[(7, 3, 50)]], 4, 0) == [1, 0, 1, 1, 7, 3, 3, 0]


@pytest.mark.parametrize("text", ["0", "-1", "many", "2000", "1.5"])
def test_a_bad_number_of_threads_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("EQKIR_NUM_THREADS", text)
    with pytest.raises(ValueError, match="EQKIR_NUM_THREADS"):
        thread_count()


def test_calls_are_cheap(folder: Path) -> None:
    """A bound call below 3 us, a checked one with two fresh arrays below 15 us (the best of many: the machine may be busy)."""
    k = load(folder / "scaled")
    x = np.ones(8, np.float32)
    y = np.zeros_like(x)
    bound = k.bind(x, y, 2.0)

    def best(f: Any) -> float:
        times = []
        for _ in range(40):
            start = time.perf_counter()
            for _ in range(200):
                f()
            times.append((time.perf_counter() - start) / 200)
        return min(times)

    assert best(bound) < 3e-6
    assert best(lambda: k(x[:], y[:], 2.0)) < 15e-6


def test_no_deadlock_under_switching(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interleavings: short calls of different sizes from several threads while the interpreter switches often."""
    monkeypatch.setattr(native, "TASK_BYTES", 1)
    k = load(folder / "staged")
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        wrong: list[int] = []

        def go(n: int) -> None:
            x = np.arange(n)
            y = np.zeros_like(x)
            for _ in range(300):
                k(x, y)
                if not np.array_equal(y, np.roll(x, -6) + 6):
                    wrong.append(n)

        ts = [threading.Thread(target=go, args=(n,)) for n in (2, 3, 64, 257)]
        for t in ts:
            t.start()
        for t in ts:
            t.join(120)
        assert not wrong and not any(t.is_alive() for t in ts)
    finally:
        sys.setswitchinterval(old)
