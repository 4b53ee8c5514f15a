"""Combine functions of reductions as `@triton.jit` helpers."""

from __future__ import annotations

from eqkir.emit.triton.address import KernelText
from eqkir.emit.triton.forms import TYPES, Forms
from eqkir.program.model import Region

COMBINE = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}


def built_in(fn: str, dtype: str, forms: Forms, helpers: dict[str, str]) -> str:
    """The helper of a built-in reduction over one dtype; its name."""
    name = f"_{fn}_{dtype}"
    carrier = forms.carrier(dtype)
    a, b = forms.cast("a", carrier, dtype), forms.cast("b", carrier, dtype)
    value = forms.cast(f"({forms.binary(COMBINE[fn], a, b, dtype)})", dtype, carrier)
    helpers.setdefault(name, f"@triton.jit\ndef {name}(a, b):\n    return {value}\n")
    return name


def region(r: Region, forms: Forms, helpers: dict[str, str]) -> str:
    """The helper of a combine region; its name. Equal regions share one."""
    n = len(r.dtypes)
    formals = [f"{s}{k}" for s in "lr" for k in range(n)]
    env: dict[int, str] = {}
    dtypes: dict[int, str] = {}
    lines: list[str] = []
    for x in r.body:
        a, b, c = (*(env[i] for i in x.args), "", "", "")[:3]
        src = dtypes[x.args[0]] if x.args else ""
        match x.op:
            case "Arg":
                text = forms.cast(f"{x.attrs[0]}{x.attrs[1]}", forms.carrier(x.dtype), x.dtype)
            case "Const":
                text = forms.const(x.attrs[0], x.dtype)
            case "Un":
                text = forms.unary(x.attrs[0], a, src)
            case "Bin":
                text = forms.binary(x.attrs[0], a, b, src)
            case "Tri":
                text = forms.ternary(x.attrs[0], a, b, c, x.dtype)
            case "Cast":
                text = forms.cast(a, src, x.dtype)
            case "Bitcast":
                text = forms.bitcast(a, src, x.dtype)
            case "Index":
                operands = [env[i] for i in x.args]
                e = KernelText(frozenset(), forms.use).text(x.attrs[0], lambda a: f"{operands[a.args[0]]}.to(tl.int64)")  # noqa: B023
                text = e if x.dtype == "bool" else f"tl.cast({e}, {TYPES[x.dtype]})"
            case _:
                raise ValueError(f"{x.op} in a combine region")
        dtypes[x.id] = x.dtype
        if x.op == "Arg" and text in formals:
            env[x.id] = text
        else:
            env[x.id] = f"v{x.id}"
            lines.append(f"    v{x.id} = {text}\n")
    outs = [forms.cast(env[y], t, forms.carrier(t)) for y, t in zip(r.yields, r.dtypes)]
    body = "".join(lines) + f"    return {', '.join(outs)}\n"
    for name, text in helpers.items():
        if name.startswith("_combine") and text.split(":\n", 1)[1] == body and f"({', '.join(formals)})" in text:
            return name
    name = f"_combine{sum(1 for k in helpers if k.startswith('_combine'))}"
    helpers[name] = f"@triton.jit\ndef {name}({', '.join(formals)}):\n{body}"
    return name
