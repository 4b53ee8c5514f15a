"""Results against a reference formula: what is wrong, how far, and where. The tolerance is the one of `references.core`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from arrays import FLOATS, PRECISION
from references import FORMULAS, Judge, Out
from references.core import accumulated

CHUNK = 1 << 27


@dataclass
class Verdict:
    """One output: elements that are wrong of how many, the largest error / bound, its flat position, got and wanted there."""

    name: str
    wrong: int = 0
    elements: int = 0
    worst: float = 0.0
    at: int = 0
    got: float = 0.0
    want: float = 0.0
    note: str = ""

    @property
    def ok(self) -> bool:
        return not self.wrong and not self.note

    def __str__(self) -> str:
        if self.note:
            return f"{self.name}: {self.note}"
        return (
            f"{self.name}: {self.wrong} of {self.elements} wrong, worst {self.worst:.3g} of the bound at {self.at} "
            f"({self.got:.9g} for {self.want:.9g})"
        )


class Reference:
    """The right outputs of a kernel on one set of inputs."""

    def __init__(self, xp: Any, kernel: str, views: dict[str, Any], arrays: dict[str, Any], sizes: dict[str, Any]) -> None:
        """`arrays`: the views that are read, in storage dtypes, before the kernel runs. Raises ValueError when the formula leaves an
        output of the kernel out."""
        self.xp, self.views = xp, views
        with xp.quiet():
            self.want = FORMULAS[kernel](xp, {n: xp.wide(a) for n, a in arrays.items()}, sizes)
        written = {n for n, v in views.items() if v["role"] != "in"}
        if set(self.want) != written:
            raise ValueError(f"the formula of {kernel} gives {sorted(self.want)}, the kernel {sorted(written)}")

    def verdicts(self, got: dict[str, Any]) -> list[Verdict]:
        """One an output; `got`: everything that the kernel writes, in storage dtypes."""
        wide: dict[str, Any] = {}
        if any(isinstance(w, Judge) for w in self.want.values()):
            wide = {n: self.xp.wide(a) for n, a in got.items()}
        with self.xp.quiet():
            return [self._verdict(n, w, got[n], wide) for n, w in self.want.items()]

    def _verdict(self, name: str, want: Any, got: Any, wide: dict[str, Any]) -> Verdict:
        xp, dtype = self.xp, self.views[name]["dtype"]
        if isinstance(want, Judge):
            return _largest(xp, name, want.worst(wide).reshape(-1), None, None)
        out = want if isinstance(want, Out) else Out(want)
        if tuple(out.value.shape) != tuple(got.shape):
            return Verdict(name, note=f"shape {tuple(got.shape)} instead of {tuple(out.value.shape)}")
        v = Verdict(name)
        flat, value = got.reshape(-1), out.value.reshape(-1)
        scale, slack = (None if x is None else xp.broadcast(x, out.value.shape).reshape(-1) for x in (out.scale, out.slack))
        for i in range(0, flat.shape[0], CHUNK):
            j = slice(i, i + CHUNK)
            w, g = value[j], xp.wide(flat[j])
            if dtype in FLOATS:
                bits, lowest = PRECISION[dtype]
                bound = abs(w) * 2.0 ** (1 - bits) + 2.0**lowest
                if out.n:
                    bound = bound + accumulated(out.n, abs(w) if scale is None else scale[j])
                if slack is not None:
                    bound = bound + slack[j]
                ratio = xp.where(g == w, 0.0, abs(g - w) / bound)
            else:
                ratio = xp.where(g == w, 0.0, math.inf)
            part = _largest(xp, name, ratio, g, w)
            wrong, elements = v.wrong + part.wrong, v.elements + part.elements
            if part.worst >= v.worst:
                part.at += i
                v = part
            v.wrong, v.elements = wrong, elements
        return v


def _largest(xp: Any, name: str, ratio: Any, got: Any, want: Any) -> Verdict:
    n = ratio.shape[0]
    if not n:
        return Verdict(name)
    ratio = xp.where(xp.isnan(ratio), math.inf, ratio)
    at = int(xp.item(xp.argmax(ratio, 0)))
    v = Verdict(name, int(xp.item(xp.sum(xp.i64(ratio > 1.0), 0))), n, float(xp.item(ratio[at])), at)
    if got is not None:
        v.got, v.want = float(xp.item(got[at])), float(xp.item(want[at]))
    return v


def sizes_of(entry: dict[str, Any], tiny: bool = False) -> dict[str, Any]:
    """Symbols, scalars and constexprs of a workload by name; f32 scalars as f32 holds them."""
    import struct

    at = entry["tiny"] if tiny else entry
    scalars = {
        n: struct.unpack("<f", struct.pack("<f", x))[0] if entry["scalar_dtypes"].get(n) == "f32" else x for n, x in at["scalars"].items()
    }
    return {**at["shapes"], **at["constexprs"], **scalars}
