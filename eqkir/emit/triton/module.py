"""Legal program -> the text of a whole module: helper functions, kernel, launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eqkir.base.expr import Expr, Int, Param, emin, is_launch, substitute
from eqkir.emit.triton.address import magnitude, magnitudes
from eqkir.emit.triton.forms import Forms, imports
from eqkir.emit.triton.launch import Sizes, host_imports, launch_source
from eqkir.emit.triton.names import Naming
from eqkir.emit.triton.spell import SegmentText
from eqkir.emit.triton.width import Widths
from eqkir.program.abi import axis_of
from eqkir.program.model import Item, Let, Loop, Program, Segment, Store, order_labels

OPTION_DEFAULTS = {"num_warps": 4, "num_stages": 1, "num_ctas": 1}


@dataclass(frozen=True)
class Module:
    """`permits`: approximate PTX instructions that the forms used contain; `fused`: whether multiply-adds may occur."""

    source: str
    permits: tuple[str, ...]
    fused: bool
    options: dict[str, int]
    arguments: tuple[tuple[str, str], ...]  # kernel parameters: (name, "*dtype" | "stride" | "symbol" | scalar dtype | "constexpr")


def module_source(program: Program, name: str = "") -> Module:
    """The module of a legal program. Raises ValueError for a structured one."""
    if program.stage != "legal":
        raise ValueError("only legal programs are spelled")
    forms = Forms()
    helpers: dict[str, str] = {}
    sizes, widths = launch_sizes(program)
    names = Naming(program)
    several = len(program.segments) > 1
    texts = [SegmentText(program, n, names, forms, helpers, 1 if several else _depth(s), widths[n]) for n, s in enumerate(program.segments)]
    bodies = [t.body() for t in texts]
    options = {**OPTION_DEFAULTS, **{k: v for k, v in program.options.items() if k in OPTION_DEFAULTS or k == "maxnreg"}}
    kernel = name or program.abi.kernel
    parts = [
        _header(
            program,
            kernel,
            {**options, "enable_fp_fusion": False, "enable_reflect_ftz": forms.flushes},
            imports([*helpers.values(), *("\n".join(b) for b in bodies), forms.source()]),
        )
    ]
    parts += [forms.source().rstrip("\n")] if forms.helpers else []
    parts += [text.rstrip("\n") for text in helpers.values()]
    if several:
        parts += [_segment_function(program, s, names, t, b) for s, t, b in zip(program.segments, texts, bodies)]
    parts.append(_kernel(program, names, texts, bodies))
    parts.append(launch_source(program, names, sizes))
    arguments = [(names.views[v.name], f"*{v.dtype}") for v in program.abi.views]
    arguments += [(n, "stride") for n in names.strides]
    arguments += [(names.symbols[n], "symbol") for n in names.kernel_symbols]
    arguments += [(names.scalars[x.name], x.dtype) for x in program.abi.scalars]
    arguments += [(c, "constexpr") for c in names.constexprs]
    return Module("\n\n\n".join(parts), tuple(sorted(forms.permits)), forms.fused, options, tuple(arguments))


def launch_sizes(program: Program) -> tuple[Sizes, list[tuple[Widths, ...]]]:
    """What the host computes before a launch; for each segment and phase, which indices the kernel carries in its index type."""
    bound = {Param(p): Int(v) for p, v in program.bindings.items()}
    signed = frozenset(s.name for s in program.abi.scalars)
    programs, reach, widths = [], set(), list[tuple[Widths, ...]]()
    offsets: dict[str, set[tuple[Expr, ...]]] = {}
    for s in program.segments:
        n = program.length(s)
        reach.add(n + program.bindings[f"P:{s.group}"] if s.mode == "stride" else n)  # the number after the last instance, too
        programs.append(emin(n, program.bindings[f"P:{s.group}"]) if s.mode == "stride" else n)
        labels = set(order_labels(s.order))
        lanes: dict[str, int] = {}

        def see(dims: tuple[str, ...], lanes: dict[str, int] = lanes) -> None:
            for d in dims:
                lanes[axis_of(d)] = max(lanes.get(axis_of(d), 1), program.lanes(d))

        see(tuple(labels))
        accesses: list[tuple[str, tuple[Expr, ...]]] = []
        values: list[Expr] = []

        def visit(items: tuple[Item, ...], accesses: list[tuple[str, tuple[Expr, ...]]] = accesses, values: list[Expr] = values) -> None:
            for i in items:
                match i:
                    case Let():
                        see(i.dims)
                        if i.op == "Active":
                            see((i.attrs[0],))
                        if i.op == "LoadM":
                            accesses.append((i.attrs[0], i.attrs[2]))
                        elif i.op == "Index":
                            values.append(i.attrs[0])
                    case Store():
                        see(i.dims)
                        accesses.append((i.view, i.ixs))
                        accesses += [(i.into, i.at)] if i.into else []
                    case Loop():
                        see((i.label,))
                        visit(i.body)

        for ph in s.phases:
            visit(ph)

        def most(axis: str, lanes: dict[str, int] = lanes) -> Expr:
            if program.axis[axis].kind == "while":  # no bound: 64 bits
                return Int(1 << 62)
            return substitute(program.axis[axis].extent, bound) + lanes.get(axis, 1)

        for x in sorted(a for a in lanes if program.axis[a].kind != "while"):
            reach.add(most(x))
        for view, ixs in accesses:
            ixs = tuple(substitute(e, bound) for e in ixs)
            ms = [magnitudes(e, most, signed, program.bindings) for e in ixs]
            offsets.setdefault(view, set()).add(tuple(magnitude(e, most, signed, program.bindings) for e in ixs))
            reach |= {m for group in ms for m in group}
        for e in values:
            reach |= magnitudes(substitute(e, bound), most, signed, program.bindings)

        def bounded(e: Expr, most: Callable[[str], Expr] = most) -> Expr:
            return magnitude(substitute(e, bound), most, signed, program.bindings)

        widths.append(tuple(Widths(ph, bounded) for ph in s.phases))
        reach = reach.union(*(w.reach() for w in widths[-1]))
    key = lambda e: str(e)  # noqa: E731
    views = [v.name for v in program.abi.views]
    flat = [(v, b) for v in sorted(offsets, key=views.index) for b in sorted(offsets[v], key=str)]
    big = [e for e in reach if is_launch(e) and e.value is None or (e.value or 0) >= 1 << 31]
    return Sizes(tuple(programs), tuple(sorted(big, key=key)), tuple(flat)), widths


def _depth(s: Segment) -> int:
    return 2 if s.mode == "stride" else 1


def _header(program: Program, kernel: str, options: dict[str, int], library: bool) -> str:
    params = ", ".join(f"{k} = {v}" for k, v in sorted(program.bindings.items())) or "none"
    lines = [f'"""{kernel}: one kernel, one launch. Call `launch`.', "", f"Physical parameters: {params}.", '"""', ""]
    standard = [f"import {m}" for m in host_imports(program)]
    lines += [*standard, ""] if standard else []
    lines += ["import triton", "import triton.language as tl"]
    if library:
        lines.append("from triton.language.extra import libdevice")
    lines += [
        "",
        f'KERNEL = "{kernel}"',
        "#: products stay unfused unless the kernel says fma; the device library flushes only where no result can tell",
    ]
    lines.append("OPTIONS = {" + ", ".join(f'"{k}": {v}' for k, v in options.items()) + "}")
    return "\n".join(lines)


def _signature(names: Naming, extra: tuple[str, ...] = ()) -> str:
    return ", ".join([*extra, *names.arguments, *(f"{c}: tl.constexpr" for c in names.constexprs)])


def _lift(names: Naming) -> list[str]:
    """Launch-visible integers as index-typed values."""
    return [f"    {n} = tl.cast({n}, IDX)" for n in (*names.strides, *(names.symbols[s] for s in names.kernel_symbols))]


def _kernel(program: Program, names: Naming, texts: list[SegmentText], bodies: list[list[str]]) -> str:
    lines = [_decorator(names), f"def kernel({_signature(names)}):", *_lift(names)]
    lines.append("    pid = tl.program_id(0).to(IDX)")
    lines.append("    if SPREAD:  # more programs than one grid axis holds")
    lines.append("        pid = pid + tl.program_id(1).to(IDX) * tl.num_programs(0)")
    call = ", ".join([*names.arguments, *names.constexprs])
    several = len(program.segments) > 1
    for k, (s, t, b) in enumerate(zip(program.segments, texts, bodies)):
        length = program.length(s)
        cap = program.bindings.get(f"P:{s.group}")
        count = emin(length, Int(cap)) if s.mode == "stride" and cap is not None else length
        group = names.groups[s.group]
        if several:
            lines += [f"    programs_{group} = {t.launch(count)}"]
            begin = " + ".join(f"programs_{names.groups[q.group]}" for q in program.segments[:k])
            end = " + ".join(f"programs_{names.groups[q.group]}" for q in program.segments[: k + 1])
            cond = f"pid < {end}" if not k else f"(pid >= {begin}) & (pid < {end})"
            lines += [f"    if {cond}:", f"        segment_{group}(pid{f' - ({begin})' if k else ''}, programs_{group}, {call})"]
            continue
        lines += [f"    programs = {t.launch(count)}", "    if SPREAD:", "        if pid >= programs:", "            return"]
        if s.mode == "stride":
            lines += [f"    for instance in tl.range(pid, {t.launch(length)}, programs):", "        lid = tl.cast(instance, IDX)"]
        else:
            lines.append("    lid = pid")
        lines += b
    return "\n".join(lines)


def _decorator(names: Naming) -> str:
    """Scalars are not specialised by value: they may change with every launch."""
    if not names.scalars:
        return "@triton.jit"
    return f"@triton.jit(do_not_specialize=[{', '.join(repr(n) for n in names.scalars.values())}])".replace("'", '"')


def _segment_function(program: Program, s: Segment, names: Naming, t: SegmentText, body: list[str]) -> str:
    group = names.groups[s.group]
    lines = ["@triton.jit", f"def segment_{group}(first, programs, {_signature(names)}):"]
    if s.mode == "stride":
        lines += [f"    for instance in tl.range(first, {t.launch(program.length(s))}, programs):", "        lid = tl.cast(instance, IDX)"]
        lines += ["    " + x for x in body]
    else:
        lines += ["    lid = first", *body]
    return "\n".join(lines)


__all__ = ["Module", "launch_sizes", "module_source"]
