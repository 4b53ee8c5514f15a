"""eqkir: an equality-saturation optimizer for numeric kernels.

>>> import eqkir
>>> result = eqkir.optimize("softmax.json", target="triton:nvidia-h200")  # doctest: +SKIP
>>> result.kernels[0].source  # doctest: +SKIP

`optimize`, `load` and their result types come from `eqkir.api`; `eqkir.kir` is the input language with its builder. Everything is
imported on first use, so that a process that needs one stage loads that stage alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eqkir import kir
    from eqkir.api import KernelResult, Result, load, optimize

__all__ = ["KernelResult", "Result", "kir", "load", "optimize"]


def __getattr__(name: str) -> Any:
    if name == "kir":
        return import_module("eqkir.kir")
    if name in __all__:
        return getattr(import_module("eqkir.api"), name)
    raise AttributeError(f"module 'eqkir' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
