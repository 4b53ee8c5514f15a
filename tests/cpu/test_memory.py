"""Accesses backwards, stores past the caches and fetches ahead change no result, and are made only where they are allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eqkir.cpu.expand import expand
from eqkir.cpu.model import Group, Load, Op, Prefetch, Statement, TaskProgram, Write, blocks_of, statements
from eqkir.cpu.verify import verify
from eqkir.emit.mojo.spell import module
from eqkir.extract.cost.cpu_runs import run_factor
from eqkir.program.model import Program
from tests.cpu.test_tasks import chain_of, compared


def bound(program: Program, **values: int) -> Program:
    return replace(program, bindings={**program.bindings, **values})


def every(tasks: TaskProgram) -> list[Statement]:
    return [s for st in tasks.stages for g in st for s in statements(g.body)]


@pytest.mark.parametrize("name", ["relu_f32", "softmax_f32", "swiglu_bf16", "column_scale", "sum_middle_f32", "two_outputs"])
def test_streams_reversals_and_fetches_change_nothing(name: str) -> None:
    c = chain_of(name, target="mojo:x86-64-v4")
    tasks = expand(c.program, 64, stream_bytes=1, prefetch_bytes=4096)
    assert verify(tasks) == []
    v = compared(c, c.program, tasks)
    assert v.ok, v.mistakes


def test_outputs_that_nothing_reads_are_streamed_and_no_others() -> None:
    c = chain_of("relu_f32", target="mojo:x86-64-v4")
    assert any(isinstance(s, Write) and s.stream for s in every(expand(c.program, 64, stream_bytes=1 << 24)))
    assert not any(isinstance(s, Write) and s.stream for s in every(expand(c.program, 64)))
    inout = chain_of("add_in_place", target="mojo:x86-64-v4")
    assert not any(isinstance(s, Write) and s.stream for s in every(expand(inout.program, 64, stream_bytes=1)))


def test_a_streamed_store_is_whole_and_of_an_output() -> None:
    tasks = expand(chain_of("relu_f32", target="mojo:x86-64-v4").program, 64, stream_bytes=1)
    text = module(tasks).text
    assert "eqk_line_head[" in text and "eqk_stream_end()" in text

    def changed(s: Statement) -> Statement:
        return replace(s, mask=0) if isinstance(s, Write) and s.stream else _inside(s)

    def _inside(s: Statement) -> Statement:
        if not blocks_of(s):
            return s
        names = [n for n in ("body", "head", "then", "orelse") if hasattr(s, n)]
        return replace(s, **{n: tuple(changed(x) for x in getattr(s, n)) for n in names})  # type: ignore[type-var]

    def broken(g: Group) -> Group:
        return replace(g, body=tuple(changed(s) for s in g.body))

    bad = replace(tasks, stages=tuple(tuple(broken(g) for g in st) for st in tasks.stages))
    assert any("streamed" in str(d) for d in verify(bad))


def test_backward_accesses_are_vectors_that_are_turned_around() -> None:
    tasks = expand(chain_of("column_scale", target="mojo:x86-64-v4").program, 64)
    found = every(tasks)
    turned = {s.args[0] for s in found if isinstance(s, Op) and s.op == "Reverse"}
    assert any(isinstance(s, Load) and s.id in turned and s.access == "contiguous" and s.type.width > 1 for s in found)


def test_rows_are_fetched_ahead_where_a_loop_walks_over_them() -> None:
    c = chain_of("sum_middle_f32", target="mojo:x86-64-v4")
    wide = {k: 1 for k in c.program.bindings if k.startswith("B:")}
    wide |= dict.fromkeys(list(wide)[-1:], 256)
    loops = any(a.kind == "loop" for a in c.program.axes)
    found = every(expand(bound(c.program, **wide), 64, prefetch_bytes=8192))
    assert loops and (any(isinstance(s, Prefetch) for s in found) or not wide)
    assert not any(isinstance(s, Prefetch) for s in every(expand(bound(c.program, **wide), 64)))


def test_loads_that_go_on_along_memory_fetch_it_ahead() -> None:
    """Forwards and backwards; not what all instances read (the row of `column_scale`), and nothing where the machine says 0."""
    for name, views in (("relu_f32", {"X"}), ("sum_inner_f32", {"X"}), ("column_scale", {"X"}), ("cumsum_f32", {"X"})):
        c = chain_of(name, target="mojo:x86-64-v4")
        found = [s for s in every(expand(c.program, 64, ahead_bytes=2048)) if isinstance(s, Prefetch)]
        assert {s.place for s in found} == views, name
        assert not any(isinstance(s, Prefetch) for s in every(expand(c.program, 64)))


def test_a_second_pass_fetches_what_the_next_instance_loads() -> None:
    c = chain_of("softmax_f32", target="mojo:x86-64-v4")
    once = [s for s in every(expand(c.program, 64, ahead_bytes=2048)) if isinstance(s, Prefetch)]
    both = expand(c.program, 64, ahead_bytes=2048, next_bytes=1 << 17)
    assert verify(both) == [] and len([s for s in every(both) if isinstance(s, Prefetch)]) > len(once) > 0
    v = compared(c, c.program, both)
    assert v.ok, v.mistakes


def test_a_store_in_place_follows_the_load_of_its_own_part() -> None:
    """Not all loads first: they would not fit into registers. Where another index map reads the view, all of it is loaded before."""
    c = chain_of("add_in_place", target="mojo:x86-64-v4")
    tasks = expand(bound(c.program, **{k: 256 for k in list(c.program.bindings)[-1:] if k.startswith("B:")}), 64)
    kinds = [type(s) for s in every(tasks) if isinstance(s, (Load, Write)) and s.access == "contiguous" and s.mask < 0]
    assert len(kinds) > 4 and all(a is not b for a, b in zip(kinds, kinds[1:]))
    v = compared(c, c.program, tasks)
    assert v.ok, v.mistakes
    shifted = chain_of("shift_in_place", target="mojo:x86-64-v4")
    w = compared(shifted, shifted.program, expand(shifted.program, 64))
    assert w.ok, w.mistakes


def test_addresses_that_differ_by_constants_share_the_rest() -> None:
    tasks = expand(chain_of("relu_f32", target="mojo:x86-64-v4").program, 64)
    found = every(tasks)
    made = {s.id: s for s in found if isinstance(s, Op)}
    loads = [s for s in found if isinstance(s, Load) and s.access == "contiguous" and s.mask < 0 and s.type.width > 1]
    bases = {made[s.at].args[0] if made[s.at].attrs == ("add",) and made[made[s.at].args[1]].op == "Const" else s.at for s in loads}
    assert len(loads) > 1 and len(bases) < len(loads)


def test_long_runs_are_never_dearer_than_short_ones() -> None:
    lengths = [64.0 * 2**k for k in range(16)]
    factors = [run_factor(x, 0.9, 180.0) for x in lengths]
    assert factors == sorted(factors, reverse=True) and factors[-1] > 1.0 and 4.0 < factors[0] < 5.5
