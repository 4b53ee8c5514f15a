"""`eqkir optimize`: lines, artifacts, isolation, determinism."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import eqkir
from eqkir.base.diagnostics import EqkirError
from eqkir.driver import batch
from eqkir.driver.options import Options
from eqkir.driver.scan import scan
from tests.cli.conftest import CORPUS

SOME = ["relu_f32", "softmax_bf16", "gemm_nn_bf16", "two_outputs", "argmax_inner_f32"]
FIELDS = {"kernel", "file", "status", "stage", "diagnostics", "seconds", "enodes", "initial_cost", "cost", "checks"}


def paths(names=SOME):
    return [CORPUS / f"{n}.json" for n in names]


def test_one_json_line_a_kernel_in_order_and_failures_among_them(cli, tmp_path):
    (tmp_path / "bad.json").write_text("{")
    r = cli("optimize", paths()[0], "bad.json", *paths()[1:3], "-o", "out", "-j", 2, "--check", "numeric", "--json")
    lines = [json.loads(x) for x in r.stdout.splitlines()]
    assert r.returncode == 1
    assert [x["kernel"] for x in lines] == ["relu_f32", None, "softmax_bf16", "gemm_nn_bf16"]
    assert [x["status"] for x in lines] == ["ok", "failed", "ok", "ok"]
    for x in lines:
        assert x.keys() >= FIELDS
    good = lines[0]
    assert good["checks"] == {"static": "ok", "numeric": "ok"} and good["cost"] < good["initial_cost"] and good["enodes"] > 0
    assert good["stage"] == "done" and lines[1]["stage"] == "read"
    names = sorted(p.name for p in (tmp_path / "out" / "relu_f32").iterdir())
    assert names == ["kernel.py", "manifest.json", "program.json", "report.json"]


def digests(folder: Path) -> dict[str, str]:
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "report.json")
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def test_equal_bytes_whatever_the_hash_seed_and_the_number_of_processes(cli, tmp_path):
    for i, (jobs, seed) in enumerate([(1, "0"), (2, "1"), (2, "4242")]):
        r = cli("optimize", *paths(), "-o", f"out{i}", "-j", jobs, env={"PYTHONHASHSEED": seed})
        assert r.returncode == 0, r.stderr
    first = digests(tmp_path / "out0")
    assert len(first) == 3 * len(SOME)
    assert digests(tmp_path / "out1") == first and digests(tmp_path / "out2") == first


def test_no_rules_leave_the_conservative_program_and_it_is_right(tmp_path):
    for name in ("softmax_bf16", "two_outputs"):
        k = eqkir.optimize(CORPUS / f"{name}.json", without=["all"], check="numeric")[name]
        assert k.ok and not k.program.bindings and k.report["structures"] == 1


@pytest.mark.parametrize("extractor", ["random", "worst"])
def test_any_candidate_is_right(extractor):
    k = eqkir.optimize(CORPUS / "softmax_bf16.json", extractor=extractor, seed=3, check="numeric")["softmax_bf16"]
    assert k.ok, k.diagnostics


def test_pinned_extents_steer_the_choice_and_must_fit():
    free = eqkir.optimize(CORPUS / "skinny_gemm_bf16.json")["skinny_gemm_bf16"]
    pinned = eqkir.optimize(CORPUS / "skinny_gemm_bf16.json", shapes={"M": 16, "N": 8192, "K": 8192})["skinny_gemm_bf16"]
    assert free.ok and pinned.ok and free.report["cost"] != pinned.report["cost"]
    wrong = eqkir.optimize(CORPUS / "skinny_gemm_bf16.json", shapes={"M": 17})["skinny_gemm_bf16"]
    assert wrong.status == "failed" and wrong.diagnostics[0].code == "EQK-RUN-SHAPE"


def test_artifacts_load_back_and_tampering_is_seen(tmp_path):
    k = eqkir.optimize(CORPUS / "relu_f32.json", out=tmp_path)["relu_f32"]
    again = eqkir.load(tmp_path / "relu_f32")
    assert again.source == k.source and again.program == k.program and again.manifest == k.manifest
    source = tmp_path / "relu_f32" / "kernel.py"
    source.write_text(k.source + "\n")
    with pytest.raises(EqkirError, match="EQK-RUN-ARTIFACT"):
        eqkir.load(tmp_path / "relu_f32")


def test_the_manifest_holds_what_a_cache_needs_and_no_time():
    m = eqkir.optimize(CORPUS / "gemm_nn_bf16.json")["gemm_nn_bf16"].manifest
    assert {"abi", "launch", "parameters", "preconditions", "permissions", "digests", "versions", "target", "options"} <= m.keys()
    assert set(m["digests"]) == {"kir", "program", "rules", "source"} and "seconds" not in json.dumps(m)
    assert m["versions"]["egglog"].startswith("14.") and m["launch"]["segments"][0]["instances"]


def test_a_built_kernel_needs_no_file():
    @eqkir.kir.kernel
    def twice(k):
        n = k.symbol("N")
        x, y = k.view("X", "in", "f32", (n,)), k.view("Y", "out", "f32", (n,))
        k.noalias(x, y)
        y[:] = x[:] * 2.0

    r = eqkir.optimize(twice, check="numeric")
    assert r.ok and "def launch(" in r["twice"].source


CRASH = {"die": "import os; os.kill(os.getpid(), 9)", "hang": "import time; time.sleep(60)", "raise": "raise ValueError('a defect')"}


@pytest.mark.parametrize("how", CRASH)
def test_an_unexpected_failure_leaves_a_bundle_and_harms_no_other_kernel(how, tmp_path, monkeypatch):
    (tmp_path / "job_that_fails.py").write_text(
        "from eqkir.driver import job\n"
        "def optimize(task, options):\n"
        "    if task.kernel == 'softmax_bf16':\n"
        f"        {CRASH[how]}\n"
        "    return job.optimize(task, options)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(batch, "JOB", "job_that_fails:optimize")
    tasks = [t for p in paths(["relu_f32", "softmax_bf16", "two_outputs"]) for t in scan(str(p))]
    done = list(batch.optimize(tasks, Options(limits={"job_seconds": 15.0}), 2, tmp_path / "out"))
    assert [o.status for o in done] == ["ok", "error", "ok"]
    code = {"die": "EQK-RUN-WORKER", "hang": "EQK-RUN-TIME", "raise": "EQK-RUN-INTERNAL"}[how]
    assert done[1].diagnostics[0]["code"] == code and "eqkir optimize" in done[1].diagnostics[0]["message"]
    bundle = Path(done[1].bundle)
    files = {p.name for p in bundle.iterdir()}
    assert files >= {"kir.json", "options.json", "versions.json", "traceback.txt", "replay.txt"}
    assert json.loads((bundle / "kir.json").read_text())["kernels"][0]["name"] == "softmax_bf16"
    assert not (tmp_path / "out" / "softmax_bf16").exists()
    if how == "raise":
        assert "a defect" in (bundle / "traceback.txt").read_text()


def test_a_bundle_replays(cli, tmp_path, monkeypatch):
    from eqkir.driver.bundle import write_bundle

    task = scan(str(CORPUS / "relu_f32.json"))[0]
    (tmp_path / "r.egg").write_text('; name: mine\n; family: mine\n; a => a\n(rule ((= t (TProd a b))) ((TProd a b)) :name "mine")\n')
    options = Options(rules=(str(tmp_path / "r.egg"),), without=("algebra",), seed=3, shapes={"M": 8}, limits={"iterations": 9.0})
    folder, command = write_bundle(tmp_path / "out", "relu_f32", task.kir, options, "")
    r = cli(*command.split()[1:])
    assert r.returncode == 0, r.stdout + r.stderr


def test_run_and_show_print_every_engine_and_stage(cli):
    for engine in ("reference", "program", "interpreter"):
        r = cli("run", CORPUS / "softmax_bf16.json", "--engine", engine, "--shape", "M=3,N=9", "--json")
        row = json.loads(r.stdout)
        assert r.returncode == 0 and row["ok"] and row["symbols"] == {"M": 3, "N": 9} and row["outputs"]["Y"]["nan"] == 0
    for stage, sign in {"kir": "reduce", "initial": "for c0:L1", "chosen": "c0:", "source": "@triton.jit", "egraph": "e-nodes"}.items():
        r = cli("show", CORPUS / "softmax_bf16.json", "--stage", stage)
        assert r.returncode == 0 and sign in r.stdout, stage


def test_inputs_are_read_from_npz_and_outputs_saved(cli, tmp_path):
    import numpy as np

    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
    np.savez(tmp_path / "x.npz", X=x)
    r = cli("run", CORPUS / "relu_f32.json", "--engine", "program", "--inputs", "x.npz", "--save", "y.npz")
    assert r.returncode == 0, r.stderr
    assert np.array_equal(np.load(tmp_path / "y.npz")["Y"], np.maximum(x, 0))
    np.savez(tmp_path / "bad.npz", X=x.astype(np.float64))
    r = cli("run", CORPUS / "relu_f32.json", "--inputs", "bad.npz")
    assert r.returncode == 2 and "EQK-RUN-INPUTS" in r.stderr
