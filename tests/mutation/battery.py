"""The checks that a mutant has to get past: the provider's interpreter with checked addresses against the reference's envelope on odd
shapes, awkward layouts and special values; refusals of wrong arguments; strides past 2**31; the PTX.

Every check is generic: it follows from a kernel's interface and the reference alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from eqkir.base.diagnostics import EqkirError
from eqkir.base.dtypes import FLOATS
from eqkir.driver import pool
from eqkir.emit.triton import emit
from eqkir.emit.triton.artifact import Artifact
from eqkir.emit.triton.checks import EVEN, ODD, Case, Outcome, compile_batch, interpret_batch
from eqkir.kir.envelope import compare, envelope
from eqkir.kir.inputs import VARIANTS, make_inputs
from eqkir.kir.memory import ViewArg
from eqkir.kir.model import View
from tests.matrix.cells import Subject
from tests.matrix.provider import CACHE, CAPABILITY, arrays, within
from tests.matrix.types import Case as Shape
from tests.musthold.sparse_values import BIG, spread

#: seconds that one mutant's launches may take (a loop may not end)
SECONDS = 40.0
#: launches beside those with special values again; launches after which only the mutants that are left go on
NUMERIC, ROUNDS = 32, (1, 2, 5)
#: shapes past the program's blocks among them: all axes, two whole blocks, one axis at a time
PAST = 12
#: steps in one of those
LONG = 400
MAGNIFIED, EDGE, ZERO, NAN = "magnified", "edge", "zero", "nan in "


def judge(expected: Sequence[tuple[dict[str, Any], str]], outcomes: Sequence[Outcome]) -> str:
    """The first mistake of the outcomes against (envelope, name of the case), or ""."""
    for (envelopes, name), o in zip(expected, outcomes, strict=True):
        if o.error:
            return f"{name}: {o.error}"
        try:
            verdict = compare(envelopes, {k: o.arrays[k] for k in envelopes})
        except EqkirError as e:
            return f"{name}: {e}"
        if not verdict.ok:
            return f"{name}: {verdict.first}"
    return ""


class Battery:
    """Checks of one kernel; `artifact` is what was emitted for the program of `config`."""

    def __init__(self, name: str, config: str = "chosen") -> None:
        self.subject = Subject(name)
        program = self.subject.program(config)
        # any number of programs is legal; with two of them the second instance of a program comes within reach of small shapes
        self.program = replace(program, bindings={k: 2 if k.startswith("P:") else v for k, v in program.bindings.items()})
        self.artifact: Artifact = emit(self.program)
        self.config = config

    @property
    def least(self) -> dict[str, int]:
        """The smallest shape, of those whose extents are all above one, or at least all above zero, where there are such."""
        shapes = [dict(c.symbols) for c, _ in self.cases]
        return min(shapes, key=lambda d: (min(d.values(), default=2) < 2, min(d.values(), default=1) < 1, sum(d.values())))

    def mutant(self, source: str) -> Artifact:
        return replace(self.artifact, source=source)

    # ------------------------------------------------------------------------------------------------ numeric
    @cached_property
    def cases(self) -> list[tuple[Shape, int]]:
        """(shape and variant, seed), the most telling first: shapes past the program's blocks, special values and every layout on large
        shapes, small shapes, special values again with other seeds."""
        fits = within(self.subject, self.program, self.subject.cases())
        size = {c: int(np.prod([max(1, v) for _, v in c.symbols])) for c in fits}
        by_variant: dict[str, list[Shape]] = {}
        for c in sorted(fits, key=lambda c: (-size[c], c.symbols)):
            by_variant.setdefault(c.variant, []).append(c)
        order = ("special", "strided", "negative", "plain", "transposed", "offset", "broadcast", "overlap")
        ranked = [
            by_variant[v][k] for k in range(max(map(len, by_variant.values()))) for v in order if v in by_variant and k < len(by_variant[v])
        ]
        small = sorted((c for c in fits if c.variant == "plain"), key=lambda c: (size[c], c.symbols))
        past = within(self.subject, self.program, self.subject.stretched(self.program), LONG)
        large = [Shape(c.symbols, MAGNIFIED, c.constexprs) for c in (*past[:1], *small[-1:], *small[:4])]
        large += [Shape(c.symbols, ZERO, c.constexprs) for c in (*past[:1], *small[:2])]
        picked = list(dict.fromkeys([*ranked[:1], *past[:1], *ranked[1:4], *small[:3], *large, *past[1:PAST], *ranked[4:]]))[:NUMERIC]
        special = [c for c in by_variant.get("special", ()) if size[c]]
        again = [(c, seed) for seed in (1, 2, 3) for c in (*special[:1], *special[-2:])]
        again += [(Shape(c.symbols, EDGE, c.constexprs), seed) for seed in range(6, 12) for c in (*past[:1], *small[-1:])]
        floats = [p.id for p in self.subject.kernel.params if isinstance(p, View) and p.role != "out" and p.dtype in FLOATS]
        again += [(Shape(c.symbols, NAN + v, c.constexprs), 7) for v in floats for c in dict.fromkeys((*past[:1], *small[-1:]))]
        return [*((c, 7) for c in picked), *dict.fromkeys(again)]

    @cached_property
    def launches(self) -> list[tuple[Case, dict[str, Any], str]]:
        """Arguments, envelopes, names of the valid cases."""
        out = []
        s = self.subject
        for c, seed in self.cases:
            args = self.arguments(c, seed)
            try:
                out.append((Case(*arrays(args)), envelope(s.kernel, args, dict(c.symbols), s.constexprs), f"{c} seed {seed}"))
            except EqkirError:
                continue
        return out

    def arguments(self, c: Shape, seed: int) -> dict[str, Any]:
        """Arguments of a case. Magnified: floats up to a few hundred, so that exponentials leave their range. Edge: zero but for the first
        or last two coordinates of an axis (the seed says which). Zero: zeros. Nan in a view: one element in three is NaN there, and nowhere
        else."""
        s = self.subject
        variant = c.variant if c.variant in VARIANTS else "plain"
        args = make_inputs(s.kernel, dict(c.symbols), seed, variant, s.constexprs, s.entry.get("scalars"), s.entry.get("data"))
        if c.variant.startswith(NAN):
            x = args[c.variant.removeprefix(NAN)].array()
            x[np.random.default_rng(seed).random(x.shape) < 0.3] = np.nan
        elif c.variant in (MAGNIFIED, EDGE, ZERO):
            for p in s.kernel.params:
                if isinstance(p, View) and p.role != "out" and p.dtype in FLOATS:
                    a = args[p.id].array()
                    if c.variant == MAGNIFIED:
                        a[...] = (a.astype(np.float64) * 64).astype(a.dtype)
                    else:
                        part = slice(None) if c.variant == ZERO else (slice(2, None), slice(0, -2))[seed % 2]
                        a[(*(slice(None),) * (seed // 2 % max(1, a.ndim)), part)[: a.ndim]] = 0
        return args

    def numeric(self, sources: Sequence[str], jobs: int = 1) -> list[str]:
        """What catches each mutant ("" where nothing does): one launch for all, more for those left."""
        out = [""] * len(sources)
        ends = [0, *(k for k in ROUNDS if k < len(self.launches)), len(self.launches)]
        for first, last in zip(ends, ends[1:], strict=False):
            left = [i for i, x in enumerate(out) if not x]
            work = [(self.mutant(sources[i]), [c for c, _, _ in self.launches[first:last]]) for i in left]
            for i, outcomes in zip(left, interpret_batch(work, processes=jobs, seconds=SECONDS), strict=True):
                out[i] = judge([(e, n) for _, e, n in self.launches[first:last]], outcomes)
        return out

    def further(self, sources: Sequence[str], seeds: Sequence[int]) -> list[tuple[str, int, int]]:
        """(mistake, launches with the original's bytes, launches): every affordable case again with other seeds."""
        cases, expected = [], []
        for c in dict.fromkeys(c for c, _ in self.cases):
            for seed in seeds:
                args = self.arguments(c, seed)
                try:
                    expected.append((envelope(self.subject.kernel, args, dict(c.symbols), self.subject.constexprs), f"{c} seed {seed}"))
                except EqkirError:
                    continue
                cases.append(Case(*arrays(args)))
        got = interpret_batch([(self.mutant(x), cases) for x in (self.artifact.source, *sources)], seconds=SECONDS * 10)

        def content(o: Outcome) -> bytes:
            return o.error.encode() + b"".join(np.ascontiguousarray(o.arrays[k]).tobytes() for k in sorted(o.arrays))

        out = []
        for outcomes in got[1:]:
            same = sum(content(a) == content(b) for a, b in zip(outcomes, got[0], strict=True))
            out.append((judge(expected, outcomes), same, len(cases)))
        return out

    # ------------------------------------------------------------------------------------------------ refusals
    @cached_property
    def wrong(self) -> list[tuple[str, Case]]:
        """Launches that must be refused: what the interface forbids, one thing wrong each."""
        return list(self._wrong())

    def _wrong(self) -> Iterator[tuple[str, Case]]:
        s, abi = self.subject, self.artifact.legal.abi
        symbols = self.least
        made = make_inputs(s.kernel, symbols, 5, "plain", s.constexprs, s.entry.get("scalars"), s.entry.get("data"))
        good, scalars = arrays(made)
        views = [v for v in abi.views if v.role != "workspace"]
        count: dict[str, int] = {}
        for v in views:
            for e in v.shape:
                count[str(e)] = count.get(str(e), 0) + 1

        def but(**other: Any) -> Case:
            return Case({**good, **other}, scalars)

        for v in views:
            a = good[v.name]
            for k, e in enumerate(v.shape):
                if e.op != "sym" or count[str(e)] > 1:
                    shape = tuple(n + (j == k) for j, n in enumerate(a.shape))
                    yield f"axis {k} of {v.name} too long", but(**{v.name: np.zeros(shape, a.dtype)})
            yield f"rank of {v.name}", but(**{v.name: a.reshape(*a.shape, 1)})
            yield f"dtype of {v.name}", but(**{v.name: np.zeros(a.shape, np.float64 if a.dtype != np.float64 else np.float32)})
            if v.role != "in" and a.ndim and max(a.shape) > 1:
                yield f"zero stride of {v.name}", but(**{v.name: np.ndarray(a.shape, a.dtype, np.zeros(1, a.dtype), 0, (0,) * a.ndim)})
        for x in abi.symbols:
            for n in ([x.hi + x.multiple_of] if x.hi is not None else []) + ([x.lo - 1] if x.lo > 0 else []):
                changed = {}
                for v in views:
                    if any(str(e) == x.name for e in v.shape):
                        shape = tuple(n if str(e) == x.name else m for e, m in zip(v.shape, good[v.name].shape, strict=True))
                        changed[v.name] = np.zeros(shape, good[v.name].dtype)
                yield f"{x.name} = {n}", but(**changed)
        for group in abi.noalias:
            for a, b in zip(group, group[1:], strict=False):
                if good[a].size and good[b].size:
                    memory = np.zeros(good[a].nbytes + good[b].nbytes, np.uint8)
                    shift = max(0, (good[a].nbytes - 1) // good[b].itemsize) * good[b].itemsize
                    shared = {
                        a: np.ndarray(good[a].shape, good[a].dtype, memory, 0), b: np.ndarray(good[b].shape, good[b].dtype, memory, shift),
                    }  # fmt: skip
                    yield f"{a} and {b} overlap", but(**shared)
        for p in abi.scalars:
            if p.dtype in ("i8", "i16", "i32", "u8", "u16", "u32"):
                yield f"{p.name} out of range", Case(good, {**scalars, p.name: 1 << 40})

    def refusals(self, sources: Sequence[str], jobs: int = 1) -> list[str]:
        """The first wrong launch that a mutant accepts (or that ends in another way than by ValueError), or ""."""
        out = []
        for outcomes in interpret_batch([(self.mutant(x), [c for _, c in self.wrong]) for x in sources], processes=jobs, seconds=SECONDS):
            out.append(
                next(
                    (
                        f"{n}: {o.error or 'accepted'}"
                        for (n, _), o in zip(self.wrong, outcomes, strict=True)
                        if not o.error.startswith("ValueError")
                    ),
                    "",
                )
            )
        return out

    # ------------------------------------------------------------------------------------------------ wide
    def wide(self, sources: Sequence[str], worker: pool.Worker) -> list[str]:
        """Small views with strides past 2**31, view by view and axis by axis."""
        s = self.subject
        symbols = self.least
        args = make_inputs(s.kernel, symbols, 3, "plain", s.constexprs, s.entry.get("scalars"), s.entry.get("data"))
        expected = envelope(s.kernel, args, symbols, s.constexprs)
        views = {k: a for k, a in args.items() if isinstance(a, ViewArg)}
        scalars = {k: a.item() for k, a in args.items() if not isinstance(a, ViewArg)}
        places = [(one, axis) for one, b in views.items() for axis, n in enumerate(b.shape) if n > 1]
        layouts = [
            {k: spread(a.shape, axis if k == one else len(a.shape), step) for k, a in views.items()}
            for one, axis in places
            for step in (BIG, (1 << 30) + 1)
        ]
        out = []
        for source in sources:
            found = ""
            for strides in layouts:
                data = {k: np.ascontiguousarray(a.array()) for k, a in views.items()}
                given = {k: (data[k].dtype.name, a.shape, strides[k], data[k]) for k, a in views.items()}
                r = worker.call("tests.musthold.sparse:strided", (source, given, scalars), SECONDS)
                if isinstance(r, pool.Failure) or "error" in r:
                    found = str(r)[:300]
                else:
                    verdict = compare(expected, {k: r["views"][k] for k in expected})
                    found = "" if verdict.ok else verdict.first
                if found:
                    break
            out.append(found)
        return out

    # ------------------------------------------------------------------------------------------------ compiled
    def ptx(self, sources: Sequence[str], jobs: int = 1) -> list[str]:
        """Instructions in the PTX that the program does not permit, or why it does not compile."""
        work = [(self.mutant(x), CAPABILITY, spec) for x in sources for spec in (EVEN, ODD)]
        got = compile_batch(work, processes=jobs, seconds=SECONDS * 4, cache=CACHE)
        pairs = zip(got[0::2], got[1::2], strict=True)
        return [a.error or b.error or ", ".join(dict.fromkeys((*a.findings, *b.findings))) for a, b in pairs]

    def same_code(self, source: str) -> bool:
        """Whether a mutant compiles to the original's PTX (the compiler's comments and debug lines aside)."""
        work = [(self.mutant(x), CAPABILITY, spec) for x in (source, self.artifact.source) for spec in (EVEN, ODD)]
        code = re.compile(r"^\s*(?:\$L__BB\w+:|(?:@!?%\w+\s+)?[a-z][\w.:]*\s[^;]*;)", re.M)
        a, b, c, d = ("\n".join(code.findall(r.ptx)) for r in compile_batch(work, seconds=SECONDS * 4, cache=CACHE))
        return a == c and b == d and bool(a)
