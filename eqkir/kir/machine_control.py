"""Control, domains and records: the rules that do not depend on how values are represented."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from eqkir.kir import ops
from eqkir.kir.binding import error
from eqkir.kir.floats import Array
from eqkir.kir.machine import Abandon, DomainValue, Machine, Outcome, Record, Split
from eqkir.kir.reference_codes import Trap

#: iterations after which a `while` counts as endless
ENDLESS: Final = 1 << 20
#: how often one loop's end may be in doubt
FORKS: Final = 40
M = Machine[Any]


def run_parallel(m: M, op: ops.Parallel) -> None:
    """All points of the product of the domains, row-major, in lockstep."""
    axes = [m.domains[d].points() for d in op.domains]
    n = math.prod(len(a) for a in axes)
    if n == 0:
        return
    with m.nested(n):
        m.serial += 1
        level = f"@{m.serial}"
        m.env[level] = np.arange(m.batch)
        m.levels.append(level)
        grid = np.meshgrid(*axes, indexing="ij")
        for arg, points in zip(op.body.args, grid, strict=True):
            m.env[arg.id] = m.exact(np.tile(points.reshape(-1), m.batch // n))
        m.block(op.body.body, (), f"{m.pointer}/body/body")
        m.levels.pop()


# ------------------------------------------------------------------------------------------------ branches
def run_if(m: M, op: ops.If) -> Split:
    yes, maybe = m.truth(m.env[op.cond])
    at = m.pointer

    def then() -> list[Outcome]:
        return m.block(op.then.body, op.then.yields, f"{at}/then/body")

    def otherwise() -> list[Outcome]:
        return m.block(op.otherwise.body, op.otherwise.yields, f"{at}/otherwise/body")

    out = m.within(np.flatnonzero(yes & ~maybe), then) + m.within(np.flatnonzero(~yes & ~maybe), otherwise)
    unsure = np.flatnonzero(maybe)
    if unsure.size:
        (a, wrong), (b, bad) = m.attempt(unsure, then), m.attempt(unsure, otherwise)
        if wrong and bad:  # invalid either way
            if m.doubt:
                raise Abandon(wrong)
            raise wrong
        out += m.unsettled([*a, *b], unsure) if wrong or bad else [*a, *b]
    return Split(out)


def leave(m: M, op: ops.Break | ops.Continue) -> Split:
    yes, maybe = m.truth(m.env[op.cond])
    values = [m.env[v] for v in op.values]
    out = [Outcome("yield", np.flatnonzero(~yes | maybe), [])]
    gone = np.flatnonzero(yes | maybe)
    if gone.size:
        out.append(Outcome(op.op, gone, [m.rows(v, gone) for v in values]))
    return Split(out)


# ------------------------------------------------------------------------------------------------ loops
Step = Callable[[int, Sequence[Any]], list[Outcome]]


def iterate(m: M, step: Step, n: int, carries: list[Any], k: int = 0) -> list[Any]:
    """The carries of the current lanes after iterations k .. n - 1. `step` runs one iteration: outcomes ``break`` end the loop."""
    alive, done = m.every(), []
    while k < n and alive.size:
        outs = m.within(alive, partial(step, k, carries))
        k += 1
        left, on = [o for o in outs if o.kind == "break"], [o for o in outs if o.kind != "break"]
        done += left
        alive, carries = m.merged(on)
        unsure = np.isin(alive, np.concatenate([o.lanes for o in left])) if left else np.zeros(alive.shape, bool)
        if unsure.any():  # these go on by themselves: it is in doubt whether they do
            part, rest = (m.picked(Outcome("yield", alive, carries), keep) for keep in (unsure, ~unsure))
            outs, wrong = m.attempt(part.lanes, partial(_further, m, step, n, part.values, k))
            done = [*(m.unsettled(done, part.lanes) if wrong else done), *outs]
            alive, carries = rest.lanes, rest.values
    if alive.size:
        done.append(Outcome("yield", alive, carries))
    return m.merged(done)[1]


def _further(m: M, step: Step, n: int, carries: list[Any], k: int) -> list[Outcome]:
    if m.forks >= FORKS:
        raise Abandon(error("UNSUPPORTED", "the end of a loop stays in doubt", m.pointer))
    m.forks += 1
    try:
        return [Outcome("yield", m.every(), iterate(m, step, n, carries, k))]
    finally:
        m.forks -= 1


def run_for(m: M, op: ops.For) -> None:
    points, at, body = m.domains[op.domain].points(), m.pointer, op.body

    def step(k: int, carries: Sequence[Any]) -> list[Outcome]:
        m.bind(body.args, [m.exact(points[k : k + 1]), *carries])
        return m.block(body.body, body.yields, f"{at}/body/body")

    m.env.update(zip(op.results, iterate(m, step, len(points), [m.env[x] for x in op.inits]), strict=True))


def run_while(m: M, op: ops.While) -> None:
    at = m.pointer

    def step(k: int, carries: Sequence[Any]) -> list[Outcome]:
        m.bind(op.cond.args, carries)
        cond = m.merged(m.block(op.cond.body, op.cond.yields, f"{at}/cond/body"))[1][0]
        yes, maybe = m.truth(cond)

        def body(lanes: Array) -> Callable[[], list[Outcome]]:
            def run() -> list[Outcome]:
                m.bind(op.body.args, [m.rows(v, lanes) for v in carries])
                return m.block(op.body.body, op.body.yields, f"{at}/body/body")

            return run

        sure, unsure, stop = (np.flatnonzero(x) for x in (yes & ~maybe, maybe, ~yes | maybe))
        out = m.within(sure, body(sure))
        ends = [Outcome("break", stop, [m.rows(v, stop) for v in carries])] if stop.size else []
        if unsure.size:
            outs, wrong = m.attempt(unsure, body(unsure))
            out, ends = out + outs, m.unsettled(ends, unsure) if wrong else ends
        return out + ends

    m.env.update(zip(op.results, _endless(m, step, [m.env[x] for x in op.inits]), strict=True))


def _endless(m: M, step: Step, carries: list[Any]) -> list[Any]:
    def guarded(k: int, given: Sequence[Any]) -> list[Outcome]:
        if k >= ENDLESS:
            raise Trap("ENDLESS", f"a while loop runs more than {ENDLESS} times")
        return step(k, given)

    return iterate(m, guarded, ENDLESS + 1, carries)


# ------------------------------------------------------------------------------------------------ domains
def bind_domain(m: M, op: ops.Domain) -> None:
    m.domains[op.results[0]] = DomainValue(m.extent(op.begin), m.extent(op.end), op.step)


def bind_subregion(m: M, op: ops.Subregion) -> None:
    source, begin, end = m.domains[op.domain], m.extent(op.begin), m.extent(op.end)
    if begin < end and not source.begin <= begin <= end <= source.end:
        raise Trap("BOUNDS", f"the part [{begin}, {end}) lies outside of [{source.begin}, {source.end})")
    m.domains[op.results[0]] = DomainValue(begin, end, 1)


def bind_indices(m: M, op: ops.Indices) -> None:
    m.env[op.results[0]] = m.exact(m.domains[op.domain].points()[None])


def bind_extent(m: M, op: ops.ExtentOp) -> None:
    m.env[op.results[0]] = m.exact(np.asarray([m.extent(op.extent)], np.int64))


# ------------------------------------------------------------------------------------------------ records and calls
def make_record(m: M, op: ops.MakeRecord) -> None:
    m.env[op.results[0]] = Record(op.names, tuple(m.env[v] for v in op.values))


def get_field(m: M, op: ops.GetField) -> None:
    r = m.env[op.x]
    m.env[op.results[0]] = r.fields[r.names.index(op.name)]


def call(m: M, op: ops.Call) -> None:
    raise Trap("UNSUPPORTED", f"a call of {op.helper}: kernels run after their helpers were inlined (`kir.helpers.link`)")


SHARED: dict[str, Callable[[Any, Any], Any]] = {
    "parallel": run_parallel,
    "if": run_if,
    "for": run_for,
    "while": run_while,
    "break": leave,
    "continue": leave,
    "domain": bind_domain,
    "subregion": bind_subregion,
    "indices": bind_indices,
    "extent": bind_extent,
    "make_record": make_record,
    "get_field": get_field,
    "call": call,
}
