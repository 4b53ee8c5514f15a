"""Strongly connected components: of problems, and of plain e-graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def components(kids: Mapping[int, Sequence[int]], roots: Iterable[int]) -> list[list[int]]:
    """Strongly connected components of what the roots reach, children first (Tarjan's algorithm, iterative); classes ascend in each."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on: set[int] = set()
    out: list[list[int]] = []
    for root in roots:
        if root in index or root not in kids:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        work = [(root, iter(kids[root]))]
        while work:
            c, rest = work[-1]
            k = next(rest, None)
            if k is None:
                work.pop()
                if work:
                    p = work[-1][0]
                    low[p] = min(low[p], low[c])
                if low[c] == index[c]:
                    comp = []
                    while True:
                        d = stack.pop()
                        on.discard(d)
                        comp.append(d)
                        if d == c:
                            break
                    out.append(sorted(comp))
            elif k not in index:
                index[k] = low[k] = len(index)
                stack.append(k)
                on.add(k)
                work.append((k, iter(kids[k])))
            elif k in on:
                low[c] = min(low[c], index[k])
    return out


__all__ = ["components"]
