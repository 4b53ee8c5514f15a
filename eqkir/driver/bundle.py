"""What an unexpected failure leaves: everything that a replay needs, in one folder."""

from __future__ import annotations

import platform
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

from eqkir.base.resources import version
from eqkir.driver.artifacts import canonical, digest, write_atomic
from eqkir.driver.options import Options
from eqkir.driver.shapes import names

PACKAGES = ("egglog", "pydantic", "numpy", "ml_dtypes", "z3-solver", "triton")


def versions() -> dict[str, str]:
    """eqkir, Python and the packages that results depend on; an absent one is left out. No host, no path."""
    out = {"eqkir": version(), "python": platform.python_version()}
    for p in PACKAGES:
        try:
            out[p] = installed(p)
        except PackageNotFoundError:
            continue
    return out


def write_bundle(root: Path, kernel: str | None, kir: str, options: Options, traceback: str) -> tuple[Path, str]:
    """Write ``kir.json``, the rule files from outside, ``options.json``, ``versions.json``, ``traceback.txt`` and ``replay.txt``.

    Returns the folder and the replay command. The folder's name is that of the kernel and of the content, so that a repeat finds the
    same place. Raises OSError.
    """
    key = digest(kir + canonical(options.to_json()))[:12]
    folder = root / f"failure-{kernel or 'module'}-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "kir.json", kir)
    rules = []
    for i, r in enumerate(options.rules):
        source, copy = Path(r), folder / "rules" / f"{i}-{Path(r).name}"
        copy.parent.mkdir(exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, dirs_exist_ok=True)
        elif source.is_file():
            shutil.copyfile(source, copy)
        rules.append(str(copy))
    if options.inputs:
        write_atomic(folder / "inputs.json", canonical(dict(options.inputs)))
    command = replay(folder / "kir.json", replace(options, shapes=_own(kir, options.shapes)), rules)
    write_atomic(folder / "options.json", canonical({**options.to_json(), "check": options.check, "rules": rules}))
    write_atomic(folder / "versions.json", canonical(versions()))
    write_atomic(folder / "traceback.txt", traceback or "(the process ended without a traceback)\n")
    write_atomic(folder / "replay.txt", command + "\n")
    return folder, command


def replay(kir: Path, options: Options, rules: list[str]) -> str:
    """The command line that repeats the job."""
    o = options
    words = ["eqkir", "optimize", str(kir), "--target", o.target, "--extractor", o.extractor, "--cost-model", o.cost_model]
    words += ["--seed", str(o.seed), "--check", o.check]
    for flag, values in (("--rules", rules), ("--without", sorted(o.without)), ("--permit", sorted(o.permit))):
        for v in values:
            words += [flag, v]
    if o.inputs:
        words += ["--inputs", str(kir.with_name("inputs.json"))]
    if o.shapes:
        words += ["--shape", ",".join(f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in sorted(o.shapes.items()))]
    for k, number in sorted(o.limits.items()):
        words += ["--limit", f"{k}={int(number) if number == int(number) else number!r}"]
    return shlex.join(words)


def _own(kir: str, shapes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values whose names the module has; all of them when it cannot be read."""
    try:
        extents, others = names(kir)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return shapes
    return {k: v for k, v in shapes.items() if k in extents | others}


def scratch() -> Path:
    """Where bundles go when no output folder is given."""
    return Path.cwd() / "eqkir-failures"


__all__ = ["PACKAGES", "replay", "scratch", "versions", "write_bundle"]
