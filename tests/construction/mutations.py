"""For each of the sixteen checks, ways to break exactly what it says: (check, name) -> the broken triple."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from eqkir.base.expr import Coord, Dep, Expr, Int, Sym, floordiv, le, lt
from eqkir.program.abi import Axis
from eqkir.program.abstract import Abstract, Put, VNode
from eqkir.program.model import Let, Store
from tests.construction import good
from tests.construction.good import Triple
from tests.construction.mutations_ordered import ORDERED
from tests.construction.mutations_slices import SLICED

MUTATIONS: dict[tuple[str, str], Callable[[], Triple]] = {}
Mutation = Callable[[], Triple]


def breaks(check: str, how: str) -> Callable[[Mutation], Mutation]:
    def put(f: Mutation) -> Mutation:
        MUTATIONS[check, how] = f
        return f

    return put


def true(a: Abstract) -> int:
    return a.const("true", "bool")


def where(op: str, f: Callable[[VNode, Abstract], VNode | int | None], dtype: str = "", attrs: Any = None) -> Callable[..., Any]:
    """Changes nodes of one operation."""
    return lambda n, a: f(n, a) if n.op == op and dtype in ("", n.dtype) and attrs in (None, n.attrs) else None


# ------------------------------------------------------------------------------------------------ 1 effects
@breaks("effects-covered-once", "lost")
def _() -> Triple:
    return good.scaled().puts(lambda p, a: None if p.view == "Z" else p)


@breaks("effects-covered-once", "invented")
def _() -> Triple:
    t = good.scaled()
    g = t.abstract.groups
    last = g[-1].phases[-1][0]
    more = replace(last, version=last.version + 1)
    a = good.replaced(t.abstract, groups=(*g[:-1], replace(g[-1], phases=(*g[-1].phases, (more,)))))
    return t.abstracted(a)


@breaks("effects-covered-once", "repeated-in-the-program")
def _() -> Triple:
    return good.scaled().items(lambda i: (i, i) if isinstance(i, Store) and i.view == "Y" else i)


@breaks("effects-covered-once", "other-value")
def _() -> Triple:
    return good.scaled().puts(lambda p, a: replace(p, value=a.make("Un", ("neg",), (p.value,), "f32")) if p.view == "Y" else p)


@breaks("effects-covered-once", "other-operation-in-the-program")
def _() -> Triple:
    return good.scaled().items(lambda i: replace(i, attrs=("add",)) if isinstance(i, Let) and i.attrs == ("mul",) else i)


# ------------------------------------------------------------------------------------------------ 2 ownership
@breaks("ownership-complete", "half-of-the-instances")
def _() -> Triple:
    t = good.corpus("two_outputs")
    axes = tuple(replace(x, extent=floordiv(x.extent, 2)) if x.extent == Sym("L") else x for x in t.abstract.axes)
    return t.abstracted(good.replaced(t.abstract, axes=axes))


@breaks("ownership-complete", "repeated-by-an-instance-axis")
def _() -> Triple:
    t = good.corpus("two_outputs")
    axes = (Axis("i9", Sym("L"), "own"), *t.abstract.axes)
    g = t.abstract.groups
    return t.abstracted(good.replaced(t.abstract, axes=axes, groups=(replace(g[0], axes=("i9", *g[0].axes)), *g[1:])))


@breaks("ownership-complete", "other-instances-in-the-program")
def _() -> Triple:
    return good.scaled().segments(lambda s: replace(s, order=("TProd", ("TAx", "i1:O1"), ("TAx", "i0:O1"))))


# ------------------------------------------------------------------------------------------------ 3 order
@breaks("order-kept", "stale-load")
def _() -> Triple:
    def f(n: VNode, a: Abstract) -> VNode:
        return replace(n, attrs=(n.attrs[0], 0, n.attrs[2]))

    return good.twice().values(where("Load", f))


@breaks("order-kept", "phases-exchanged")
def _() -> Triple:
    t = good.twice()
    a = good.replaced(t.abstract, groups=tuple(replace(g, phases=g.phases[::-1]) for g in t.abstract.groups))
    return t.abstracted(a)


@breaks("order-kept", "dependent-steps-made-instances")
def _() -> Triple:
    """Each element in an instance of its own, though it overwrites what another has yet to read."""
    t = good.corpus("shift_in_place")
    axes = tuple(replace(x, kind="own") for x in t.abstract.axes)
    groups = tuple(replace(g, axes=tuple(x.name for x in axes)) for g in t.abstract.groups)
    return t.abstracted(good.replaced(t.abstract, axes=axes, groups=groups))


# ------------------------------------------------------------------------------------------------ 4 conflicts
@breaks("conflicts-resolved", "scatter-stored-plainly")
def _() -> Triple:
    return good.corpus("histogram_scattered_u32").puts(lambda p, a: replace(p, mode="store", order="", shared=()))


@breaks("conflicts-resolved", "declared-unique-by-nobody")
def _() -> Triple:
    return good.scaled().puts(lambda p, a: replace(p, mode="unique") if p.view == "Y" else p)


# ------------------------------------------------------------------------------------------------ 5 accesses
@breaks("accesses-complete", "other-fill")
def _() -> Triple:
    return good.masked().values(where("Const", lambda n, a: replace(n, attrs=("0.0",)), "f32", ("7.0",)))


@breaks("accesses-complete", "load-always-valid")
def _() -> Triple:
    return good.masked().values(where("Load", lambda n, a: replace(n, args=(true(a), *n.args[1:]))))


@breaks("accesses-complete", "store-always-valid")
def _() -> Triple:
    return good.masked_store().puts(lambda p, a: replace(p, valid=true(a)))


@breaks("accesses-complete", "store-valid-too-seldom")
def _() -> Triple:
    def f(p: Put, a: Abstract) -> Put:
        return replace(p, valid=a.make("Index", (lt(Coord("i0"), Int(8)),), (), "bool"))

    return good.corpus("two_outputs").puts(lambda p, a: f(p, a) if p.view == "Y" else p)


@breaks("accesses-complete", "fill-lost-in-the-program")
def _() -> Triple:
    t = good.masked()
    return t.items(lambda i: replace(i, attrs=("0.0",)) if isinstance(i, Let) and i.attrs == ("7.0",) else i)


# ------------------------------------------------------------------------------------------------ 6 buffers' initial values
@breaks("buffers-initialised", "other-initial-value")
def _() -> Triple:
    def f(p: Put, a: Abstract) -> Put:
        return replace(p, value=a.const("5", "i32")) if (p.view, p.version) == ("ws0", 1) else p

    return good.corpus("workspace_counts").puts(f)


@breaks("buffers-initialised", "partly-filled")
def _() -> Triple:
    def f(p: Put, a: Abstract) -> Put:
        half = a.make("Index", (lt(Coord(p.ixs[0].args[0]), Int(8)),), (), "bool") if p.ixs[0].op == "coord" else p.valid
        return replace(p, valid=half) if (p.view, p.version) == ("ws0", 1) else p

    return good.corpus("workspace_counts").puts(f)


# ------------------------------------------------------------------------------------------------ 7 structured operations
@breaks("structured-complete", "other-reduction")
def _() -> Triple:
    return good.scaled().values(where("Red", lambda n, a: replace(n, attrs=("max", n.attrs[1]))))


@breaks("structured-complete", "other-combine-region")
def _() -> Triple:
    return good.corpus("argmax_inner_f32").values(where("Bin", lambda n, a: replace(n, attrs=("lt",)), "bool", ("gt",)))


@breaks("structured-complete", "other-identity")
def _() -> Triple:
    return good.corpus("argmax_inner_f32").values(where("Const", lambda n, a: replace(n, attrs=("0.0",)), "f32", ("-inf",)))


@breaks("structured-complete", "other-scan")
def _() -> Triple:
    return good.corpus("cumsum_f32").values(where("Scan", lambda n, a: replace(n, attrs=("max", n.attrs[1]))))


@breaks("structured-complete", "other-axis")
def _() -> Triple:
    """Rows are reduced over an axis of another extent; what is not in the row is not read."""
    t = good.corpus("sum_inner_f32")
    axes = tuple(replace(x, extent=Sym("A")) if x.kind == "loop" else x for x in t.abstract.axes)

    def f(n: VNode, a: Abstract) -> VNode:
        return replace(n, args=(a.make("Index", (lt(Coord("c0"), Sym("C")),), (), "bool"), *n.args[1:]))

    return t.abstracted(good.replaced(good.rebuilt(t.abstract, where("Load", f), lambda p, a: p), axes=axes))


@breaks("structured-complete", "other-reduction-in-the-program")
def _() -> Triple:
    from eqkir.program.model import Loop

    def f(i: Any) -> Any:
        if not isinstance(i, Loop):
            return i
        return replace(i, carries=tuple(replace(c, attrs=("max", *c.attrs[1:])) if c.op == "RedLoop" else c for c in i.carries))

    return good.scaled().items(f)


# ------------------------------------------------------------------------------------------------ 8 folds
def fold(f: Callable[[VNode, Abstract, int], tuple[int, ...]]) -> Callable[..., Any]:
    return where("Fold", lambda n, a: replace(n, args=f(n, a, n.attrs[2])))


@breaks("folds-complete", "other-start")
def _() -> Triple:
    return good.corpus("fold_sum_rows").values(fold(lambda n, a, c: (a.const("1.0", "f32"), *n.args[1:])))


@breaks("folds-complete", "step-lost")
def _() -> Triple:
    return good.corpus("fold_sum_rows").values(fold(lambda n, a, c: (*n.args[:c], n.args[2 * c], *n.args[2 * c :])))


@breaks("folds-complete", "summary-lost")
def _() -> Triple:
    return good.corpus("fold_sum_rows").values(fold(lambda n, a, c: (*n.args[: 2 * c], *n.args[:c])))


@breaks("folds-complete", "loop-never-left")
def _() -> Triple:
    """The step of the component that says whether the loop goes on."""
    t = good.corpus("newton_sqrt_f32")
    return t.values(fold(lambda n, a, c: (*n.args[: 2 * c - 1], true(a), *n.args[2 * c :])))


@breaks("folds-complete", "slice-begin-observed")
def _() -> Triple:
    """Where a slice begins takes part, if only formally."""
    t = good.corpus("fold_sum_rows")
    seg = next(x.name for x in t.abstract.axes if x.kind == "seg")

    def f(n: VNode, a: Abstract) -> VNode:
        return replace(n, args=(a.make("Index", (le(Int(0), Coord(seg)),), (), "bool"), *n.args[1:]))

    return t.values(where("Load", f))


# ------------------------------------------------------------------------------------------------ 9 types
@breaks("types-legal", "other-accumulator")
def _() -> Triple:
    return good.corpus("gemm_f32").values(where("Con", lambda n, a: replace(n, dtype="f64")))


@breaks("types-legal", "other-rounding")
def _() -> Triple:
    return good.corpus("relu_f32").values(lambda n, a: replace(n, dtype="f16") if n.op == "Bin" and n.dtype == "f32" else None)


@breaks("types-legal", "program-value-of-another-type")
def _() -> Triple:
    return good.scaled().items(lambda i: replace(i, dtype="bf16") if isinstance(i, Let) and i.op == "Scalar" else i)


# ------------------------------------------------------------------------------------------------ 10 launch
@breaks("launch-visible-extents", "extent-of-data")
def _() -> Triple:
    t = good.corpus("two_outputs")
    axes = tuple(replace(x, extent=Sym("%3")) if x.extent == Sym("L") else x for x in t.abstract.axes)
    return t.abstracted(good.replaced(t.abstract, axes=axes))


@breaks("launch-visible-extents", "precondition-of-data")
def _() -> Triple:
    t = good.scaled()
    return replace(t, program=replace(t.program, preconditions=(lt(Sym("count"), 7),)))


@breaks("launch-visible-extents", "program-axis-of-data")
def _() -> Triple:
    t = good.scaled()
    axes = tuple(replace(x, extent=Dep(0)) if x.kind == "own" else x for x in t.program.axes)
    return replace(t, program=replace(t.program, axes=axes))


# ------------------------------------------------------------------------------------------------ 11 buffers
@breaks("buffers-owned", "overlapping-views-told-apart")
def _() -> Triple:
    t = good.overlapping()
    views = tuple(replace(v, alias=7) if v.name == "Y" else v for v in t.abstract.abi.views)
    return t.abstracted(good.replaced(t.abstract, abi=replace(t.abstract.abi, views=views)))


@breaks("buffers-owned", "invented-precondition")
def _() -> Triple:
    t = good.overlapping()
    return t.abstracted(good.replaced(t.abstract, abi=replace(t.abstract.abi, noalias=(("X", "Y"),))))


@breaks("buffers-owned", "other-role")
def _() -> Triple:
    t = good.scaled()
    views = tuple(replace(v, role="out") if v.name == "Y" else v for v in t.abstract.abi.views)
    return t.abstracted(good.replaced(t.abstract, abi=replace(t.abstract.abi, views=views)))


@breaks("buffers-owned", "program-with-another-interface")
def _() -> Triple:
    t = good.scaled()
    return replace(t, program=replace(t.program, abi=replace(t.program.abi, kernel="other")))


# ------------------------------------------------------------------------------------------------ 12 bounds
def unguarded(n: VNode, a: Abstract) -> int | None:
    """A guard of data coordinates is always true."""
    data = n.op == "Index" and n.dtype == "bool" and bool(n.args)
    return true(a) if data else None


@breaks("accesses-in-bounds", "guard-of-a-store-lost")
def _() -> Triple:
    return good.corpus("histogram_scattered_u32").values(unguarded)


@breaks("accesses-in-bounds", "guard-of-an-offset-lost")
def _() -> Triple:
    """``offsets[i + 1]`` is inside by the kernel's word alone."""

    def f(n: VNode, a: Abstract) -> int | None:
        return true(a) if n.op == "Index" and n.attrs[0] == lt(Coord("i0") + 1, Sym("E")) else None

    return good.corpus("jagged_mean_f32").values(f)


# ------------------------------------------------------------------------------------------------ 13 coordinates
def at(f: Callable[[tuple[Expr, ...]], tuple[Expr, ...]]) -> Callable[..., Any]:
    return where("Load", lambda n, a: replace(n, attrs=(*n.attrs[:2], f(n.attrs[2]))))


@breaks("coordinates-equivalent", "transposed-load")
def _() -> Triple:
    """Rows and columns of a square exchanged; the mask speaks of the columns still."""
    return good.masked().values(at(lambda x: x[::-1]))


def reversed_u(view: str, ixs: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return (Sym("L") - 1 - ixs[0],) if view == "U" else ixs


@breaks("coordinates-equivalent", "reversed-load")
def _() -> Triple:
    def f(n: VNode, a: Abstract) -> VNode:
        return replace(n, attrs=(*n.attrs[:2], reversed_u(n.attrs[0], n.attrs[2])))

    return good.corpus("two_outputs").values(where("Load", f))


@breaks("coordinates-equivalent", "same-element-for-all")
def _() -> Triple:
    return good.scaled().values(at(lambda x: (x[0], Int(0)) if x[1].op == "coord" and x[1].args[0].startswith("i") else x))


@breaks("coordinates-equivalent", "shifted-index-value")
def _() -> Triple:
    return good.corpus("argmax_inner_f32").values(where("Index", lambda n, a: replace(n, attrs=(n.attrs[0] + 1,)), "index"))


@breaks("coordinates-equivalent", "program-loads-elsewhere")
def _() -> Triple:
    def f(i: Any) -> Any:
        load = isinstance(i, Let) and i.op == "Load"
        return replace(i, attrs=(*i.attrs[:2], reversed_u(i.attrs[0], i.attrs[2]), i.attrs[3])) if load else i

    return good.corpus("two_outputs").items(f)


# ------------------------------------------------------------------------------------------------ 14 narrowing
@breaks("narrowing-explicit", "members-not-selected")
def _() -> Triple:
    """The operand of the ragged sum holds a neutral value outside the members, but nothing says so."""
    t = good.corpus("jagged_mean_f32")
    return t.values(where("Tri", lambda n, a: n.args[1], attrs=("select",)))


@breaks("narrowing-explicit", "begin-forgotten")
def _() -> Triple:
    def f(n: VNode, a: Abstract) -> VNode | None:
        cond = a.nodes[n.args[0]]
        if cond.op != "Index" or len(cond.args) != 2:
            return None
        end = a.make("Index", (lt(Coord("c0"), Dep(0)),), cond.args[1:], "bool")
        return replace(n, args=(end, *n.args[1:]))

    return good.corpus("jagged_mean_f32").values(where("Tri", f, attrs=("select",)))


# ------------------------------------------------------------------------------------------------ 15 atomics
@breaks("atomics-kept", "other-function")
def _() -> Triple:
    return good.corpus("histogram_scattered_u32").puts(lambda p, a: replace(p, mode="max"))


@breaks("atomics-kept", "plain-store-made-atomic")
def _() -> Triple:
    return good.scaled().puts(lambda p, a: replace(p, mode="add", order="relaxed") if p.view == "Y" else p)


@breaks("atomics-kept", "order-forgotten")
def _() -> Triple:
    """The kernel asks for an order that the program does not have."""
    t = good.corpus("workspace_counts")
    return replace(t, kernel=ordered(t.kernel))


def ordered(kernel: Any) -> Any:
    def op(x: Any) -> Any:
        if x.op.startswith("atomic_"):
            return x.model_copy(update={"order": "acq_rel"})
        if x.op == "parallel":
            return x.model_copy(update={"body": x.body.model_copy(update={"body": tuple(map(op, x.body.body))})})
        return x

    return kernel.model_copy(update={"body": tuple(map(op, kernel.body))})


@breaks("atomics-kept", "order-weakened")
def _() -> Triple:
    return good.corpus("claim_slots_i32").puts(lambda p, a: replace(p, order="acquire") if p.mode == "compare_exchange" else p)


@breaks("atomics-kept", "expects-another-value")
def _() -> Triple:
    def f(p: Put, a: Abstract) -> Put:
        return replace(p, deps=(*p.deps[:-2], a.const("7", "i32"), p.deps[-1])) if p.mode == "compare_exchange" else p

    return good.corpus("claim_slots_i32").puts(f)


@breaks("atomics-kept", "shared-by-points-of-another-loop")
def _() -> Triple:
    return good.corpus("tickets_i32").puts(lambda p, a: replace(p, shared=("i0#7",)) if p.into else p)


@breaks("atomics-kept", "order-weakened-in-the-program")
def _() -> Triple:
    return good.corpus("publish_i32").items(lambda i: replace(i, order="relaxed") if isinstance(i, Store) and i.atomic else i)


@breaks("atomics-kept", "other-function-in-the-program")
def _() -> Triple:
    return good.corpus("histogram_scattered_u32").items(lambda i: replace(i, mode="xor") if isinstance(i, Store) else i)


# ------------------------------------------------------------------------------------------------ 16 self-containedness
@breaks("self-contained", "value-of-the-kernel-named")
def _() -> Triple:
    def f(n: VNode, a: Abstract) -> VNode:
        return replace(n, attrs=(Sym("v7"),))

    return good.corpus("argmax_inner_f32").abstracted(
        good.rebuilt(good.corpus("argmax_inner_f32").abstract, where("Index", f, "index"), lambda p, a: p), lower=False
    )


@breaks("self-contained", "opaque-operation")
def _() -> Triple:
    return good.scaled().items(lambda i: replace(i, op="Splat", attrs=(), args=i.args[:1]) if isinstance(i, Let) and i.op == "Bin" else i)


@breaks("self-contained", "undefined-value")
def _() -> Triple:
    return good.scaled().items(lambda i: () if isinstance(i, Let) and i.op == "Scalar" else i)


MUTATIONS.update(ORDERED | SLICED)

__all__ = ["MUTATIONS"]
