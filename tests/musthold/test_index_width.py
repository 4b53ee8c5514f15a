"""`launch` chooses 64-bit index arithmetic whenever some integer of a launch, padded lanes and the step past the last instance included,
does not fit 32 bits. The host side alone runs here."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from eqkir.base.expr import evaluate
from eqkir.emit.triton import emit
from eqkir.emit.triton.launch import TENSOR
from eqkir.program.interp import run_index_only
from eqkir.program.interp_space import Space
from eqkir.program.model import Program
from tests.matrix.cells import Subject

LIMIT = 1 << 31


class Far:
    """A tensor without memory."""

    device = None

    def __init__(self, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], address: int) -> None:
        self.dtype, self.shape, self._strides, self._address = dtype, shape, strides, address

    def data_ptr(self) -> int:
        return self._address

    def stride(self) -> tuple[int, ...]:
        return self._strides

    def new_empty(self, shape: tuple[int, ...], dtype: str) -> Far:
        return Far(dtype, shape, (1,) * len(shape), 1 << 60)


def host(source: str, folder: Path, name: str) -> ModuleType:
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def chosen_width(module: ModuleType, program: Program, symbols: dict[str, int], strides: dict[str, tuple[int, ...]]) -> str:
    """32, 64 or "none" (nothing to launch): what `launch` passes for IDX."""
    seen: list[Any] = []
    original = module._Plan.run
    module._Plan.run = lambda self, *a: seen.append(self.flags)
    try:
        tensors = []
        for k, v in enumerate(v for v in program.abi.views if v.role != "workspace"):
            shape = tuple(int(evaluate(e, lambda a: symbols[a.args[0]])) for e in v.shape)
            tensors.append(Far(TENSOR[v.dtype], shape, strides[v.name], k << 56))
        module.launch(*tensors)
    finally:
        module._Plan.run = original
    return "none" if not seen else "64" if "int64" in str(seen[0][1]) else "32"


def largest(program: Program, symbols: dict[str, int], strides: dict[str, tuple[int, ...]]) -> int:
    """The largest magnitude that index arithmetic of the first and last programs meets."""
    spaces = [Space(program, s, symbols) for s in program.segments]
    total = sum(s.programs for s in spaces)
    out = [total, *symbols.values(), *(abs(x) for s in strides.values() for x in s)]
    pids, first = set(), 0
    for s in spaces:
        if s.programs:
            pids |= {first, first + s.programs - 1, first + (s.length - 1) % s.programs}
            # a loop over instances computes the number after its last one
            out.append(s.length - 1 + (s.programs if s.segment.mode == "stride" else 0))
        first += s.programs
    for t in run_index_only(program, symbols, sorted(pids), strides=strides):
        out.append(int(np.abs(t.address).max(initial=0)))
        out += [int(np.abs(x).max(initial=0)) for x in t.coords.values()]
        for ix, s in zip(t.ixs, strides[t.view], strict=True):
            out.append(int(np.abs(np.asarray(ix) * s).max(initial=0)))
    return max(out)


def dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(np.prod(shape[k + 1 :], dtype=object)) for k in range(len(shape)))


SIZES: dict[str, list[dict[str, int]]] = {
    "relu_f32": [{"M": 1, "N": LIMIT - 9}, {"M": LIMIT - 9, "N": 1}, {"M": 46337, "N": 46347}, {"M": 46341, "N": 46341},
                 {"M": 2, "N": 1 << 30}, {"M": 46340, "N": 46340}],
    "softmax_f32": [{"M": 1, "N": LIMIT - 9}, {"M": LIMIT - 9, "N": 1}, {"M": 46337, "N": 46347}, {"M": 46341, "N": 46341}],
    "sum_middle_f32": [{"A": 1290, "B": 1291, "C": 1289}, {"A": LIMIT - 9, "B": 1, "C": 1}, {"A": 1, "B": 1, "C": LIMIT - 5},
                      {"A": 46337, "B": 1, "C": 46347}],
    "gemm_f32": [{"M": 46341, "N": 46341, "K": 3}, {"M": 3, "N": 5, "K": LIMIT - 7}, {"M": 46337, "N": 46347, "K": 1}],
    "two_outputs": [{"M": 46337, "N": 46347, "L": 7}, {"M": 3, "N": 5, "L": LIMIT - 3}],
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SIZES))
def test_the_launch_chooses_wide_indices_where_narrow_ones_would_wrap(name: str, tmp_path: Path) -> None:
    subject = Subject(name)
    narrow = 0
    for n, config in enumerate(("chosen", "worst", "without-all", *(f"random-{s}" for s in range(8)))):
        program = subject.program(config)
        module = host(emit(program).source, tmp_path, f"host_{name}_{n}")
        for symbols in [*SIZES[name], dict.fromkeys(SIZES[name][0], 5)]:
            shapes = {v.name: tuple(int(evaluate(e, lambda a, s=symbols: s[a.args[0]])) for e in v.shape) for v in program.abi.views}  # type: ignore[misc]
            for sign in (1, -1):
                strides = {k: tuple(sign * x for x in dense(s)) for k, s in shapes.items()}
                width, need = chosen_width(module, program, symbols, strides), largest(program, symbols, strides)
                narrow += width == "32"
                assert width == "64" or need < LIMIT, f"{config} {symbols}: {need} in 32 bits"
    assert narrow, "small launches stay narrow"
