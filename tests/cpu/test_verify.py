"""The verifier of task programs finds every way in which one can be malformed; mutated programs of the corpus among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from eqkir.base.expr import Int, Sym
from eqkir.cpu.builder import Builder
from eqkir.cpu.expand import expand
from eqkir.cpu.model import (
    BOOL,
    INDEX,
    Alloc,
    Atomic,
    For,
    Get,
    Group,
    If,
    Load,
    Op,
    Resource,
    Set,
    Statement,
    TaskProgram,
    Type,
    Var,
    While,
    Write,
    statements,
)
from eqkir.cpu.verify import verify
from eqkir.program.abi import Abi, ScalarParam, SymbolParam, ViewParam

from .test_tasks import chain_of

F32, V8 = Type("f32"), Type("f32", 8)
ABI = Abi(
    "k", (ViewParam("X", "in", "f32", (Sym("N"),), 0), ViewParam("Y", "out", "f32", (Sym("N"),), 1)), (ScalarParam("s", "f32"),),
    (SymbolParam("N"),),
)  # fmt: skip


def program(*body: Statement, **changes: Any) -> TaskProgram:
    group = Group("g", Sym("N"), ((0, Sym("N")),), body, 1, ("X", "Y"), ("N",), ("s",))
    return TaskProgram(ABI, ("N", "stride(X,0)", "stride(Y,0)"), (), ((replace(group, **changes),),))


def constant(i: int, text: str = "0.0", t: Type = F32) -> Op:
    return Op(i, "Const", (text,), (), t)


GOOD = (constant(1), Load(2, "X", 0, F32), Op(3, "Bin", ("add",), (1, 2), F32), Write("Y", 0, 3))


def test_a_well_formed_program_has_no_findings() -> None:
    assert verify(program(*GOOD)) == []


BAD: dict[str, tuple[Statement, ...]] = {
    "a value that nothing defines": (Write("Y", 0, 9),),
    "a value of a block that has ended": (
        constant(1, "true", BOOL), If(1, (constant(2),)), Write("Y", 0, 2),
    ),
    "two definitions": (constant(1), constant(1)),
    "a store to a view that is only read": (constant(1), Write("X", 0, 1)),
    "another dtype than the place's": (constant(1, "0", Type("i32")), Write("Y", 0, 1)),
    "a place that is none": (Load(1, "Z", 0, F32),),
    "an offset that is no index": (constant(1), Load(2, "X", 1, F32)),
    "a gather at one offset": (Load(1, "X", 0, V8, "gather"),),
    "a stride without steps": (Load(1, "X", 0, V8, "strided"),),
    "a mask of another width": (constant(1, "true", BOOL), Load(2, "X", 0, V8, mask=1)),
    "other lanes without a mask": (constant(1), Load(2, "X", 0, F32, other=1)),
    "operands of two types": (constant(1), constant(2, "0", Type("i32")), Op(3, "Bin", ("add",), (1, 2), F32)),
    "operands of two widths": (constant(1), Op(2, "Broadcast", (), (1,), V8), Op(3, "Bin", ("add",), (1, 2), V8)),
    "an unknown operation": (Op(1, "Guess", (), (), F32),),
    "an unknown function": (constant(1), Op(2, "Un", ("cube",), (1,), F32)),
    "a comparison that is no bool": (constant(1), Op(2, "Bin", ("lt",), (1, 1), F32)),
    "a cast to another dtype than its own": (constant(1), Op(2, "Cast", ("i32",), (1,), Type("i64"))),
    "bits of another size": (constant(1), Op(2, "Bitcast", ("i64",), (1,), Type("i64"))),
    "a lane that is none": (constant(1), Op(2, "Broadcast", (), (1,), V8), Op(3, "Extract", (8,), (2,), F32)),
    "lanes beyond the vector": (constant(1), Op(2, "Broadcast", (), (1,), V8), Op(3, "Slice", (6,), (2,), Type("f32", 4))),
    "a vector of too few": (constant(1), Op(2, "Build", (), (1, 1), V8)),
    "a width that is no power of two": (constant(1), Op(2, "Broadcast", (), (1,), Type("f32", 6))),
    "a variable that is none": (Get(1, 7, F32),),
    "a variable set to another type": (constant(1), Var(2, 1, F32), Set(2, 0)),
    "a variable of a block that has ended": (constant(1, "true", BOOL), If(1, (Var(2, 0, INDEX),)), Get(3, 2, INDEX)),
    "a range that is no index": (constant(1), For(2, 1, 0, 1, ())),
    "a range that does not advance": (For(1, 0, 0, 0, ()),),
    "an index behind its loop": (For(1, 0, 0, 1, ()), Load(2, "X", 1, F32)),
    "a branch on a number": (constant(1), If(1, ())),
    "a loop on a number": (While((constant(1),), 1, ()),),
    "an atomic operation on a view that is only read": (constant(1), Atomic(2, "X", 0, 1, "add", "relaxed", F32)),
    "an atomic operation in no order": (constant(1), Atomic(2, "Y", 0, 1, "add", "", F32)),
    "an exchange that expects nothing": (constant(1), Atomic(2, "Y", 0, 1, "compare_exchange", "relaxed", F32)),
    "memory of no elements": (Alloc("t", "f32", 0),),
    "memory that has ended": (
        constant(1, "true", BOOL), If(1, (Alloc("t", "f32", 8),)), Load(2, "t", 0, F32),
    ),
    "a parameter that is not captured": (Op(1, "Param", ("stride(X,0)",), (), INDEX),),
    "a scalar that is not captured": (Op(1, "Scalar", ("t",), (), F32),),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_malformed_is_found(name: str) -> None:
    found = verify(program(*BAD[name]))
    assert found and all(d.code == "EQK-TSK-INVALID" for d in found), name


def test_launches_resources_and_captures_are_looked_at() -> None:
    assert verify(program(*GOOD, launch=Sym("Q"))) and verify(program(*GOOD, digits=((0, Sym("Q")),)))
    assert verify(program(*GOOD, places=("X",))) and verify(program(*GOOD, grain=0)) and verify(program(*GOOD, params=("P",)))
    p = program(*GOOD)
    for r in (
        Resource("X", "f32", Int(1)),
        Resource("W", "f32", Sym("Q")),
        Resource("W", "f32", Int(1), 3),
        Resource("W", "f32", Int(1), 64, "x"),
    ):
        assert verify(replace(p, resources=(r,)))
    assert verify(replace(p, stages=(*p.stages, *p.stages)))


def _ids(body: tuple[Statement, ...], change: Callable[[Statement], Statement | None]) -> tuple[Statement, ...]:
    """The body with statements changed or (None) left out."""
    out: list[Statement] = []
    for s in body:
        t = change(s)
        if isinstance(t, For):
            t = replace(t, body=_ids(t.body, change))
        elif isinstance(t, If):
            t = replace(t, then=_ids(t.then, change), orelse=_ids(t.orelse, change))
        if t is not None:
            out.append(t)
    return tuple(out)


@pytest.mark.parametrize("kind", [Op, Load, Var])
def test_a_program_without_one_of_its_definitions_is_found(kind: type) -> None:
    tasks = expand(chain_of("softmax_f32", target="mojo:x86-64-v3").program, 32)
    ((g,),) = tasks.stages
    read = {i for s in statements(g.body) for i in (getattr(s, "args", ()) or ())} | {getattr(s, "value", -1) for s in statements(g.body)}
    victims = [s for s in statements(g.body) if isinstance(s, kind) and (kind is Var or getattr(s, "id", -1) in read)]
    for victim in victims[:: max(1, len(victims) // 12)]:
        mutant = replace(g, body=_ids(g.body, lambda s, v=victim: None if s is v else s))  # type: ignore[misc]
        assert verify(replace(tasks, stages=((mutant,),))), victim


def test_equal_operations_in_scope_are_one_and_folding_is_exact() -> None:
    b = Builder()
    n = b.op("Param", ("N",), (), INDEX)
    assert b.bin("add", n, b.const(2)) == b.bin("add", n, b.const(2)) and b.bin("mul", n, b.const(1)) == n
    assert b.known(b.bin("floordiv", b.const(-7), b.const(2))) == -4 and b.known(b.bin("mod", b.const(-7), b.const(2))) == 1
    inside: list[Statement] = []
    with b.block(inside):
        x = b.bin("sub", n, b.const(3))
    assert b.bin("sub", n, b.const(3)) != x
