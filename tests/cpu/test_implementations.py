"""Implementations are units from anywhere: a row names them, exactly one of its set must apply, what it builds is checked like the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.base.dtypes import identity
from eqkir.cpu import implementations
from eqkir.cpu.context import Context
from eqkir.cpu.expand import expand
from eqkir.cpu.implementations import Declaration, Operation, registered
from eqkir.cpu.model import Op, statements
from eqkir.cpu.verify import verify
from eqkir.program.abi import parameter
from eqkir.program.model import Carry, Loop
from eqkir.program.verify import verify as program_verify

from .programs import operations, unsaid
from .test_tasks import chain_of, compared


class OneByOne:
    """Reductions along a loop, one member after another: a unit that lives outside of the package."""

    declaration = Declaration("one_by_one", "reduction along a loop", ("RedLoop",), "any tree of the operation's combine")

    def applies(self, o: Operation) -> bool:
        return o.dtype == "f32"

    def start(self, k: Context, x: Carry, loop: Loop) -> tuple[int, ...]:
        start = k.b.const(identity(x.attrs[0], x.dtype), x.dtype)
        return tuple(k.b.var(start) for _ in k.layout.shaped(k.layout.dims[x.id], "").points())

    def step(self, k: Context, x: Carry, loop: Loop, state: tuple[int, ...]) -> None:
        lanes = k.program.lanes(loop.label) if parameter(loop.label) else 1
        for p, s in zip(k.layout.shaped(k.layout.dims[x.id], "").points(), state, strict=True):
            for at in range(lanes):
                q = {**p, loop.label: at}
                new = k.combine(x.attrs[0], k.b.get(s), k.read(x.args[0], q, ""))
                live = k.active((loop.label,), q, "")
                k.b.set(s, new if live < 0 else k.b.select(live, new, k.b.get(s)))

    def finish(self, k: Context, x: Carry, loop: Loop, state: tuple[int, ...]) -> None:
        shape = k.layout.shaped(k.layout.dims[x.id], "")
        names = {shape.key(p): s for p, s in zip(shape.points(), state, strict=True)}
        values = {key: k.b.get(s) for key, s in names.items()}
        from eqkir.cpu.fragments import Fragment

        k.values[x.id] = Fragment(shape, values)


@pytest.fixture
def third_party(monkeypatch: pytest.MonkeyPatch) -> None:
    own = registered()
    monkeypatch.setattr(implementations, "registered", lambda: (*own, OneByOne()))


@pytest.mark.usefixtures("third_party")
def test_a_unit_from_outside_expands_where_the_set_names_it() -> None:
    c = chain_of("softmax_f32", target="mojo:x86-64-v4")
    p = replace(unsaid(c.program), implementations=("one_by_one",), bindings={**c.program.bindings, "B:i0": 2, "C:c0": 4})
    tasks = expand(p, 64)
    assert verify(tasks) == []
    slices = [s for st in tasks.stages for g in st for s in statements(g.body) if isinstance(s, Op) and s.op == "Slice"]
    assert not slices  # no vector is halved any more
    v = compared(c, c.program, tasks)
    assert v.ok, v.mistakes


@pytest.mark.usefixtures("third_party")
@pytest.mark.parametrize("names", [("one_by_one", "reduce_loop"), ("scan_fragment",)], ids=["two apply", "none applies"])
def test_anything_but_one_member_that_applies_is_refused(names: tuple[str, ...]) -> None:
    c = chain_of("softmax_f32", target="mojo:x86-64-v4")
    with pytest.raises(EqkirError, match="EQK-MOJ-UNSUPPORTED"):
        expand(replace(unsaid(c.program), implementations=names), 64)


def test_what_the_program_says_is_expanded_and_nothing_else() -> None:
    c = chain_of("softmax_f32", target="mojo:x86-64-v4")
    assert {x.by for x in operations(c.program)} == {"reduce_loop"} and expand(c.program, 64)
    with pytest.raises(EqkirError, match="EQK-MOJ-UNSUPPORTED"):
        expand(replace(c.program, implementations=("scan_fragment",)), 64)
    assert [d.code for d in program_verify(replace(c.program, implementations=("scan_fragment",)))]


def test_every_declaration_names_operations_and_a_kind_of_its_own() -> None:
    kinds: dict[str, str] = {}
    for i in registered():
        d = i.declaration
        assert d.name and d.ops and d.relation and d.version >= 1
        kinds.setdefault(d.name, d.kind)
    assert len(kinds) == len(registered())
