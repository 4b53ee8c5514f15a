"""Target files: every one loads, every field is read by something, refusals are coded."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

import eqkir
from eqkir.base.diagnostics import EqkirError
from eqkir.targets import CpuTarget, Target, all_targets, load_gpu, load_target, parse_target, row_templates, target_names

HERE = Path(eqkir.__file__).parent


def test_described_targets() -> None:
    names = (
        "mojo:riscv64-v",
        "mojo:x86-64-v3",
        "mojo:x86-64-v4",
        "mojo:x86-64-v4-vnni",
        "triton:nvidia-a100",
        "triton:nvidia-b200",
        "triton:nvidia-h200",
    )
    assert target_names() == names
    levels = {"x86-64-v3", "x86-64-v4", "x86-64-v4+avx512vnni+avx512bf16", "generic-rv64+m+a+f+d+c+v+zba+zbb+zbs"}
    assert {t.arch for t in all_targets()} == {"sm_80", "sm_90", "sm_100", *levels}
    assert load_gpu("triton:nvidia-h200").compiler_target() == ("cuda", 90, 32)
    for t in all_targets():
        if not isinstance(t, Target):
            assert t.title and t.sources and row_templates(t.rows)["rows"]
            continue
        assert t.title and t.sources and t.max_shared_per_block <= t.shared_per_sm
        assert row_templates(t.rows)["templates"]


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ("triton:nvidia-h100x", "EQK-TARGET-UNKNOWN"),
        ("nvidia-h200", "EQK-TARGET-UNKNOWN"),
        ("", "EQK-TARGET-UNKNOWN"),
        ("cuda:nvidia-h200", "EQK-TARGET-UNKNOWN"),
        ("weft:riscv", "EQK-TARGET-PROVIDER"),
        ("weft", "EQK-TARGET-PROVIDER"),
        ("mojo:x86", "EQK-TARGET-UNKNOWN"),
    ],
)
def test_refusals_are_coded(spec: str, code: str) -> None:
    with pytest.raises(EqkirError) as e:
        load_target(spec)
    assert e.value.diagnostics[0].code == code and "triton:nvidia-h200" in e.value.diagnostics[0].accepted


@pytest.mark.parametrize(
    "change", [{"sms": 0}, {"nonsense": 1}, {"op_slots": {"exp": 4}}, {"dram_bytes_per_s": -1}, {"dots": [{"a": "q4"}]}]
)
def test_malformed_files_are_diagnosed(change: dict[str, object]) -> None:
    text = files("eqkir.targets").joinpath("data/nvidia-h200.json").read_text()
    with pytest.raises(EqkirError) as e:
        parse_target(json.dumps({**json.loads(text), **change}), "changed.json")
    d = e.value.diagnostics[0]
    assert d.code == "EQK-TARGET-FILE" and d.pointer.startswith("/") and "changed.json" in d.message
    with pytest.raises(EqkirError):
        parse_target("{", "cut.json")


def test_every_field_has_a_reader() -> None:
    """A capability nobody reads is a defect: each field name occurs as an attribute somewhere in the package (the model's own methods
    count)."""
    text = "\n".join(p.read_text() for p in sorted(HERE.rglob("*.py")))
    unread = [f for m in (Target, CpuTarget) for f in m.model_fields if not re.search(rf"\.{f}\b", text)]
    assert unread == []


#: field of a CPU's description -> the modules that act on it
CONSUMERS = {
    "name": "targets/__init__.py", "title": "cli/info.py", "provider": "targets/__init__.py", "sources": "cli/info.py",
    "cpu": "driver/native.py", "triple": "driver/native.py", "rows": "extract/cpu_rows.py", "features": "extract/cpu_members.py",
    "cores": "extract/cost/cpu.py", "clock_hz": "extract/cost/cpu.py", "vector_bytes": "emit/mojo/artifact.py",
    "vector_registers": "extract/cost/cpu_exits.py", "slots_per_clock": "extract/cost/cpu.py", "loads_per_clock": "extract/cost/cpu.py",
    "stores_per_clock": "extract/cost/cpu.py", "latency_clocks": "extract/cost/cpu.py", "op_slots": "targets/cpu.py",
    "max_fragment_lanes": "extract/cpu_legality.py", "max_fragment_bytes": "extract/cpu_legality.py",
    "l1_bytes": "extract/cost/cpu.py", "l2_bytes": "extract/cost/cpu.py",
    "l3_bytes": "extract/cost/cpu.py", "l3_bytes_per_s": "extract/cost/cpu.py", "dram_bytes_per_s": "extract/cost/cpu.py",
    "line_bytes": "extract/cost/cpu_runs.py", "launch_ns": "extract/cost/cpu.py", "instance_ns": "extract/cost/cpu_tiles.py",
    "stream_bytes": "emit/mojo/artifact.py", "prefetch_bytes": "emit/mojo/artifact.py",
    "ahead_bytes": "emit/mojo/artifact.py", "far_factor": "extract/cost/cpu_runs.py",
    "piece_bytes": "extract/cost/cpu_runs.py", "l2_ways": "extract/cost/cpu_tiles.py",
}  # fmt: skip


def test_the_consumer_of_every_capability_of_a_cpu() -> None:
    assert CONSUMERS.keys() == CpuTarget.model_fields.keys()
    for field, module in CONSUMERS.items():
        assert re.search(rf"(target|\bt|self|d|p\.target)\.{field}\b", (HERE / module).read_text()), (field, module)
    cost = (HERE / "extract/cost/cpu.py").read_text()
    assert re.search(r"\.slots\(", cost), "`op_slots` is read by way of `slots`"


@pytest.mark.parametrize("change", [{"features": ["avx9"]}, {"features": ["avx512_vnni"]}, {"op_slots": {"exp": 2}}, {"vector_bytes": 0}])
def test_a_cpu_that_contradicts_itself_is_malformed(change: dict[str, object]) -> None:
    """A feature that nothing asks for, or that the compiler is not told of; costs without a default."""
    text = files("eqkir.targets").joinpath("data/x86-64-v4.json").read_text()
    with pytest.raises(EqkirError) as e:
        parse_target(json.dumps({**json.loads(text), **change}), "changed.json")
    assert e.value.diagnostics[0].code == "EQK-TARGET-FILE"


def test_what_code_of_a_target_needs() -> None:
    targets = {t.name: t for t in all_targets() if isinstance(t, CpuTarget)}
    assert {n: t.machine for n, t in targets.items()} == {
        "riscv64-v": "riscv64", "x86-64-v3": "x86_64", "x86-64-v4": "x86_64", "x86-64-v4-vnni": "x86_64",
    }  # fmt: skip
    more = set(targets["x86-64-v4-vnni"].needs) - set(targets["x86-64-v4"].needs)
    assert more == {"avx512_vnni", "avx512_bf16"} == set(targets["x86-64-v4-vnni"].features)
    assert set(targets["x86-64-v3"].needs) < set(targets["x86-64-v4"].needs) and targets["riscv64-v"].needs == ()


def test_no_machine_is_known_to_code() -> None:
    for p in sorted([*HERE.joinpath("extract").rglob("*.py"), *HERE.joinpath("targets").rglob("*.py")]):
        assert not re.search(
            r"h200|a100|b200|hopper|ampere|blackwell",
            re.sub(r'""".*?"""', "", p.read_text(), flags=re.S).lower().replace("triton:nvidia-h200", ""),
        ), p
