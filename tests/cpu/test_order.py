"""Equal reductions and contractions in several places round alike, so that what they steer cannot contradict itself."""

from __future__ import annotations

from eqkir.cpu.layout import Layout
from eqkir.program.model import Carry, Item, Let, Loop

from .test_tasks import chain_of


def structured(items: tuple[Item, ...]) -> list[Let | Carry]:
    out: list[Let | Carry] = []
    for i in items:
        if isinstance(i, Let) and i.op in ("RedTree", "ConWhole", "ConAccWhole"):
            out.append(i)
        elif isinstance(i, Loop):
            out += [c for c in i.carries if c.op != "Phi"]
            out += structured(i.body)
    return out


def test_scores_that_are_computed_three_times_do_not_force_the_scalar_program() -> None:
    c = chain_of("softmax_attention_bf16", target="mojo:x86-64-v4", shapes={"B": 1, "H": 2, "S": 64, "T": 64, "D": 64})
    assert not c.choice.fallback and c.program.bindings


def test_equal_operations_run_along_one_label() -> None:
    c = chain_of("softmax_attention_bf16", target="mojo:x86-64-v4", shapes={"B": 1, "H": 2, "S": 64, "T": 64, "D": 64})
    seen: dict[object, set[str]] = {}
    for s in c.program.segments:
        for ph in s.phases:
            layout = Layout(c.program, ph, 64)
            for x in structured(ph):
                dims = frozenset(d for a in (*x.args,) for d in layout.dims[a])
                seen.setdefault((x.op, x.attrs, dims), set()).add(layout.best(tuple(sorted(dims))))
    assert seen and all(len(v) == 1 for v in seen.values())
