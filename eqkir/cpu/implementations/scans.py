"""Scans of fragments, member by member; vectors run along other labels where there are any."""

from __future__ import annotations

from eqkir.cpu.context import Context
from eqkir.cpu.fragments import Fragment, Shape
from eqkir.cpu.implementations.declaration import Declaration, Operation
from eqkir.cpu.model import Type
from eqkir.program.abi import parameter
from eqkir.program.model import Let


class Scan:
    """Inclusive forward scans along a label."""

    declaration = Declaration("scan_fragment", "scan of a fragment", ("Scan", "ScanN"), "from left to right")

    def applies(self, o: Operation) -> bool:
        return True

    def expand(self, k: Context, x: Let) -> None:
        fn, region, label = (x.attrs[0], None, x.attrs[1]) if x.op == "Scan" else ("", x.attrs[1], x.attrs[0])
        shape = k.shape(x.id)
        v = shape.vector if shape.vector != label else ""
        dims = tuple(d for d in shape.dims if d != label)
        outer = k.layout.shaped(dims, v)
        lanes = range(k.program.lanes(label)) if parameter(label) and label in shape.dims else range(1)
        n = len(x.args)
        found: list[dict[tuple[int, ...], int]] = [{} for _ in range(n)]
        steps = k.layout.shaped(shape.dims, v)
        for p in outer.points():
            state: tuple[int, ...] = ()
            for at in lanes:
                q = {**p, label: at}
                member = tuple(k.read(a, q, v) for a in x.args)
                if not state:
                    state = member
                else:
                    state = k.apply(region, state, member) if region else (k.combine(fn, state[0], member[0]),)
                for i, s in enumerate(state):
                    found[i][steps.key(q)] = s
        parts = tuple(self._shaped(k, shape, Fragment(steps, f)) for f in found)
        k.values[x.id] = parts if region else parts[0]

    def _shaped(self, k: Context, shape: Shape, f: Fragment) -> Fragment:
        """The scalars of a scan as vectors along its own label, where it is asked for those."""
        if f.shape == shape:
            return f
        out = Fragment(shape)
        for p in shape.points():
            lanes = tuple(f.parts[f.shape.key({**p, shape.vector: p[shape.vector] + i})] for i in range(shape.width))
            out.parts[shape.key(p)] = k.b.op("Build", (), lanes, Type(k.b.types[lanes[0]].dtype, shape.width))
        return out


class Last:
    """The member in the last active lane of a label."""

    declaration = Declaration("last_of_fragment", "last member of a fragment", ("Last",), "exact")

    def applies(self, o: Operation) -> bool:
        return True

    def expand(self, k: Context, x: Let) -> None:
        (label,) = x.attrs
        v = k.layout.along(x.id)

        def part(p: dict[str, int], _: str) -> int:
            n = k.program.lanes(label) if parameter(label) else 1
            if label not in k.layout.dims[x.args[0]] or not parameter(label) or k.labels[label].count < 0:
                return k.read(x.args[0], {**p, label: n - 1}, v)
            out = k.read(x.args[0], {**p, label: 0}, v)
            for at in range(1, n):
                q = {**p, label: at}
                c, y, z = k.level(k.part(label, q, ""), k.read(x.args[0], q, v), out)
                out = k.b.select(c, y, z)
            return out

        k.make(x.id, part)


ALL = (Scan(), Last())
