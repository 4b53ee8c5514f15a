"""Random control: points in lockstep compute what each computes alone, and every choice lies within the envelope."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqkir.kir.memory import ViewArg, clone
from eqkir.kir.model import Kernel
from eqkir.kir.reference import run
from eqkir.kir.verify import check_kernel
from tests.kir_reference.support import constant, kernel, op, region, view, within


class Writer:
    """Random structured bodies over scalars of i64 and f32."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.n = rng, 0

    def fresh(self) -> str:
        self.n += 1
        return f"v{self.n}"

    def pick(self, live: dict[str, list[str]], dtype: str) -> str:
        pool = live[dtype]
        return pool[-1 - int(self.rng.integers(0, min(len(pool), 5)))]

    def condition(self, live: dict[str, list[str]], out: list[dict[str, Any]]) -> str:
        dtype = str(self.rng.choice(["i64", "i64", "f32"]))
        c = self.fresh()
        x, y = self.pick(live, dtype), self.pick(live, dtype)
        out.append(op("compare", c, fn=str(self.rng.choice(["lt", "le", "eq", "gt"])), x=x, y=y))
        return c

    def block(self, live: dict[str, list[str]], depth: int, loop: tuple[str, str] | None) -> list[dict[str, Any]]:
        """Some operations; results join `live`. `loop`: the carries of the innermost loop (an i64 and an f32)."""
        out: list[dict[str, Any]] = []
        for _ in range(int(self.rng.integers(2, 5))):
            r = self.fresh()
            match int(self.rng.integers(0, 8 if depth else 4)):
                case 0 | 1:
                    out.append(
                        op("binary", r, fn=str(self.rng.choice(["add", "sub", "mul"])), x=self.pick(live, "i64"), y=self.pick(live, "i64"))
                    )
                    m = self.fresh()  # keeps numbers small, so that conditions part the lanes
                    out.append(op("binary", m, fn="mod", x=r, y="seven"))
                    live["i64"].append(m)
                case 2:
                    out.append(
                        op("binary", r, fn=str(self.rng.choice(["add", "sub", "mul"])), x=self.pick(live, "f32"), y=self.pick(live, "f32"))
                    )
                    live["f32"].append(r)
                case 3:
                    out.append(op("load", r, view="T", coords=["i", self.pick(live, "i64")]))
                    live["f32"].append(r)
                case 4:
                    s = self.fresh()
                    out.append(op("unary", s, fn="tanh", x=self.pick(live, "f32")))
                    out.append(op("store", view="T", coords=["i", self.pick(live, "i64")], value=s))
                case 5:
                    out.append(self.branch(live, depth, loop, out, r))
                case 6:
                    out.append(self.repeat(live, depth, r, out))
                case 7:
                    if loop is None:
                        continue
                    c = self.condition(live, out)
                    out.append(op(str(self.rng.choice(["break", "continue"])), cond=c, values=list(loop)))
        return out

    def branch(self, live: dict[str, list[str]], depth: int, loop: Any, out: list[dict[str, Any]], r: str) -> dict[str, Any]:
        c = self.condition(live, out)
        sides = []
        for _ in range(2):
            inner = {k: list(v) for k, v in live.items()}
            body = self.block(inner, depth - 1, loop)
            sides.append(region("", body, f"{inner['i64'][-1]} {inner['f32'][-1]}"))
        live["i64"].append(f"{r}i")
        live["f32"].append(f"{r}f")
        return op("if", f"{r}i {r}f", cond=c, then=sides[0], otherwise=sides[1])

    def repeat(self, live: dict[str, list[str]], depth: int, r: str, out: list[dict[str, Any]]) -> dict[str, Any]:
        a, b = f"{r}a", f"{r}b"
        inits = [self.pick(live, "i64"), self.pick(live, "f32")]
        inner = {k: list(v) for k, v in live.items()}
        inner["i64"].append(a)
        inner["f32"].append(b)
        body = self.block(inner, depth - 1, (a, b))
        yields = f"{inner['i64'][-1]} {inner['f32'][-1]}"
        live["i64"].append(f"{r}i")
        live["f32"].append(f"{r}f")
        if self.rng.random() < 0.6:
            end = self.fresh()
            out.append(op("cast", end, x=self.pick({"i64": live["i64"][:-1]}, "i64"), dtype="index"))
            out.append(op("domain", f"{r}d", end=end))
            return op("for", f"{r}i {r}f", domain=f"{r}d", inits=inits, body=region(f"{r}k {a}:i64 {b}:f32", body, yields))
        # a while with a countdown: at most six rounds
        count, less = self.fresh(), self.fresh()
        cond = [op("compare", f"{r}go", fn="lt", x=f"{r}c0", y="three")]
        body += [op("binary", less, fn="add", x=f"{r}b0", y="one")]
        loop_body = region(f"{r}b0:i64 {a}:i64 {b}:f32", self.unleft(body), f"{less} {yields}")
        out.append(constant(count, "i64", int(self.rng.integers(-2, 3))))
        return op(
            "while", f"{r}n {r}i {r}f", inits=[count, *inits], cond=region(f"{r}c0:i64 {r}c1:i64 {r}c2:f32", cond, f"{r}go"), body=loop_body
        )

    def unleft(self, body: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Without early exits of this loop, which would stop its countdown."""
        kept = []
        for o in body:
            if o["op"] in ("break", "continue"):
                continue
            if o["op"] == "if":
                o = {**o, **{f: {**o[f], "body": self.unleft(o[f]["body"])} for f in ("then", "otherwise")}}
            kept.append(o)
        return kept


def random_control(seed: int) -> Kernel:
    w = Writer(np.random.default_rng(seed))
    live = {"i64": ["x", "zero", "three"], "f32": ["f", "half"]}
    head = [
        op("load", "x0", view="X", coords=["i"]), constant("seven", "i64", 7), constant("one", "i64", 1), constant("zero", "i64", 0),
        constant("three", "i64", 3), op("binary", "x", fn="mod", x="x0", y="seven"), op("load", "f", view="F", coords=["i"]),
        constant("half", "f32", 0.5),
    ]  # fmt: skip
    body = [*head, *(o for _ in range(3) for o in w.block(live, 3, None))]
    body += [op("store", view="Y", coords=["i"], value=live["i64"][-1]), op("store", view="Z", coords=["i"], value=live["f32"][-1])]
    params = [
        view("X", "in", "i64", "N"), view("F", "in", "f32", "N"), view("T", "inout", "f32", "N", 7), view("Y", "out", "i64", "N"),
        view("Z", "out", "f32", "N"), {"kind": "scalar", "id": "from", "dtype": "i64"}, {"kind": "scalar", "id": "to", "dtype": "i64"},
    ]  # fmt: skip
    return kernel(params, [op("domain", "d", begin="from", end="to"), op("parallel", domains=["d"], body=region("i", body))], "N")


@pytest.mark.parametrize("seed", range(40))
def test_points_in_lockstep_compute_what_each_computes_alone(seed: int) -> None:
    k = random_control(seed)
    check_kernel(k)
    n = 9
    rng = np.random.default_rng(seed)
    args: dict[str, Any] = {
        "X": ViewArg.of(rng.integers(-20, 20, n)), "F": ViewArg.of(rng.standard_normal(n).astype(np.float32)),
        "T": ViewArg.of(rng.standard_normal((n, 7)).astype(np.float32)), "Y": ViewArg.of(np.zeros(n, np.int64)),
        "Z": ViewArg.of(np.zeros(n, np.float32)), "from": 0, "to": n,
    }  # fmt: skip
    together, alone = clone(args), clone(args)
    run(k, together)
    for i in range(n):
        run(k, {**alone, "from": i, "to": i + 1})
    for name in "TYZ":
        np.testing.assert_array_equal(together[name].array(), alone[name].array())  # type: ignore[attr-defined]
    within(k, args)
