"""The cache of winners: which program was chosen for a kernel, so that the same question is not searched twice.

It is apart from the caches of compiled code: an entry is a structured program, and what is made from it is compiled and checked like any
other. An entry is found by everything that the choice follows from (`question`): the specialization (kernel, constexprs, pinned extents),
views, provider, hardware, implementation definitions, binding rows, rules, options, and versions, the package's own sources among them.
Entries are written whole (`write_atomic`), so that writers beside each other and crashes leave an old or a new one. One that is not whole,
or does not answer the question, is ignored and named (EQK-RUN-WINNER); the search is then made, and its winner takes the place.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqkir.base.diagnostics import Diagnostic, EqkirError, register
from eqkir.base.files import read_regular, write_atomic
from eqkir.base.resources import PACKAGE, data_dir
from eqkir.driver.artifacts import canonical, digest

if TYPE_CHECKING:
    from eqkir.driver.chain import Chain
    from eqkir.program.model import Program

WINNER = register(
    "EQK-RUN-WINNER", "a cached winner is not used",
    "An entry of the cache of winners is damaged, answers another question, does not verify, or cannot be written. It is as if it were not "
    "there: the search is made again. The file may be deleted.",
)  # fmt: skip
FORMAT = 1
MAX_BYTES = 64 << 20
#: registered extensions that may decide what is chosen
GROUPS = ("eqkir.cpu.implementations", "eqkir.cost_models", "eqkir.extractors", "eqkir.plain_extractors")


@dataclass(frozen=True, slots=True)
class Winner:
    """`program` verifies; `cost`, `initial_cost` in the cost model's unit; `extraction` as in report.json."""

    program: Program
    cost: float
    initial_cost: float
    extraction: dict[str, Any]


def folder() -> Path:
    """Where winners are kept: ``winners`` under EQKIR_CACHE, or under the user's cache folder."""
    base = os.environ.get("EQKIR_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "eqkir")
    return Path(base) / "winners"


@cache
def sources() -> str:
    """Digest of the package's own code, rules and target data."""
    files = [p for root in (PACKAGE, data_dir("rulesets")) for p in root.rglob("*") if p.suffix in (".py", ".egg", ".json", ".mojo")]
    return digest("\n".join(f"{p.name} {digest(p.read_bytes())}" for p in sorted(files)))


def extensions() -> list[str]:
    """Registered extensions with the versions of what brings them."""
    found = [e for g in GROUPS for e in entry_points(group=g)]
    return sorted(f"{e.group} {e.name} {e.value} {e.dist.version if e.dist else ''}" for e in found)


def question(chain: Chain) -> dict[str, Any]:
    """What the choice for a kernel follows from, as JSON."""
    from eqkir.driver.bundle import versions
    from eqkir.kir import digest as kir_digest

    o, abi = chain.options, chain.abstract.abi
    return {
        "specialization": {
            "kernel": kir_digest(chain.kernel), "constexprs": {k: str(v) for k, v in sorted(chain.constexprs.items())},
            "extents": dict(sorted(chain.steering.items())),
        },
        "views": [f"{v.name} {v.role} {v.dtype} {[str(e) for e in v.shape]} {v.alias}" for v in abi.views],
        "provider": o.provider,
        "hardware": chain.target.model_dump(mode="json"),
        "definitions": dict(sorted(chain.rule_digests.items())),  # of rules, rows and implementations
        "options": {k: v for k, v in o.to_json().items() if k not in ("shapes", "rows")},
        "extensions": extensions(),
        "versions": {**versions(), "sources": sources()},
    }  # fmt: skip


def path_of(asked: dict[str, Any]) -> Path:
    """The entry's file."""
    return folder() / f"{digest(canonical(asked))[:32]}.json"


def find(chain: Chain) -> tuple[Winner | None, Diagnostic | None]:
    """The cached winner, verified like a fresh one; else why there is an entry that is not used, or neither."""
    from eqkir.driver import programs

    asked = question(chain)
    path = path_of(asked)
    try:
        data = read_regular(path, MAX_BYTES)
    except FileNotFoundError:
        return None, None
    except OSError as e:
        return None, _refused(path, e.strerror or str(e))
    try:
        entry = json.loads(data)
        if entry["winner"] != FORMAT or entry["question"] != asked:
            return None, _refused(path, "it answers another question")
        if entry["digest"] != digest(entry["program"]):
            return None, _refused(path, "the program is not the one that was written")
        program, cost, initial = programs.loads(entry["program"]), float(entry["cost"]), float(entry["initial_cost"])
        extraction = dict(entry["extraction"])
    except EqkirError as e:
        return None, _refused(path, str(e.diagnostics[0]))
    except (ValueError, KeyError, TypeError, RecursionError) as e:
        return None, _refused(path, f"{type(e).__name__}: {e}")
    if program.abi != chain.initial.abi:
        return None, _refused(path, "its interface is another one")
    if bad := chain.provider.acceptable(program):
        return None, _refused(path, str(bad[0]))
    return Winner(program, cost, initial, extraction), None


def keep(chain: Chain, winner: Winner) -> Diagnostic | None:
    """Write an entry, whole or not at all; else why it could not be."""
    from eqkir.driver import programs

    asked, text = question(chain), programs.dumps(winner.program)
    path = path_of(asked)
    entry = {
        "winner": FORMAT, "question": asked, "program": text, "digest": digest(text), "cost": winner.cost,
        "initial_cost": winner.initial_cost, "extraction": winner.extraction,
    }  # fmt: skip
    try:
        write_atomic(path, canonical(entry))
    except OSError as e:
        return _refused(path, f"cannot be written: {e.strerror or e}")
    return None


def _refused(path: Path, why: str) -> Diagnostic:
    return Diagnostic(WINNER, f"{path.name}: {why[:300]}", stage="extract")
