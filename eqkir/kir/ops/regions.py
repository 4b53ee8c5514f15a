"""Folds and scans over contiguous slices of a domain that the compiler chooses.

The source is `domain`, together with tensors `xs` whose axis ``axes[i]`` has its length. A slice is an ordered, contiguous, nonempty
part of the domain; slices cover it in order. A region's slice arguments are: the slice as a ``domain`` (absolute coordinates, by
`indices`), then the slice of every one of `xs`, of the type of the tensor with the sliced extent replaced by the slice's (named by the
id of the slice argument). `captures` are passed as further arguments: regions are closed, and they may read views but write nothing.
How many slices there are and where they begin is not observable: the author owes the laws below, and a slice's extent is no value.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from eqkir.kir.node import Axes, Id, Ids, Op, Purity, Region, operation


@operation
class RegionFold(Op):
    """``combine`` over ``summarize(slice, captures)`` of the slices in order; of an empty domain: `identity`.

    Law: summarize(A ++ B) = combine(summarize A, summarize B), `identity` neutral. ``summarize.args``: slice, slices of `xs`,
    captures; ``combine.args``: left states, right states. States are tensors of the types of `identity`, and are the results.
    """

    op: Literal["region_fold"] = "region_fold"
    domain: Id
    xs: Ids = ()
    axes: Axes = ()
    captures: Ids = ()
    identity: Ids
    summarize: Region
    combine: Region
    operand_fields: ClassVar[tuple[str, ...]] = ("domain", "xs", "captures", "identity")
    closed_regions: ClassVar[bool] = True
    purity: ClassVar[dict[str, Purity]] = {"summarize": "read", "combine": "pure"}


@operation
class RegionScan(Op):
    """A state that runs through the slices in order, and what each slice emits under the state before it.

    ``summarize`` and ``combine`` as for `region_fold` (on transitions, of the types of `identity`); ``apply.args``: transition, state;
    it yields the state after it. ``emit.args``: slice, slices of `xs`, the state before the slice, captures; it yields one tensor an
    output, whose axis ``out_axes[i]`` has the slice's extent. Results: the outputs reassembled in source order, then the final state.

    Law: as for `region_fold`, and apply(combine(a, b), s) = apply(b, apply(a, s)), apply(identity, s) = s, and emit of A ++ B is
    emit of A followed by emit of B under apply(summarize A, s). Of an empty domain: empty outputs, and `init`.
    """

    op: Literal["region_scan"] = "region_scan"
    domain: Id
    xs: Ids = ()
    axes: Axes = ()
    captures: Ids = ()
    identity: Ids
    init: Ids
    summarize: Region
    combine: Region
    apply: Region
    emit: Region
    out_axes: Axes = ()
    operand_fields: ClassVar[tuple[str, ...]] = ("domain", "xs", "captures", "identity", "init")
    closed_regions: ClassVar[bool] = True
    purity: ClassVar[dict[str, Purity]] = {"summarize": "read", "combine": "pure", "apply": "pure", "emit": "read"}
