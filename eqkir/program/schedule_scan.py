"""Scans as items: of one fragment, and chunk by chunk with a carried total."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eqkir.base.dtypes import identity
from eqkir.program.abi import step_parameter
from eqkir.program.model import Carry, Item, Let
from eqkir.program.schedule_region import region_of

if TYPE_CHECKING:
    from eqkir.program.schedule_phase import Phase

COMBINE = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}


def expanded(p: Phase, i: int) -> list[Item]:
    """A scan of one fragment, or of the chunk that a loop has reached: the carried total, then the chunk's own scan."""
    n = p.dag.nodes[i]
    body, outer = p.split(i)
    args = tuple(p.ids[k] for k in body)
    dims, generic = p.dims(i, None), n.op.startswith("FScanN")
    region = region_of(p.dag, i, p.abi) if generic else None
    dtypes = region.dtypes if region else (p.dtype[i],)
    args = args[-len(dtypes) :]  # one fragment needs no identities
    label = n.path[-1][1] if n.op.endswith("Loop") and n.path else n.attrs[-1]
    rest = tuple(t for t in dims if t != label)
    out: list[Item] = []

    def let(op: str, attrs: tuple[Any, ...], xs: tuple[int, ...], d: tuple[str, ...], dtype: str) -> int:
        out.append(Let(p.new(), op, attrs, xs, d, dtype, n.by if op in ("Scan", "ScanN") else ""))
        return p.next - 1

    def local() -> list[int]:
        if not generic:
            return [let("Scan", (n.attrs[0], label), args, dims, dtypes[0])]
        t = let("ScanN", (label, region), args, dims, "tuple")
        return [let("Pick", (c,), (t,), dims, d) for c, d in enumerate(dtypes)]

    def combine(a: list[int], b: list[int], d: tuple[str, ...]) -> list[int]:
        if not region:
            return [let("Bin", (COMBINE[n.attrs[0]],), (a[0], b[0]), d, dtypes[0])]
        env: dict[int, int] = {}
        for x in region.body:
            if x.op == "Arg":
                env[x.id] = (a if x.attrs[0] == "l" else b)[x.attrs[1]]
            else:
                env[x.id] = let(x.op, x.attrs, tuple(env[y] for y in x.args), d if x.args else (), x.dtype)
        return [env[y] for y in region.yields]

    if n.op.endswith("Whole"):
        done = local()
    else:
        assert n.path
        acc = [p.new() for _ in dtypes]
        if region:
            inits = tuple(p.ids[k] for k in outer)
        else:
            inits = (p.new(),)
            p.before[n.path].append(Let(inits[0], "Const", (identity(n.attrs[0], dtypes[0]),), (), (), dtypes[0]))
        single = step_parameter(label) is None
        done = combine(acc, list(args) if single else local(), dims)
        last = done if single else [let("Last", (label,), (x,), rest, d) for x, d in zip(done, dtypes, strict=True)]
        for a, x, init, d in zip(acc, last, inits, dtypes, strict=True):
            p.scan_carries[n.path].append(Carry(a, "Phi", (), (x,), (init,), rest, d))
    if generic:
        p.tuples[i] = done
    else:
        p.ids[i] = done[0]
    return out


__all__ = ["expanded"]
