"""Structured program -> legal program: what the provider needs said is said, in the program.

Needs: a structured program whose parameters are bound, accepted by `legality.check`. Makes: masks explicit (active lanes and validity)
on loads and stores; identities in inactive lanes of reduced labels; loops with `Phi` carries; contractions as `Dot` or multiply and
reduce; broadcasts, transpositions and barriers explicit; the launch predicates under which masks vanish. Keeps: segments, orders, loops,
labels, versions. The result is verified and interpreted like any other program.
"""

from __future__ import annotations

from dataclasses import replace

from eqkir.base import dtypes as D
from eqkir.base.expr import Expr, coords
from eqkir.emit.triton.order import label_order
from eqkir.emit.triton.ordered import bounds, last, scan, while_loop
from eqkir.emit.triton.prune import live
from eqkir.emit.triton.scope import Block, Builder, Val, cast_pad, identity_text
from eqkir.program.abi import axis_of, parameter
from eqkir.program.barriers import lone_stores
from eqkir.program.broadcasts import repeated
from eqkir.program.model import Barrier, Carry, Item, Let, Loop, Program, Region, Segment, Store

COMBINE = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}


def legalize(program: Program) -> Program:
    """The legal program. Raises ValueError when `program` is legal already; KeyError for an unbound parameter."""
    if program.stage != "structured":
        raise ValueError("the program is legal already")
    notes: dict[str, Expr] = {}
    origins: dict[str, str] = {}
    segments: list[Segment] = []
    for n, s in enumerate(program.segments):
        phases = []
        for k, ph in enumerate(s.phases):
            p = Phase(program, ph, notes)
            items = live(p.run(ph))
            phases.append(items)
            for old, v in p.env.items():
                text = program.origins.get(f"{n}/{k}/{old}")
                if text is not None and isinstance(v, Val):
                    origins[f"{n}/{k}/{v.id}"] = text
        segments.append(replace(s, phases=tuple(phases)))
    return replace(
        program, segments=tuple(segments), stage="legal", origins=origins, specializations=tuple(sorted(notes.items(), key=lambda x: x[0]))
    )


class Phase:
    """One phase. `env` maps structured ids to legal values (a tuple of them for a generic reduction)."""

    def __init__(self, program: Program, items: tuple[Item, ...], notes: dict[str, Expr]) -> None:
        self.program = program
        self.defs: dict[int, Let | Carry] = {}
        self.want: dict[int, str] = {}  # load -> literal for its inactive lanes
        self.env: dict[int, Val | tuple[Val, ...]] = {}
        self.loads: list[tuple[Let, int, tuple[Block, ...], int]] = []  # legal load, alias class, blocks around it, structured id
        self.lone = lone_stores(items)
        self._define(items)
        self._demand(items)
        asked = {i for i, x in self.defs.items() if x.op == "Load" and x.attrs[3] == "wide"}
        self.copies = {i: dims for i, dims in repeated(items).items() if i in asked}
        self.b = Builder(program, label_order(program, items, self.defs), notes)

    def run(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        for i in items:
            self.item(i)
        return tuple(self.b.blocks[0].items)

    # ---------------------------------------------------------------- before: definitions, demands on padding
    def _define(self, items: tuple[Item, ...]) -> None:
        for i in items:
            if isinstance(i, Let):
                self.defs[i.id] = i
            elif isinstance(i, Loop):
                self._define(i.body)
                self.defs.update({c.id: c for c in i.carries})

    def _demand(self, items: tuple[Item, ...]) -> None:
        """What consumers would like to find in inactive lanes of bare loads."""
        for i in items:
            if isinstance(i, Loop):
                self._demand(i.body)
            for x in i.carries if isinstance(i, Loop) else (i,) if isinstance(i, Let) else ():
                if x.op in ("RedTree", "RedLoop"):
                    dtype = self.defs[x.args[0]].dtype
                    self._ask(x.args[0], identity_text(x.attrs[0], dtype))
                elif x.op in ("RedNTree", "RedNLoop"):
                    idents = x.inits if isinstance(x, Carry) else x.args[: len(x.args) // 2]
                    for a, k in zip(x.args[-len(idents) :], idents):
                        if self.defs[k].op == "Const":
                            self._ask(a, self.defs[k].attrs[0])
                elif x.op in ("ConWhole", "ConAccWhole", "ConLoop", "ConAccLoop"):
                    for a in x.args[:2]:
                        self._ask(a, D.literal(0, self.defs[a].dtype))

    def _ask(self, i: int, text: str) -> None:
        x = self.defs[i]
        while x.op == "Cast":
            y = self.defs[x.args[0]]
            value = D.parse(text, x.dtype)
            if value == 0 and x.dtype != "bool" and y.dtype != "bool" and text != "-0.0":
                text = D.literal(0, y.dtype)
            elif x.dtype in D.FLOATS and y.dtype in D.FLOATS and y.dtype != "f8e4m3fn" and abs(value) == float("inf"):
                text = D.literal(value, y.dtype)
            else:
                return
            x = y
        if x.op == "Load":
            self.want.setdefault(x.id, text)

    # ---------------------------------------------------------------- items
    def val(self, i: int) -> Val:
        v = self.env[i]
        assert isinstance(v, Val)
        return v

    def item(self, i: Item) -> None:
        match i:
            case Let():
                self.env[i.id] = self.let(i)
            case Loop():
                self.loop(i)
            case Store():
                self.store(i)
            case Barrier():
                self.b.blocks[-1].items.append(i)

    def let(self, x: Let) -> Val | tuple[Val, ...]:
        b = self.b
        args = [] if x.op == "Pick" else [self.val(a) for a in x.args]
        match x.op:
            case "Const":
                return b.const(x.attrs[0], x.dtype)
            case "Scalar":
                return b.scalar(x.attrs[0], x.dtype)
            case "Index":
                own = b.sort([d for d in x.dims if axis_of(d) in coords(x.attrs[0])] + [d for a in args for d in a.dims])
                return b.splat(b.let("Index", x.attrs, tuple(args), own, x.dtype), b.sort(x.dims))
            case "Un" | "Bin" | "Tri" | "Bitcast":
                return b.over(x.op, x.attrs, tuple(args), x.dtype, x.dims)
            case "Cast":
                return replace(b.over("Cast", x.attrs, tuple(args), x.dtype, x.dims), pad=cast_pad(args[0].pad, args[0].dtype, x.dtype))
            case "Pick":
                t = self.env[x.args[0]]
                assert isinstance(t, tuple)
                return t[int(x.attrs[0])]
            case "Load":
                return self.load(x, args)
            case "RedTree":
                return self.fragred(x.attrs[0], x.attrs[1], self.neutral(args[0], x.attrs[1], x.attrs[0]))
            case "RedNTree":
                label, region = x.attrs
                n = len(region.dtypes)
                return self.fragredn(label, region, [b.neutral(e, label, k) for e, k in zip(args[n:], args[:n])])
            case "Scan" | "ScanN":
                return scan(self, x, args)
            case "Last":
                return last(self, x.attrs[0], args[0])
            case "ConWhole" | "ConAccWhole":
                return self.contract_whole(x, args)
        raise AssertionError(x.op)

    def load(self, x: Let, args: list[Val]) -> Val:
        b, dims = self.b, self.b.sort({*x.dims, *self.copies.get(x.id, ())})
        valid, fill, deps = args[0], args[1], args[2:]
        if valid.pad == "true":
            mask = b.guarded(b.mask(dims), dims)
            other = fill if mask.pad == "true" else b.const(self.want.get(x.id, D.literal(0, x.dtype)), x.dtype)
        else:
            mask, other = b.guarded(b.mask(dims, valid), dims), fill
        pad = other.pad if not other.dims and mask.pad != "true" else None
        v = b.let("LoadM", x.attrs, (mask, other, *deps), dims, x.dtype, pad=pad)
        v = replace(v, reads=v.reads | {v.id}, bare=True)
        made = b.blocks[-1].items[-1]
        assert isinstance(made, Let)
        self.loads.append((made, self.program.abi.view(x.attrs[0]).alias, tuple(b.blocks), x.id))
        return v

    def store(self, s: Store) -> None:
        b, dims = self.b, self.b.sort(s.dims)
        value, valid = self.val(s.value), self.val(s.valid)
        value = self.zero(value.dtype) if s.mode == "get" else value
        deps = [self.val(d) for d in (*s.places, *((s.expected,) if s.expected >= 0 else ()))]
        deps += [b.guarded(b.mask(dims), dims)] if s.into else []
        mask = b.guarded(b.mask(dims, None if valid.pad == "true" else valid), dims)
        value = b.arranged(value, b.lanes(dims)) if b.lanes(dims) else value
        self.barriers(s, value)
        scope = ("instance" if self.program.alone(self.program.abi.view(s.view).alias) else "device") if s.atomic else ""
        items = b.blocks[-1].items
        items.append(replace(s, value=value.id, valid=mask.id, deps=tuple(d.id for d in deps), dims=dims, masked=True, scope=scope))

    def barriers(self, s: Store, value: Val) -> None:
        """A thread must not overwrite what another has yet to load; an element loaded for its own store alone needs nothing."""
        b, lanes = self.b, self.b.lanes(s.dims)
        for x, alias, around, source in self.loads:
            if alias != self.program.abi.view(s.view).alias:
                continue
            same = (x.attrs[0], x.attrs[2], set(b.lanes(x.dims))) == (s.view, s.ixs, set(lanes))
            if same and self.lone.get(source) == s:
                continue
            common = sum(1 for p, q in zip(around, b.blocks) if p is q)
            block = b.blocks[common - 1]
            if _exposed(block.items):
                block.items.append(Barrier())
            if common > 1:
                block.barrier_at_end = True

    # ---------------------------------------------------------------- reductions and contractions
    def neutral(self, a: Val, label: str, fn: str) -> Val:
        return self.b.neutral(a, label, self.b.const(identity_text(fn, a.dtype), a.dtype))

    def fragred(self, fn: str, label: str, a: Val, accumulated: bool = False) -> Val:
        """A reduction of one fragment (`accumulated`: of accumulators of a loop that has ended).

        Triton 3.6 rewrites an accumulation ``acc = acc + reduce(load)`` of a loop on its own; it aborts when the result is used twice, and
        shows partial sums to other uses of `acc` in the loop. It makes a TF32 matrix product of a sum of products of broadcast fragments,
        whatever precision the program has. ``x·1 + (-0)``, exact for every x and folded later, keeps either from matching.
        """
        if not parameter(label):
            return a
        rank = len(self.b.lanes(a.dims))
        rewritten = (len(self.b.blocks) > 1 and a.bare and rank > 1) or (fn == "sum" and rank > 2)
        if rewritten and not accumulated and a.dtype in ("f32", "f64"):
            a = self.b.over("Tri", ("fma",), (a, self.b.const("1.0", a.dtype), self.b.const("-0.0", a.dtype)), a.dtype)
        return self.b.let("FragRed", (fn, label), (a,), self.b.without(a.dims, label), a.dtype)

    def fragredn(self, label: str, region: Region, elems: list[Val]) -> tuple[Val, ...]:
        b = self.b
        if not parameter(label):
            return tuple(elems)
        union = b.sort(d for e in elems for d in e.dims)
        elems = [b.splat(e, union) for e in elems]
        t = b.let("FragRedN", (label, region), tuple(elems), b.without(union, label), "tuple")
        return tuple(b.let("Pick", (k,), (t,), t.dims, dtype) for k, dtype in enumerate(region.dtypes))

    def zero(self, dtype: str) -> Val:
        return self.b.const(D.literal(0, dtype), dtype)

    def cast(self, a: Val, dtype: str) -> Val:
        if a.dtype == dtype:
            return a
        return replace(self.b.over("Cast", (dtype,), (a,), dtype), pad=cast_pad(a.pad, a.dtype, dtype))

    def operands(self, a: Val, b: Val, label: str) -> tuple[Val, Val]:
        """Operands of a matrix product, zero in the inactive lanes of the contracted label."""
        wide = {"f8e4m3fn": "f16", "f8e5m2": "f16"}  # exact; the 8-bit matrix path does not keep an f32 accumulator
        a, b = (self.b.neutral(x, label, self.zero(x.dtype)) for x in (a, b))
        return self.cast(a, wide.get(a.dtype, a.dtype)), self.cast(b, wide.get(b.dtype, b.dtype))

    def dot(self, a: Val, b: Val, acc: Val, label: str) -> Val:
        """acc + a·b; `acc` has the lanes of the result."""
        bd = self.b
        a, b = self.operands(a, b, label)
        la, lb = set(bd.lanes(a.dims)), set(bd.lanes(b.dims))
        batch, m, n = (tuple(sorted(s - {label}, key=lambda x: bd.rank[x])) for s in (la & lb, la - lb, lb - la))
        a, b = bd.arranged(a, (*batch, *m, label)), bd.arranged(b, (*batch, label, *n))
        scalars = tuple(d for d in bd.sort(x for v in (a, b, acc) for x in v.dims) if not parameter(d))
        order = (*batch, *m, *n)
        out = bd.let("Dot", (label,), (a, b, bd.arranged(acc, order)), (*scalars, *order), acc.dtype)
        return out if bd.lanes(acc.dims) == order else bd.arranged(out, bd.lanes(acc.dims))

    def product(self, a: Val, b: Val, dtype: str) -> Val:
        return self.b.over("Bin", ("mul",), (self.cast(a, dtype), self.cast(b, dtype)), dtype)

    def contract_whole(self, x: Let, args: list[Val]) -> Val:
        b, (impl, label) = self.b, x.attrs
        dims = b.sort(x.dims)
        if impl == "mma":
            return self.dot(args[0], args[1], b.splat(args[2] if len(args) > 2 else self.zero(x.dtype), dims), label)
        r = self.fragred("sum", label, b.neutral(self.product(args[0], args[1], x.dtype), label, self.zero(x.dtype)))
        r = b.splat(r, dims)
        return b.over("Bin", ("add",), (args[2], r), x.dtype) if len(args) > 2 else r

    # ---------------------------------------------------------------- loops
    def loop(self, x: Loop) -> None:
        if x.cond >= 0:
            while_loop(self, x)
            return
        b = self.b
        lo, hi = bounds(self, x)
        plans = [self.carry_inits(c, x.label) for c in x.carries]
        phis = [tuple(Val(b.fresh(), i.dims, i.dtype) for i in inits) for inits in plans]
        for c, p in zip(x.carries, phis):
            if c.op == "Phi":
                self.env[c.id] = p[0]
        b.blocks.append(Block(label=x.label))
        for i in x.body:
            self.item(i)
        nexts = [self.carry_next(c, x.label, p) for c, p in zip(x.carries, phis)]
        block = b.blocks.pop()
        if block.barrier_at_end and _exposed(block.items, stores=True):
            block.items.append(Barrier())
        carries: list[Carry] = []
        for inits, ps, ns in zip(plans, phis, nexts):
            carries += [Carry(p.id, "Phi", (), (n.id,), (i.id,), p.dims, p.dtype) for i, p, n in zip(inits, ps, ns)]
        depth = self.depth(block.items)
        b.blocks[-1].items.append(Loop(x.axis, x.label, x.stage, tuple(carries), tuple(block.items), depth, lo=lo, hi=hi))
        for c, inits, ps, ns in zip(x.carries, plans, phis, nexts):
            done = tuple(replace(p, reads=i.reads | n.reads) for i, p, n in zip(inits, ps, ns))
            self.env[c.id] = self.carry_result(c, x.label, done)

    def depth(self, items: list[Item]) -> int:
        """Pipelining depth of a loop: the row's for innermost loops that load fragments; 1 where a load could overtake a store that it
        depends on."""
        loads = [i for i in items if isinstance(i, Let) and i.op == "LoadM"]
        stores = [i for i in items if isinstance(i, Store)]
        if any(isinstance(i, (Loop, Barrier)) for i in items) or not any(self.b.lanes(x.dims) for x in loads):
            return 1
        alias = {v.name: v.alias for v in self.program.abi.views}
        for x in loads:
            if any(alias[s.view] == alias[x.attrs[0]] and (s.view, s.ixs) != (x.attrs[0], x.attrs[2]) for s in stores):
                return 1
        return self.program.options.get("num_stages", 1)

    def spread(self, c: Carry, label: str) -> bool:
        """Whether the carry accumulates per lane of the loop's label and is reduced after the loop."""
        mode = {"RedLoop": 1, "RedNLoop": 0}.get(c.op)
        lanes = c.attrs[mode] == "lanes" if mode is not None else c.op != "Phi" and c.attrs[0] == "fma"
        return lanes and parameter(label) is not None

    def carry_inits(self, c: Carry, label: str) -> list[Val]:
        b = self.b
        dims = b.sort((*c.dims, label) if self.spread(c, label) else c.dims)
        match c.op:
            case "RedLoop":
                inits = [b.const(identity_text(c.attrs[0], c.dtype), c.dtype)]
            case "RedNLoop" | "Phi":
                inits = [self.val(i) for i in c.inits]
            case "ConAccLoop" if not self.spread(c, label):
                inits = [self.val(c.inits[0])]
            case _:
                inits = [self.zero(c.dtype)]
        out = []
        for v in inits:
            v = b.splat(v, dims) if b.lanes(dims) else v
            out.append(b.arranged(v, b.lanes(dims)) if b.lanes(dims) else v)
        return [replace(v, dims=dims) for v in out]

    def carry_next(self, c: Carry, label: str, phis: tuple[Val, ...]) -> tuple[Val, ...]:
        b, args = self.b, [self.val(a) for a in c.args]
        spread, lane = self.spread(c, label), parameter(label) is not None
        match c.op:
            case "Phi":
                v = b.splat(args[0], phis[0].dims) if b.lanes(phis[0].dims) else args[0]
                return (b.arranged(v, b.lanes(phis[0].dims)) if b.lanes(phis[0].dims) else v,)
            case "RedLoop":
                fn = c.attrs[0]
                a = self.neutral(args[0], label, fn) if lane else args[0]
                a = self.fragred(fn, label, a) if lane and not spread else a
                return (b.over("Bin", (COMBINE[fn],), (phis[0], a), c.dtype, phis[0].dims),)
            case "RedNLoop":
                region: Region = c.attrs[1]
                inits = [self.val(i) for i in c.inits]
                elems = [b.neutral(e, label, k) for e, k in zip(args, inits)] if lane else args
                if lane and not spread:
                    elems = list(self.fragredn(label, region, elems))
                return self.inline(region, phis, elems)
        if c.attrs[0] == "mma":
            return (self.dot(args[0], args[1], phis[0], label),)
        x, y = (self.cast(a, c.dtype) for a in args)
        if lane:
            x, y = (b.splat(v, b.sort((*v.dims, label))) if label not in (*x.dims, *y.dims) else v for v in (x, y))
        clean = not lane or not b.padded(label) or (x.pad == y.pad == D.literal(0, c.dtype) and label in x.dims and label in y.dims)
        fused = c.dtype in D.FLOATS
        if fused:
            out = b.over("Tri", ("fma",), (x, y, phis[0]), c.dtype)
        else:
            out = b.over("Bin", ("add",), (phis[0], self.product(x, y, c.dtype)), c.dtype)
        return (out if clean else b.over("Tri", ("select",), (b.active(label), out, phis[0]), c.dtype),)

    def carry_result(self, c: Carry, label: str, phis: tuple[Val, ...]) -> Val | tuple[Val, ...]:
        if not self.spread(c, label):
            return phis if c.op == "RedNLoop" else phis[0]
        if c.op == "RedNLoop":
            return self.fragredn(label, c.attrs[1], list(phis))
        r = self.fragred(c.attrs[0] if c.op == "RedLoop" else "sum", label, phis[0], accumulated=True)
        if c.op == "ConAccLoop":
            return self.b.over("Bin", ("add",), (self.val(c.inits[0]), r), c.dtype)
        return r

    def inline(self, region: Region, left: tuple[Val, ...], right: list[Val]) -> tuple[Val, ...]:
        """The combine region applied lane by lane."""
        b = self.b
        env: dict[int, Val] = {}
        for x in region.body:
            if x.op == "Arg":
                env[x.id] = (left if x.attrs[0] == "l" else right)[x.attrs[1]]
            elif x.op == "Const":
                env[x.id] = b.const(x.attrs[0], x.dtype)
            else:
                env[x.id] = b.over(x.op, x.attrs, tuple(env[a] for a in x.args), x.dtype)
        out = []
        for y, phi in zip(region.yields, left):
            v = b.splat(env[y], phi.dims) if b.lanes(phi.dims) else env[y]
            out.append(b.arranged(v, b.lanes(phi.dims)) if b.lanes(phi.dims) else v)
        return tuple(out)


def _exposed(items: list[Item], stores: bool = False) -> bool:
    """Whether a block has done memory accesses since its last barrier."""
    for i in reversed(items):
        if isinstance(i, Barrier):
            return False
        if isinstance(i, Loop) or (isinstance(i, Let) and i.op == "LoadM") or (stores and isinstance(i, Store)):
            return True
    return False


__all__ = ["COMBINE", "legalize"]
