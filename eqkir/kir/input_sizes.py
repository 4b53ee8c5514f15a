"""How far the floats of ``magnified`` inputs are magnified: as far as the kernel's error envelope still decides most results.

Behind an exponential, say, an error of one ulp of a large argument leaves nothing decided, and a check on such inputs says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from eqkir.base.diagnostics import EqkirError
from eqkir.base.dtypes import FLOATS
from eqkir.kir.binding import Literal
from eqkir.kir.envelope import decided, envelope
from eqkir.kir.model import Kernel, View

#: parts of the largest exponent that are tried, the first that decides enough is taken
PARTS: Final = (0.4, 0.2, 0.1, 0.05, 0.025, 0.0125)
#: share of the stored elements that must be decided
SHARE: Final = 0.75


def magnified(
    kernel: Kernel, symbols: Mapping[str, int], constexprs: Mapping[str, Literal] | None, make: Callable[[float], dict[str, Any]]
) -> dict[str, Any]:
    """The arguments that `make` gives for the largest part of `PARTS` under which `SHARE` of the results are decided, else for the one
    under which most are. `make`: a part of the largest exponent -> arguments."""
    first = make(PARTS[0])
    if not any(isinstance(p, View) and p.role != "out" and p.dtype in FLOATS for p in kernel.params):
        return first
    best, most = first, -1.0
    for part in PARTS:
        args = first if part == PARTS[0] else make(part)
        try:
            found = share(kernel, args, symbols, constexprs)
        except EqkirError:  # no input of the kernel
            continue
        if found >= SHARE:
            return args
        if found > most:
            best, most = args, found
    return best


def share(kernel: Kernel, args: Mapping[str, Any], symbols: Mapping[str, int], constexprs: Mapping[str, Literal] | None = None) -> float:
    """The share of decided elements among those that the kernel stores; 1 where it stores none. Raises EqkirError as `envelope`."""
    stored = known = 0
    for e in envelope(kernel, args, symbols, constexprs).values():
        stored, known = stored + int(e.written.sum()), known + int((e.written & decided(e)).sum())
    return known / stored if stored else 1.0


__all__ = ["PARTS", "SHARE", "magnified", "share"]
