"""Identifiers of an emitted module: one for each name of the program, none of them twice."""

from __future__ import annotations

import keyword
import re

from eqkir.base.expr import Expr, atoms
from eqkir.program.model import Item, Let, Loop, Program, Store

RESERVED = frozenset(
    "triton tl libdevice struct operator torch kernel launch pid lid programs first instance key plan device reach flags driver "
    "max min abs tuple any all bool int float range isinstance zip sum len str getattr type enumerate ValueError "
    "KERNEL OPTIONS IDX SPREAD".split()
)


def clean(name: str) -> str:
    """An identifier without a leading underscore."""
    s = re.sub(r"\W", "_", name, flags=re.ASCII).lstrip("_")
    return s if s and not s[0].isdigit() else "n" + s


class Naming:
    """Names of the module's parameters. `taken` grows; segments start from a copy."""

    def __init__(self, program: Program) -> None:
        abi = program.abi
        self.taken = set(RESERVED) | set(keyword.kwlist)
        self.views: dict[str, str] = {}
        for v in abi.views:
            strides = (f"_s{k}" for k in range(len(v.shape)))
            self.views[v.name] = self.unique(clean(v.name), *strides, "_shape", "_strides", "_p", "_a", "_z")
        self.ranks = {v.name: len(v.shape) for v in abi.views}
        self.scalars = {s.name: self.unique(clean(s.name)) for s in abi.scalars}
        used = {a.args[0] for e in expressions(program) for a in atoms(e) if a.op == "sym"}
        self.symbols = {s.name: self.unique(clean(s.name)) for s in abi.symbols}
        unknown = used - self.symbols.keys() - self.scalars.keys()
        if unknown:
            raise ValueError(f"symbols without a parameter: {', '.join(sorted(unknown))}")
        self.kernel_symbols = tuple(s for s in self.symbols if s in used)
        self.groups = {s.group: self.unique(clean(s.group), prefixes=("segment_", "programs_")) for s in program.segments}
        self.flags: dict[str, str] = {}
        by_predicate: dict[Expr, str] = {}
        for label, e in program.specializations:
            if e not in by_predicate:
                by_predicate[e] = self.unique("EVEN_" + clean(label))
            self.flags[label] = by_predicate[e]
        self.signed = frozenset(self.scalars)

    def unique(self, stem: str, *suffixes: str, prefixes: tuple[str, ...] = ()) -> str:
        """A free identifier; itself with every suffix or prefix is free too, and all are taken from now on."""
        n, name = 1, stem
        while True:
            family = {name, *(name + s for s in suffixes), *(p + name for p in prefixes)}
            if not family & self.taken:
                self.taken |= family
                return name
            n += 1
            name = f"{stem}_{n}"

    def integer(self, name: str) -> str:
        """A launch-visible integer: an extent symbol or a scalar."""
        return self.symbols[name] if name in self.symbols else self.scalars[name]

    def stride(self, view: str, k: int) -> str:
        return f"{self.views[view]}_s{k}"

    @property
    def strides(self) -> tuple[str, ...]:
        return tuple(self.stride(v, k) for v in self.views for k in range(self.ranks[v]))

    @property
    def arguments(self) -> tuple[str, ...]:
        """Run-time parameters of the kernel: views, strides, extents, scalars."""
        return (*self.views.values(), *self.strides, *(self.symbols[s] for s in self.kernel_symbols), *self.scalars.values())

    @property
    def constexprs(self) -> tuple[str, ...]:
        return ("SPREAD", "IDX", *dict.fromkeys(self.flags.values()))


def expressions(program: Program) -> list[Expr]:
    """Every expression that the kernel evaluates."""
    out = [a.extent for a in program.axes]

    def visit(items: tuple[Item, ...]) -> None:
        for i in items:
            match i:
                case Let():
                    out.extend(i.attrs[2] if i.op == "LoadM" else [a for a in i.attrs if isinstance(a, Expr)])
                case Store():
                    out.extend((*i.ixs, *i.at))
                case Loop():
                    visit(i.body)

    for s in program.segments:
        for ph in s.phases:
            visit(ph)
    return out
