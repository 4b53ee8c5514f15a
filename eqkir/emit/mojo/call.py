"""One launch of a compiled task program in this process: the table of words, the calls of its groups. For checks; the runtime has its own.

Only ctypes and numpy are used. A wrong kernel can end the process, so checks call this in a worker.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from eqkir.base.dtypes import FLOATS, NUMPY
from eqkir.base.expr import evaluate
from eqkir.cpu.model import Group, TaskProgram
from eqkir.emit.mojo.build import Built
from eqkir.emit.mojo.spell import entry

Array = np.ndarray[Any, np.dtype[Any]]


class Launch:
    """`arrays`: views by name, any strides that are multiples of the element size; `scalars` and `symbols` by name. `seed` fills what is
    uninitialised with garbage."""

    def __init__(
        self, program: TaskProgram, arrays: Mapping[str, Array], scalars: Mapping[str, Any], symbols: Mapping[str, int], seed: int = 0
    ) -> None:
        self.program = program
        whole = {s.name: int(scalars[s.name]) for s in program.abi.scalars if s.dtype not in FLOATS}
        self.env = {**symbols, **whole, **program.limits}
        rng = np.random.default_rng(seed)
        self.kept: list[Array] = []
        words: list[int] = []
        for kind, name in program.words:
            if kind == "view":
                words.append(arrays[name].__array_interface__["data"][0])
            elif kind == "param":
                words.append(self._param(name, arrays))
            elif kind == "scalar":
                dtype = next(s.dtype for s in program.abi.scalars if s.name == name)
                raw = np.asarray([scalars[name]]).astype(NUMPY[dtype]).tobytes()
                words.append(int.from_bytes(raw, "little", signed=False))
            else:
                words.append(self._resource(name, rng))
        self.words = np.array([w - (1 << 64) if w >= 1 << 63 else w for w in words], np.int64)

    def _param(self, name: str, arrays: Mapping[str, Array]) -> int:
        if name in self.env:
            return self.env[name]
        view, _, axis = name.removeprefix("stride(").removesuffix(")").partition(",")
        a = arrays[view]
        return a.strides[int(axis)] // a.itemsize

    def _resource(self, name: str, rng: np.random.Generator) -> int:
        r = next(r for r in self.program.resources if r.name == name)
        size = self.number(r.size) * NUMPY[r.dtype].itemsize
        memory = np.frombuffer(rng.bytes(size + r.align), np.uint8).copy()
        self.kept.append(memory)
        at: int = memory.__array_interface__["data"][0]
        return -(-at // r.align) * r.align

    def number(self, e: Any) -> int:
        return int(evaluate(e, lambda a: self.env[a.args[0]]))

    def call(self, built: Built, split: random.Random | None = None) -> None:
        """Run all stages. `split`: cut each group's instances into tasks at random and run them in a random order."""
        library = ctypes.CDLL(str(built.library))
        for stage in self.program.stages:
            tasks = [(g, lo, hi) for g in stage for lo, hi in _tasks(self.number(g.launch), split)]
            if split:
                split.shuffle(tasks)
            for g, lo, hi in tasks:
                self._function(library, built, g)(self.words.ctypes.data, lo, hi)

    @staticmethod
    def _function(library: ctypes.CDLL, built: Built, g: Group) -> Any:
        f = getattr(library, built.symbol(entry(g)))
        f.argtypes, f.restype = [ctypes.c_int64] * 3, None
        return f


def _tasks(n: int, split: random.Random | None) -> list[tuple[int, int]]:
    if n <= 0:
        return []
    cuts = sorted({0, n, *(split.randrange(n) for _ in range(min(n, 7)))}) if split else [0, n]
    return list(zip(cuts, cuts[1:], strict=False))
