"""What the checks share: the comparison with the kernel, the realisation, and the verdicts of the program verifier, each made once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from eqkir.base.diagnostics import Diagnostic, EqkirError
from eqkir.base.expr import Expr, atoms
from eqkir.kir.model import Buffer, Kernel
from eqkir.kir.types import Type
from eqkir.program.abstract import BOUND, Abstract
from eqkir.program.construction import relation_formats, relation_loops, relation_ops  # noqa: F401  registers the expansions
from eqkir.program.construction.codes import CODES, STAGE, Fault
from eqkir.program.construction.compare import Compare
from eqkir.program.construction.pairing import effects_of
from eqkir.program.construction.realised import realised
from eqkir.program.model import Program
from eqkir.program.serialize import from_json, to_json
from eqkir.program.verify import verify

#: op of the abstract program -> number of attributes
OPS = {
    "Const": 1, "Scalar": 1, "Index": 1, "Load": 3, "Un": 1, "Bin": 1, "Tri": 1, "Cast": 1, "Bitcast": 1, "Permit": 1, "Red": 2,
    "RedN": 2, "Arg": 2, "Pick": 1, "Con": 1, "ConAcc": 1, "Scan": 2, "ScanN": 2, "Form": 3, "Fold": 3, "While": 3, "State": 4,
    "WState": 4,
}  # fmt: skip
#: check of the program verifier -> the check here that it is part of
PROGRAM = {
    "EFFECT": "effects-covered-once", "COVER": "ownership-complete", "WHOLE": "ownership-complete", "CROSS": "order-kept",
    "VERSION": "order-kept", "PHASE": "order-kept", "BARRIER": "order-kept", "OWNER": "conflicts-resolved", "NAME": "self-contained",
    "BUFFER": "buffers-initialised", "STRUCTURED": "structured-complete", "TYPE": "types-legal", "DIMS": "types-legal",
    "LABEL": "types-legal", "LAUNCH": "launch-visible-extents", "INTERFACE": "buffers-owned", "BOUNDS": "accesses-in-bounds",
    "MASK": "narrowing-explicit", "PADDING": "narrowing-explicit", "STAGE": "self-contained", "SCOPE": "self-contained",
    "BINDING": "self-contained",
}  # fmt: skip


@dataclass
class Context:
    """The triple that is verified, with the kernel's types."""

    kernel: Kernel
    types: Mapping[str, Type]
    abstract: Abstract
    program: Program
    pointer: str = ""

    @cached_property
    def broken(self) -> tuple[Fault, ...]:
        """What makes the abstract program no program at all: nothing else is looked at then."""
        a = self.abstract
        names = {s.name for s in a.abi.symbols} | {s.name for s in a.abi.scalars}
        axes, views = {x.name for x in a.axes}, {v.name: v for v in a.abi.views}
        out: list[str] = []

        def ixs(es: tuple[Expr, ...], deps: int, what: str) -> None:
            known = {"sym": names, "coord": axes}
            bad = [x for e in es for x in atoms(e) if (x.op == "dep" and not 0 <= x.args[0] < deps) or x.op in ("param", "lid")]
            bad += [x for e in es for x in atoms(e) if x.op in known and x.args[0] not in known[x.op]]
            out.extend(f"{what} uses {x}, which does not exist" for x in bad)

        for i, n in enumerate(a.nodes):
            if n.op not in OPS or len(n.attrs) != OPS[n.op] or any(not 0 <= x < i for x in n.args):
                out.append(f"%{i} is no operation: {n.op}")
                continue
            if n.op in ("Un", "Bin", "Tri") and len(n.args) != ("Un", "Bin", "Tri").index(n.op) + 1:
                out.append(f"%{i}: {n.op} has {len(n.args)} operands")
            if n.op in ("Index", "Load"):
                ixs((n.attrs[0],) if n.op == "Index" else n.attrs[2], len(n.args) - 2 * (n.op == "Load"), f"%{i}")
            if n.op == "Load" and (n.attrs[0] not in views or len(n.args) < 2):
                out.append(f"%{i} loads from {n.attrs[0]}, which does not exist")
            if n.op in BOUND and n.attrs[BOUND[n.op]] not in axes:
                out.append(f"%{i} binds {n.attrs[BOUND[n.op]]}, which does not exist")
        for g in a.groups:
            for p in (p for ph in g.phases for p in ph):
                ixs((*p.ixs, *p.at), len(p.deps) - (p.mode == "compare_exchange") - bool(p.into), f"the store to {p.view}")
                nodes = all(0 <= x < len(a.nodes) for x in (p.value, p.valid, *p.deps))
                if p.view not in views or (p.into and p.into not in views) or not nodes:
                    out.append(f"the store to {p.view} names what does not exist")
        return tuple(Fault("self-contained", m) for m in out)

    @cached_property
    def hidden(self) -> tuple[Fault, ...]:
        """Axes whose extents are not known before the launch: then nothing is known of what they cover."""
        names = {s.name for s in self.abstract.abi.symbols} | {s.name for s in self.abstract.abi.scalars}
        return tuple(
            Fault("launch-visible-extents", f"the extent {a.extent} of {a.name} is not known before the launch")
            for a in self.abstract.axes
            if any(x.op != "sym" or x.args[0] not in names for x in atoms(a.extent))
        )

    @cached_property
    def unreadable(self) -> tuple[Fault, ...]:
        """Why the program's text, origins left out, is not the program."""
        bare = replace(self.program, origins={})
        try:
            again = from_json(to_json(bare))
        except (EqkirError, KeyError, TypeError, ValueError, AttributeError) as e:
            return (Fault("self-contained", f"the program has no text: {str(e)[:200]}"),)
        return () if again == bare else (Fault("self-contained", "the program does not read back from its text"),)

    @cached_property
    def comparison(self) -> Compare:
        sys.setrecursionlimit(max(sys.getrecursionlimit(), 100_000))
        return Compare(self.kernel, self.types, self.abstract, self.program)

    @cached_property
    def compared(self) -> tuple[Fault, ...]:
        return () if self.broken or self.hidden else effects_of(self.comparison)

    @cached_property
    def lowered(self) -> tuple[Fault, ...]:
        held = not self.broken and not self.unreadable and all(f.check != "self-contained" for f in self.verified)
        return realised(self.abstract, self.program) if held else ()

    @cached_property
    def verified(self) -> tuple[Fault, ...]:
        """What the program verifier finds."""
        found = verify(self.program)
        return tuple(Fault(PROGRAM[d.code.removeprefix("EQK-PRG-")], d.message, d.pointer) for d in found)

    def owed(self) -> set[str]:
        """Workspaces of the kernel's uninitialised buffers."""
        if self.broken or self.compared:
            return set()
        r = self.comparison.r
        filled = {site.op.results[0] for site in r.effects.stores if isinstance(site.op, Buffer)}
        return {w for b, w in self.comparison.buffers.items() if b not in filled and b not in r.effects.kept}

    def found(self, check: str, *more: Fault) -> list[Diagnostic]:
        """The diagnostics of one check."""
        faults = [f for f in (*self.compared, *self.lowered, *self.verified, *self.broken, *more) if f.check == check]
        return [self.diagnostic(f) for f in dict.fromkeys(faults)]

    def diagnostic(self, f: Fault) -> Diagnostic:
        at = f"{self.pointer}{f.pointer}" if f.pointer.startswith("/body") else f.pointer
        return Diagnostic(CODES[f.check], f.message, at, stage=STAGE)


Judge = Callable[[Context], list[Diagnostic]]


@dataclass(frozen=True)
class Check:
    """One of the sixteen: a pure function of a kernel, its types, its abstract program and P0."""

    name: str
    code: str
    judge: Judge

    def __call__(self, kernel: Kernel, types: Mapping[str, Type], abstract: Abstract, program: Program) -> list[Diagnostic]:
        return self.judge(Context(kernel, types, abstract, program))


CHECKS: dict[str, Check] = {}


def check(name: str) -> Callable[[Judge], Judge]:
    """Register a check under its name."""

    def put(judge: Judge) -> Judge:
        CHECKS[name] = Check(name, CODES[name], judge)
        return judge

    return put


__all__ = ["CHECKS", "Check", "Context", "check"]
