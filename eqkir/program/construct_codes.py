"""Diagnostics and limits of construction."""

from __future__ import annotations

from eqkir.base.diagnostics import register

STAGE = "construct"
NODE_LIMIT = 20_000
STEP_LIMIT = 200_000
EXPR_LIMIT = 200
STATE_LIMIT = 64

UNSUPPORTED = register("EQK-CON-OP", "an operation that construction does not know", "No construction is registered for this operation.")
NODES = register(
    "EQK-CON-NODES", "the program is too large in index notation",
    f"Values read under many different index maps are instantiated once for each; at most {NODE_LIMIT} nodes are built. Store what is "
    "reused to a view in another kernel, or read it under fewer index maps.",
)  # fmt: skip
EXPRESSION = register(
    "EQK-CON-INDEX", "an index expression is too large",
    f"Coordinates and predicates are expressions of at most {EXPR_LIMIT} operations over coordinates, extents and integer scalars.",
)  # fmt: skip
EXTENT = register(
    "EQK-CON-EXTENT", "an extent without a bound that is known before the launch",
    "Axes have extents over symbols, constexprs and integer scalars. What is computed from data may bound a subregion of a domain with "
    "such an extent: `members[begin:end]`.",
)  # fmt: skip
CONSTEXPR = register(
    "EQK-CON-CONSTEXPR", "a constexpr has no admissible value",
    "The value given for a constexpr must have its type, be one of its choices, and leave no extent negative.",
)  # fmt: skip
COMBINE = register(
    "EQK-CON-COMBINE", "a combine region that is not closed",
    "A combine region is a scalar function of its two states and of constants and scalar parameters; it reads no memory and no coordinate.",
)  # fmt: skip
CARRY = register(
    "EQK-CON-CARRY", "a carried tensor is read at another place than its own",
    f"A fold over slices carries its states element by element: an element's next value may read other carries at the same coordinates, "
    f"or at a few fixed ones (at most {STATE_LIMIT} states), but not along a reduced axis or at coordinates that change with the step; "
    "else its domain is taken in one slice. Carries of `for` and `while` are kept in memory instead, unless the loop stands inside a fold.",
)  # fmt: skip
LOOP_STORE = register(
    "EQK-CON-LOOP-STORE", "a store inside a loop that is not known to be independent of other iterations",
    "Iterations of `for` and `while` that touch each other's elements run in order inside one instance. That needs a condition of carried "
    "scalars, points of a `parallel` around the loop that are proven independent, and what is read inside the loop as it was before to be "
    "read at coordinates that the step does not choose. Folds over slices hold no stores.",
)  # fmt: skip
ORDER = register(
    "EQK-CON-ORDER", "no order of loads and stores gives every load its value",
    "Views that may overlap are read before what is stored over them, or copied first. No copy can be made of an element whose place is "
    "known only after it was overwritten, nor of one that a step of a loop chooses. Declare the views disjoint (`noalias`), or keep the "
    "whole tensor in a buffer first.",
)  # fmt: skip
SCAN = register(
    "EQK-CON-SCAN", "a scan or state inside an ordered loop is read under another index map than its own",
    "A scan is read along its own axis, or kept in a workspace; inside an ordered loop no workspace is filled.",
)  # fmt: skip
SLICE = register(
    "EQK-CON-SLICE", "a fold over slices has no form, neither in slices nor in one slice that is the whole domain",
    "In slices each axis of a slice's extent is reduced or is the axis of an output, and a state in emit is read at the output's own "
    "coordinates; else the domain is taken in one slice.",
)  # fmt: skip
ATOMIC = register(
    "EQK-CON-ATOMIC", "a scattered reduction without an atomic form", "Scattered reductions are constructed by: add max min and or xor.",
)  # fmt: skip
