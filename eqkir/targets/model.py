"""The typed description of a machine: what legality, rows, cost models and offline compilation read. Numbers live in ``data/*.json``.

Rates are sustained ones where somebody measured them, else the datasheet's (`sources` says which). Units are in the field names:
bytes, bytes/s, flop/s (a multiply-add is two), nanoseconds; a *lane* is one element of a fragment.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

DOTS = Literal["f16", "bf16", "f32", "f64", "i8", "u8", "f8e4m3fn", "f8e5m2"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class Dot(_Frozen):
    """What the matrix path takes: operand dtypes `a` and `b`, accumulator dtype `acc`, sustained rate, smallest tile (lanes).

    A target may list a pair that its matrix unit lacks when the provider's dot runs it on the vector unit with register tiling
    (f32 without TF32); `unit` says which, and decides whether `matrix_rows` padding applies.
    """

    a: DOTS
    b: DOTS
    acc: str
    flops_per_s: float = Field(gt=0)
    unit: Literal["matrix", "vector"]
    min_m: int = Field(ge=1)
    min_n: int = Field(ge=1)
    min_k: int = Field(ge=1)
    transpose_slots: float = Field(ge=0)  # vector slots an element of an operand whose contiguous axis is not the contracted one


class Overlap(_Frozen):
    """The part of the work beside the bottleneck that does not hide behind it, in a segment of programs that …"""

    straight: float = Field(ge=0)  # … have no loop
    ahead: float = Field(ge=0)  # … issue the loads of their loops ahead, or accumulate matrix products in them
    waiting: float = Field(ge=0)  # … wait for loads in every iteration
    alone: float = Field(ge=0)  # … are alone on a multiprocessor (shared by the resident ones)
    stride: float = Field(ge=0)  # … visit instances in turn: what that adds


class Target(_Frozen):
    """One machine as one provider sees it."""

    name: str
    title: str
    provider: Literal["triton"]
    backend: Literal["cuda"]
    capability: int  # 90 for sm_90
    compile_only: bool  # described for offline compilation; rates are never measured on it
    rows: str  # name of the row file under ``rows/``
    sources: dict[str, str]  # group of fields -> where the numbers are from

    # execution
    sms: int = Field(ge=1)
    warp_size: int = Field(ge=1)
    clock_hz: float = Field(gt=0)
    max_warps_per_block: int = Field(ge=1)
    max_threads_per_sm: int = Field(ge=1)
    max_blocks_per_sm: int = Field(ge=1)
    registers_per_sm: int = Field(ge=1)  # 32-bit
    max_registers_per_thread: int = Field(ge=1)
    shared_per_sm: int = Field(ge=1)  # bytes
    max_shared_per_block: int = Field(ge=1)  # bytes

    # fragments (provider limits)
    max_fragment_lanes: int = Field(ge=1)
    max_fragment_bytes_per_thread: int = Field(ge=1)

    # memory
    dram_bytes_per_s: float = Field(gt=0)
    l2_bytes_per_s: float = Field(gt=0)
    l2_bytes: int = Field(ge=1)
    sector_bytes: int = Field(ge=1)
    shared_bytes_per_clock: int = Field(ge=1)  # per SM
    dram_latency_ns: float = Field(gt=0)
    l1_latency_ns: float = Field(gt=0)

    # arithmetic
    lane_ops_per_s: dict[str, float]  # dtype -> one-slot lane operations per second, all SMs; "default" for the rest
    op_slots: dict[str, float]  # function -> issue slots; "default" for the rest
    op_latency_ns: float = Field(gt=0)  # dependent issue
    half_issue_warps: float = Field(ge=0)  # resident warps of a multiprocessor at which vector work reaches half its rate
    dots: tuple[Dot, ...]
    matrix_rows: int = Field(ge=1)  # left free lanes are padded to a multiple of this on the matrix unit

    exchange_slots: float = Field(ge=0)  # vector slots of an element that goes from one warp to others (shared memory, barrier)
    overlap: Overlap

    # fixed costs
    launch_ns: float = Field(ge=0)
    instance_ns: float = Field(ge=0)  # start and drain of one program
    barrier_ns: float = Field(ge=0)  # one program-wide exchange (reduction across warps, barrier between phases)

    @model_validator(mode="after")
    def _whole(self) -> Target:
        for field, table in (("lane_ops_per_s", self.lane_ops_per_s), ("op_slots", self.op_slots)):
            if "default" not in table or min(table.values()) <= 0:
                raise ValueError(f"{field} needs a positive 'default' and positive values")
        return self

    @property
    def spec(self) -> str:
        """``provider:name``."""
        return f"{self.provider}:{self.name}"

    @property
    def arch(self) -> str:
        """``sm_90``."""
        return f"sm_{self.capability}"

    def compiler_target(self) -> tuple[str, int, int]:
        """(backend, capability, warp size): what an offline compilation is asked for."""
        return self.backend, self.capability, self.warp_size

    def dot(self, a: str, b: str, acc: str) -> Dot | None:
        """The matrix path for these dtypes, if there is one."""
        for d in self.dots:
            if (d.a, d.b, d.acc) == (a, b, acc):
                return d
        return None

    def lane_rate(self, dtype: str) -> float:
        """One-slot lane operations per second of the whole machine."""
        return self.lane_ops_per_s.get(dtype, self.lane_ops_per_s["default"])

    def slots(self, fn: str) -> float:
        """Issue slots of one function on one lane."""
        return self.op_slots.get(fn, self.op_slots["default"])
