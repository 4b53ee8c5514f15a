"""Every rule of the CPU family has a kernel that it fires on, and says what it does."""

from __future__ import annotations

from eqkir.kir.builder import Builder
from eqkir.kir.model import Kernel
from eqkir.rules.load import load_rules

from .test_dot4 import chain as chain_of_product
from .test_dot4 import product
from .test_selection import chain, widened
from .test_tasks import chain_of

#: one kernel for each structured operation
WITNESSES = (
    "gemm_f32", "pairwise_distance_f32", "mla_decode_bf16", "softmax_f32", "argmax_middle_f32", "cumsum_f32", "linear_recurrence_f32",
    "histogram_parts_i32",
)  # fmt: skip


def squares() -> Kernel:
    """Sums of squares that start at a value."""
    k = Builder("squares")
    M, K = k.symbols("M", "K")
    A, Z, Y = k.view("A", "in", "f32", (M, K)), k.view("Z", "in", "f32", (M,)), k.view("Y", "out", "f32", (M,))
    k.noalias(A, Z, Y)
    a = A[:, :]
    Y[:] = Z[:] + k.contract(a, a, [(1, 1)], batch=[(0, 0)])
    return k.build()


def test_every_rule_of_the_family_fires_on_the_corpus() -> None:
    rules = [r for f in load_rules(machine="cpu") if f.machine == "cpu" for r in f.rules if r.family != "facts"]
    assert len(rules) >= 15 and all("=>" in r.comment for r in rules)
    fired: set[str] = set()
    for c in [
        *(chain_of(kernel, target="mojo:x86-64-v4") for kernel in WITNESSES),
        chain(widened()),
        chain(squares()),
        chain_of_product(product(start=True)),
    ]:
        fired |= {name for name, n in c.saturated.report.matches.items() if n}
    assert {r.name for r in rules} <= fired, sorted({r.name for r in rules} - fired)
