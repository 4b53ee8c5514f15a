"""Task programs as indented text for readers. Nothing parses it."""

from __future__ import annotations

from eqkir.base.expr import spell
from eqkir.cpu.model import Alloc, Atomic, For, Get, Group, If, Load, Op, Prefetch, Set, Statement, TaskProgram, Var, While, Write


def listing(p: TaskProgram) -> str:
    """The interface, resources, and each stage with its groups, one statement a line."""
    out = [f"task program {p.abi.kernel}"]
    out += [f"  {v.role} {v.name}: {v.dtype}[{', '.join(map(spell, v.shape))}]" for v in p.abi.views if v.role != "workspace"]
    out += [f"  index {n}" for n in p.params]
    out += [f"  scalar {s.name}: {s.dtype}" for s in p.abi.scalars]
    out += [f"  {r.owner} resource {r.name}: {spell(r.size)} × {r.dtype}, aligned to {r.align}" for r in p.resources]
    for k, stage in enumerate(p.stages):
        for g in stage:
            out += _group(g, k)
    return "\n".join(out) + "\n"


def _group(g: Group, stage: int) -> list[str]:
    digits = ", ".join(f"%{i} < {spell(r)}" for i, r in g.digits)
    return [f"stage {stage}: {g.name}, {spell(g.launch)} instances ({digits}), at least {g.grain} a task", *_block(g.body, "  ")]


def _block(body: tuple[Statement, ...], pad: str) -> list[str]:
    out: list[str] = []
    for s in body:
        out += _statement(s, pad)
    return out


def _access(s: Load | Write) -> str:
    how = {"contiguous": "", "strided": f" step %{s.stride}", "gather": " each"}[s.access]
    return f"{s.place}[%{s.at}{how}]" + (f" where %{s.mask}" if s.mask >= 0 else "")


def _statement(s: Statement, pad: str) -> list[str]:
    match s:
        case Op():
            words = [s.op, *map(str, s.attrs), *(f"%{a}" for a in s.args)]
            return [f"{pad}%{s.id}: {s.type} = {' '.join(words)}"]
        case Load():
            return [f"{pad}%{s.id}: {s.type} = {_access(s)}" + (f" else %{s.other}" if s.other >= 0 else "")]
        case Write():
            return [f"{pad}{_access(s)} = %{s.value}" + " streamed" * s.stream]
        case Prefetch():
            return [f"{pad}prefetch {s.place}[%{s.at}]"]
        case Atomic():
            mask = f" where %{s.mask}" if s.mask >= 0 else ""
            expected = f" expecting %{s.expected}" if s.expected >= 0 else ""
            return [f"{pad}%{s.id}: {s.type} = atomic {s.mode} {s.order} {s.place}[%{s.at}] %{s.value}{expected}{mask}"]
        case Var():
            return [f"{pad}var v{s.name}: {s.type} = %{s.init}"]
        case Get():
            return [f"{pad}%{s.id} = v{s.var}"]
        case Set():
            return [f"{pad}v{s.var} = %{s.value}"]
        case Alloc():
            return [f"{pad}memory {s.name}: {s.size} × {s.dtype}, aligned to {s.align}"]
        case For():
            return [f"{pad}for %{s.index} in range(%{s.begin}, %{s.end}, {s.step})", *_block(s.body, pad + "  ")]
        case While():
            return [f"{pad}loop", *_block(s.head, pad + "  "), f"{pad}while %{s.cond}", *_block(s.body, pad + "  ")]
        case If():
            tail = [f"{pad}else", *_block(s.orelse, pad + "  ")] if s.orelse else []
            return [f"{pad}if %{s.cond}", *_block(s.then, pad + "  "), *tail]
