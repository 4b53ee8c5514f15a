"""What this machine's processor can do, as far as running compiled code needs to know."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Final

#: features that compilers use when they are there, by the beginnings of their names in /proc/cpuinfo
USED: Final = (
    "avx", "fma", "f16c", "bmi", "sse", "ssse", "amx", "movbe", "popcnt", "abm", "adx", "aes", "sha_ni", "vaes", "gfni", "vpclmul",
)  # fmt: skip


@cache
def features() -> frozenset[str] | None:
    """Instruction-set features of the first processor; None where the system does not tell."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("flags", "Features"):
                return frozenset(w for w in value.split() if w.startswith(USED) or platform.machine() != "x86_64")
    except OSError:
        pass
    return None


def missing(machine: str, needs: list[str]) -> str:
    """What code for `machine` that uses the features `needs` cannot have here; an empty text when it can run."""
    if machine != platform.machine():
        return f"it is for {machine}, this machine is {platform.machine()}"
    have = features()
    absent = sorted(set(needs) - have) if have is not None else []
    return f"this machine lacks {', '.join(absent)}" if absent else ""
