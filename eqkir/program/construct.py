"""From a KIR kernel to an `Abstract`: values in index notation, execution groups, phases, memory versions (seed sections 2 to 7).

1. `Values` instantiates what each store writes, at coordinates of the store's own axes (points of `parallel`s around it, then the
   dimensions of its index map).
2. `analysis.worksets` forms groups, chooses their instance axes, and plans phases and copies.
3. `finish` gives the axes their final names and kinds, makes the copies' workspaces, and builds the interface.

Adding an operation: register its instantiation with `construct_env.construction`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import eqkir.program.construct_formats
import eqkir.program.construct_ops
import eqkir.program.construct_random
import eqkir.program.construct_regions  # noqa: F401
from eqkir.analysis.coords import injective
from eqkir.analysis.effects import StoreSite, effects
from eqkir.base import dtypes
from eqkir.base.diagnostics import Diagnostic, EqkirError, fail, register
from eqkir.base.expr import ONE, Expr, lift
from eqkir.kir import model as kir
from eqkir.kir.model import Constexpr, Kernel, Region
from eqkir.kir.types import Type, infer
from eqkir.program.abi import Abi, ScalarParam, SymbolParam, ViewParam
from eqkir.program.abstract import BOUND, Abstract
from eqkir.program.construct_codes import ATOMIC, CONSTEXPR, STAGE, UNSUPPORTED
from eqkir.program.construct_effect import Effect
from eqkir.program.construct_env import COMMON, FIELDS, ROOT, Ixs
from eqkir.program.construct_finish import finish
from eqkir.program.construct_loops import both, environment
from eqkir.program.construct_memory import Access, access, filled
from eqkir.program.construct_ordered import kept_effects, running
from eqkir.program.construct_scans import turn
from eqkir.program.construct_states import Again, below
from eqkir.program.construct_values import Values, bounds
from eqkir.program.construct_whole import Whole
from eqkir.program.ops import COMBINING, PLAIN_MODES

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
    types, consts = infer(kernel) if types is None else types, chosen(kernel, constexprs or {}, pointer)
    ordered, whole = frozenset[str](), frozenset[str]()
    while True:
        try:
            out = attempt(kernel, types, consts, pointer, ordered, whole)
            if len(set(binders(out))) < len(binders(out)):  # one operation under two axes: do axes of the stores' own make it one?
                other = attempt(kernel, types, consts, pointer, ordered, whole, "store")
                if len(binders(other)) < len(binders(out)):
                    return other
            return out
        except Whole as again:
            if again.ops <= whole:
                raise again.why from None
            whole |= again.ops
        except Again as again:
            more = chain(Values(kernel, types, effects(kernel, pointer), consts), again) - ordered
            if not more:
                raise again.why from None
            ordered |= more


def chain(v: Values, again: Again) -> frozenset[str]:
    """The loop and those around it, all ordered from now on (but those of one step). Raises EqkirError where one cannot be."""
    out = set()
    for region in (*v.effects.loops[again.region].outer, again.region):
        info = v.effects.loops[region]
        if not isinstance(info.op, (kir.For, kir.While)) or info.name != "body":
            raise again.why
        if isinstance(info.op, kir.While) or v.domain(info.op.domain)[2] != ONE:
            out.add(region)
    return frozenset(out)


def binders(p: Abstract) -> list[str]:
    """Origins of the live structured operations. One that stores see under two axes occurs twice."""
    live = below(p, [i for g in p.groups for phase in g.phases for s in phase for i in (s.value, s.valid, *s.deps)])
    return [p.origins[i] for i in live if p.nodes[i].op in BOUND and i in p.origins]


def attempt(
    kernel: Kernel, types: Mapping[str, Type], constexprs: Mapping[str, bool | int | float], pointer: str, ordered: frozenset[str],
    whole: frozenset[str] = frozenset(), owner: str = "",
) -> Abstract:  # fmt: skip
    """The kernel in index notation where these loops are ordered and these operations over slices are taken in one slice; stores'
    dimensions have axes of this owner. Raises Again, Whole."""
    values = Values(kernel, types, effects(kernel, pointer, ordered), constexprs, whole)
    values.mine = owner
    if len(values.effects.stores) > STORE_LIMIT:
        raise fail(
            STORES, f"{len(values.effects.stores)} stores", values.effects.stores[STORE_LIMIT].pointer, f"at most {STORE_LIMIT}", STAGE
        )
    stores = []
    for site in values.effects.stores:
        try:
            made = store(values, site)
            stores += [made] if made else []
        except EqkirError as e:
            raise values.placed(e, site.pointer, site.op) from None
    stores = sorted([*stores, *kept_effects(values)], key=lambda e: e.when)
    return finish(values, stores, interface(values))


#: fields of the operations that the walk of effects handles; all others are instantiated by a registered handler
EFFECTS = {
    "buffer": "dtype shape init", "domain": "begin end step", "subregion": "domain begin end", "parallel": "domains body",
    "store": "view coords value valid",
    "unique_scatter": "view coords value valid", "scatter_reduce": "view coords value valid fn", "break": "cond values",
    "continue": "cond values", "atomic_store": "view coords value valid order",
}  # fmt: skip


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


def store(v: Values, site: StoreSite) -> Effect | None:
    """A store at its own axes; None where it never happens. Axes whose values want another traversal are traversed so."""
    mode = mode_of(site)
    environment(v, site.loops, site.pointer)
    around = [v.point_axis[p] for p in (*site.scope, *site.loops) if p in v.point_axis and p not in site.inner]
    turned: dict[int, str] = {}
    while True:
        v.wishes = {}
        e, dims = placed(v, site, mode, around, turned)
        wanted = {d: next(iter(w)) for d, a in dims.items() if d not in turned and len(w := v.wishes.get(a, set())) == 1}
        new = {d: w for d, w in wanted.items() if w != "forward"}
        if not new:
            v.env = ROOT
            return e
        turned |= new


def placed(v: Values, site: StoreSite, mode: str, around: list[str], turned: Mapping[int, str]) -> tuple[Effect | None, dict[int, str]]:
    """The store, and the axes that its dimensions would have."""
    op = site.op
    name, value = (op.results[0], op.init) if isinstance(op, kir.Buffer) else (op.view, getattr(op, "value", None))
    axes = list(around)
    shape: list[Expr] = []
    for s in [v.resource(name)] if isinstance(op, kir.Buffer) else [v.shape(id) for id in (*op.coords, *((op.valid,) if op.valid else ()))]:
        shape = [*s[: len(s) - len(shape)], *shape] if len(s) > len(shape) else shape
        for i, e in enumerate(reversed(s)):
            if shape[-1 - i].value == 1:
                shape[-1 - i] = e
    ixs: list[Expr] = []
    dims: dict[int, str] = {}
    for d, e in enumerate(shape):
        x, axis = v.dimension(e, frozenset((*axes, *dims.values())), owner=v.mine)
        mine: tuple[str, ...] = (axis,) if axis else ()
        if axis:
            dims[d] = axis
            if d in turned:
                x, mine = turn(v, e, axis, turned[d], frozenset(axes))
        ixs.append(x)
        axes += mine
    at = tuple(ixs)
    outer = v.env

    def made(steps: Access) -> tuple[Ixs, tuple[int, ...], int]:
        try:
            want = next(steps)
            while True:
                want = steps.send(v.node(*want))
        except StopIteration as stop:
            v.env = outer
            return stop.value  # type: ignore[no-any-return]

    exprs, deps, valid = made(filled(v, op, at, site.conditions) if isinstance(op, kir.Buffer) else access(v, op, at, site.conditions))
    for a in axes:
        member = v.member(a) if a in v.regions else None
        valid = valid if member is None else both(v, valid, member)
    v.env = outer
    keeps = isinstance(op, (kir.AtomicUpdate, kir.AtomicLoad, kir.AtomicCompareExchange)) and bool(op.results)
    if v.is_const(valid, "false") and not keeps and needless(v, site, name):
        return None, dims
    node = v.const(0, v.element(name)) if value is None else v.node(*v.operand(value, at))
    if isinstance(op, kir.AtomicCompareExchange):
        deps = (*deps, v.node(*v.operand(op.expected, at)))
    plain = tuple(a for a in axes if v.kind_of[a] != "seg")
    if mode == "store" and (deps or (data(v, valid) and not injective(exprs, plain, v.facts))):
        mode = "unique"
    scope = frozenset((p, v.point_axis[p]) for p in site.scope if p in v.point_axis)
    loops = tuple((p, v.point_axis.get(p, "")) for p in site.loops if p not in site.inner)
    valid = running(v, site.inner, valid)
    alias = v.effects.alias[name]
    out = Effect(name, alias, site.version, exprs, deps, node, valid, tuple(axes), scope, site.pointer, mode, loops, site.inner, site.when)
    if mode not in PLAIN_MODES:
        out = replace(out, order=getattr(op, "order", "relaxed"))
    if keeps:
        kept = tuple(map(v.fold, (*v.owner(op.results[0]), *at)))
        out = replace(out, into=op.results[0], at=kept, into_alias=v.effects.alias[op.results[0]])
        v.env = outer
    return out, dims


def needless(v: Values, site: StoreSite, name: str) -> bool:
    """Whether nobody misses a store that never happens: no later version of its class, no load of its own, no output without a store."""
    e = v.effects
    alias = e.alias[name]
    for id, version in e.versions.items():
        if version >= site.version and e.alias.get(getattr(e.definitions[id][0], "view", ""), -1) == alias:
            return False
    others = [(s.op.results[0] if isinstance(s.op, kir.Buffer) else s.op.view, s.version) for s in e.stores if s is not site]
    if any(e.alias[n] == alias and version > site.version for n, version in others):
        return False
    return name not in v.views or v.views[name].role != "out" or any(n == name for n, _ in others)


def data(v: Values, valid: int) -> bool:
    """Whether a validity depends on data: then nothing but the author's word says that no two of its points are one element."""
    return any(v.program.nodes[i].op not in ("Const", "Index", "Scalar", "Cast", "Bin", "Un", "Tri") for i in below(v.program, valid))


def mode_of(site: StoreSite) -> str:
    """``store``, ``unique`` (injective by the author's word) or the atomic operation. Raises EQK-CON-ATOMIC."""
    match site.op:
        case kir.Store() | kir.Buffer():
            return "store"
        case kir.UniqueScatter():
            return "unique"
        case kir.ScatterReduce(fn=fn) if fn in COMBINING:
            return fn
        case kir.AtomicLoad() | kir.AtomicStore() as op:
            return "get" if op.op == "atomic_load" else "put"
        case kir.AtomicUpdate() | kir.AtomicCompareExchange() as op:
            return op.op.removeprefix("atomic_")
    raise fail(ATOMIC, f"{site.op.op} {getattr(site.op, 'fn', '')}", site.pointer, " ".join(COMBINING), STAGE)


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
                shape = tuple(v.checked(v.extent(lift(e)), f"/params/{i}") for e in p.shape)
                views.append(ViewParam(p.id, p.role, p.dtype, shape, v.effects.alias[p.id]))
            case "scalar":
                scalars.append(ScalarParam(p.id, p.dtype))
            case "constexpr":
                consts.append((p.id, dtypes.literal(v.constexprs[p.id], v.dtype(p.id))))
    symbols = tuple(SymbolParam(n, lo, hi, m) for n, (lo, hi, m) in bounds(k.symbols, v.extents).items())
    return Abi(k.name, tuple(views), tuple(scalars), symbols, k.noalias, tuple(consts))


__all__ = ["construct"]
