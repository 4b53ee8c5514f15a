"""How far the emitted f32 functions are from the truth, over all 2**32 inputs: the figures that `emit/triton/forms.py` and docs state.

`emit` writes one module with a kernel a function (needs eqkir); `run` needs torch, triton and that module alone:

    python bench/accuracy.py emit --out out/accuracy
    python bench/accuracy.py run --artifacts out/accuracy --json accuracy.json

Error unit: ulp of the f32 nearest to the f64 result of torch, 2**-149 at least. NaN must meet NaN, an infinity the same infinity.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FUNCTIONS = (
    "exp", "exp2", "log", "log2", "log1p", "expm1", "sigmoid", "tanh", "sin", "cos", "tan", "asin", "atan", "erf", "erfc", "i0", "lgamma",
    "sqrt", "rsqrt",
)  # fmt: skip
#: inputs beyond these are outside what kir.md promises in ulp
#: allowed error in ulp: a + b |x| (kir.md, section 5)
ALLOWED = {
    "exp": (2, 1.2), "exp2": (2, 0), "log": (2, 0), "log2": (2, 0), "log1p": (2, 0), "expm1": (4, 0), "sigmoid": (4, 1.2), "tanh": (4, 0),
    "sin": (4, 0), "cos": (4, 0), "tan": (4, 0), "asin": (4, 0), "atan": (4, 0), "erf": (4, 0), "sqrt": (0.5, 0), "rsqrt": (2, 0),
}  # fmt: skip
RANGE = {"sin": 65536.0, "cos": 65536.0, "tan": 65536.0}
HEAD = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n\n"
KERNEL = """

@triton.jit
def {fn}(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, {text})
"""


def emit(out: Path) -> None:
    """Write `functions.py` with the forms as they are emitted."""
    sys.path.insert(0, str(ROOT))
    from eqkir.emit.triton.forms import Forms

    forms = Forms()
    bodies = [KERNEL.format(fn=f"f_{fn}", text=forms.unary(fn, "x", "f32")) for fn in FUNCTIONS]
    out.mkdir(parents=True, exist_ok=True)
    (out / "functions.py").write_text(HEAD + forms.source() + "".join(bodies))


def truth(torch: Any, fn: str, x: Any) -> Any:
    """`fn` of the f32 values `x`, in f64."""
    d = x.double()
    named = {"i0": torch.special.i0, "lgamma": torch.lgamma}
    return (named.get(fn) or getattr(torch, fn))(d)


def measure(torch: Any, kernel: Any, fn: str, flush: bool, chunk: int = 1 << 26) -> dict[str, Any]:
    """Largest error in ulp and where, the largest part of kir.md's allowance, inputs whose NaN or infinity is missed, the value at 0."""
    worst, at, bad, part = 0.0, 0.0, 0, 0.0
    a, b = ALLOWED.get(fn, (0, 0))
    device = torch.device("cuda")
    for start in range(-(1 << 31), 1 << 31, chunk):
        x = torch.arange(start, start + chunk, dtype=torch.int64, device=device).to(torch.int32).view(torch.float32)
        y = torch.full_like(x, 12345.0)
        kernel[(chunk // 1024,)](x, y, 1024, num_warps=4, enable_fp_fusion=False, enable_reflect_ftz=flush)
        t = truth(torch, fn, x)
        near = t.float()
        finite = near.isfinite() & (x.abs() <= RANGE.get(fn, float("inf")))
        special = ~near.isfinite() & (x.abs() <= RANGE.get(fn, float("inf")))
        wrong = special & ~((near == y) | (near.isnan() & y.isnan()))
        _, e = torch.frexp(near)
        ulp = torch.ldexp(torch.ones_like(t), (e.clamp(min=-125) - 24).double())
        err = torch.where(finite, (y.double() - t).abs() / ulp, torch.zeros_like(t))
        err = torch.where(finite & ~y.isfinite(), torch.full_like(err, float("inf")), err)

        k = int(err.argmax())
        if float(err[k]) > worst:
            worst, at = float(err[k]), float(x[k])
        bad += int(wrong.sum())
        if a:
            part = max(part, float(torch.where(finite, err / (a + b * x.double().abs()), torch.zeros_like(err)).max()))
    x, y = torch.zeros(1024, device=device), torch.empty(1024, device=device)
    kernel[(1,)](x, y, 1024, num_warps=4, enable_fp_fusion=False, enable_reflect_ftz=flush)
    return {
        "function": fn,
        "max_ulp": round(worst, 3),
        "at": at,
        "of_allowed": round(part, 4),
        "specials_missed": bad,
        "at_zero": float(y[0]),
    }


def run(artifacts: Path, target: Path | None, only: list[str], flush: bool) -> int:
    """Measure every function; one line each."""
    import torch

    spec = importlib.util.spec_from_file_location("functions", artifacts / "functions.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["functions"] = module
    spec.loader.exec_module(module)
    rows = []
    for fn in FUNCTIONS:
        if only and fn not in only:
            continue
        began = time.perf_counter()
        row = measure(torch, getattr(module, f"f_{fn}"), fn, flush)
        rows.append(row)
        took = time.perf_counter() - began
        error = f"{row['max_ulp']:10.3f} ulp at {row['at']!r}, {row['of_allowed']} of what is allowed"
        print(f"{fn:8} {error}; f(0) = {row['at_zero']}; specials missed {row['specials_missed']}; {took:.1f} s", flush=True)
        if target:
            target.write_text(json.dumps({"device": torch.cuda.get_device_name(), "rows": rows}, indent=1) + "\n")
    return 0


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="command", required=True)
    e = sub.add_parser("emit")
    e.add_argument("--out", type=Path, required=True)
    r = sub.add_parser("run")
    r.add_argument("--artifacts", type=Path, required=True)
    r.add_argument("--json", type=Path)
    r.add_argument("--flush", action="store_true", help="compile with enable_reflect_ftz")
    r.add_argument("--only", action="append", default=[])
    a = p.parse_args()
    if a.command == "emit":
        emit(a.out)
        return 0
    return run(a.artifacts, a.json, a.only, a.flush)


if __name__ == "__main__":
    sys.exit(main())
