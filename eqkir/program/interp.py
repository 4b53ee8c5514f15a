"""The program interpreter: executes any physical program, structured or legal, instance by instance (vectorised over a batch of instances).

It is independent of KIR and of every emitter. With `check` it detects out-of-bounds accesses, double writes, dependences between
instances, reads of unwritten elements and wrong memory versions, and reports output elements that nothing wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np

from eqkir.base.diagnostics import fail
from eqkir.base.dtypes import FLOATS, NUMPY
from eqkir.base.expr import Expr, evaluate
from eqkir.program.abi import member_labels, parameter, step_parameter
from eqkir.program.interp_exec import Batch, Compiler
from eqkir.program.interp_memory import ARGS, Array, Buffer, View, address, memories
from eqkir.program.interp_reduce import ORDERS
from eqkir.program.interp_space import Space, trimmed
from eqkir.program.model import Item, Let, Loop, Program, Segment, Store
from eqkir.program.ops import label_of

Args = Mapping[str, Union[Buffer, int, float, bool, np.generic]]
BATCH_BYTES = 16 << 20  # bound on one value of a batch


@dataclass
class Report:
    """What one run did. `programs` and `instances` were executed; `unwritten`: view -> elements of `out` views that nothing wrote
    (empty without `check`); `workspaces`: the hidden buffers after the run."""

    programs: int = 0
    instances: int = 0
    unwritten: dict[str, int] = field(default_factory=dict)
    workspaces: dict[str, Buffer] = field(default_factory=dict)


class Options:
    """Reduction order, poison, and numbers of store sites."""

    def __init__(self, order: str, seed: int) -> None:
        if order not in ORDERS:
            raise ValueError(f"order is one of {ORDERS}")
        self.order, self.rng, self.base = order, np.random.default_rng(seed), 0
        self.nan = seed % 2 == 0
        self.domains: dict[tuple[str, tuple[str, ...]], int] = {}

    def poison(self, dtype: str) -> Any:
        """A garbage scalar: NaN for floats under an even seed and some number under an odd one, random bits otherwise."""
        t = NUMPY[dtype]
        if dtype in FLOATS:
            return np.asarray(np.nan if self.nan else self.rng.standard_normal() * 100).astype(t)[()]
        return t.type(bool(self.rng.integers(2))) if dtype == "bool" else np.frombuffer(self.rng.bytes(t.itemsize), t)[0]

    def domain(self, key: tuple[str, tuple[str, ...]]) -> int:
        """The number of a sharing domain: group and axes."""
        return self.domains.setdefault(key, len(self.domains))

    def site(self, n: int) -> int:
        return self.base + n


def bind_symbols(program: Program, args: Args) -> dict[str, int]:
    """Symbols from the shapes of the views. Raises EqkirError EQK-INT-ARGS when they conflict or one is missing."""
    out: dict[str, int] = {}
    for v in program.abi.views:
        b = args.get(v.name)
        if isinstance(b, Buffer):
            for k, (e, n) in enumerate(zip(v.shape, b.shape, strict=False)):
                if e.op == "sym" and any(s.name == e.args[0] for s in program.abi.symbols) and out.setdefault(e.args[0], n) != n:
                    raise fail(ARGS, f"symbol {e.args[0]} is {out[e.args[0]]} and {n} ({v.name} axis {k})", stage="interpret")
    for s in program.abi.symbols:
        if s.name not in out:
            raise fail(ARGS, f"no view gives symbol {s.name}", stage="interpret")
    return out


def run(
    program: Program,
    args: Args,
    symbols: Mapping[str, int] | None = None,
    *,
    programs: Iterable[int] | None = None,
    check: bool = True,
    order: str = "tree",
    seed: int = 0,
) -> Report:
    """Execute one launch; outputs are written into the buffers of `args` (views by name, scalars by name).

    `symbols` gives extent symbols (default: from the views' shapes). `programs`: ids of the launch's program space to execute (default:
    all). `order`: reduction order inside a fragment, ``tree | reversed | sequential``. `seed`: of the garbage that inactive lanes and
    workspaces hold (even: NaN for floats); equal results under two seeds show that none of it counts.
    Raises EqkirError EQK-INT-…: the first violation found.
    """
    opts = Options(order, seed)
    env = _environment(program, args, symbols)
    program = trimmed(program, env)
    buffers = _buffers(program, args, env, opts)
    written = {v.name for v in program.abi.views if v.role != "in"}
    mems = memories(buffers, written, check)
    _check_alias(program, mems)
    views = {v.name: View(v.name, buffers[v.name], mems[v.name], v.role in ("out", "workspace"), check) for v in program.abi.views}
    scalars = {s.name: np.array([args[s.name]]).astype(NUMPY[s.dtype]) for s in program.abi.scalars}
    report = Report(workspaces={v.name: buffers[v.name] for v in program.abi.views if v.role == "workspace"})
    wanted = None if programs is None else sorted(set(programs))
    offset = first_id = 0
    with np.errstate(all="ignore"):
        for n, s in enumerate(program.segments):
            space = Space(program, s, env)
            pids = range(space.programs) if wanted is None else [p - offset for p in wanted if 0 <= p - offset < space.programs]
            lids = _instances(space, pids, wanted is None)
            _run_segment(program, s, n, space, views, scalars, env, opts, lids, first_id)
            report.programs += len(pids)
            report.instances += lids.size
            offset += space.programs
            first_id += space.length
            opts.base += 1 << 16
    if check:
        report.unwritten = {v.name: k for v in program.abi.views if v.role == "out" and (k := views[v.name].unwritten())}
    return report


def _instances(space: Space, pids: range | list[int], everything: bool) -> Array:
    if everything and space.segment.mode == "grid":
        return np.arange(space.length, dtype=np.int64)
    parts = [np.arange(r.start, r.stop, r.step, dtype=np.int64) for r in map(space.lids, pids)]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _environment(program: Program, args: Args, symbols: Mapping[str, int] | None) -> dict[str, int]:
    """Launch-visible integers by name. Raises EqkirError EQK-INT-ARGS."""
    env = dict(bind_symbols(program, args) if symbols is None else symbols)
    for s in program.abi.symbols:
        n = env.get(s.name)
        if n is None or n < s.lo or (s.hi is not None and n > s.hi) or n % s.multiple_of:
            raise fail(ARGS, f"symbol {s.name} = {n} is not in [{s.lo}, {s.hi}] and a multiple of {s.multiple_of}", stage="interpret")
    for p in program.abi.scalars:
        if p.name not in args or isinstance(args[p.name], Buffer):
            raise fail(ARGS, f"scalar {p.name} is missing", stage="interpret")
        if p.dtype not in FLOATS:
            env[p.name] = int(args[p.name])  # type: ignore[arg-type]
    for e in program.preconditions:
        if not evaluate(e, _atoms(program, env)):
            raise fail(ARGS, f"the precondition {e} does not hold", stage="interpret")
    return env


def _atoms(program: Program, env: Mapping[str, int]) -> Any:
    return lambda a: program.bindings[a.args[0]] if a.op == "param" else env[a.args[0]]


def _buffers(program: Program, args: Args, env: Mapping[str, int], opts: Options) -> dict[str, Buffer]:
    out: dict[str, Buffer] = {}
    for v in program.abi.views:
        shape = tuple(int(evaluate(e, _atoms(program, env))) for e in v.shape)
        if v.role == "workspace":
            b = Buffer.dense(shape, NUMPY[v.dtype])
            b.memory[...] = opts.poison(v.dtype)
            out[v.name] = b
            continue
        a = args.get(v.name)
        if not isinstance(a, Buffer):
            raise fail(ARGS, f"view {v.name} is missing", stage="interpret")
        if a.memory.dtype != NUMPY[v.dtype] or a.memory.ndim != 1 or tuple(a.shape) != shape or len(a.strides) != len(shape):
            raise fail(ARGS, f"view {v.name}: {a.memory.dtype} {list(a.shape)} is not {v.dtype} {list(shape)}", stage="interpret")
        lo, hi = a.span()
        if hi >= lo and (lo < 0 or hi >= a.memory.size):
            raise fail(ARGS, f"view {v.name} reaches outside its memory", stage="interpret")
        out[v.name] = a
    return out


def _check_alias(program: Program, mems: dict[str, Any]) -> None:
    views = program.abi.views
    for i, v in enumerate(views):
        for w in views[:i]:
            if v.alias != w.alias and mems[v.name] is mems[w.name] and {v.role, w.role} != {"in"}:
                raise fail(ARGS, f"views {w.name} and {v.name} are declared disjoint but share memory", stage="interpret")


def _run_segment(
    program: Program, segment: Segment, n: int, space: Space, views: dict[str, View], scalars: dict[str, Array], env: dict[str, int],
    opts: Options, lids: Array, first_id: int,
) -> None:  # fmt: skip
    if not lids.size:
        return
    compiler = Compiler(program, segment, space, views, scalars, env.__getitem__, opts)
    phases = [compiler.phase(p, f"/segments/{n}/phases/{k}") for k, p in enumerate(segment.phases)]
    lanes = max([1, *(_lanes(program, i) for p in segment.phases for i in p)])
    chunk = max(1, BATCH_BYTES // (8 * lanes * compiler.widest))
    whole = {x: a for a in program.axes for x in a.labels if x.endswith("W") and _bound(program, x)}
    for at in range(0, lids.size, chunk):
        part = lids[at : at + chunk]
        batch = Batch(part + first_id)
        for label, block in space.decode(part).items():
            _place(batch, label, block, program.lanes(label), compiler.extent[label.split(":", 1)[0]])
        for label, axis in whole.items():
            _place(batch, label, np.zeros(1, np.int64), program.lanes(label), compiler.extent[axis.name])
        for phase in phases:
            batch.env = {}
            phase(batch)


def _bound(program: Program, label: str) -> bool:
    p = parameter(label)
    return p is None or p in program.bindings


def _place(batch: Batch, label: str, block: Array, lanes: int, extent: int) -> None:
    """Coordinates and active set of a label at a block index."""
    if parameter(label) is None:
        batch.coords[label] = block
        return
    at = block[:, None] * lanes + np.arange(lanes, dtype=np.int64)
    live = at < extent
    batch.coords[label], batch.active[label] = at, None if live.all() else live


def _lanes(program: Program, i: Item) -> int:
    """The largest number of lanes of a value in an item (contractions and reductions: with the bound label)."""
    if isinstance(i, Loop):
        chunk = program.lanes(i.label)
        own = [int(np.prod([program.lanes(d) for d in c.dims])) * chunk for c in i.carries]
        return max([1, *own, *(_lanes(program, x) for x in i.body)])
    if isinstance(i, (Let, Store)):
        n = int(np.prod([program.lanes(d) for d in i.dims], dtype=np.int64))
        bound = label_of(i.op, i.attrs) if isinstance(i, Let) else ""
        return n * (program.lanes(bound) if bound and bound not in i.dims else 1)
    return 1


# ------------------------------------------------------------------------------------------------ index arithmetic alone
@dataclass(frozen=True)
class Touch:
    """Addresses of one access by one instance at one iteration of the loops around it. `coords`: label -> coordinates (one a lane);
    `ixs`: per axis of the view; `address`: elements from the view's base; lanes whose coordinates are out of their extents are inactive."""

    pid: int
    lid: int
    view: str
    kind: str  # load | store
    coords: dict[str, Array]
    ixs: tuple[Array, ...]
    address: Array
    active: Array


def run_index_only(
    program: Program,
    symbols: Mapping[str, int],
    pids: Iterable[int],
    strides: Mapping[str, tuple[int, ...]] | None = None,
    offsets: Mapping[str, int] | None = None,
) -> list[Touch]:
    """Evaluate only the index arithmetic of the given program ids (of the whole program space), with nothing allocated.

    `strides` (elements) default to dense row-major. Loops are taken at their first and last iteration, instances of a stride segment at
    the first and last of the program. Accesses whose indices depend on data are left out. `symbols` includes integer scalars.
    Raises EqkirError EQK-INT-ARGS for a program id outside program space.
    """
    out: list[Touch] = []
    spaces = [Space(program, s, symbols) for s in program.segments]
    total = sum(s.programs for s in spaces)
    for pid in pids:
        if not 0 <= pid < total:
            raise fail(ARGS, f"program {pid} is outside program space [0, {total})", stage="interpret")
        rest = pid
        for space in spaces:
            if rest < space.programs:
                for lid in dict.fromkeys((space.lids(rest)[0], space.lids(rest)[-1])):
                    _touch_instance(program, space, pid, lid, strides or {}, offsets or {}, out)
                break
            rest -= space.programs
    return out


def _touch_instance(
    program: Program, space: Space, pid: int, lid: int, strides: Mapping[str, tuple[int, ...]], offsets: Mapping[str, int], out: list[Touch]
) -> None:
    coords = {x: int(i[0]) * program.lanes(x) + _iota(program, x) for x, i in space.decode(np.array([lid], np.int64)).items()}

    def dense(name: str) -> tuple[int, ...]:
        shape = [space.value(e) for e in program.abi.view(name).shape]
        return tuple(int(np.prod([1, *shape[k + 1 :]], dtype=object)) for k in range(len(shape)))

    def access(kind: str, view: str, ixs: tuple[Expr, ...], dims: tuple[str, ...], at: dict[str, Array]) -> None:
        at = {d: at[d] if d in at else _iota(program, d) for d in dims}
        if any(a.op == "dep" for e in ixs for a in _all_atoms(e)):
            return
        lanes = program.lane_dims(dims)
        shaped = {d: x.reshape([-1 if d == y else 1 for y in lanes]) for d, x in at.items()}

        def atom(a: Expr) -> Any:
            if a.op == "coord":
                return next(x for d, x in shaped.items() if d.split(":", 1)[0] == a.args[0])
            return program.bindings[a.args[0]] if a.op == "param" else space.symbols[a.args[0]]

        places = tuple(np.asarray(evaluate(e, atom), np.int64) for e in ixs)
        address_: Any = np.int64(offsets.get(view, 0))
        for ix, s in zip(places, strides.get(view) or dense(view), strict=True):
            address_ = address_ + ix * np.int64(s)
        live = np.asarray(True)
        for d, x in shaped.items():
            live = live & (x < space.value(program.axis[d.split(":", 1)[0]].extent))
        out.append(Touch(pid, lid, view, kind, at, places, np.asarray(address_), live))

    def walk(items: tuple[Item, ...], at: dict[str, Array]) -> None:
        for i in items:
            if isinstance(i, Loop):
                p = step_parameter(i.label)
                n = program.bindings[p] if p else 1
                trips = -(-space.value(program.axis[i.axis].extent) // n)
                for it in dict.fromkeys((0, trips - 1)) if trips > 0 else ():
                    inside = {x: it * n + _iota(program, x) for x in (i.label, *member_labels(i.label, program.axis))}
                    walk(i.body, {**at, **inside})
            elif isinstance(i, Store):
                access("store", i.view, i.ixs, i.dims, at)
                if i.into:
                    access("store", i.into, i.at, i.dims, at)
            elif isinstance(i, Let) and i.op in ("Load", "LoadM"):
                access("load", i.attrs[0], i.attrs[2], i.dims, at)

    for phase in space.segment.phases:
        walk(phase, coords)


def _iota(program: Program, label: str) -> Array:
    return np.arange(program.lanes(label), dtype=np.int64)


def _all_atoms(e: Expr) -> Any:
    from eqkir.base.expr import atoms

    return atoms(e)


__all__ = ["Buffer", "Options", "Report", "Touch", "address", "bind_symbols", "run", "run_index_only"]
