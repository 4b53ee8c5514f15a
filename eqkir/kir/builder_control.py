"""Control and folds over slices in the builder (see `kir.builder`).

with k.for_(n, total) as loop:              # loop.i, loop.carried
    t = loop.carried[0] + X[loop.i]
    loop.break_if(t > 100.0, t)
    loop.yield_(t)
total = loop.result

with k.while_(x) as loop:
    (x,) = loop.test(loop.carried[0] > 1)   # what follows is the body, on its own carries
    loop.yield_(x >> 1)

with k.if_(c) as branch:
    branch.yield_(a)
with branch.otherwise():
    branch.yield_(b)
y = branch.result
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

from eqkir.base.expr import Sym
from eqkir.kir import ops
from eqkir.kir.builder_core import Captures, Core, argument, caller
from eqkir.kir.builder_structured import Structured
from eqkir.kir.model import Arg, Region
from eqkir.kir.refs import DomainRef, Points
from eqkir.kir.types import DomainType, Type
from eqkir.kir.values import Dim, Value, flat


class _Yielding:
    """Something whose regions yield."""

    def __init__(self, k: Core, inits: Sequence[Value]) -> None:
        self.k, self.inits, self.loc = k, tuple(inits), caller()
        self.yields: tuple[Value, ...] = ()
        self.results: tuple[Value, ...] = ()

    def types(self) -> list[Type]:
        return [self.k._context.types[x.id] for x in self.inits]

    def values(self, values: Sequence[Any]) -> tuple[Value, ...]:
        """Numbers take the dtype of the carry."""
        like = [x.dtype if not x.is_record else None for x in self.inits]
        return tuple(self.k.value(v, d) for v, d in zip(values, like, strict=True)) if len(values) == len(like) else tuple(values)

    def yield_(self, *values: Any) -> None:
        """The values that the open region gives."""
        self.yields = self.values(values)

    @property
    def result(self) -> Value:
        (x,) = self.results
        return x

    def break_if(self, cond: Value, *values: Any) -> None:
        """Where `cond`, the loop ends with these carries (none given: the carries as the iteration found them)."""
        self.k.emit(ops.Break, 0, cond=cond.id, values=tuple(v.id for v in self.leaving(values)))

    def continue_if(self, cond: Value, *values: Any) -> None:
        """Where `cond`, the iteration ends with these carries."""
        self.k.emit(ops.Continue, 0, cond=cond.id, values=tuple(v.id for v in self.leaving(values)))

    def leaving(self, values: Sequence[Any]) -> tuple[Value, ...]:
        return self.values(values or self.carried)

    carried: tuple[Value, ...] = ()


class ForLoop(_Yielding):
    """``with k.for_(domain, *inits) as loop``: `i` is the point, `carried` the carries, `results` what the loop gives."""

    def __init__(self, k: Core, domain: DomainRef, inits: Sequence[Value]) -> None:
        super().__init__(k, inits)
        self.domain = domain

    def __enter__(self) -> ForLoop:
        types = self.types()
        self.i, *carried = self.k.open([("index", ()), *types], types)
        self.carried = tuple(carried)
        return self

    def __exit__(self, *exc: object) -> None:
        region = self.k.close(self.yields)
        if exc[0] is None:
            inits = tuple(x.id for x in self.inits)
            self.results = self.k.emit(ops.For, len(inits), domain=self.domain.id, inits=inits, body=region, loc=self.loc)


class WhileLoop(_Yielding):
    """``with k.while_(*inits) as loop``: the condition on `carried`, ended by `test`, then the body."""

    cond: Region | None = None

    def __enter__(self) -> WhileLoop:
        self.carried = tuple(self.k.open(self.types(), None))
        return self

    def test(self, cond: Value) -> tuple[Value, ...]:
        """End the condition; the carries of the body."""
        self.cond = self.k.close((cond,))
        types = self.types()
        self.carried = tuple(self.k.open(types, types))
        return self.carried

    def __exit__(self, *exc: object) -> None:
        region = self.k.close(self.yields)
        if exc[0] is not None:
            return
        if self.cond is None:
            raise self.k.error("a while without a condition", accepted="loop.test(cond)")
        inits = tuple(x.id for x in self.inits)
        self.results = self.k.emit(ops.While, len(inits), inits=inits, cond=self.cond, body=region, loc=self.loc)


class Branch(_Yielding):
    """``with k.if_(cond) as branch``, then perhaps ``with branch.otherwise()``."""

    def __init__(self, k: Core, cond: Value) -> None:
        super().__init__(k, ())
        self.cond = cond

    def yield_(self, *values: Any) -> None:
        like = [None] * len(values) if not self.inits else [v.dtype if not v.is_record else None for v in self.inits]
        self.yields = tuple(self.k.value(v, d) for v, d in zip(values, like, strict=False))

    def __enter__(self) -> Branch:
        self.k.open([], None, loop=False)
        return self

    def __exit__(self, *exc: object) -> None:
        self.then = self.k.close(self.yields)
        if exc[0] is None and not self.yields:
            self.k.emit(ops.If, 0, cond=self.cond.id, then=self.then, loc=self.loc)

    @contextmanager
    def otherwise(self) -> Any:
        """The other region; it yields as many values as the first."""
        then, block = self.yields, self.k._blocks[-1]
        if not then:
            last = block.pop()
            if not isinstance(last, ops.If) or last.then is not self.then:
                raise self.k.error("something stands between the regions of an if", accepted="otherwise right after if_")
        self.inits, self.yields = then, ()
        self.k.open([], None, loop=False)
        try:
            yield self
        finally:
            region = self.k.close(self.yields)
        self.results = self.k.emit(ops.If, len(then), cond=self.cond.id, then=self.then, otherwise=region, loc=self.loc)


class Control(Structured):
    """Loops, branches, and folds over slices."""

    def parallel(self, *domains: Any) -> Points:
        """Unordered forall: ``with k.parallel(M, N) as (i, j):`` or ``@k.parallel(M)`` above a function of the points."""
        return Points(self, [self.as_domain(d) for d in domains], caller())

    def as_domain(self, d: Any) -> DomainRef:
        return d if isinstance(d, DomainRef) else self.domain(d)

    def for_(self, domain: Any, *inits: Any) -> ForLoop:
        """An ordered loop over a domain (or ``domain(0, extent)``) with carries."""
        return ForLoop(self, self.as_domain(domain), [self.value(x) for x in inits])

    def while_(self, *inits: Any) -> WhileLoop:
        return WhileLoop(self, [self.value(x) for x in inits])

    def if_(self, cond: Value) -> Branch:
        return Branch(self, cond)

    def cond(self, cond: Value, then: Callable[[], Any], otherwise: Callable[[], Any]) -> tuple[Value, ...]:
        """An `if` whose regions are functions of nothing that return values."""
        with self.if_(cond) as branch:
            branch.yield_(*flat(then()))
        with branch.otherwise():
            branch.yield_(*flat(otherwise()))
        return branch.results

    # ------------------------------------------------------------------ slices
    def _slice(self, domain: DomainRef, xs: Sequence[tuple[Value, int]], between: Sequence[Value], body: Callable[..., Any],
               captures: Captures) -> Region:  # fmt: skip
        """A region of a slice, the slices of tensors, `between`, and (added as they are met) captures."""
        (s,) = self.open([DomainType(Sym(""), Sym(""), 1, Sym(""))], None, closed=True, captures=captures)
        self._context.slices |= {s.id, f"{s.id}.begin", f"{s.id}.end"}
        parts = []
        for x, axis in xs:
            shape = [s.id if i == axis else e.json if isinstance(e, Dim) else e for i, e in enumerate(x.shape)]
            parts.append(self.argument((x.dtype, shape)))
        states = [self.argument(self._context.types[b.id]) for b in between]
        yields: Sequence[Value] = ()
        try:
            groups = (tuple(states),) if between else ()
            yields = flat(body(DomainRef(self, s.id), *parts, *groups))
        finally:
            region = self.close(yields)
        return region.model_copy(update={"args": (*region.args, *captures.made)})

    def _pairs(self, states: Sequence[Sequence[Value]], body: Callable[..., Any]) -> Region:
        """A closed region of groups of values like `states`."""
        args = self.open([self._context.types[v.id] for g in states for v in g], None, closed=True, captures=Captures())
        groups, at = [], 0
        for g in states:
            groups.append(tuple(args[at : at + len(g)]))
            at += len(g)
        yields: Sequence[Value] = ()
        try:
            yields = flat(body(*groups))
        finally:
            region = self.close(yields)
        return region

    def region_fold(self, domain: Any, slices: Sequence[Value | tuple[Value, int]], identity: Sequence[Value],
                    summarize: Callable[..., Any], combine: Callable[..., Any]) -> tuple[Value, ...]:  # fmt: skip
        """``summarize(slice, *tensors)`` and ``combine(left, right)`` return tuples of states. `slices`: tensors, or (tensor, axis), of
        the domain's length along the axis (0 when not given). Outer values that `summarize` uses become captures."""
        d, xs = self.as_domain(domain), [x if isinstance(x, tuple) else (x, 0) for x in slices]
        state = tuple(map(self.value, identity))
        used = Captures()
        fields = {"summarize": self._slice(d, xs, (), summarize, used), "combine": self._pairs((state, state), combine)}
        operands = {"domain": d.id, "xs": tuple(x.id for x, _ in xs), "captures": tuple(used.args), "identity": tuple(s.id for s in state)}
        return self.emit(ops.RegionFold, len(state), axes=tuple(a for _, a in xs), **operands, **fields)

    def region_scan(self, domain: Any, slices: Sequence[Value | tuple[Value, int]], identity: Sequence[Value], init: Sequence[Value],
                    summarize: Callable[..., Any], combine: Callable[..., Any], apply: Callable[..., Any], emit: Callable[..., Any],
                    out_axes: Sequence[int] = (0,)) -> tuple[tuple[Value, ...], tuple[Value, ...]]:  # fmt: skip
        """(outputs, final state). ``apply(transition, state)``; ``emit(slice, *tensors, state)``, whose outputs have the slice's extent
        along `out_axes`. Transitions are like `identity`, states like `init`."""
        d, xs = self.as_domain(domain), [x if isinstance(x, tuple) else (x, 0) for x in slices]
        transition, state = tuple(map(self.value, identity)), tuple(map(self.value, init))
        first, second = Captures(), Captures()
        summary, outputs = self._slice(d, xs, (), summarize, first), self._slice(d, xs, state, emit, second)
        captures = tuple(dict.fromkeys((*first.args, *second.args)))
        fields = {
            "summarize": self._with(summary, first, captures), "combine": self._pairs((transition, transition), combine),
            "apply": self._pairs((transition, state), apply), "emit": self._with(outputs, second, captures),
        }  # fmt: skip
        operands = {
            "domain": d.id, "xs": tuple(x.id for x, _ in xs), "captures": captures, "identity": tuple(s.id for s in transition),
            "init": tuple(s.id for s in state),
        }  # fmt: skip
        n = len(out_axes)
        out = self.emit(
            ops.RegionScan, n + len(state), axes=tuple(a for _, a in xs), out_axes=tuple(out_axes), **operands, **fields
        )  # fmt: skip
        return out[:n], out[n:]

    def _with(self, r: Region, own: Captures, captures: Sequence[str]) -> Region:
        """The region with an argument for every capture, in this order."""
        kept = r.args[: len(r.args) - len(own.made)]
        made = dict(zip(own.args, own.made, strict=True))
        more: list[Arg] = []
        for c in captures:
            more.append(made[c] if c in made else argument(self.fresh(1)[0], self._context.types[c]))
        return r.model_copy(update={"args": (*kept, *more)})
