"""Names that the command line gives, looked up before any work is done."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from eqkir.base.diagnostics import EqkirError, fail
from eqkir.driver import codes
from eqkir.driver.options import Options

ALL = "all"
DAY = 86_400
#: limit -> its largest value; the counts are integers, `memory` is in bytes
LARGEST = {"enodes": 10**8, "matches": 10**10, "iterations": 10**6, "memory": 1 << 50, "seconds": DAY, "job_seconds": 7 * DAY}
COUNTS = ("enodes", "matches", "iterations", "memory")


def validate(o: Options) -> Options:
    """`o` with ``--without all`` spelled out. Raises EqkirError with stage ``options`` for an unknown target, family, permission,
    extractor, cost model or limit, and for a rule file that is refused (stage ``rules``)."""
    from eqkir.extract.cost import cost_models
    from eqkir.extract.cpu_rows import checked
    from eqkir.extract.extractors import extractors, plain_names
    from eqkir.rules.load import PERMISSIONS, load_rules
    from eqkir.targets import CpuTarget, load_target, row_templates

    try:
        target = load_target(o.target)
        machine = "cpu" if isinstance(target, CpuTarget) else "gpu"
        if o.rows and not isinstance(target, CpuTarget):
            raise fail(codes.USAGE, f"--rows with {o.target}", accepted="a target of the CPU family", stage="options")
        if o.rows and isinstance(target, CpuTarget):
            checked(row_templates(o.rows), target.model_copy(update={"rows": o.rows}))
    except EqkirError as e:
        raise _usage(e) from None
    _known("extractor", o.extractor, (*extractors(), *plain_names()))
    _known("cost model", o.cost_model, cost_models())
    for p in o.permit:
        _known("permission", p, PERMISSIONS)
    for k in o.limits:
        _known("limit", k, limit_names())
    _bounded(o.limits)
    for r in map(Path, o.rules):
        if r.exists() and not (r.is_file() or r.is_dir()):
            raise fail(codes.USAGE, f"--rules {r}: not a regular file", accepted="a rule file or a folder", stage="options")
    families = sorted({f.family for f in load_rules(o.rules, permit=PERMISSIONS, machine=machine)})
    for w in o.without:
        _known("rule family", w, [*families, ALL])
    return replace(o, without=tuple(families)) if ALL in o.without else o


def _bounded(limits: Mapping[str, float]) -> None:
    for name, v in limits.items():
        number = isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v)
        whole = name not in COUNTS or (number and v == int(v))
        if not (number and whole and 0 < v <= LARGEST[name]):
            kind = "an integer from 1" if name in COUNTS else "a number above 0"
            raise fail(codes.USAGE, f"limit {name} = {v!r:.40}", accepted=f"{kind} to {LARGEST[name]}", stage="options")


def limit_names() -> list[str]:
    """Limits of saturation and of a job."""
    from dataclasses import fields

    from eqkir.rules.saturate import Limits

    return [*(f.name for f in fields(Limits)), "job_seconds"]


def _known(what: str, name: str, names: object) -> None:
    accepted = sorted(names)  # type: ignore[call-overload]
    if name not in accepted:
        raise fail(codes.USAGE, f"unknown {what} {name!r}", accepted=", ".join(accepted), stage="options")


def _usage(e: EqkirError) -> EqkirError:
    return EqkirError(*(replace(d, stage="options") for d in e.diagnostics))
