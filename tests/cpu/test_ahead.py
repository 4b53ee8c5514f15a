"""What is fetched ahead is what is loaded later: through the ends of rows, backwards, and for rows beside each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from eqkir.base.dtypes import NUMPY
from eqkir.cpu import interp
from eqkir.cpu.ahead import flows_of
from eqkir.cpu.expand import expand
from eqkir.cpu.interp_control import Mask, Run, State
from eqkir.cpu.model import Load, Prefetch, Statement, TaskProgram
from eqkir.program.interp import Buffer
from eqkir.program.model import Let, Loop
from tests.cpu.test_memory import bound
from tests.cpu.test_tasks import chain_of, compared

LINE = 16  # elements of f32


class Recorder(interp.Interpreter):
    """Runs instances one after another and writes down what is fetched and loaded, and where."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.seen: list[tuple[str, str, int]] = []

    def statement(self, x: Statement) -> Run:
        inner = super().statement(x)
        if not isinstance(x, (Load, Prefetch)) or (isinstance(x, Load) and x.access != "contiguous"):
            return inner

        def go(s: State, m: Mask) -> None:
            self.seen.append((type(x).__name__, x.place, int(np.asarray(s.values[x.at]).ravel()[0])))
            inner(s, m)

        return go


def recorded(tasks: TaskProgram, sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    monkeypatch.setattr(interp, "BATCH", 1)
    args: dict[str, Any] = {}
    for v in tasks.abi.views:
        shape = tuple(sizes[str(e.args[0])] if e.op == "sym" else int(e.args[0]) for e in v.shape)
        args[v.name] = Buffer.dense(shape, NUMPY[v.dtype])
        args[v.name].memory[...] = 1
    r = Recorder(tasks, args, sizes, 0)
    r.run()
    return r.seen


def followed(seen: list[tuple[str, str, int]], place: str, first: int) -> tuple[float, float]:
    """Of the lines of a view that are loaded, without the first ones: the part that was fetched before; of those fetched, the part that is
    loaded."""
    fetched: set[int] = set()
    loaded: list[int] = []
    before = 0
    for what, where, at in seen:
        if where != place:
            continue
        if what == "Prefetch":
            fetched.add(at // LINE)
        elif at // LINE not in loaded:
            loaded.append(at // LINE)
            before += len(loaded) > first and at // LINE in fetched
    return before / (len(loaded) - first), len(fetched & set(loaded)) / len(fetched)


def test_backwards_through_the_ends_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    c = chain_of("column_scale", target="mojo:x86-64-v4")
    p = bound(c.program, **{b: 64 for b in c.program.bindings if b.startswith("B:")})
    tasks = expand(p, 64, ahead_bytes=512)
    seen = recorded(tasks, {"M": 12, "N": 256}, monkeypatch)
    before, used = followed(seen, "X", 512 // 64)
    assert before > 0.95 and used > 0.9


@pytest.mark.parametrize("name", ["sum_inner_f32", "relu_f32"])
def test_forwards(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    c = chain_of(name, target="mojo:x86-64-v4")
    tasks = expand(bound(c.program, **{b: 64 for b in c.program.bindings if b[:2] == "C:"}), 64, ahead_bytes=512)
    sizes = {"A": 2, "B": 8, "C": 256} if name == "sum_inner_f32" else {"M": 8, "N": 1024}
    before, used = followed(recorded(tasks, sizes, monkeypatch), "X", 512 // 64)
    assert before > 0.95 and used > 0.9


def test_a_second_pass_alone_fetches_what_the_next_instances_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two instances further where one is nearer than what should be under way."""
    c = chain_of("log_softmax_f32", target="mojo:x86-64-v4")
    for rows, row in ((1, 256), (2, 512)):
        p = bound(c.program, **{b: 64 for b in c.program.bindings if b[:2] == "C:"})
        tasks = expand(p, 64, ahead_bytes=1024 + 1, next_bytes=1 << 17)
        before, used = followed(recorded(tasks, {"M": 12, "N": row}, monkeypatch), "X", 2 * rows * row // LINE)
        assert before > 0.95 and used > 0.8


def test_rows_beside_each_other_are_followed_into_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    c = chain_of("sum_inner_f32", target="mojo:x86-64-v4")

    def blocked(x: Any) -> Any:
        if isinstance(x, str):
            return x.replace("i1:O1", "i1:OB")
        if isinstance(x, tuple):
            return tuple(blocked(y) for y in x)
        if hasattr(x, "__dataclass_fields__"):
            return replace(x, **{f: blocked(getattr(x, f)) for f in x.__dataclass_fields__})
        return x

    p = bound(replace(c.program, segments=blocked(c.program.segments)), **{"B:i1": 4, "C:c0": 64})
    tasks = expand(p, 64, ahead_bytes=2048)
    before, used = followed(recorded(tasks, {"A": 2, "B": 16, "C": 256}, monkeypatch), "X", 2048 // 64)
    assert before > 0.95 and used > 0.85
    v = compared(c, p, tasks)
    assert v.ok, v.mistakes


@pytest.mark.parametrize(("name", "third"), [("layer_norm_bf16", True), ("log_softmax_f32", False)])
def test_the_pass_that_leaves_memory_the_most_time_fetches(name: str, third: bool) -> None:
    """The last pass of a norm computes most; that of `log_softmax` stores, while the second one computes exponentials. What is not made is
    neither counted nor loaded."""
    p = chain_of(name, target="mojo:x86-64-v4").program
    (phase,) = p.segments[0].phases
    flows, left = flows_of(p, p.segments[0].phases)
    passes = [place for place, loads in flows.items() if any(f.view == "X" for f in loads)]
    assert len(passes) == 3 and (left[passes[2]] > left[passes[1]]) is third
    last = [x for x in phase if isinstance(x, Loop)][-1]
    unmade = frozenset(x.id for x in last.body if isinstance(x, Let))
    again, less = flows_of(p, p.segments[0].phases, phase, unmade)
    assert passes[2] not in again and less[passes[2]] < left[passes[2]]
