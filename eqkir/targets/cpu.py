"""The typed description of a CPU: what legality, rows, cost model, expansion and the native compiler read. Numbers live in ``data/*.json``.

Units are in the field names. A *vector* is one register of `vector_bytes`; *slots* are issues of one vector (or scalar) operation.
"""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

#: features that an instruction-set level needs, as the kernel names them
_V3 = ("abm", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe")
LEVELS = {"x86-64-v4": (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"), "x86-64-v3": _V3}
#: a compiler's feature -> the kernel's name of it, where they differ
KERNEL_NAMES = {"avx512vnni": "avx512_vnni", "avx512bf16": "avx512_bf16"}
#: features that an implementation may declare that it needs
FEATURES = ("avx512_vnni", "avx512_bf16")


class CpuTarget(BaseModel):
    """One CPU as one provider sees it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)

    name: str
    title: str
    provider: Literal["mojo"]
    cpu: str  # what the compiler is asked for: a name that it knows, with ``+feature`` for what the name does not imply, or ``native``
    triple: str = ""  # of another machine than this one, for the compiler
    rows: str  # name of the row file under ``rows/``
    sources: dict[str, str]  # group of fields -> where the numbers are from

    # execution
    cores: int = Field(ge=1)
    clock_hz: float = Field(gt=0)
    vector_bytes: int = Field(ge=1)
    vector_registers: int = Field(ge=1)
    slots_per_clock: float = Field(gt=0)  # vector operations that one core starts in a clock
    loads_per_clock: float = Field(gt=0)
    stores_per_clock: float = Field(gt=0)
    latency_clocks: float = Field(gt=0)  # of a dependent floating-point operation
    features: tuple[str, ...] = ()  # instructions beyond the level that implementations may ask for, as the kernel names them (`FEATURES`)
    op_slots: dict[str, float]  # function -> slots; "default" for the rest

    # fragments (limits of the expansion)
    max_fragment_lanes: int = Field(ge=1)
    max_fragment_bytes: int = Field(ge=1)

    # memory
    l1_bytes: int = Field(ge=1)  # of data, of one core
    l2_bytes: int = Field(ge=1)  # of one core
    l2_ways: int = Field(ge=1)  # lines that its cache keeps of addresses a way apart
    l3_bytes: int = Field(ge=1)  # of all
    l3_bytes_per_s: float = Field(gt=0)  # one core
    dram_bytes_per_s: float = Field(gt=0)  # all cores
    line_bytes: int = Field(ge=1)
    stream_bytes: int = Field(ge=0)  # a view that is only written is stored past the caches from this size on; 0: never
    prefetch_bytes: int = Field(ge=0)  # how far ahead a loop that walks over rows fetches them; 0: not at all
    ahead_bytes: int = Field(ge=0)  # how far ahead loads that go on along memory fetch it; 0: not at all
    far_factor: float = Field(ge=0)  # of the time of memory: added where pieces of other pages follow each other (`cost.cpu_runs`)
    piece_bytes: int = Field(ge=0)  # bytes that every piece costs besides its own

    # fixed costs
    launch_ns: float = Field(ge=0)  # a call with its join
    instance_ns: float = Field(ge=0)  # digits and tests of one instance

    @model_validator(mode="after")
    def _whole(self) -> CpuTarget:
        if "default" not in self.op_slots or min(self.op_slots.values()) <= 0:
            raise ValueError("op_slots needs a positive 'default' and positive values")
        return self

    @model_validator(mode="after")
    def _known(self) -> CpuTarget:
        if unknown := sorted(set(self.features) - set(FEATURES)):
            raise ValueError(f"features: {unknown[0]} is none of {' '.join(FEATURES)}")
        if self.cpu != "native" and (absent := sorted(set(self.features) - set(self.needs))):
            raise ValueError(f"features: the compiler is not asked for {absent[0]} by {self.cpu}")
        return self

    @property
    def spec(self) -> str:
        """``provider:name``."""
        return f"{self.provider}:{self.name}"

    @property
    def machine(self) -> str:
        """The architecture, as the operating system names it."""
        if self.triple:
            return self.triple.split("-")[0]
        return "x86_64" if self.cpu.startswith("x86-64") else platform.machine()

    @property
    def needs(self) -> tuple[str, ...]:
        """Features that code may use, as the kernel names them: those of the level and what is added, for ``native`` those of this
        machine; the loader asks for them. None are known of other architectures."""
        from eqkir.runtime.machine import features

        if self.cpu == "native":
            return tuple(sorted(features() or ()))
        name, *more = self.cpu.split("+")
        return tuple(sorted((*LEVELS[name], *(KERNEL_NAMES.get(f, f) for f in more)))) if name in LEVELS else ()

    @property
    def compile_only(self) -> bool:
        return False

    @property
    def arch(self) -> str:
        return self.cpu

    def slots(self, fn: str) -> float:
        """Issue slots of one function on one vector."""
        return self.op_slots.get(fn, self.op_slots["default"])

    def vectors(self, value: int | str) -> int:
        """A row's value as lanes: a number, or ``"4v"`` for four vectors of 32-bit lanes."""
        return int(value) if isinstance(value, int) else int(value.removesuffix("v")) * self.vector_bytes // 4


def _flags() -> set[str]:
    """Features of this machine, as the kernel names them; none where it does not say."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    return set(next((line.split(":", 1)[1] for line in text.splitlines() if line.startswith("flags")), "").split())


@cache
def host_level() -> str:
    """The highest level of `LEVELS` that this machine has, or an empty text."""
    flags = _flags()
    if platform.machine() not in ("x86_64", "AMD64"):
        return ""
    return next((level for level, needs in LEVELS.items() if flags.issuperset(needs)), "")


def native(base: CpuTarget) -> CpuTarget:
    """This machine: its own cores and caches, the compiler told ``native``, all else as in `base`."""
    changed: dict[str, object] = {"name": "native", "title": f"this machine, like {base.title}", "cpu": "native"}
    changed["cores"] = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    changed["features"] = tuple(f for f in FEATURES if f in _flags())
    sizes = ((level, "size", f"l{level}_bytes") for level in (1, 2, 3))
    for level, what, field in (*sizes, (2, "ways_of_associativity", "l2_ways")):
        value = _of_cache(level, what)
        if value:
            changed[field] = value
    return base.model_copy(update=changed)


def _of_cache(level: int, what: str) -> int:
    """A number of a cache of the first core, sizes in bytes; 0 where it is not known."""
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (folder / "level").read_text().strip() == str(level) and (folder / "type").read_text().strip() != "Instruction":
                text = (folder / what).read_text().strip()
                return int(text.rstrip("KM")) << {"K": 10, "M": 20}.get(text[-1:], 0)
        except (OSError, ValueError):
            continue
    return 0
