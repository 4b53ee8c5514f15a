"""Native kernels of an artifact folder: `load`, then calls with numpy arrays, checked each time or bound once.

>>> k = load("out/softmax")  # doctest: +SKIP
>>> k(X, Y)  # doctest: +SKIP
>>> go = k.bind(X, Y)  # doctest: +SKIP
>>> go()  # doctest: +SKIP
"""

from __future__ import annotations

import ctypes
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from eqkir.runtime.host import host_source
from eqkir.runtime.libraries import library
from eqkir.runtime.machine import missing
from eqkir.runtime.pool import Pool, pool
from eqkir.runtime.scalars import encoder

FORMAT: Final = 1
#: dtype -> name of the numpy dtype (the narrow ones come from any package that defines them)
NAMES: Final = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32",
    "u64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2", "index": "int64",
}  # fmt: skip
MASK: Final = (1 << 64) - 1
#: bytes of views that a task has at least: fewer take less time than handing a task out
TASK_BYTES: Final = 8192
#: plans, and bytes of their workspaces, that a kernel keeps for later calls; the newest plan is kept whatever it needs
KEPT_PLANS: Final = 256
KEPT_BYTES: Final = 1 << 28
#: bytes of views from which a call is certain to outlast the waking of threads
EAGER_BYTES: Final = 1 << 18


class LoadError(Exception):
    """A folder that holds no native kernel that this version can run."""


class Frame:
    """Memory of one call at a time: the words, and the resources of one invocation."""

    def __init__(self, template: list[int], resources: list[tuple[int, int, int]]) -> None:
        self.words = (ctypes.c_uint64 * max(1, len(template)))(*template)
        self.address = ctypes.addressof(self.words)
        total = sum(size + align for _, size, align in resources)
        self.memory = np.empty(total, np.uint8) if total else None
        at = self.memory.ctypes.data if self.memory is not None else 0
        for word, size, align in resources:
            at = -(-at // align) * align
            self.words[word] = at
            at += size


class Plan:
    """Everything of a call that follows from shapes, strides and integer scalars. `address`: of the plan's words, 0 without instances."""

    def __init__(
        self, words: list[int], template: list[int], resources: list[tuple[int, int, int]], spans: tuple[tuple[int, int], ...]
    ) -> None:
        self.template, self.resources, self.spans = template, resources, spans
        self._words = (ctypes.c_int64 * len(words))(*words)
        self.address = ctypes.addressof(self._words) if words[0] else 0
        self.frames: list[Frame] = []
        self.frame_bytes = sum(size + align for _, size, align in resources)

    def frame(self) -> Frame:
        """A frame that no other call uses."""
        try:
            return self.frames.pop()
        except IndexError:
            return Frame(self.template, self.resources)


def keep(plans: dict[Any, Plan], key: Any, plan: Plan) -> None:
    """Add a plan to the kept ones; the oldest go until they are at most `KEPT_PLANS` with at most `KEPT_BYTES` of workspaces.

    Calls that still use a plan hold it themselves.
    """
    kept = list(plans.items())  # other threads may add and remove
    held = plan.frame_bytes + sum(p.frame_bytes * len(p.frames) for _, p in kept)
    for n, (old, p) in enumerate(kept):
        if held <= KEPT_BYTES and len(kept) - n < KEPT_PLANS:
            break
        plans.pop(old, None)
        held -= p.frame_bytes * len(p.frames)
    plans[key] = plan


class Bound:
    """A kernel with its arguments: ``bound()`` runs it on what the arrays hold then. One call at a time."""

    __slots__ = ("_frame", "_keep", "_pool", "_run", "_plan")

    def __init__(self, pool: Pool, plan: Plan, frame: Frame, keep: tuple[Any, ...]) -> None:
        self._pool, self._run, self._plan, self._frame, self._keep = pool, pool.run, plan.address, frame.address, (plan, frame, keep)

    def __call__(self) -> None:
        p = self._pool
        if not p.started:
            p.start()
        if self._plan:
            self._run(p.state, self._plan, self._frame)


def _told(folder: Path) -> dict[str, Any]:
    """native.json, of this format, for this machine, beside the libraries that it speaks of. Raises LoadError, OSError, KeyError."""
    try:
        told: dict[str, Any] = json.loads((folder / "native.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise LoadError(f"{folder}: no native kernel: {e}") from None
    if not isinstance(told, dict) or told.get("native") != FORMAT:
        raise LoadError(f"{folder}: native.json has another format than {FORMAT}")
    if lack := missing(told["machine"], told["needs"]):
        raise LoadError(f"{folder}: the code cannot run here: {lack}")
    for file, digest in told["digests"].items():
        if hashlib.sha256((folder / file).read_bytes()).hexdigest() != digest:
            raise LoadError(f"{folder / file} is not the file that native.json speaks of")
    return told


class NativeKernel:
    """A loaded kernel. ``kernel(*arrays, *scalars)`` checks its arguments and runs; `bind` checks once."""

    def __init__(self, folder: Path) -> None:
        try:
            self.told = _told(folder)
            self.name: str = self.told["kernel"]
            self._library = library(folder / "kernel.so")
            self.pool = pool(folder / "pool.so", self.told["pool"])
            entries = [[self._entry(g["entry"]) for g in stage] for stage in self.told["stages"]]
        except (OSError, AttributeError, ValueError) as e:
            raise LoadError(f"{folder}: {e}") from None
        except (KeyError, TypeError) as e:
            raise LoadError(f"{folder}: native.json is not whole: {type(e).__name__} {e}") from None
        self.folder = folder
        self._plans: dict[Any, Plan] = {}
        space: dict[str, Any] = {
            "_PLANS": self._plans, "_POOL": self.pool, "_RUN": self.pool.run, "_Plan": Plan, "_Bound": Bound, "_ENTRIES": entries,
            "_check": self._check, "_written": self._written, "_span": span, "_stages": stages, "_MASK": MASK,
            "_ValueError": ValueError, "_AttributeError": AttributeError, "_keep": keep,
            "_ENCODE": [encoder(f"{self.name}: {s['name']}", s["dtype"]) for s in self.told["scalars"]],
        }  # fmt: skip
        exec(compile(host_source(self.told), f"<host of {self.name}>", "exec"), space)
        self._call: Callable[..., None] = space["_call"]
        self.bind: Callable[..., Bound] = space["_bind"]

    def __repr__(self) -> str:
        arguments = [v["name"] for v in self.told["views"]] + [s["name"] for s in self.told["scalars"]]
        return f"<native kernel {self.name}({', '.join(arguments)}) for {self.told['cpu']}>"

    def __call__(self, *arguments: Any, **named: Any) -> None:
        self._call(*arguments, **named)

    def _entry(self, name: str) -> int:
        symbol = name.replace("kt_", f"kt_{self.told['key']}_", 1)
        address = ctypes.cast(getattr(self._library, symbol), ctypes.c_void_p).value
        assert address
        return address

    def _check(self, name: str, x: Any, dtype: str, rank: int) -> None:
        """Raises TypeError for what is no array, ValueError for an array that does not fit."""
        if not isinstance(x, np.ndarray):
            raise TypeError(f"{self.name}: {name} is {type(x).__name__}, expected a numpy array")
        if x.dtype.name != NAMES[dtype] or not x.dtype.isnative:
            raise ValueError(f"{self.name}: {name} has dtype {x.dtype}, expected {NAMES[dtype]}")
        if x.ndim != rank:
            raise ValueError(f"{self.name}: {name} has {x.ndim} axes, expected {rank}")
        if any(s % x.itemsize for s, n in zip(x.strides, x.shape, strict=True) if n > 1):
            raise ValueError(f"{self.name}: {name} has strides {x.strides} that are no multiples of its element's size")

    def _written(self, name: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        """A written view must not overlap itself: from the smallest stride on, each axis steps over all that the axes before it reach."""
        if 0 in shape:
            return
        reach = 0
        for s, n in sorted((abs(s), n) for s, n in zip(strides, shape, strict=True) if n > 1):
            if s <= reach:
                raise ValueError(f"{self.name}: {name} is written and overlaps itself (a zero stride, or one too small)")
            reach += s * (n - 1)


def span(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> tuple[int, int]:
    """Bytes [first, last) that a view touches, from its address; an empty view touches none. `strides` in elements."""
    if 0 in shape:
        return 1 << 62, 0
    ends = [(n - 1) * s * size for n, s in zip(shape, strides, strict=True)]
    return sum(e for e in ends if e < 0), sum(e for e in ends if e > 0) + size


def stages(groups: list[list[tuple[int, int, int]]], threads: int, moved: int) -> list[int]:
    """The words of a plan (see ``pool.mojo``) for groups ``(entry, instances, least instances of a task)``.

    `moved`: bytes of all views. Tasks are made larger than their least size where a task would have less than `TASK_BYTES` of them, or
    where there would be more than eight tasks for each thread; groups without instances are left out.
    """
    out: list[int] = []
    count = 0
    for stage in groups:
        live = [g for g in stage if g[1] > 0]
        if not live:
            continue
        first, words = 0, []
        for entry, n, least in live:
            grain = n if threads == 1 else max(1, least, -(-n // (8 * threads)), -(-n * TASK_BYTES // max(1, moved)))
            words += [entry, n, min(n, grain), first]
            first += -(-n // min(n, grain))
        out += [len(live), first, *words]
        count += 1
    return [count, int(moved >= EAGER_BYTES), *out]


def load(folder: str | Path) -> NativeKernel:
    """The native kernel of an artifact folder. Raises LoadError."""
    return NativeKernel(Path(folder))
