"""Compilation of batches: one key for one meaning, the cache, failures that stay their own, time limits, a missing compiler."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.emit.mojo import build as B
from eqkir.emit.mojo import toolchain
from eqkir.emit.mojo.artifact import emit
from eqkir.emit.mojo.build import Built, Module, build, build_one, key_of
from eqkir.targets import CpuTarget, load_target
from tests.cpu.test_tasks import chain_of

pytestmark = [pytest.mark.compile, pytest.mark.skipif(not toolchain.available(), reason="no Mojo compiler")]


def module(n: int, body: str = "") -> Module:
    return Module(f"m{n}", f'@export\ndef kt_f(x: Int) abi("C") -> Int:\n{body}    return x + {n}\n')


BAD = module(7, "    # from k %a k.py:3\n    var y = nothing_of_this_name  # or so\n    # from k %b k.py:4\n")


def refused(found: Built | EqkirError) -> Any:
    assert isinstance(found, EqkirError)
    return found.diagnostics[0]


def test_a_failure_is_that_of_its_module(tmp_path: Path) -> None:
    first, bad, last = build([module(1), BAD, module(2)], "native", folder=tmp_path)
    assert isinstance(first, Built) and isinstance(last, Built) and first.symbol("kt_f") != last.symbol("kt_f")
    d = refused(bad)
    assert d.code == "EQK-MOJ-COMPILE" and "nothing_of_this_name" in d.message and d.message.endswith("(from k %a k.py:3)")


def test_code_that_calls_a_function_of_no_library_is_refused(tmp_path: Path) -> None:
    call = module(3, '    _ = external_call["__truncsfbf2", Int](x)\n')
    (found,) = build([call], "native", folder=tmp_path)
    assert refused(found).code == "EQK-MOJ-LINK" and "__truncsfbf2" in refused(found).message
    assert isinstance(build_one(module(4, '    _ = external_call["sched_yield", Int32]()\n'), "native", folder=tmp_path), Built)


def test_an_error_in_emitted_text_names_the_operation_of_kir(tmp_path: Path) -> None:
    """softmax with its exponential misspelled: the message names the operation that has it, wherever the line stands."""
    machine = load_target("mojo:x86-64-v3")
    assert isinstance(machine, CpuTarget)
    text = emit(chain_of("softmax_f32").initial, machine).module.text
    assert text.count("# from softmax_f32 %v9 normalize.py:16\n") >= 1
    (found,) = build([Module("softmax", text.replace("eqk_exp_f32", "nothing_of_this_name"))], "native", folder=tmp_path)
    assert refused(found).message.endswith("(from softmax_f32 %v9 normalize.py:16)")


def test_what_was_compiled_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    one = build_one(module(3), "native", folder=tmp_path)
    monkeypatch.setattr(toolchain, "run", lambda *a: pytest.fail("compiled again"))
    again = build_one(module(3), "native", folder=tmp_path)
    assert one == again
    f = getattr(ctypes.CDLL(str(one.library)), one.symbol("kt_f"))
    assert f(4) == 7


def test_a_damaged_entry_is_no_entry(tmp_path: Path) -> None:
    one = build_one(module(4), "native", folder=tmp_path)
    entry = tmp_path / f"{one.key}.json"
    for text in ("", "[]", json.dumps({"library": "../outside.so"}), json.dumps({"library": "gone.so"})):
        entry.write_text(text)
        assert B.find(tmp_path, one.key) is None
    assert build_one(module(4), "native", folder=tmp_path) == one
    whole = one.library.read_bytes()
    for data in (b"", whole[:-100]):
        one.library.write_bytes(data)
        assert B.find(tmp_path, one.key) is None
        assert build_one(module(4), "native", folder=tmp_path).library.read_bytes() == whole
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_the_key_covers_text_helpers_target_flags_and_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {key_of(module(1), "x86-64-v4"), key_of(module(2), "x86-64-v4"), key_of(module(1), "x86-64-v3"), key_of(module(1), "native")}
    keys.add(key_of(module(1), "x86-64-v4", "riscv64-unknown-linux-gnu"))
    monkeypatch.setattr(B, "FLAGS", (*B.FLAGS, "-O1"))
    keys.add(key_of(module(1), "x86-64-v4"))
    monkeypatch.undo()
    monkeypatch.setattr(toolchain, "versions", lambda: ("mojo-compiler 9",))
    keys.add(key_of(module(1), "x86-64-v4"))
    monkeypatch.undo()
    monkeypatch.setattr(B, "host", lambda: "another machine")
    keys.add(key_of(module(1), "native"))
    monkeypatch.undo()
    text = "@export\ndef kt_f(x: SIMD[DType.float32, 4]) -> SIMD[DType.float32, 4]:\n    return eqk_exp_f32[4](x)\n"
    before = key_of(Module("m", text), "x86-64-v4")
    monkeypatch.setattr(B, "prelude", lambda used: "other helpers")
    assert len(keys) == 8 and key_of(Module("m", text), "x86-64-v4") != before


def test_code_is_the_same_for_the_same_text(tmp_path: Path) -> None:
    one, two = (build_one(module(5), "x86-64-v3", folder=tmp_path / n) for n in "ab")
    assert one.library.name == two.library.name and one.library.read_bytes() == two.library.read_bytes()


@pytest.mark.parametrize("end, code", [(-6, "EQK-MOJ-ABORT"), (134, "EQK-MOJ-ABORT"), (1, "EQK-MOJ-COMPILE"), (None, "EQK-MOJ-TIME")])
def test_how_the_compiler_ended_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: int | None, code: str) -> None:
    monkeypatch.setattr(toolchain, "run", lambda *a: toolchain.Ended(end, "words"))
    assert [refused(f).code for f in build([module(1), module(2)], "native", folder=tmp_path)] == [code, code]


def test_a_refusing_linker_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = toolchain.run
    monkeypatch.setattr(toolchain, "run", lambda tool, *a: toolchain.Ended(1, "undefined") if tool == "lld" else run(tool, *a))
    assert refused(build([module(1)], "native", folder=tmp_path)[0]).code == "EQK-MOJ-LINK"


def test_the_compiler_is_stopped_at_the_limit(tmp_path: Path) -> None:
    assert refused(build([module(6)], "native", folder=tmp_path, seconds=0.05)[0]).code == "EQK-MOJ-TIME"


def test_a_missing_compiler_names_the_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    toolchain.versions.cache_clear()
    monkeypatch.setattr(metadata, "version", missing)
    try:
        with pytest.raises(EqkirError, match=r'EQK-MOJ-MISSING.*pip install "eqkir\[cpu\]"'):
            build([module(1)], "native", folder=tmp_path)
    finally:
        toolchain.versions.cache_clear()


def test_a_cache_that_cannot_be_used_is_a_diagnosis(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (found,) = B.build([module(4)], "native", folder=tmp_path / "file" / "folder")
    assert isinstance(found, EqkirError) and found.diagnostics[0].code == "EQK-MOJ-FILES"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system cannot tell")
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_compiler_ends_with_the_process_that_started_it(tmp_path: Path, end: int) -> None:
    tool, said = tmp_path / "bin" / "mojo", tmp_path / "pid"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\necho $$ > {said}.new\nmv {said}.new {said}\nexec sleep 60\n")
    tool.chmod(0o755)
    code = "import sys; from pathlib import Path; from eqkir.emit.mojo import toolchain as t; root = Path(sys.argv[1])\n"
    code += "t._root = lambda: root\nt.run('mojo', [], root, 60.0)"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env=env)
    wait_until(said.exists)
    compiler = int(said.read_text())
    os.kill(compiler, 0)
    parent.send_signal(end)
    parent.wait()
    wait_until(lambda: not running(compiler))


def wait_until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    last = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < last
        time.sleep(0.02)


def running(pid: int) -> bool:
    """Whether a process is there and has not ended (what nobody waits for stays as a zombie)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
