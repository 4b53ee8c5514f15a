"""What a host program needs of a runtime, and the reference interpreter as one."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class Launch(Protocol):
    """Run a kernel by name: arrays for views, numbers for scalars, both by parameter name. Outputs change in place."""

    def __call__(self, kernel: str, **arguments: Any) -> None: ...


def reference(kernel: str, **arguments: Any) -> None:
    """A `Launch` on the reference interpreter. Raises KeyError for a name outside the corpus, EqkirError as the interpreter does."""
    from corpus.build import every, helpers
    from eqkir.kir.helpers import inline, library
    from eqkir.kir.memory import ViewArg
    from eqkir.kir.reference import run

    known = {h.name: h for r in helpers().values() for h in (*r.calls, r.helper)}
    k, _ = inline(every()[kernel], library(tuple(known.values())))
    views = {n: ViewArg.of(a) if isinstance(a, np.ndarray) else a for n, a in arguments.items()}
    run(k, views)
    for n, a in arguments.items():
        if isinstance(a, np.ndarray):
            a[...] = views[n].array()
