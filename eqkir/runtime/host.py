"""The host side of one kernel as Python text: argument checks and launch sizes written out, so that a call costs few instructions."""

from __future__ import annotations

from keyword import iskeyword
from typing import Any

from eqkir.runtime.scalars import itemsize, limits


def host_source(told: dict[str, Any]) -> str:
    """``make``, ``call`` and ``bind`` for the kernel that ``native.json`` describes. The names that they use are those of `native`."""
    return _Host(told).source()


class _Host:
    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.views: list[dict[str, Any]] = told["views"]
        self.scalars: list[dict[str, Any]] = told["scalars"]
        self.integers = [s for s in self.scalars if _is_integer(s["dtype"])]
        self.v = {v["name"]: f"_v{k}" for k, v in enumerate(self.views)}
        self.lines: list[str] = []

    def add(self, *lines: str) -> None:
        self.lines += lines

    def source(self) -> str:
        self.make()
        self.call()
        return "\n".join(self.lines) + "\n"

    def raises(self, condition: str, message: str) -> None:
        self.add(f"    if {condition}:", f"        raise _ValueError(f{self.told['kernel'] + ': ' + message!r})")

    # ---------------------------------------------------------------- what follows from shapes, strides and integer scalars
    def make(self) -> None:
        arguments = [*self.v.values(), *(s["identifier"] for s in self.integers)]
        self.add(f"def _make({', '.join(arguments)}):")
        for v in self.views:
            n = self.v[v["name"]]
            self.add(f"    _check({v['name']!r}, {n}, {v['dtype']!r}, {len(v['shape'])})")
            self.add(f"    {n}_shape, {n}_item = {n}.shape, {n}.itemsize")
            self.add(f"    {n}_strides = tuple(s // {n}_item for s in {n}.strides)")
        self.symbols()
        for p in self.told["preconditions"]:
            self.raises(f"not ({p['text']})", f"precondition {_braces(p['shown'])} does not hold")
        for v in self.views:
            if v["role"] != "in" and v["shape"]:
                self.add(f"    _written({v['name']!r}, {self.v[v['name']]}_shape, {self.v[v['name']]}_strides)")
        self.words()

    def symbols(self) -> None:
        """Symbols from the axes that are them, then every other axis against its expression, then the symbols' ranges."""
        known = {s["name"]: s["identifier"] for s in self.told["symbols"]}
        found: set[str] = set()
        checks: list[tuple[str, str]] = []
        for v in self.views:
            for k, e in enumerate(v["shape"]):
                here = f"{self.v[v['name']]}_shape[{k}]"
                if e["symbol"] in known and e["symbol"] not in found:
                    found.add(e["symbol"])
                    self.add(f"    {known[e['symbol']]} = {here}")
                else:
                    checks.append((f"{here} != {e['text']}", f"axis {k} of {v['name']} has extent {{{here}}}, expected {{{e['text']}}}"))
        for condition, message in checks:
            self.raises(condition, message)
        for s in self.told["symbols"]:
            n = s["identifier"]
            if s["name"] not in found:
                continue
            tests = [f"{n} < {s['min']}"] * (s["min"] > 0) + [f"{n} > {s['max']}"] * (s["max"] is not None)
            tests += [f"{n} % {s['multiple_of']}"] * (s["multiple_of"] > 1)
            if tests:
                what = f"at least {s['min']}" + f", at most {s['max']}" * (s["max"] is not None)
                what += f", a multiple of {s['multiple_of']}" * (s["multiple_of"] > 1)
                self.raises(" or ".join(tests), f"{s['name']} is {{{n}}}, expected {what}")

    def words(self) -> None:
        """The template of the words, resources, stages, spans."""
        symbols = {s["name"]: s["identifier"] for s in self.told["symbols"]}
        symbols |= {s["name"]: s["identifier"] for s in self.scalars}
        strides = {f"stride({v['name']},{k})": f"{self.v[v['name']]}_strides[{k}]" for v in self.views for k in range(len(v["shape"]))}
        known = symbols | strides | {name: str(value) for name, value in self.told.get("limits", {}).items()}
        template = [f"({known[name]}) & _MASK" if kind == "param" else "0" for kind, name in self.told["words"]]
        self.add(f"    template = [{', '.join(template)}]")
        at = {name: k for k, (kind, name) in enumerate(self.told["words"]) if kind == "resource"}
        sizes = [f"({at[r['name']]}, max(0, {r['size']}) * {itemsize(r['dtype'])}, {r['align']})" for r in self.told["resources"]]
        self.add(f"    resources = [{', '.join(sizes)}]")
        self.add("    groups = [")
        for i, stage in enumerate(self.told["stages"]):
            parts = [f"(_ENTRIES[{i}][{k}], {g['launch']}, {g['grain']})" for k, g in enumerate(stage)]
            self.add(f"        [{', '.join(parts)}],")
        spans = [f"_span({self.v[n]}_shape, {self.v[n]}_strides, {self.v[n]}_item)" for n in self.spanned()]
        self.add("    ]", f"    spans = ({''.join(s + ', ' for s in spans)})")
        moved = " + ".join(f"{n}.size * {n}_item" for n in self.v.values()) or "0"
        self.add(f"    return _Plan(_stages(groups, _POOL.threads, {moved}), template, resources, spans)", "")

    def pairs(self) -> list[tuple[str, str]]:
        """Views that the caller keeps apart, where one of them is written."""
        out: list[tuple[str, str]] = []
        for group in self.told["noalias"]:
            members = [v for v in self.views if v["name"] in group]
            for k, v in enumerate(members):
                out += [(v["name"], w["name"]) for w in members[k + 1 :] if v["role"] != "in" or w["role"] != "in"]
        return list(dict.fromkeys(out))

    def spanned(self) -> list[str]:
        named = {n for p in self.pairs() for n in p}
        return [v["name"] for v in self.views if v["name"] in named]

    # ---------------------------------------------------------------- calls
    def call(self) -> None:
        for name in ("_call", "_bind"):
            parameters = [_parameter(v["name"]) for v in self.views] + [_parameter(s["name"]) for s in self.scalars]
            self.add(f"def {name}({', '.join(parameters)}):")
            self.prologue()
            if name == "_bind":
                keep = "".join(n + ", " for n in self.v.values())
                self.add(f"    return _Bound(_POOL, _plan, _frame, ({keep}))", "")
            else:
                self.add("    if not _POOL.started:", "        _POOL.start()")
                self.add("    if _plan.address:", "        _RUN(_POOL.state, _plan.address, _frame.address)")
                self.add("    _plan.frames.append(_frame)", "")

    def prologue(self) -> None:
        """From the arguments to `plan` and to `frame` with its words."""
        for v in self.views:
            self.add(f"    {self.v[v['name']]} = {_parameter(v['name'])}")
        for k, s in enumerate(self.scalars):
            self.add(f"    _b{k} = _ENCODE[{k}]({_parameter(s['name'])})")
        keys = [f"{n}.dtype, {n}.shape, {n}.strides" for n in self.v.values()]
        keys += [f"_b{k}" for k, s in enumerate(self.scalars) if s in self.integers]
        arguments = [*self.v.values(), *(_signed(s["dtype"], f"_b{self.scalars.index(s)}") for s in self.integers)]
        self.add("    try:", f"        _key = ({', '.join(keys)}{',' if keys else ''})", "        _plan = _PLANS.get(_key)")
        self.add("    except _AttributeError:", "        _plan = None")
        self.add("    if _plan is None:", f"        _plan = _make({', '.join(arguments)})")
        self.add("        _keep(_PLANS, _key, _plan)")
        for v in self.views:
            n = self.v[v["name"]]
            self.add(f"    {n}_p, {n}_r = {n}.__array_interface__['data']")
            if v["role"] != "in":
                self.raises(f"{n}_r", f"{v['name']} is written, but read-only")
        low = [f"{self.v[v['name']]}_p % {itemsize(v['dtype'])}" for v in self.views if itemsize(v["dtype"]) > 1]
        if low:
            self.raises(" or ".join(low), "an array is not aligned to its element's size")
        spanned = self.spanned()
        if spanned:
            self.add(f"    {', '.join(f'({self.v[n]}_a, {self.v[n]}_z)' for n in spanned)}{',' * (len(spanned) == 1)} = _plan.spans")
        for a, b in self.pairs():
            x, y = self.v[a], self.v[b]
            self.raises(f"{x}_p + {x}_a < {y}_p + {y}_z and {y}_p + {y}_a < {x}_p + {x}_z", f"{a} and {b} overlap, but are declared not to")
        self.add("    _frame = _plan.frame()", "    _words = _frame.words")
        scalar = {s["name"]: k for k, s in enumerate(self.scalars)}
        for w, (kind, name) in enumerate(self.told["words"]):
            if kind == "view":
                self.add(f"    _words[{w}] = {self.v[name]}_p")
            elif kind == "scalar":
                self.add(f"    _words[{w}] = _b{scalar[name]}")


def _parameter(name: str) -> str:
    """The parameter's name in Python; names that begin with an underscore are the text's own."""
    if name.isidentifier() and not name.startswith("_") and not iskeyword(name):
        return name
    return "a_" + "".join(c if c.isalnum() and c.isascii() else "_" for c in name)


def _braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _is_integer(dtype: str) -> bool:
    try:
        limits(dtype)
    except KeyError:
        return False
    return True


def _signed(dtype: str, word: str) -> str:
    """The value of an integer scalar from its word."""
    low, high = limits(dtype)
    return word if low == 0 else f"({word} - {2 * (high + 1)} if {word} > {high} else {word})"
