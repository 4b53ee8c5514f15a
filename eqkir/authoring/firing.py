"""Which rules match in a kernel."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from eqkir.driver.chain import Chain
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.kir.helpers import link
from eqkir.kir.load import load_file
from eqkir.rules.load import PERMISSIONS


def matches(file: Path, rules: Iterable[Path | str] = (), seconds: float = 60.0) -> dict[str, int]:
    """Rule -> matches, over the kernels of a KIR file, all permissions granted. Raises EqkirError."""
    out: dict[str, int] = {}
    for k in link(load_file(file)).kernels:
        o = Options(rules=tuple(map(str, rules)), permit=tuple(PERMISSIONS), limits={"seconds": seconds})
        for name, n in Chain(k, o, Outcome(k.name, str(file))).saturated.report.matches.items():
            out[name] = out.get(name, 0) + n
    return out
