"""Control: unordered `parallel`, ordered `for` `while` `if`, and leaving a loop early.

Regions of control see the values around them. Nothing outside sees a region's values but through its yields. Every carry has one
type throughout: of its initial value, of its argument, of its yield, of its result.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from eqkir.kir.node import Id, Ids, Op, Purity, Region, operation


@operation
class Parallel(Op):
    """Unordered forall over the product of `domains`; `body.args` are the points (``index`` scalars), one per domain; no yields."""

    op: Literal["parallel"] = "parallel"
    domains: Ids
    body: Region
    operand_fields: ClassVar[tuple[str, ...]] = ("domains",)


@operation
class For(Op):
    """Ordered loop over `domain`. ``body.args``: the point (``index`` scalar), then one argument for each of `inits`; ``body.yields``:
    the carries of the next iteration. Results: the carries after the last iteration (`inits` when there is none)."""

    op: Literal["for"] = "for"
    domain: Id
    inits: Ids = ()
    body: Region
    operand_fields: ClassVar[tuple[str, ...]] = ("domain", "inits")


@operation
class While(Op):
    """While `cond` yields true, `body` makes new carries. Both regions take the carries; `cond` yields one bool scalar and writes
    nothing. Results: the carries for which `cond` was false."""

    op: Literal["while"] = "while"
    inits: Ids = ()
    cond: Region
    body: Region
    operand_fields: ClassVar[tuple[str, ...]] = ("inits",)
    purity: ClassVar[dict[str, Purity]] = {"cond": "read"}


@operation
class If(Op):
    """One of two regions runs, by the bool scalar `cond`; both yield values of the same types, the results. No arguments."""

    op: Literal["if"] = "if"
    cond: Id
    then: Region
    otherwise: Region = Region()
    operand_fields: ClassVar[tuple[str, ...]] = ("cond",)


class _Leave(Op):
    """`cond` is a bool scalar; `values` are the carries of the innermost loop. Stands in its body, at any depth of `if`s."""

    cond: Id
    values: Ids = ()
    operand_fields: ClassVar[tuple[str, ...]] = ("cond", "values")
    writes: ClassVar[bool] = True


@operation
class Break(_Leave):
    """Where `cond`: the innermost `for` or `while` ends at once and results in `values`; nothing after this operation runs."""

    op: Literal["break"] = "break"


@operation
class Continue(_Leave):
    """Where `cond`: the iteration ends at once with the carries `values`; the loop goes on as after its yields."""

    op: Literal["continue"] = "continue"
