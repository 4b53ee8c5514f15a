"""egglog's own extractors: the e-graph is told to egglog node by node, one constructor an alternative, and egglog extracts.

Where a graph came from egglog, this is what egglog would have taken under the same costs. egglog builds terms; where a term uses two
alternatives of one class, the first on the way from the roots counts, and the cost is recomputed.
"""

from __future__ import annotations

from typing import Any

from eqkir.extract.plain.graph import Choice
from eqkir.extract.plain.greedy import Greedy
from eqkir.extract.plain.prepare import Prepared
from eqkir.extract.plain.protocol import Claims, Clock, Outcome
from eqkir.terms.bindings import bindings


class _Native:
    name: str
    claims: Claims
    mode: str

    def run(self, p: Prepared, clock: Clock, seed: int, warm: Choice | None) -> Outcome:
        order = Greedy(p, False)
        costs: dict[str, float] = {"root": 0.0}
        lines = ["(sort E)", f"(constructor root ({'E ' * len(p.graph.roots)}) E)"]
        for c, os in p.options.items():
            for o in os:
                costs[f"n{c}_{o.index}"] = o.cost
                lines.append(f"(constructor n{c}_{o.index} ({'E ' * len(o.kids)}) E)")

        def call(c: int, index: int, kids: tuple[int, ...]) -> str:
            return f"(n{c}_{index}{''.join(f' $c{k}' for k in kids)})"

        lines += [f"(let $c{c} {call(c, order.pick[c].index, order.pick[c].kids)})" for c in order.order]
        lines += [f"(union $c{c} {call(c, o.index, o.kids)})" for c, os in p.options.items() for o in os if o.index != order.pick[c].index]
        lines.append(f"(let $top (root{''.join(f' $c{r}' for r in p.graph.roots)}))")
        eg = bindings.EGraph()
        eg.run_program(*eg.parse_program("\n".join(lines)))
        sort, value = eg.eval_expr(bindings.Var(bindings.PanicSpan(), "$top"))
        model: Any = bindings.DagCostModel(0.0, lambda name, _: costs.get(name, 0.0), lambda *_: 0.0, lambda *_: 0.0)
        mode: Any = self.mode
        dag, found = bindings.extract_best_with_dag_cost_model(eg, [(sort, value)], model, extractor=mode)
        assert found[0] is not None
        return Outcome(self._choice(p, dag, found[0][1]), "heuristic")

    @staticmethod
    def _choice(p: Prepared, dag: Any, top: int) -> Choice:
        out: Choice = {}
        seen: set[int] = set()
        todo = [top]
        while todo:
            t = todo.pop(0)
            if t in seen:
                continue
            seen.add(t)
            term = dag.get(t)
            todo += term.args
            if term.name != "root":
                c, _, j = term.name[1:].partition("_")
                out.setdefault(int(c), int(j))
        return p.graph.restricted(out)


class EgglogTree(_Native):
    """egglog's tree extractor."""

    name, claims, mode = "egglog-tree", Claims("tree"), "tree"


class EgglogDag(_Native):
    """egglog's greedy DAG extractor."""

    name, claims, mode = "egglog-dag", Claims("dag"), "greedy-dag"
