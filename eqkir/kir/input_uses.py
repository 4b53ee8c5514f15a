"""What a kernel does with the numbers that it loads, as far as valid input depends on it.

A number that becomes a coordinate is drawn from the extent of its axis, one that bounds a part of a domain from that domain, a byte
that is decoded as the format says. Loaded values are followed through movement, casts, selections, sums and multiples, loops'
initial carries and buffers; what is not seen here takes an explicit entry (`kir.input_data`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from eqkir.base.dtypes import INTS, bits
from eqkir.base.expr import ONE, Expr, Int, mul, rebuild, sub
from eqkir.kir import ops
from eqkir.kir.extents import symbols_of
from eqkir.kir.model import Kernel, Op, Region, View, extent_expr
from eqkir.kir.types import BufferType, Context, DomainType, TensorType, infer_all

Entry = dict[str, Any]
#: of several uses of a view the first of these counts
RANK: Final = ("records", "places", "codes", "offsets", "permuted", "distinct", "below", "around", "upto", "range", "uniform", "normal")
#: operations whose results are elements of their operand `x`
_MOVES = (ops.Reshape, ops.Broadcast, ops.Transpose, ops.Gather, ops.AssumeInBounds)
Origin = tuple[str, Expr]  # view, and the factor that the loaded number is multiplied by


class Uses:
    """One pass over a kernel without calls."""

    def __init__(self, kernel: Kernel) -> None:
        self.ctx: Context = infer_all(kernel)[0]
        self.views = {p.id: p for p in kernel.params if isinstance(p, View)}
        self.origin: dict[str, Origin] = {}
        self.coordinate: dict[str, str] = {}  # value -> the domain that it is a coordinate of
        self.known: dict[str, Expr] = {}  # integer constants and extents
        self.ends: dict[str, Origin] = {}  # domain -> the loaded number that ends it
        self.found: dict[str, list[Entry]] = {}
        self.body(kernel.body)

    # ------------------------------------------------------------------ results
    def entries(self) -> dict[str, Entry]:
        """The entry of every view whose use says something."""
        out: dict[str, Entry] = {}
        for view, found in sorted(self.found.items()):
            kind = min((next(iter(e)) for e in found), key=RANK.index)
            same = [e[kind] for e in found if kind in e]
            what = same[0]
            for other in same[1:]:
                if isinstance(what, Expr) and other != what:
                    what = rebuild("min", (what, other))
            out[view] = {kind: what}
        return out

    def say(self, x: str | None, kind: str, what: Any) -> None:
        """Note a use of the loaded number behind a value."""
        if x in self.origin:
            view, factor = self.origin[x]
            if isinstance(what, Expr) and factor != ONE:
                what = rebuild("floordiv", (what, factor))
            self.found.setdefault(view, []).append({kind: what})

    # ------------------------------------------------------------------ walk
    def body(self, body: Iterable[Op]) -> None:
        for op in body:
            self.uses(op)
            self.flow(op)
            for r in op.regions():
                self.region(op, r)

    def region(self, op: Op, r: Region) -> None:
        """Arguments that stand for values outside."""
        pairs: list[tuple[str, str]] = []
        match op:
            case ops.For():
                self.coordinate[r.args[0].id] = op.domain
                pairs = [(a.id, x) for a, x in zip(r.args[1:], op.inits, strict=False)]
            case ops.While():
                pairs = [(a.id, x) for a, x in zip(r.args, op.inits, strict=False)]
            case ops.Parallel():
                self.coordinate.update((a.id, d) for a, d in zip(r.args, op.domains, strict=False))
            case ops.RegionFold() | ops.RegionScan() if r is op.summarize or (isinstance(op, ops.RegionScan) and r is op.emit):
                n = len(r.args) - len(op.captures)
                pairs = [(a.id, x) for a, x in zip(r.args[1:], op.xs, strict=False)]
                pairs += [(a.id, x) for a, x in zip(r.args[n:], op.captures, strict=False)]
        for inner, outer in pairs:
            self.same(inner, outer)
        self.body(r.body)

    def same(self, new: str, old: str) -> None:
        tables: tuple[dict[str, Any], ...] = (self.origin, self.coordinate, self.known)
        for table in tables:
            if old in table:
                table[new] = table[old]

    # ------------------------------------------------------------------ flow
    def flow(self, op: Op) -> None:
        r = op.results[0] if op.results else ""
        match op:
            case ops.Constant() if op.dtype in INTS:
                self.known[r] = Int(int(op.value))
            case ops.ExtentOp():
                self.known[r] = extent_expr(op.extent)
            case ops.Load() | ops.AtomicLoad():
                v = self.views.get(op.view)
                if op.view in self.origin:  # a buffer
                    self.origin[r] = self.origin[op.view]
                elif v is not None and v.role != "out":
                    self.origin[r] = (op.view, ONE)
            case ops.Store() if op.view not in self.views:
                self.same(op.view, op.value)
            case ops.Indices():
                self.coordinate[r] = op.domain
            case ops.Cast() if self.integral(op.x) and op.dtype in INTS:
                self.same(r, op.x)
            case ops.Full():
                self.same(r, op.value)
            case ops.Select():
                self.same(r, op.y)
                self.same(r, op.x)
            case ops.Binary() if op.fn in ("add", "sub", "maximum", "minimum"):
                self.same(r, op.y)
                self.same(r, op.x)
                self.known.pop(r, None)
            case ops.Binary(fn="mul"):
                for x, y in ((op.x, op.y), (op.y, op.x)):
                    if x in self.origin and y in self.known:
                        self.origin[r] = (self.origin[x][0], mul(self.origin[x][1], self.known[y]))
            case _ if isinstance(op, _MOVES):
                self.same(r, op.x)
            case ops.Domain() | ops.Subregion():
                end = self.loaded(op.end)
                if end is not None:
                    self.ends[r] = end

    def integral(self, x: str) -> bool:
        t = self.ctx.types.get(x)
        return isinstance(t, TensorType) and t.dtype in INTS

    def loaded(self, extent: Any) -> Origin | None:
        """The loaded number in an extent."""
        names = [s for s in symbols_of(extent_expr(extent)) if s in self.origin]
        return self.origin[names[0]] if names else None

    # ------------------------------------------------------------------ uses
    def axes(self, name: str) -> tuple[Expr, ...]:
        """Extents of a resource or of a tensor."""
        t = self.ctx.types.get(name)
        if isinstance(t, (TensorType, BufferType)):
            return t.shape
        return tuple(extent_expr(e) for e in self.views[name].shape) if name in self.views else ()

    def access(self, op: Any, name: str) -> None:
        plain = isinstance(op, (ops.Store, ops.UniqueScatter))
        for c, n in zip(op.coords, self.axes(name), strict=False):
            if plain:
                self.say(c, "distinct" if op.valid else "permuted", n)
            else:
                self.say(c, "around" if op.valid else "below", n)
            domain = self.coordinate.get(c)
            if domain in self.ends:  # a loaded number of members
                self.found.setdefault(self.ends[domain][0], []).append({"upto": n})

    def uses(self, op: Op) -> None:
        match op:
            case ops.Load() | ops.Write() | ops.AtomicLoad() | ops.AtomicCompareExchange():
                self.access(op, op.view)
            case ops.Gather():
                self.access(op, op.x)
            case ops.Histogram():
                self.say(op.x, "around" if op.valid else "below", extent_expr(op.bins))
            case ops.Subregion():
                self.part(op)
            case ops.Compare():
                for x, y in ((op.x, op.y), (op.y, op.x)):
                    d = self.ctx.types.get(self.coordinate.get(y, ""))
                    if x in self.origin and isinstance(d, DomainType):
                        self.say(x, "around" if op.fn in ("eq", "ne") else "upto", d.length)
            case ops.Binary(fn="shl" | "shr") if self.integral(op.y):
                self.say(op.y, "range", [0, bits(self.ctx.types[op.y].dtype) - 1])  # type: ignore[union-attr]
            case ops.Binary(fn="floordiv" | "mod"):
                self.say(op.y, "range", [1, 9])
            case ops.While():
                for x in op.inits:
                    if self.integral(x):
                        self.say(x, "range", [1, 60])
            case ops.Quantize():
                self.say(op.x, "normal", 1.0)
            case ops.Cast() if op.dtype in INTS and not self.integral(op.x):
                self.say(op.x, "normal", 1.0)
            case ops.SparseContract():
                self.say(op.meta, *(("places", 4) if op.pattern == "two_of_four" else ("range", [0, 1])))
            case ops.ScaledContract():
                for s in (op.lhs_scale, op.rhs_scale):
                    self.say(s, *(("range", [120, 134]) if self.integral(s) else ("uniform", [0.5, 2.0])))
                for x, f in ((op.lhs, op.lhs_format), (op.rhs, op.rhs_format)):
                    if f == "e4m3" and self.integral(x):
                        self.say(x, "codes", "e4m3")
            case ops.QuantizedDot():
                self.say(op.lhs, "records", op.lhs_format)
                self.say(op.rhs, "records", op.rhs_format)

    def part(self, op: ops.Subregion) -> None:
        source = self.ctx.types.get(op.domain)
        if not isinstance(source, DomainType):
            return
        begin, end = self.loaded(op.begin), self.loaded(op.end)
        length = sub(source.end, source.begin)
        for o in {o for o in (begin, end) if o is not None}:
            both = begin is not None and end is not None and begin[0] == end[0]
            self.found.setdefault(o[0], []).append({"offsets" if both and len(self.views[o[0]].shape) == 1 else "upto": length})


def infer_entries(kernel: Kernel) -> dict[str, Entry]:
    """Entries of `kir.input_data` for the views of a kernel, from the uses of what is loaded from them.

    Only integers are told by their use (and floats that scale, or that become integers); parameters are expressions over the symbols.
    """
    uses = Uses(kernel)
    names = {s.id for s in kernel.symbols} | {p.id for p in kernel.params if not isinstance(p, View)}
    out = {}
    for view, entry in uses.entries().items():
        ((kind, what),) = entry.items()
        told = uses.views[view].dtype in INTS or kind in ("uniform", "normal")
        if told and (not isinstance(what, Expr) or set(symbols_of(what)) <= names):
            out[view] = entry
    return out
