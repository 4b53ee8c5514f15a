"""Index-notation programs without any schedule: what `construct` makes of KIR and what the e-graph's abstract sort `V` holds.

A value is a pure expression over axes, a node of one hash-consed arena (children before parents):

=========  ==========================  =============================  =====================================================
op         attrs                       args                           meaning
=========  ==========================  =============================  =====================================================
Const      (text,)                                                    `dtypes.literal` text of the node's dtype
Scalar     (name,)                                                    a run-time scalar of the ABI
Index      (ix,)                       deps…                          an index expression (dtype index) or predicate (bool)
Load       (view, version, ixs)        valid, fill, deps…             element ``view[ixs]`` of that memory version where valid, else fill
Un         (fn,)                       a                              `kir` unary functions, and ``neg not …``
Bin        (fn,)                       a, b                           kir binary functions and comparisons ``eq ne lt le gt ge``
Tri        (fn,)                       a, b, c                        ``select`` (cond, x, y), ``fma``
Cast       (dtype,)                    a
Bitcast    (dtype,)                    a
Permit     (what,)                     a                              `a`, or anything that the permissions of that one value allow for it
Red        (fn, axis)                  a                              built-in reduction over one axis; `a` has that axis free
RedN       (axis, n)                   idents…, elems…, comb…         generic reduction; `comb` is closed over Arg nodes
Arg        (side, i)                                                  formal of a combine region: side ``l`` or ``r``, component i
Pick       (i,)                        t                              component of a RedN (whose dtype is ``tuple``)
Con        (axis,)                     a, b                           contraction over one axis: sum of products, both in the node's dtype
ConAcc     (axis,)                     a, b, init                     the same, its accumulator starting at `init`
=========  ==========================  =============================  =====================================================

Axes free in a value are those of its index expressions minus the bound ones below it; nothing substitutes under a binder. A reduced
axis is free in the operand. Reductions over several axes are nested, one axis each. `sum` operands are already cast to the accumulator.

A `Fold` over a ``strict`` axis steps through single elements. Over a ``seg`` axis it steps through slices: `sums` are the summary of a
slice (they reduce
over the axis' ``mem`` axis), `yields` combine the states with them, and ``combine(identity, summary) = summary``, so one slice may cover
all.
`Slice` (axis, mem axis) of a value is made by rules only: the value with that axis as the members of a slice.
`State` (axis, name, n, i) is component i before the current step of the loop over that axis, inits… and yields… as in a `Fold`; `WState` is
the same of a `While`, whose condition is its last operand: stores inside the loop read it.
Reverse and exclusive scans are forward inclusive scans of re-indexed operands.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from eqkir.base.expr import Expr, coords
from eqkir.program.abi import Abi, Axis, slice_axis

if TYPE_CHECKING:
    from eqkir.program.ranges import Ranges


@dataclass(frozen=True, slots=True)
class VNode:
    op: str
    attrs: tuple[Any, ...]
    args: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Put:
    """A store: ``view[ixs] = value`` where valid; it ends version `version - 1` of the view's alias class and makes `version`.

    `mode` ``unique`` is a store whose valid members its author declares distinct; the others (`ops.STORE_MODES`) are atomic: members may
    meet at one element, in any order. Such an operation has a memory `order`, and happens once for each member: its old value, zero where
    it is not valid, is kept in the workspace `into` at `at`, where one is named. `shared` are the points (of a `parallel`) that run
    concurrently, each as ``axis#number`` of the `parallel`'s point: atomic operations that share a point may come in any order between
    instances that differ along its axis. `deps` hold the
    data operands of `ixs`, then the expected value of a ``compare_exchange``, then, with `into`, the constant true.
    """

    view: str
    version: int
    ixs: tuple[Expr, ...]
    value: int
    valid: int
    deps: tuple[int, ...] = ()
    mode: str = "store"
    order: str = ""
    shared: tuple[str, ...] = ()
    into: str = ""
    at: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """An execution group: instance axes (row-major) and phases in order; the puts of one phase are unordered among each other.

    Between phases every thread of an instance sees what the phase before wrote (a barrier of the program instance).
    """

    name: str
    axes: tuple[str, ...]
    phases: tuple[tuple[Put, ...], ...]


@dataclass
class Abstract:
    abi: Abi
    axes: tuple[Axis, ...]
    nodes: list[VNode] = field(default_factory=list)
    groups: tuple[Group, ...] = ()
    origins: dict[int, str] = field(default_factory=dict)  # node id -> "kernel/op id file:line"; comments only
    #: (alias class, version) -> the ``strict`` axes of the ordered loops inside which that version lives, outermost first: it changes
    #: with every
    #: step, so whoever reads or makes it stays inside. The first version of a loop's body is what the step before (or the loop's start)
    #: left.
    inner: dict[tuple[int, int], tuple[str, ...]] = field(default_factory=dict)
    #: ordered loops of the kernel (as `analysis.effects` names them) -> their axes: what the construction's verifier takes them for
    ordered: dict[str, str] = field(default_factory=dict)
    #: operations over slices of the kernel (their first results) that are taken in one slice: what the verifier takes them for
    whole: frozenset[str] = frozenset()
    #: (loop axis, seg axis over the same members): offered to rules that take a reduction in slices
    sliced: tuple[tuple[str, str], ...] = ()
    #: numerical permissions of the compile call that facts about values rely on
    permissions: tuple[str, ...] = ()
    #: what is known of parts of axes outside of which nothing counts; None: not looked for
    ranges: Ranges | None = None
    _ids: dict[VNode, int] = field(default_factory=dict, repr=False)
    _free: dict[int, frozenset[str]] = field(default_factory=dict, repr=False)

    def make(self, op: str, attrs: tuple[Any, ...] = (), args: tuple[int, ...] = (), dtype: str = "") -> int:
        """The id of this node, new or existing."""
        n = VNode(op, attrs, args, dtype)
        if n not in self._ids:
            self._ids[n] = len(self.nodes)
            self.nodes.append(n)
        return self._ids[n]

    def const(self, text: str, dtype: str) -> int:
        return self.make("Const", (text,), (), dtype)

    def axis(self, name: str) -> Axis:
        """Raises KeyError."""
        for a in self.axes:
            if a.name == name:
                return a
        raise KeyError(name)

    def free(self, i: int) -> frozenset[str]:
        """Names of the axes free in node `i`."""
        if i not in self._free:
            todo = [i]
            while todo:
                j = todo[-1]
                n = self.nodes[j]
                missing = [a for a in n.args if a not in self._free]
                if j in self._free or not missing:
                    self._free.setdefault(j, self._free_of(n))
                    todo.pop()
                else:
                    todo += missing
        return self._free[i]

    def inside(self, view: str, version: int) -> tuple[str, ...]:
        """The ordered loops inside which a version of a view lives."""
        return self.inner.get((self.abi.view(view).alias, version), ()) if self.inner else ()

    def _free_of(self, n: VNode) -> frozenset[str]:
        out = frozenset().union(*(self._free[a] for a in n.args))
        if n.op == "Load":
            out = out.union(*(axes_in(e) for e in n.attrs[2]), self.inside(n.attrs[0], n.attrs[1]))
        elif n.op == "Index":
            out = out | axes_in(n.attrs[0])
        elif n.op == "Form":
            out = frozenset(n.attrs[2])
        elif n.op in ("State", "WState"):
            out = out | {n.attrs[0]}
        elif n.op == "Pick" and (t := self.nodes[n.args[0]]).op in ("Fold", "While"):  # a state varies along axes of its own
            c, i = t.attrs[2], n.attrs[0]
            own = (t.args[i], t.args[c + i], *(t.args[2 * c :] if t.op == "While" else ()))
            out = frozenset().union(*(self._free[a] for a in own)) - {t.attrs[0]}
        elif n.op in BOUND:
            out = out - {bound_axis(n)}
        return out


def with_slices(p: Abstract) -> Abstract:
    """The same program with a seg axis and its mem axis beside every loop axis that a reduction binds; nothing uses them yet."""
    bound = {bound_axis(n) for n in p.nodes if n.op in ("Red", "Con", "ConAcc")}
    loops = [a for a in p.axes if a.kind == "loop" and a.name in bound]
    new = [Axis(f"{a.name}{t}", a.extent, kind) for a in loops for t, kind in (("s", "seg"), ("s.m", "mem"))]
    q = replace(p, axes=(*p.axes, *new), sliced=tuple((a.name, f"{a.name}s") for a in loops))
    return q


def axes_in(e: Expr) -> frozenset[str]:
    """Axes that an index expression depends on: a member's coordinate depends on its slice besides."""
    found = coords(e)
    return found | {slice_axis(a) for a in found}


#: structured operations -> position of the bound axis in attrs
BOUND = {"Red": 1, "RedN": 0, "Con": 0, "ConAcc": 0, "Fold": 0, "While": 0}


def bound_axis(n: VNode) -> str:
    """The axis that a structured operation binds."""
    axis: str = n.attrs[BOUND[n.op]]
    return axis
