"""From a KIR kernel to an `Abstract`: values in index notation, execution groups, phases, memory versions (seed sections 2 to 7).

1. `Values` instantiates what each store writes, at coordinates of the store's own axes (points of `parallel`s around it, then the
   dimensions of its index map).
2. `analysis.worksets` forms groups, chooses their instance axes, and plans phases and copies.
3. `finish` gives the axes their final names and kinds, makes the copies' workspaces, and builds the interface.

Adding an operation: register its instantiation with `construct_values.construction`.
"""

from __future__ import annotations

from collections.abc import Mapping

import eqkir.program.construct_ops  # noqa: F401  (registers the operations)
from eqkir.analysis.effects import StoreSite, effects
from eqkir.base import dtypes
from eqkir.base.diagnostics import Diagnostic, EqkirError, fail, register
from eqkir.base.expr import Expr
from eqkir.kir.model import Constexpr, Kernel, Region
from eqkir.kir.types import Type, infer
from eqkir.program.abi import Abi, ScalarParam, SymbolParam, ViewParam
from eqkir.program.abstract import Abstract
from eqkir.program.construct_groups import Effect, finish
from eqkir.program.construct_ops import access
from eqkir.program.construct_values import COMMON, CONSTEXPR, FIELDS, STAGE, UNSUPPORTED, Values, bounds

STORE_LIMIT = 256
STORES = register(
    "EQK-CON-STORES", "too many stores", f"Dependences between stores are analysed pairwise; a kernel has at most {STORE_LIMIT}."
)


def construct(
    kernel: Kernel,
    types: Mapping[str, Type] | None = None,
    constexprs: Mapping[str, bool | int | float | str] | None = None,
    pointer: str = "",
) -> Abstract:
    """The kernel in index notation; constexprs that are not given take their defaults. `pointer` is the kernel's in its module.

    Raises EqkirError EQK-CON-… for what is not supported or too large.
    """
    supported(kernel, pointer)
    values = Values(kernel, infer(kernel) if types is None else types, effects(kernel, pointer), chosen(kernel, constexprs or {}, pointer))
    if len(values.effects.stores) > STORE_LIMIT:
        raise fail(
            STORES, f"{len(values.effects.stores)} stores", values.effects.stores[STORE_LIMIT].pointer, f"at most {STORE_LIMIT}", STAGE
        )
    stores = []
    for site in values.effects.stores:
        try:
            stores.append(store(values, site))
        except EqkirError as e:
            raise values.placed(e, site.pointer, site.op) from None
    return finish(values, stores, interface(values))


#: fields of the operations that the walk of effects handles; all others are instantiated by a registered handler
EFFECTS = {"domain": "begin end step", "parallel": "domains body", "store": "view coords value valid"}


def supported(kernel: Kernel, pointer: str) -> None:
    """Refuse operations and attributes that construction does not know, used or not: they may have effects. Raises EQK-CON-OP."""
    fields = {**FIELDS, **{op: frozenset(text.split()) for op, text in EFFECTS.items()}}
    todo = [(op, f"{pointer}/body/{i}") for i, op in reversed(list(enumerate(kernel.body)))]
    while todo:
        op, at = todo.pop()
        known = fields.get(op.op)
        what = f"no construction of {op.op}" if known is None else ""
        for name, spec in type(op).model_fields.items():
            value = getattr(op, name)
            if known is not None and name not in known | COMMON and value != spec.default and not what:
                what, at = f"no construction of {op.op} with {name}", f"{at}/{name}"
            if isinstance(value, Region):
                todo += [(inner, f"{at}/{name}/body/{i}") for i, inner in reversed(list(enumerate(value.body)))]
        if what:
            file, line = (op.loc.file, op.loc.line) if op.loc else (None, None)
            raise EqkirError(Diagnostic(UNSUPPORTED, what, at, file, line, stage=STAGE))


def store(v: Values, site: StoreSite) -> Effect:
    """A store at its own axes."""
    op = site.op
    axes = [v.point_axis[p] for p in site.scope if p in v.point_axis]
    shape: list[Expr] = []
    for id in (*op.coords, *((op.valid,) if op.valid else ())):
        s = v.shape(id)
        shape = [*s[: len(s) - len(shape)], *shape] if len(s) > len(shape) else shape
        for i, e in enumerate(reversed(s)):
            if shape[-1 - i].value == 1:
                shape[-1 - i] = e
    ixs: list[Expr] = []
    for e in shape:
        x, axis = v.dimension(e, frozenset(axes))
        ixs.append(x)
        axes += [axis] if axis else []
    at = tuple(ixs)
    steps = access(v, op, at)
    try:
        want = next(steps)
        while True:
            want = steps.send(v.node(*want))
    except StopIteration as stop:
        exprs, deps, valid = stop.value
    value = v.node(*v.operand(op.value, at))
    scope = frozenset((p, v.point_axis[p]) for p in site.scope if p in v.point_axis)
    return Effect(op.view, v.effects.alias[op.view], site.version, exprs, deps, value, valid, tuple(axes), scope, site.pointer)


def chosen(kernel: Kernel, given: Mapping[str, bool | int | float | str], pointer: str) -> dict[str, bool | int | float]:
    """Values of the constexprs; an enum is the position of its choice. Raises EQK-CON-CONSTEXPR."""
    known = {p.id: p for p in kernel.params if isinstance(p, Constexpr)}
    for name in sorted(set(given) - set(known)):
        raise fail(CONSTEXPR, f"no constexpr {name}", pointer, " ".join(sorted(known)), STAGE)
    out: dict[str, bool | int | float] = {}
    for i, p in enumerate(kernel.params):
        if not isinstance(p, Constexpr):
            continue
        x = given.get(p.id, p.default)
        kind = {"bool": isinstance(x, bool), "int": isinstance(x, int) and not isinstance(x, bool)}
        kind["float"] = (isinstance(x, (int, float)) and not isinstance(x, bool)) or x in ("inf", "-inf", "nan")
        kind["enum"] = x in p.choices and isinstance(x, str)
        if not kind[p.type]:
            raise fail(CONSTEXPR, f"{p.id} = {x!r}", f"{pointer}/params/{i}", " ".join(p.choices) or p.type, STAGE)
        out[p.id] = p.choices.index(str(x)) if p.type == "enum" else float(x) if p.type == "float" else x  # type: ignore[assignment]
    return out


def interface(v: Values) -> Abi:
    """The public interface: equal symbols are one symbol, constexprs are substituted."""
    k = v.kernel
    views, scalars, consts = [], [], []
    for i, p in enumerate(k.params):
        match p.kind:
            case "view":
                shape = tuple(v.checked(v.extent(dim(e)), f"/params/{i}") for e in p.shape)
                views.append(ViewParam(p.id, p.role, p.dtype, shape, v.effects.alias[p.id]))
            case "scalar":
                scalars.append(ScalarParam(p.id, p.dtype))
            case "constexpr":
                consts.append((p.id, dtypes.literal(v.constexprs[p.id], v.dtype(p.id))))
    symbols = tuple(SymbolParam(n, lo, hi, m) for n, (lo, hi, m) in bounds(k.symbols, v.extents).items())
    return Abi(k.name, tuple(views), tuple(scalars), symbols, k.noalias, tuple(consts))


def dim(e: int | str) -> Expr:
    """A view's extent."""
    from eqkir.base.expr import lift

    return lift(e)


__all__ = ["construct"]
