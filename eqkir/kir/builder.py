"""A small Python front for writing KIR: a function that receives a `Builder` becomes a `Kernel`.

    @kernel
    def softmax(k):
        R, C = k.symbols("R", "C")
        X = k.view("X", "in", "f32", (R, C))
        Y = k.view("Y", "out", "f32", (R, C))
        k.noalias(X, Y)
        x = X[:, :]
        e = (x - x.max(axis=1, keepdims=True)).exp()
        Y[:, :] = e / e.sum(axis=1, keepdims=True)

Every call emits KIR operations at once, typed by the rules of `kir.types`; a mistake raises EqkirError with the file and line of
the Python statement. The line is also the operation's `loc`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from eqkir.kir import ops
from eqkir.kir.builder_control import Control
from eqkir.kir.extents import Extents
from eqkir.kir.model import Constexpr, Helper, HelperView, Kernel, Loc, Module, Symbol
from eqkir.kir.refs import BufferRef, DomainRef, MemoryRef, ViewRef
from eqkir.kir.types import CONSTEXPR_DTYPE, TensorType
from eqkir.kir.values import Value, flat


class Builder(Control):
    """What a kernel function receives; see the module's docstring."""

    def call(self, helper: HelperRef, *args: Any, views: Sequence[MemoryRef] = ()) -> Any:
        """The result of a helper, or the tuple of its results."""
        self.use(helper)
        want = helper.helper.args
        ids = [getattr(x, "id", None) or self.value(x, a.dtype).id for x, a in zip(args, want, strict=False)]
        fields = {"helper": helper.name, "args": tuple(ids), "views": tuple(v.id for v in views)}
        out = self.emit(ops.Call, len(helper.helper.yields), **fields)
        return out[0] if len(out) == 1 else out

    def use(self, helper: HelperRef) -> None:
        """Make a helper, and those that it calls, known to this kernel."""
        from eqkir.kir.helpers import library

        self.helpers.update({h.name: h for h in (*helper.calls, helper.helper)})
        self._context.helpers = library(tuple(self.helpers.values())).types

    # ------------------------------------------------------------------ result
    def build(self, loc: Loc | None = None) -> Kernel:
        """The kernel. Raises EqkirError when it does not verify."""
        from eqkir.kir.verify import check

        kernel = Kernel(
            name=self.name, symbols=tuple(self._symbols), equal=tuple(self._equal), params=tuple(self._params),
            noalias=tuple(self._noalias), body=tuple(self._body), loc=loc,
        )  # fmt: skip
        check(Module(kir=1, name=self.name, helpers=tuple(self.helpers.values()), kernels=(kernel,)))
        return kernel


@overload
def kernel(fn: Callable[[Builder], None]) -> Kernel: ...
@overload
def kernel(*, name: str) -> Callable[[Callable[[Builder], None]], Kernel]: ...
def kernel(fn: Callable[[Builder], None] | None = None, *, name: str | None = None) -> Any:
    """Decorator: run the function on a fresh `Builder` and put the verified `Kernel` in its place."""

    def build(f: Callable[[Builder], None]) -> Kernel:
        k = Builder(name or f.__name__)
        f(k)
        return k.build(Loc(file=os.path.basename(f.__code__.co_filename), line=f.__code__.co_firstlineno))

    return build if fn is None else build(fn)


@dataclass(frozen=True)
class HelperRef:
    """A helper written in Python, and the helpers that it calls."""

    helper: Helper
    calls: tuple[Helper, ...] = ()

    @property
    def name(self) -> str:
        return self.helper.name


Argument = tuple[str, Sequence[Any]] | str


def helper(
    args: Mapping[str, Argument],
    views: Mapping[str, tuple[str, str, Sequence[Any]]] | None = None,
    constexprs: Mapping[str, bool | int | float] | None = None,
    effect: str = "pure",
    name: str | None = None,
) -> Callable[[Callable[..., Any]], HelperRef]:
    """Decorator: a helper from a function of (builder, *args, *views).

    `args`: id -> dtype of a scalar, (dtype, extents), or "domain"; `views`: id -> (role, dtype, extents). Names in extents are symbols of
    the helper. `constexprs`: those that it captures, by default value; they are ``k.constexprs[id]``.
    """

    def build(f: Callable[..., Any]) -> HelperRef:
        from eqkir.base.diagnostics import EqkirError
        from eqkir.kir.helpers import library

        k = Builder(name or f.__name__)
        specs = [(n, (a, ()) if isinstance(a, str) else a) for n, a in args.items()]
        shapes = [e for _, (_, shape) in specs for e in shape] + [e for _, _, shape in (views or {}).values() for e in shape]
        symbols = tuple(dict.fromkeys(e for e in shapes if isinstance(e, str)))
        k._context.names |= set(symbols)
        k._context.extents = Extents([Symbol(id=s) for s in symbols])
        consts = tuple(
            Constexpr(id=n, type={bool: "bool", int: "int", float: "float"}[type(d)], default=d)  # type: ignore[arg-type]
            for n, d in (constexprs or {}).items()
        )  # fmt: skip
        for c in consts:
            k._context.types[c.id], k._context.constexprs[c.id] = TensorType(CONSTEXPR_DTYPE[c.type]), c
            k.constexprs[c.id] = Value(k, c.id)
            if c.type == "int":
                k._context.names.add(c.id)
        values = k.formals([(n, dtype, tuple(shape)) for n, (dtype, shape) in specs])
        memory = [HelperView(id=n, role=r, dtype=d, shape=tuple(s)) for n, (r, d, s) in (views or {}).items()]  # type: ignore[arg-type]
        out = f(k, *(v for _, v in values), *map(k.memory, memory))
        h = Helper(
            name=k.name, symbols=symbols, constexprs=consts, args=tuple(a for a, _ in values), views=tuple(memory), effect=effect,  # type: ignore[arg-type]
            body=tuple(k._body), yields=() if out is None else tuple(v.id for v in flat(out)),
            loc=Loc(file=os.path.basename(f.__code__.co_filename), line=f.__code__.co_firstlineno),
        )  # fmt: skip
        lib = library((*k.helpers.values(), h))
        if lib.found:
            raise EqkirError(*lib.found)
        return HelperRef(h, tuple(k.helpers.values()))

    return build


def module(*kernels: Kernel, name: str = "module", helpers: Sequence[HelperRef] = ()) -> Module:
    """A module of kernels, with the helpers that they call."""
    every = {h.name: h for ref in helpers for h in (*ref.calls, ref.helper)}
    return Module(kir=1, name=name, helpers=tuple(every.values()), kernels=kernels)


__all__ = ["BufferRef", "Builder", "DomainRef", "HelperRef", "MemoryRef", "Value", "ViewRef", "helper", "kernel", "module"]
