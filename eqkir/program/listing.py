"""Programs as indented text for readers. Nothing parses it."""

from __future__ import annotations

from typing import Any

from eqkir.base.expr import Expr, spell
from eqkir.program.model import Barrier, Carry, Item, Let, Loop, Order, Program, Region, Segment, Store, order_size


def listing(program: Program) -> str:
    """The interface, axes, parameters, and each segment with its order, loops, carries and values, one item a line."""
    abi = program.abi
    out = [f"program {abi.kernel} ({program.stage})"]
    for v in abi.views:
        out.append(f"  {v.role} {v.name}: {v.dtype}[{', '.join(map(spell, v.shape))}]  alias {v.alias}")
    out += [f"  scalar {s.name}: {s.dtype}" for s in abi.scalars]
    for y in abi.symbols:
        top = f" <= {y.hi}" if y.hi is not None else ""
        out.append(f"  symbol {y.lo} <= {y.name}{top}" + (f", a multiple of {y.multiple_of}" if y.multiple_of > 1 else ""))
    out += [f"  noalias {', '.join(g)}" for g in abi.noalias]
    out += [f"  axis {a.name}: {a.kind}, extent {spell(a.extent)}" for a in program.axes]
    for (alias, version), names in sorted(program.inner.items()):
        out.append(f"  version {version} of alias {alias} lives in {', '.join(names)}")
    for title, table in (("parameters", program.bindings), ("options", program.options)):
        if table:
            out.append(f"  {title} " + ", ".join(f"{k} = {v}" for k, v in sorted(table.items())))
    out += [f"  requires {spell(p)}" for p in program.preconditions]
    for n, s in enumerate(program.segments):
        out += _segment(program, s, n)
    return "\n".join(out) + "\n"


def spell_order(t: Order) -> str:
    """``i:OB × rev(j:O1)``."""
    match t[0]:
        case "TAx":
            return str(t[1])
        case "TUnit":
            return "one"
        case "TProd":
            return f"({spell_order(t[1])} × {spell_order(t[2])})"
        case "TSwz":
            return f"swizzle({spell_order(t[1])}, {spell_order(t[2])})"
    return f"{'reverse' if t[0] == 'TRev' else 'interleave'}({spell_order(t[1])})"


def _segment(program: Program, s: Segment, n: int) -> list[str]:
    size = spell(order_size(s.order, program.axis))
    mode = "" if s.mode == "grid" else f", stride P:{s.group}"
    out = [f"segment {s.group}: order {spell_order(s.order)}, {size} instances{mode}"]
    for k, phase in enumerate(s.phases):
        out += [f"  phase {k}"] if len(s.phases) > 1 else []
        names = {int(key.split("/")[2]): text for key, text in program.origins.items() if key.startswith(f"{n}/{k}/")}
        out += _block(phase, "    " if len(s.phases) > 1 else "  ", names)
    return out


def _block(items: tuple[Item, ...], pad: str, names: dict[int, str]) -> list[str]:
    out: list[str] = []
    for i in items:
        match i:
            case Let():
                note = f"  # {names[i.id]}" if i.id in names else ""
                out.append(f"{pad}%{i.id} = {_call(i)}{_type(i)}{note}")
                out += [x for a in i.attrs if isinstance(a, Region) for x in _region(a, pad + "  ")]
            case Store():
                deps = f" by {_ids(i.deps)}" if i.deps else ""
                mask = "mask" if i.masked else "where"
                kept = f", old to {i.into}[{_exprs(i.at)}]" if i.into else ""
                how = i.mode if not i.atomic else " ".join(x for x in ("atomic", i.mode, i.order, i.scope) if x)
                out.append(f"{pad}{how} {i.view}.{i.version}[{_exprs(i.ixs)}]{deps} = %{i.value} {mask} %{i.valid}{_dims(i.dims)}{kept}")
            case Barrier():
                out.append(f"{pad}barrier")
            case Loop():
                depth = f", {i.stages} stages" if i.stages > 1 else ""
                until = f" while %{i.cond}" if i.cond >= 0 else ""
                between = "".join(f" {word} %{b}" for word, b in (("from", i.lo), ("to", i.hi), ("where", i.on)) if b >= 0)
                out.append(f"{pad}for {i.label}{until}{between} (stage {i.stage}{depth}):")
                out += [f"{pad}  carry %{c.id} = {_call(c)}{_from(c)}{_type(c)}" for c in i.carries]
                out += [x for c in i.carries for a in c.attrs if isinstance(a, Region) for x in _region(a, pad + "    ")]
                out += _block(i.body, pad + "  ", names)
    return out


def _from(c: Carry) -> str:
    return f" from {_ids(c.inits)}" if c.inits else ""


def _region(r: Region, pad: str) -> list[str]:
    return [f"{pad}.{x.id} = {_call(x, '.')}: {x.dtype}" for x in r.body] + [f"{pad}yield {_ids(r.yields, '.')}"]


def _call(x: Let | Carry, mark: str = "%") -> str:
    attrs = list(x.attrs)
    if x.op in ("Load", "LoadM"):
        view, version, ixs, form = attrs
        mask, fill, *deps = x.args
        by = f" by {_ids(tuple(deps))}" if deps else ""
        return f"{x.op} {view}.{version}[{_exprs(ixs)}]{by} where {mark}{mask} else {mark}{fill}" + (f" ({form})" if form != "ptr" else "")
    shown = [a for a in map(_attr, attrs) if a]
    return " ".join([x.op, *shown, *([_ids(x.args, mark)] if x.args else [])])


def _attr(a: Any) -> str:
    return spell(a) if isinstance(a, Expr) else "" if isinstance(a, Region) else str(a)


def _exprs(es: tuple[Expr, ...]) -> str:
    return ", ".join(map(spell, es))


def _ids(xs: tuple[int, ...], mark: str = "%") -> str:
    return ", ".join(f"{mark}{x}" for x in xs)


def _dims(dims: tuple[str, ...]) -> str:
    return f" over {' '.join(dims)}" if dims else ""


def _type(x: Let | Carry) -> str:
    return f": {x.dtype}{_dims(x.dims)}"
