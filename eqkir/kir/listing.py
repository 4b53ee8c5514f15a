"""A kernel of KIR as text, one operation a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eqkir.kir.model import Constexpr, Kernel, Op, Region, View, extent_expr
from eqkir.kir.types import Type, infer

_HIDDEN = {"op", "results", "loc"}


def kernel_text(k: Kernel) -> str:
    """The kernel with the types of its values."""
    types = infer(k)
    lines = [f"kernel {k.name}"]
    for s in k.symbols:
        limits = [f">= {s.min}"] if s.min else []
        limits += [f"<= {s.max}"] if s.max is not None else []
        limits += [f"multiple of {s.multiple_of}"] if s.multiple_of != 1 else []
        lines.append(f"  symbol {s.id}" + (f" ({', '.join(limits)})" if limits else ""))
    for p in k.params:
        if isinstance(p, View):
            lines.append(f"  {p.role:5} {p.id}: {p.dtype}[{', '.join(map(str, p.shape))}]")
        elif isinstance(p, Constexpr):
            lines.append(f"  const {p.id}: {p.type} = {p.default}" + (f" of {', '.join(p.choices)}" if p.choices else ""))
        else:
            lines.append(f"  scalar {p.id}: {p.dtype}")
    lines += [f"  noalias {', '.join(g)}" for g in k.noalias]
    return "\n".join([*lines, *_body(k.body, types, "  ")]) + "\n"


def _body(ops: tuple[Op, ...], types: dict[str, Type], indent: str) -> Iterator[str]:
    for op in ops:
        results = ", ".join(f"{r}: {types[r]}" if r in types else r for r in op.results)
        regions: list[tuple[str, Region]] = []
        fields = []
        for name, info in type(op).model_fields.items():
            v = getattr(op, name)
            if name in _HIDDEN or v is None or (not info.is_required() and v == info.default):
                continue
            if isinstance(v, Region):
                regions.append((name, v))
            elif name in op.operand_fields:
                fields.append(", ".join(v) if isinstance(v, tuple) else str(v))
            else:
                fields.append(f"{name}={_attribute(name, v)}")
        at = f"    # {op.loc.file}:{op.loc.line}" if op.loc else ""
        yield f"{indent}{results}{' = ' if results else ''}{op.op} {'; '.join(fields)}{at}"
        for name, r in regions:
            yield f"{indent}  {name} ({', '.join(f'{a.id}: {a.dtype}' for a in r.args)})"
            yield from _body(r.body, types, indent + "    ")
            if r.yields:
                yield f"{indent}    yield {', '.join(r.yields)}"


def _attribute(name: str, v: Any) -> str:
    if name == "shape":
        return f"[{', '.join(str(extent_expr(e)) for e in v)}]"
    if name in ("begin", "end"):
        return str(extent_expr(v))
    return str(list(v)) if isinstance(v, tuple) else str(v)
