"""Folds over slices that are taken in one slice.

Where an operation is cut reaches no value, so the whole domain may be its only slice: the summary is that of the whole domain, every
output is emitted from the initial state, and the slice's extent is the domain's. Then no state runs between slices, and what is read
inside a slice is a plain value. Construction takes this form where the form in slices has no place for something: a state that is
read along an axis that is reduced inside (each member of which would need a state of its own at once), a prefix that speaks of where a
slice begins, a slice that is merged with another axis or stepped through.
"""

from __future__ import annotations

from collections.abc import Iterable

from eqkir.base.diagnostics import EqkirError


class Whole(Exception):
    """Construction has to start again with these operations (first results of `region_fold`, `region_scan`) in one slice."""

    def __init__(self, ops: Iterable[str], why: EqkirError) -> None:
        super().__init__(*ops)
        self.ops, self.why = frozenset(ops), why


__all__ = ["Whole"]
