"""The jobs of the benchmark as reference formulas, one a kernel of the corpus: `FORMULAS`. See `references.core`."""

from references import attention, bands, counting, dense, products, programs, ragged, reductions, statespace
from references.core import FORMULAS, Formula, Judge, Out

__all__ = [
    "FORMULAS", "Formula", "Judge", "Out", "attention", "bands", "counting", "dense", "products", "programs", "ragged", "reductions",
    "statespace",
]  # fmt: skip
