"""The sixteen checks by name, each with its code and explanation (seed section 9, in its order)."""

from __future__ import annotations

from dataclasses import dataclass

from eqkir.base.diagnostics import register

STAGE = "construction"

#: name -> (title, explanation)
EXPLAIN: dict[str, tuple[str, str]] = {
    "effects-covered-once": (
        "effect not covered exactly once",
        "Each effect of the kernel, nested ones included, is made by exactly one store of the program, with the kernel's value and under "
        "the kernel's conditions.",
    ),
    "ownership-complete": (
        "ownership incomplete",
        "The points of a store and the points of the effect that it makes correspond one to one: none is missed, none is written again.",
    ),
    "order-kept": (
        "order of effects broken",
        "Every access reads or makes the memory version that program order gives it, and dependent accesses keep their order inside one "
        "program instance.",
    ),
    "conflicts-resolved": (
        "unordered conflict",
        "Unordered accesses to one element are those of unique stores, of reductions or of atomic operations.",
    ),
    "accesses-complete": (
        "access incomplete",
        "Every access has a coordinate for each dimension, the kernel's validity, and the kernel's fill.",
    ),
    "buffers-initialised": (
        "initialisation not kept",
        "Every buffer starts with its initial value, or is written before it is read; nothing synthesises an initial value.",
    ),
    "structured-complete": (
        "structured operation incomplete",
        "Reductions, scans and contractions have all operands, results, identities, combine regions and accumulators of the kernel's.",
    ),
    "folds-complete": (
        "fold incomplete",
        "Folds and loops have their source, identities, summaries, combination and results; no value depends on how a source is sliced.",
    ),
    "types-legal": ("illegal type", "Every value is a scalar or fragment of a legal dtype, that of the kernel's value."),
    "launch-visible-extents": (
        "extent not launch-visible",
        "Extents of the program space depend on nothing but values known before the launch; other domains are traversed inside an "
        "instance.",
    ),
    "buffers-owned": (
        "buffer without owner",
        "Every buffer has one scope, an alias class of its own, an extent, an initialisation and an owner of each slice.",
    ),
    "accesses-in-bounds": (
        "access not proven in bounds",
        "A guard, a verified relation or the author's word keeps every access inside its resource.",
    ),
    "coordinates-equivalent": (
        "coordinates differ from the kernel's",
        "Composed slices, broadcasts, reshapes, transposes and index arithmetic give the same coordinates as the kernel's relation.",
    ),
    "narrowing-explicit": (
        "narrowing not explicit",
        "Where a traversal covers more than the members of a domain, a typed predicate excludes the others.",
    ),
    "atomics-kept": (
        "atomic operation changed",
        "Atomic operations keep their function, order, sharing domain and result.",
    ),
    "self-contained": (
        "program not self-contained",
        "The program holds everything that its execution needs: it reads back from its text, without the kernel or origins.",
    ),
}
NAMES = tuple(EXPLAIN)
CODES = {name: register(f"EQK-VER-{n:02d}", *text) for n, (name, text) in enumerate(EXPLAIN.items(), 1)}


@dataclass(frozen=True)
class Fault:
    """Something wrong: the check that it belongs to, what, and where (a JSON pointer into the kernel, or a place of the program)."""

    check: str
    message: str
    pointer: str = ""


__all__ = ["CODES", "EXPLAIN", "NAMES", "STAGE", "Fault"]
