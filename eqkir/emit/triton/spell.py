"""Legal program -> text of the kernel: one construct an item. It decides nothing: names, layout of lines and comments are its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from eqkir.base.expr import PREDICATES, Expr, Int, Param, coords, substitute
from eqkir.emit.triton.address import KernelText, Place, expand, pointer, spelled_dims
from eqkir.emit.triton.combine import built_in
from eqkir.emit.triton.combine import region as combine_region
from eqkir.emit.triton.forms import COMPARE, TYPES, Forms
from eqkir.emit.triton.names import Naming, clean
from eqkir.emit.triton.spell_space import decode, labels_of, operands_of
from eqkir.emit.triton.width import Widths
from eqkir.program.abi import axis_of, member_labels, parameter, step_parameter, traversal
from eqkir.program.model import Barrier, Carry, Item, Let, Loop, Program, Region, Store, order_labels

#: who takes part in an atomic operation -> Triton's scope
SCOPE = {"instance": "cta", "device": "gpu"}
#: load form -> cache policy
POLICIES = {"stream": ', eviction_policy="evict_first"', "keep": ', eviction_policy="evict_last"'}


@dataclass
class Lines:
    out: list[str] = field(default_factory=list)
    depth: int = 1

    def add(self, text: str) -> None:
        self.out.append("    " * self.depth + text)


class SegmentText:
    """The body of one segment; `lid` is defined."""

    def __init__(
        self, program: Program, number: int, names: Naming, forms: Forms, helpers: dict[str, str], depth: int, widths: tuple[Widths, ...]
    ) -> None:
        segment = program.segments[number]
        self.program, self.number, self.segment, self.names, self.forms, self.helpers = program, number, segment, names, forms, helpers
        self.lines, self.all_widths = Lines(depth=depth), widths
        self.exprs = KernelText(names.signed, forms.use)
        self.bound = {Param(p): Int(v) for p, v in program.bindings.items()}
        self.places: dict[str, Place] = {}
        self.texts: dict[int, str] = {}
        self.dims: dict[int, tuple[str, ...]] = {}
        self.dtypes: dict[int, str] = {}
        self.picks: dict[int, list[str]] = {}
        self.counters: dict[str, bool] = {}  # loop variables, and whether what bounds them is data
        self.phase, self.origin = 0, ""
        self.trues: set[int] = set()
        self.needed: set[int] = set()
        labels = set(order_labels(segment.order)) | {x for ph in segment.phases for x in labels_of(ph, program.axis)}
        axes = [axis_of(x) for x in labels]
        self.taken = set(names.taken)
        self.stem: dict[str, str] = {}
        for x in sorted(labels):
            stem = clean(axis_of(x)) + ("" if axes.count(axis_of(x)) == 1 else "_" + traversal(x))
            self.stem[x] = self.unique(stem, "_at", "_lane", "_from")

    def unique(self, stem: str, *suffixes: str) -> str:
        """A free identifier of this segment, taken from now on together with its suffixed forms."""
        n, name = 1, stem
        while {name, *(name + s for s in suffixes)} & self.taken:
            n += 1
            name = f"{stem}_{n}"
        self.taken |= {name, *(name + s for s in suffixes)}
        return name

    # ---------------------------------------------------------------- expressions
    def launch(self, e: Expr) -> str:
        """A launch expression inside the kernel."""
        return self.exprs.integer(substitute(e, self.bound), lambda a: self.names.integer(a.args[0]))

    def lanes(self, dims: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(d for d in dims if parameter(d))

    def shape(self, dims: tuple[str, ...]) -> str:
        return spelled_dims(self.lanes(dims), self.program.lanes)

    def operand(self, i: int, dims: tuple[str, ...]) -> str:
        """Value `i` broadcastable to `dims`."""
        return expand(self.texts[i], self.lanes(self.dims[i]), self.lanes(dims))

    def full(self, i: int, dims: tuple[str, ...], keep: bool = False) -> str:
        """The same, an index as the 64-bit integer that it stands for (`keep`: as it is carried)."""
        w = self.widths.small(i) if self.dtypes[i] == "index" else None
        return self.operand(i, dims) if keep or w is None else self.forms.widen(self.operand(i, dims), w.extremes)

    @property
    def widths(self) -> Widths:
        return self.all_widths[self.phase]

    def index(self, e: Expr, deps: tuple[int, ...], dims: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """An index expression or predicate over coordinates and data operands; its lane labels."""
        e = substitute(e, self.bound)
        here = {axis_of(d): d for d in dims}
        used = {here[a] for a in coords(e)} | {d for i in deps for d in self.dims[i]}
        have = tuple(d for d in self.lanes(dims) if d in used)

        def atom(a: Expr) -> str:
            if a.op == "coord":
                d = here[a.args[0]]
                return expand(self.places[d].full, (d,) if parameter(d) else (), have)
            if a.op == "dep":
                i = deps[a.args[0]]
                return self.full(i, have) + (".to(tl.int64)" if e.op != "dep" else "")
            return self.names.integer(a.args[0])

        return self.exprs.text(e, atom), have

    def address(self, view: str, ixs: tuple[Expr, ...], deps: tuple[int, ...], dims: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        strides = tuple(self.names.stride(view, k) for k in range(len(ixs)))
        ixs = tuple(substitute(e, self.bound) for e in ixs)
        return pointer(self.names.views[view], strides, ixs, dims, self.places, self.launch, lambda e: self.index(e, deps, dims))

    # ---------------------------------------------------------------- program space
    def place(self, label: str, block: str) -> None:
        """Define the coordinate of an instance label from its block index."""
        n, s = self.stem[label], self.program.lanes(label)
        if parameter(label) is None:
            self.lines.add(f"{n} = {block}")
            self.places[label] = Place(n, "", n)
        else:
            self.lines.add(f"{n}_at = {block} * {s}")
            self.lane(label)
            self.places[label] = Place(f"{n}_at", f"{n}_lane", f"({n}_at + {n}_lane)")

    def lane(self, label: str) -> None:
        self.lines.add(f"{self.stem[label]}_lane = tl.arange(0, {self.program.lanes(label)}).to(IDX)")

    def body(self) -> list[str]:
        """Decode and all phases."""
        if self.segment.order[0] != "TUnit":
            decode(self, self.segment.order, "lid")
        inner = {x for ph in self.segment.phases for x in labels_of(ph, self.program.axis)} - set(order_labels(self.segment.order))
        for x in sorted(d for d in inner if parameter(d)):
            self.lane(x)
            if traversal(x) in ("W", "MW"):
                self.places[x] = Place("", f"{self.stem[x]}_lane", f"{self.stem[x]}_lane")
        for x in sorted(d for d in inner if traversal(d) == "SW"):
            self.places[x] = Place("0", "", "0")
        for k, ph in enumerate(self.segment.phases):
            if k:
                self.lines.add("tl.debug_barrier()")
            self.phase = k
            self.texts, self.dims, self.dtypes = {}, {}, {}
            self.trues = {i.id for i in ph if isinstance(i, Let) and i.op == "Const" and i.dtype == "bool" and i.attrs[0] == "true"}
            self.needed = operands_of(ph, self.trues)
            for i in ph:
                self.item(i)
        return self.lines.out

    # ---------------------------------------------------------------- items
    def comment(self, i: int) -> None:
        text = self.program.origins.get(f"{self.number}/{self.phase}/{i}", "")
        if text and text != self.origin:
            self.lines.add("# " + " ".join(text.split()))
            self.origin = text

    def define(self, x: Let | Carry, text: str, stem: str = "v") -> None:
        n = self.unique(f"{stem}{x.id}")
        self.lines.add(f"{n} = {text}")
        self.record(x, n)

    def record(self, x: Let | Carry, text: str) -> None:
        self.texts[x.id], self.dims[x.id], self.dtypes[x.id] = text, x.dims, x.dtype

    def item(self, i: Item) -> None:
        match i:
            case Let():
                self.comment(i.id)
                self.let(i)
            case Loop():
                self.loop(i)
            case Store():
                self.store(i)
            case Barrier():
                self.lines.add("tl.debug_barrier()")

    def let(self, x: Let) -> None:
        f, small = self.forms, x.dtype == "index" and self.widths.small(x.id) is not None
        keep = small or (x.op == "Bin" and x.attrs[0] in COMPARE and all(self.widths.small(a) is not None for a in x.args))

        def arg(k: int) -> str:
            return self.full(x.args[k], x.dims, keep)

        src = self.dtypes.get(x.args[0], "") if x.args else ""
        match x.op:
            case "Const" if x.id not in self.needed:
                self.record(x, "None")  # read by nothing that is written
            case "Const":
                self.define(x, f.small_const(x.attrs[0]) if small else f.const(x.attrs[0], x.dtype), "c")
            case "Scalar":
                self.define(x, self.scalar(x.attrs[0], x.dtype), clean(x.attrs[0]) + "_")
            case "Index":
                self.define(x, self.index_value(x), "i" if x.dtype != "bool" else "m")
            case "Un":
                self.define(x, f.unary(x.attrs[0], arg(0), src))
            case "Bin":
                self.define(x, f.binary(x.attrs[0], arg(0), arg(1), src), "m" if x.dtype == "bool" else "v")
            case "Tri":
                self.define(x, f.ternary(x.attrs[0], arg(0), arg(1), arg(2), x.dtype))
            case "Cast":
                self.define(x, f.cast(arg(0), src, x.dtype))
            case "Bitcast":
                self.define(x, f.bitcast(arg(0), src, x.dtype))
            case "Pick":
                self.record(x, self.picks[x.args[0]][x.attrs[0]])
            case "Active":
                self.define(x, self.active(x.attrs[0]), "m")
            case "LoadM":
                self.load(x)
            case "FragRed":
                self.reduce(x)
            case "FragRedN":
                self.combine_tuple(x, "reduce")
            case "FragScan":
                self.scan(x)
            case "FragScanN":
                self.combine_tuple(x, "associative_scan")
            case "Dot":
                out = TYPES[x.dtype]
                precision = ', input_precision="ieee"' if src in ("f32", "f64") else ""
                a, b, c = (self.texts[i] for i in x.args)
                f.fused |= src in ("f32", "f64")  # products on the vector unit; a contraction may fuse them
                self.define(x, f"tl.dot({a}, {b}, {c}{precision}, out_dtype={out})", "dot")
            case "Splat":
                self.define(x, f"tl.broadcast_to({arg(0)}, {self.shape(x.dims)})" if self.lanes(x.dims) else arg(0))
            case "Trans":
                have, want = self.lanes(self.dims[x.args[0]]), self.lanes(x.dims)
                self.define(x, f"tl.permute({self.texts[x.args[0]]}, ({', '.join(str(have.index(d)) for d in want)}))")
            case _:
                raise ValueError(f"{x.op} is not a legal operation")

    def scalar(self, name: str, dtype: str) -> str:
        n = self.names.scalars[name]
        if dtype == "f64":
            return f"tl.cast({n}, tl.int64).to(tl.float64, bitcast=True)"
        if dtype == "bool":
            return f"(tl.cast({n}, tl.int32) != 0)"
        if dtype in ("f16", "bf16", "f32", "f8e4m3fn", "f8e5m2"):
            return self.forms.cast(f"tl.cast({n}, tl.float32)", "f32", dtype)
        return f"tl.cast({n}, {TYPES[dtype]})"

    def index_value(self, x: Let) -> str:
        e = x.attrs[0]
        text, _ = self.index(e, x.args, x.dims)
        if x.dtype == "bool":
            if e.value is not None:
                return self.forms.const("true" if e.value else "false", "bool")
            return text if e.op in PREDICATES else f"({text} != 0)"
        return f"tl.cast({text}, {'IDX' if self.widths.small(x.id) is not None else TYPES[x.dtype]})"

    def active(self, label: str) -> str:
        text = f"{self.places[label].full} < {self.launch(self.program.axis[axis_of(label)].extent)}"
        flag = self.names.flags.get(label)
        return f"({text}) | {flag}" if flag else text

    def load(self, x: Let) -> None:
        mask, other, deps = x.args[0], x.args[1], x.args[2:]
        text, have = self.address(x.attrs[0], x.attrs[2], deps, x.dims)
        want = self.lanes(x.dims)
        if have != want:
            text = f"tl.broadcast_to({expand(f'({text})', have, want)}, {self.shape(x.dims)})"
        policy = POLICIES.get(x.attrs[3], "")
        self.define(x, f"tl.load({text}{self.masked(mask, x.dims)}{self.other(mask, other, x.dims)}{policy})", clean(x.attrs[0]) + "_")

    def masked(self, mask: int, dims: tuple[str, ...]) -> str:
        return "" if self.constant_true(mask) else f", mask={self.operand(mask, dims)}"

    def other(self, mask: int, other: int, dims: tuple[str, ...]) -> str:
        return "" if self.constant_true(mask) else f", other={self.full(other, dims)}"

    def constant_true(self, i: int) -> bool:
        return i in self.trues

    def store(self, s: Store) -> None:
        text = self.pointers(s.view, s.ixs, s.places, s.dims)
        if not s.atomic:
            self.lines.add(f"tl.store({text}, {self.full(s.value, s.dims)}{self.masked(s.valid, s.dims)})")
            return
        old, mask = self.atomic(s, text), "" if self.constant_true(s.valid) else self.spread(s.valid, s.dims)
        if not s.into:
            self.lines.add(old)
            return
        name = self.unique("old")
        self.lines.add(f"{name} = {old}")
        if mask:
            self.lines.add(f"{name} = tl.where({mask}, {name}, 0)")
        self.lines.add(f"tl.store({self.pointers(s.into, s.at, (), s.dims)}, {name}{self.masked(s.live, s.dims)})")

    def pointers(self, view: str, ixs: tuple[Expr, ...], deps: tuple[int, ...], dims: tuple[str, ...]) -> str:
        text, have = self.address(view, ixs, deps, dims)
        want = self.lanes(dims)
        return text if have == want else f"tl.broadcast_to({expand(f'({text})', have, want)}, {self.shape(dims)})"

    def spread(self, i: int, dims: tuple[str, ...]) -> str:
        """A value with every lane of `dims`."""
        value = self.full(i, dims)
        return f"tl.broadcast_to({value}, {self.shape(dims)})" if self.lanes(dims) and not self.lanes(self.dims[i]) else value

    def atomic(self, s: Store, at: str) -> str:
        """The call of an atomic operation. Where a compare-exchange is not valid it goes to an element of the workspace for old values,
        and expects what it would write: it changes nothing. An atomic load adds zero."""
        sem = f'sem="{s.order}", scope="{SCOPE[s.scope]}"'
        value = self.spread(s.value, s.dims)
        valid = "" if self.constant_true(s.valid) else self.spread(s.valid, s.dims)
        if s.mode == "compare_exchange":
            expected = self.spread(s.expected, s.dims)
            if valid:
                spare, shape = self.names.views[s.into], self.shape(s.dims) if self.lanes(s.dims) else ""
                spare = f"tl.broadcast_to({spare}, {shape})" if shape else spare
                at, expected = f"tl.where({valid}, {at}, {spare})", f"tl.where({valid}, {expected}, {value})"
            return f"tl.atomic_cas({at}, {expected}, {value}, {sem})"
        fn = {"exchange": "xchg", "put": "xchg", "get": "add"}.get(s.mode, s.mode)
        return f"tl.atomic_{fn}({at}, {value}{f', mask={valid}' if valid else ''}, {sem})"

    def reduce(self, x: Let) -> None:
        fn, label = x.attrs
        have = self.lanes(self.dims[x.args[0]])
        a = self.full(x.args[0], self.dims[x.args[0]], x.dtype == "index" and self.widths.small(x.id) is not None)
        carrier = self.forms.carrier(x.dtype)
        name = built_in(fn, x.dtype, self.forms, self.helpers)
        text = f"tl.reduce({self.forms.cast(a, x.dtype, carrier)}, {have.index(label)}, {name})"
        self.define(x, self.forms.cast(text, carrier, x.dtype), f"{fn}")

    def scan(self, x: Let) -> None:
        fn, label = x.attrs
        have = self.lanes(self.dims[x.args[0]])
        carrier = self.forms.carrier(x.dtype)
        name = built_in(fn, x.dtype, self.forms, self.helpers)
        a = self.forms.cast(self.full(x.args[0], self.dims[x.args[0]]), x.dtype, carrier)
        self.define(x, self.forms.cast(f"tl.associative_scan({a}, {have.index(label)}, {name})", carrier, x.dtype), f"{fn}s")

    def combine_tuple(self, x: Let, how: str) -> None:
        """A reduction or a scan of a tuple."""
        label, region = x.attrs
        assert isinstance(region, Region)
        have = self.lanes(self.dims[x.args[0]])
        carriers = [self.forms.carrier(t) for t in region.dtypes]
        args = [self.full(a, self.dims[a], w is not None) for a, w in zip(x.args, self.widths.parts[x.id])]
        text = ", ".join(self.forms.cast(a, t, c) for a, t, c in zip(args, region.dtypes, carriers))
        name = combine_region(region, self.forms, self.helpers)
        outs = [self.unique(f"r{x.id}_{k}") for k in range(len(carriers))]
        if len(outs) == 1:
            self.lines.add(f"{outs[0]} = tl.{how}({text}, {have.index(label)}, {name})")
        else:
            self.lines.add(f"{', '.join(outs)} = tl.{how}(({text}), {have.index(label)}, {name})")
        self.picks[x.id] = [self.forms.cast(o, c, t) for o, c, t in zip(outs, carriers, region.dtypes)]

    def loop(self, x: Loop) -> None:
        n = self.stem[x.label]
        for c in x.carries:
            self.comment(c.id)
            self.define(c, self.carried(c, c.inits[0]), "acc")
        if x.cond >= 0:
            self.while_loop(x)
            return
        extent = self.launch(self.program.axis[x.axis].extent)
        stages = f", num_stages={x.stages}" if x.stages > 1 else ""
        step = step_parameter(x.label)
        lanes = self.program.bindings[step] if step else 1
        var, bounded = f"{n}_from", x.lo >= 0 or x.hi >= 0
        if self.counters.setdefault(var, bounded) != bounded:  # a bound that is data may be wider than an extent, and a name has one type
            var = self.unique(var)
        first, end = "0", extent
        if x.lo >= 0:
            first = self.unique(f"{n}_first")
            at = f"tl.maximum({self.full(x.lo, ())}, 0)"
            self.lines.add(f"{first} = {at if lanes == 1 else f'{at} // {lanes} * {lanes}'}")
        if x.hi >= 0:
            end = self.unique(f"{n}_end")
            self.lines.add(f"{end} = tl.minimum({self.full(x.hi, ())}, {extent})")
        self.lines.add(f"for {var} in tl.range({first}, {end}, {lanes}{stages}):")
        self.lines.depth += 1
        if parameter(x.label):
            self.lines.add(f"{n}_at = tl.cast({var}, IDX)")
            self.places[x.label] = Place(f"{n}_at", f"{n}_lane", f"({n}_at + {n}_lane)")
        else:
            self.lines.add(f"{n} = tl.cast({var}, IDX)")
            self.places[x.label] = Place(n, "", n)
        if traversal(x.label) in ("S1", "SC"):
            for m in member_labels(x.label, self.program.axis):
                self.places[m] = Place(n, f"{self.stem[m]}_lane", f"({n} + {self.stem[m]}_lane)") if parameter(m) else Place(n, "", n)
        self.body_of(x)
        self.lines.depth -= 1

    def body_of(self, x: Loop) -> None:
        """The items of a loop, then all carries at once."""
        for i in x.body:
            self.item(i)
        if x.carries:
            self.lines.add(f"{', '.join(self.texts[c.id] for c in x.carries)} = {', '.join(self.carried(c, c.args[0]) for c in x.carries)}")
        elif not x.body:
            self.lines.add("pass")

    def while_loop(self, x: Loop) -> None:
        """Steps until the condition is false in every lane; the last step changes nothing."""
        n, on = self.stem[x.label], self.unique(f"{self.stem[x.label]}_on")
        self.lines.add(f"{on} = tl.full((), True, tl.int1)")
        self.lines.add(f"{n} = tl.full((), 0, IDX)")
        self.places[x.label] = Place(n, "", n)
        self.lines.add(f"while {on}:")
        self.lines.depth += 1
        self.body_of(x)
        cond = self.texts[x.cond]
        if self.lanes(self.dims[x.cond]):
            name = built_in("any", "bool", self.forms, self.helpers)
            cond = self.forms.cast(f"tl.reduce({self.forms.cast(cond, 'bool', 'i32')}, None, {name})", "i32", "bool")
        self.lines.add(f"{on} = {cond}")
        self.lines.add(f"{n} = {n} + 1")
        self.lines.depth -= 1

    def carried(self, c: Carry, i: int) -> str:
        return self.full(i, self.dims[i], c.dtype == "index" and self.widths.small(c.id) is not None)


__all__ = ["SegmentText"]
