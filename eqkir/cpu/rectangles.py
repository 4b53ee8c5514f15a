"""Instances that are rectangles of tiles: the loops over the blocks of the cut axis (`eqkir.cpu.blocking`) and over the tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from eqkir.cpu.blocking import Blocking, Held, Part, pieces
from eqkir.cpu.context import Context
from eqkir.cpu.model import Statement


def rectangle(k: Context, plan: Blocking, found: Mapping[str, int], tile: Callable[[Mapping[str, int], Part], None]) -> None:
    """For each block of the loop's axis, for each tile of the instance: the tile. `found`: label -> number of the instance along it."""
    b = k.b
    name = "held"
    while any(v.name.startswith(name) for v in k.program.abi.views):
        name += "_"
    held, out = Held(name), list[Statement]()
    counts = {d: k.launch(pieces(k.program, d, {})) for d, _ in plan.tiles}

    def nest(rest: tuple[tuple[str, int], ...], at: dict[str, int], number: int, part: Callable[[int], Part]) -> None:
        if not rest:
            tile({**found, **at}, part(number))
            return
        (d, n), *others = rest
        base = b.bin("mul", found[d], b.const(n))
        with b.loop(b.const(0), b.bin("minimum", b.const(n), b.bin("sub", counts[d], base))) as i:
            nest(tuple(others), {**at, d: b.bin("add", base, i)}, b.bin("add", b.bin("mul", number, b.const(n)), i), part)

    with b.block(out):
        depth = b.const(plan.depth)
        extent = k.extent(plan.loop.axis)
        blocks = b.bin("floordiv", b.bin("add", extent, b.const(plan.depth - 1)), depth)
        blocks = b.bin("maximum", blocks, b.const(1))  # what follows the loop is done once, whatever its length
        with b.loop(b.const(0), blocks) as n:
            first, last = b.bin("eq", n, b.const(0)), b.bin("eq", b.bin("add", n, b.const(1)), blocks)
            nest(plan.tiles, {}, b.const(0), lambda number: Part(plan.loop, plan.depth, n, first, last, number, held))
    for dtype, size in sorted(held.sizes.items()):
        b.alloc(held.memory(dtype), dtype, size * plan.count)
    for s in out:
        b.emit(s)
