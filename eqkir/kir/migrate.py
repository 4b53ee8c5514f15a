"""Older schema versions: each step turns the data of a module into the next version's.

When the schema changes so that an old file would mean something else, `model.VERSION` grows by one and a step from the old version is
registered here. Diagnostics of a migrated module point into its migrated form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eqkir.kir.model import VERSION

Step = Callable[[dict[str, Any]], dict[str, Any]]
#: version -> the step to the next one
STEPS: dict[int, Step] = {}


def migration(version: int) -> Callable[[Step], Step]:
    """Register the step from `version` to the next."""

    def put(step: Step) -> Step:
        STEPS[version] = step
        return step

    return put


def oldest() -> int:
    """The oldest version that is read."""
    v = VERSION
    while v - 1 in STEPS:
        v -= 1
    return v


def migrate(data: dict[str, Any], version: int) -> dict[str, Any]:
    """The module's data in the current version, from an older one that is still read."""
    while version < VERSION:
        data = {**STEPS[version](data), "kir": version + 1}
        version += 1
    return data
