"""Random kernels, and the corpus: every legal choice of the reference interpreter lies within the envelope."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqkir.base.dtypes import FLOATS
from eqkir.kir.envelope import compare, envelope
from eqkir.kir.floats import ulp
from eqkir.kir.helpers import link
from eqkir.kir.input_sizes import SHARE, share
from eqkir.kir.inputs import VARIANTS, make_inputs
from eqkir.kir.load import load_file
from eqkir.kir.memory import ViewArg, clone
from eqkir.kir.model import Kernel, RegionFold
from eqkir.kir.reference import Choices, run
from eqkir.kir.scopes import regions_of
from tests.kir_reference.support import indices, kernel, op, view

ROOT = Path(__file__).parents[2]
SHAPES: dict[str, Any] = {
    name: {**entry, "folder": folder}
    for folder, file in (("json", "corpus"), ("pending", "pending"))
    for name, entry in json.loads((ROOT / f"tests/{file}_shapes.json").read_text()).items()
}
#: kernels whose results depend on the order of atomic operations
ORDER = ("tickets_i32", "claim_slots_i32", "first_arrivals_u32")
CHOICES = [
    Choices("plain"),
    Choices("reversed", True, "random", 1),
    Choices("pairwise", False, "single"),
    Choices("forward", True, "random", 2, flush=True),
]
FUNCTIONS = [
    "exp",
    "tanh",
    "sigmoid",
    "sqrt",
    "rsqrt",
    "log",
    "abs",
    "neg",
    "floor",
    "sin",
    "erf",
    "log1p",
    "exp2",
    "atan",
    "ceil",
    "expm1",
]


def random_kernel(rng: np.random.Generator) -> Kernel:
    """Two inputs [M, N], a dozen random operations on [M, N] and [M, 1] tensors of several dtypes, one output."""
    dtypes = [str(d) for d in rng.choice(["f32", "f32", "bf16", "f16", "f64"], 2)]
    body = [*indices(["M", "N"])]
    live: list[tuple[str, str]] = []
    for n, d in zip("AB", dtypes):
        body.append(op("load", f"x{n}", view=n, coords=["i0", "i1"]))
        live.append((f"x{n}", d))
    fresh = iter(f"v{i}" for i in range(1000))

    def emit(name: str, as_: str, **fields: Any) -> str:
        r = next(fresh)
        body.append(op(name, r, **fields))
        live.append((r, as_))
        return r

    def pick(dtype: str | None = None) -> tuple[str, str]:
        pool = [v for v in live if dtype is None or v[1] == dtype]
        return pool[-1 - int(rng.integers(0, min(len(pool), 4)))]

    for _ in range(14):
        x, d = pick()
        y, _ = pick(d)
        match int(rng.integers(0, 9)):
            case 0 | 1 | 2:
                emit("binary", d, fn=str(rng.choice(["add", "sub", "mul", "div", "maximum", "minimum", "maximum_num"])), x=x, y=y)
            case 3:
                p = emit("binary", d, fn="mul", x=x, y=y)
                emit("binary", d, fn=str(rng.choice(["add", "sub"])), x=p, y=pick(d)[0])
            case 4:
                emit("unary", d, fn=str(rng.choice(FUNCTIONS)), x=x)
            case 5:
                to = str(rng.choice(["f32", "f16", "bf16", "f64"]))
                emit("cast", to, x=x, dtype=to)
            case 6:
                c = next(fresh)
                body.append(op("compare", c, fn=str(rng.choice(["lt", "le", "eq", "ne"])), x=x, y=y))
                emit("select", d, cond=c, x=x, y=pick(d)[0])
            case _:
                fn, r = str(rng.choice(["sum", "max", "min", "prod"])), next(fresh)
                wide = next(fresh)
                body.append(op("broadcast", wide, x=x, shape=["M", "N"]))
                body.append(op("reduce", r, xs=[wide], axes=[1], fn=fn))
                emit("reshape", "f32" if fn == "sum" and d in ("f16", "bf16") else d, x=r, shape=["M", 1])
    out, dtype = live[-1]
    body.append(op("store", view="Y", coords=["i0", "i1"], value=out))
    return kernel(
        [view("A", "in", dtypes[0], "M", "N"), view("B", "in", dtypes[1], "M", "N"), view("Y", "out", dtype, "M", "N")], body, "M N"
    )


def check(k: Kernel, symbols: dict[str, int], variant: str, seed: int, choices: list[Choices], **fixed: Any) -> tuple[int, int]:
    """Assert that every choice lies within; returns the ambiguous and all elements."""
    args = make_inputs(k, symbols, seed, variant, **fixed)
    constexprs = fixed.get("constexprs")
    e = envelope(k, args, symbols, constexprs)
    for c in choices:
        copy = clone(args)
        run(k, copy, symbols, constexprs, c)
        verdict = compare(e, copy)  # type: ignore[arg-type]
        assert verdict.ok, (symbols, variant, c, verdict)
    return verdict.excluded, verdict.elements


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels_lie_within(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = random_kernel(rng)
    for variant in ("plain", "special", "negative"):
        check(k, {"M": 9, "N": int(rng.integers(1, 40))}, variant, seed, CHOICES)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(40))
def test_many_random_kernels_lie_within(block: int) -> None:
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        rng = np.random.default_rng(seed)
        k = random_kernel(rng)
        for variant in ("plain", "special"):
            check(k, {"M": 9, "N": int(rng.integers(1, 40))}, variant, seed, CHOICES)


def subject(name: str) -> tuple[Kernel, dict[str, Any]]:
    """A kernel of the corpus without calls, and what its entry fixes of the inputs."""
    entry = SHAPES[name]
    k = link(load_file(ROOT / "corpus" / entry["folder"] / f"{name}.json")).kernels[0]
    constexprs = {c: values[0] for c, values in entry.get("constexprs", {}).items()}
    return k, {"scalars": entry.get("scalars"), "constexprs": constexprs, "data": entry.get("data")}


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_corpus_lies_within_for_every_layout(name: str) -> None:
    k, fixed = subject(name)
    doubtful = total = 0
    every = SHAPES[name]["folder"] == "json"
    for i, symbols in enumerate(SHAPES[name]["test"]):
        for j, variant in enumerate(VARIANTS):
            if not every and variant not in ("plain", "special") and (i + j) % 4:
                continue
            some = CHOICES[(i + j) % 3 : (i + j) % 3 + 2]
            excluded, elements = check(k, symbols, variant, 1, some, **fixed)
            if variant == "special":
                doubtful, total = doubtful + excluded, total + elements
            elif variant not in ("broadcast", "magnified") and name not in ORDER:
                # repeated rows make ties of values that are not exact; what overflows on the way depends on the order
                assert excluded == 0, "ordinary data decides everything"
    assert doubtful <= 0.45 * total or name in ORDER


@pytest.mark.parametrize("name", sorted(set(SHAPES) - set(ORDER)))
def test_magnified_inputs_decide_most_results(name: str) -> None:
    """Three quarters of them, or as many as ordinary inputs decide: an enclosure narrower than the value that it encloses."""
    k, fixed = subject(name)
    rows = sorted(SHAPES[name]["test"], key=lambda s: np.prod([float(v) for v in s.values()]))
    symbols = next((r for r in rows if min(r.values(), default=2) > 1), rows[len(rows) // 2])
    large, plain = (share(k, make_inputs(k, symbols, 3, v, **fixed), symbols, fixed["constexprs"]) for v in ("magnified", "plain"))
    assert large >= min(SHARE, 0.9 * plain)


@pytest.mark.parametrize("name", sorted(set(SHAPES) - set(ORDER)))
def test_corpus_results_that_are_slightly_wrong_lie_outside(name: str) -> None:
    k, fixed = subject(name)
    symbols = max(SHAPES[name]["test"], key=lambda s: np.prod([float(v) for v in s.values()]))
    args = make_inputs(k, symbols, 3, **fixed)
    before = {n: a.memory.tobytes() for n, a in args.items() if isinstance(a, ViewArg)}
    e = envelope(k, args, symbols, fixed["constexprs"])
    assert before == {n: a.memory.tobytes() for n, a in args.items() if isinstance(a, ViewArg)}, "the envelope changes no memory"
    run(k, args, symbols, fixed["constexprs"])
    bodies = [k.body, *(r.body for r in regions_of(k.body))]
    rate = 0.05 if any(isinstance(o, RegionFold) for body in bodies for o in body) else 0.01  # every cut rounds elsewhere
    for view_name, env in e.items():
        y = args[view_name].array()
        if not y.size:
            continue
        if env.dtype == "bool":
            wrong = ~y
        elif env.dtype in FLOATS:
            wide = y.astype(np.float64)
            step = np.maximum(rate * np.abs(wide[np.isfinite(wide)]).max(initial=0.0), 2 * ulp(wide, env.dtype))
            with np.errstate(invalid="ignore"):  # NaNs stay NaNs
                wrong = (wide + step).astype(y.dtype)
        else:
            wrong = y + 1
        verdict = compare({view_name: env}, {view_name: wrong})
        assert verdict.mismatches >= 0.95 * env.written.sum() - 1, (view_name, verdict)
