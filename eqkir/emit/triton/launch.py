"""Text of the host side of an emitted module: argument checks, launch sizes, specialization, the launch itself."""

from __future__ import annotations

from dataclasses import dataclass

from eqkir.base.expr import Expr, Int, Param, atoms, substitute
from eqkir.emit.triton.address import host
from eqkir.emit.triton.names import Naming
from eqkir.program.model import Program

#: dtype -> name of the tensor dtype of the caller's framework
TENSOR = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32",
    "u64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2", "index": "int64",
}  # fmt: skip
INT_LIMITS = {
    "i8": (-(1 << 7), (1 << 7) - 1), "i16": (-(1 << 15), (1 << 15) - 1), "i32": (-(1 << 31), (1 << 31) - 1), "i64": (-(1 << 63), (1 << 63) - 1),
    "index": (-(1 << 63), (1 << 63) - 1), "u8": (0, 255), "u16": (0, 65535), "u32": (0, (1 << 32) - 1), "u64": (0, (1 << 64) - 1),
}  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """Launch expressions: programs of each segment, every integer that 32-bit index arithmetic must hold."""

    programs: tuple[Expr, ...]
    reach: tuple[Expr, ...]
    offsets: tuple[tuple[str, tuple[Expr, ...]], ...]  # view -> bound of the index of each axis, padded lanes included


RUNTIME = '''
_PLANS = {}


def _device(t):
    """Index of the tensor's device, or None where there is none."""
    d = getattr(t, "device", None)
    return getattr(d, "index", None) if getattr(d, "type", "cuda") != "cpu" else "cpu"


def _check(name, t, dtype, rank):
    if str(t.dtype).split(".")[-1] != dtype:
        raise ValueError(f"{KERNEL}: {name} has dtype {t.dtype}, expected {dtype}")
    if len(t.shape) != rank:
        raise ValueError(f"{KERNEL}: {name} has {len(t.shape)} axes, expected {rank}")


def _span(pointer, shape, strides, itemsize):
    """Addresses [first, last) that a view touches; empty views touch none."""
    if 0 in shape:
        return pointer, pointer
    ends = [(n - 1) * s * itemsize for n, s in zip(shape, strides)]
    return pointer + sum(e for e in ends if e < 0), pointer + sum(e for e in ends if e > 0) + itemsize


def _grid(programs):
    """Grid of at least `programs` programs: one axis up to 2**31 - 1, then two."""
    if programs <= 2147483647:
        return (programs, 1, 1)
    rows = -(-programs // 1073741824)
    if rows > 65535:
        raise ValueError(f"{KERNEL}: {programs} programs do not fit a launch")
    return (-(-programs // rows), rows, 1)
'''

RUN = '''
class _Plan:
    """One specialization: its compiled kernel and everything of the launch that does not depend on addresses."""

    def __init__(self, grid, integers, flags, spaces):
        self.grid, self.integers, self.flags, self.spaces, self.compiled = grid, integers, flags, spaces, {}

    def run(self, tensors, pointers, scalars, device):
        if not isinstance(kernel, triton.runtime.JITFunction):  # the interpreter
            kernel[self.grid](*tensors, *self.integers, *scalars, *self.flags)
            return
        if device == "cpu":
            raise ValueError(f"{KERNEL}: the tensors are not on a GPU")
        driver = triton.runtime.driver.active
        here = driver.get_current_device()
        if device is not None and device != here:
            import torch

            with torch.cuda.device(device):
                return self.start(tensors, pointers, scalars, device, driver)
        return self.start(tensors, pointers, scalars, here, driver)

    def start(self, tensors, pointers, scalars, device, driver):
        key = (*[p % 16 == 0 for p in pointers], *[s.bit_length() // 32 if type(s) is int else 0 for s in scalars])
        launcher = self.compiled.get(key)
        if launcher is None:
            compiled = kernel.warmup(*tensors, *self.integers, *scalars, *self.flags, grid=self.grid, **OPTIONS)
            launcher = self.compiled[key] = compiled[self.grid]
        launcher(*pointers, *self.integers, *scalars, *self.flags, stream=driver.get_current_stream(device))
'''


def launch_source(program: Program, names: Naming, sizes: Sizes) -> str:
    """`launch` and its helpers. Shapes, strides and extents are elements; addresses bytes."""
    abi = program.abi
    views = [v for v in abi.views if v.role != "workspace"]
    spaces = [v for v in abi.views if v.role == "workspace"]
    ids = names.views
    scalars = list(names.scalars.values())
    bound = {Param(p): Int(v) for p, v in program.bindings.items()}
    text = lambda e: host(substitute(e, bound), names.integer)  # noqa: E731
    out: list[str] = []
    add = out.append

    # ---- plan: everything that follows from shapes, strides and integer scalars
    used = sorted({a.args[0] for e in _all_exprs(program, sizes) for a in atoms(e) if a.op == "sym"} & {s.name for s in abi.scalars})
    keyed = [names.scalars[s] for s in used]
    params = [f"{ids[v.name]}_{p}" for v in views for p in ("shape", "strides")] + keyed
    add(f"def _plan({', '.join(params)}):")
    known: set[str] = set()
    checks: list[str] = []
    for v in views:
        for k, e in enumerate(v.shape):
            here = f"{ids[v.name]}_shape[{k}]"
            if e.op == "sym" and e.args[0] not in known and e.args[0] in {s.name for s in abi.symbols}:
                known.add(e.args[0])
                add(f"    {names.symbols[e.args[0]]} = {here}")
            else:
                checks.append(f"    if {here} != {text(e)}:")
                checks.append(f'        raise ValueError(f"{{KERNEL}}: axis {k} of {v.name} has extent {{{here}}}, expected {{{text(e)}}}")')
    out += checks
    for s in abi.symbols:
        n = names.symbols[s.name]
        tests = [f"{n} < {s.lo}"] * (s.lo > 0) + [f"{n} > {s.hi}"] * (s.hi is not None) + [f"{n} % {s.multiple_of}"] * (s.multiple_of > 1)
        if tests:
            what = f"at least {s.lo}" + (f", at most {s.hi}" if s.hi is not None else "") + (f", a multiple of {s.multiple_of}" if s.multiple_of > 1 else "")
            add(f"    if {' or '.join(tests)}:")
            add(f'        raise ValueError(f"{{KERNEL}}: {s.name} is {{{n}}}, expected {what}")')
    for e in program.preconditions:
        add(f"    if not {text(e)}:")
        add(f'        raise ValueError("{abi.kernel}: precondition {text(e)} does not hold")')
    for v in views:
        if v.role != "in" and v.shape:
            add(f"    if 0 not in {ids[v.name]}_shape and any(n > 1 and s == 0 for n, s in zip({ids[v.name]}_shape, {ids[v.name]}_strides)):")
            add(f'        raise ValueError("{abi.kernel}: {v.name} is written and has a zero stride")')
    for v in spaces:
        add(f"    {ids[v.name]}_shape = {_tuple([text(e) for e in v.shape])}")
        add(f"    {ids[v.name]}_strides = {_tuple([' * '.join(f'{ids[v.name]}_shape[{j}]' for j in range(k + 1, len(v.shape))) or '1' for k in range(len(v.shape))])}")
    for g, e in zip(program.segments, sizes.programs):
        add(f"    programs_{names.groups[g.group]} = {text(e)}")
    add(f"    programs = {' + '.join(f'programs_{names.groups[g.group]}' for g in program.segments) or '0'}")
    ints = [f"{ids[v.name]}_strides[{k}]" for v in abi.views for k in range(len(v.shape))]
    syms = [names.symbols[s] for s in names.kernel_symbols]
    reach = [text(e) for e in sizes.reach]
    for name, bounds in sizes.offsets:
        if bounds:
            reach.append(" + ".join(f"abs({ids[name]}_strides[{k}]) * {text(b)}" for k, b in enumerate(bounds)))
    add(f"    reach = max({', '.join(['programs', '0', *[f'abs({i})' for i in ints], *syms, *reach])})")
    flags = ["programs > 2147483647", "tl.int32 if reach < 2147483648 else tl.int64"]
    seen: dict[str, str] = {}
    for label, e in program.specializations:
        seen.setdefault(names.flags[label], f"bool({text(e)})")
    integers = _tuple([*ints, *syms])
    add(f"    return _Plan(_grid(programs), {integers}, {_tuple([*flags, *seen.values()])}, {_tuple([f'{ids[v.name]}_shape' for v in spaces])}) if programs else None")
    add("")
    add("")

    # ---- launch
    args = ", ".join([ids[v.name] for v in views] + scalars)
    add(f"def launch({args}):")
    add('    """Launch on the tensors\' device and current stream. Raises ValueError for arguments that the kernel was not made for."""')
    for v in views:
        n = ids[v.name]
        add(f"    {n}_p, {n}_shape, {n}_strides = {n}.data_ptr(), tuple({n}.shape), tuple({n}.stride())")
    for s in abi.scalars:
        n = names.scalars[s.name]
        if s.dtype in INT_LIMITS:
            lo, hi = INT_LIMITS[s.dtype]
            add(f"    {n} = int({n})")
            add(f"    if not {lo} <= {n} <= {hi}:")
            add(f'        raise ValueError(f"{{KERNEL}}: {s.name} = {{{n}}} is outside {s.dtype}")')
        elif s.dtype == "bool":
            add(f"    {n} = int(bool({n}))")
        elif s.dtype == "f64":
            add(f'    {n} = struct.unpack("<q", struct.pack("<d", {n}))[0]  # its bits: float arguments travel as f32')
        else:
            add(f"    {n} = float({n})")
    key = [f"{ids[v.name]}.dtype, {ids[v.name]}_shape, {ids[v.name]}_strides" for v in views] + keyed
    add(f"    device = _device({ids[views[0].name]})" if views else "    device = None")
    add(f"    key = ({', '.join([*key, 'device'])},)")
    add("    plan = _PLANS.get(key, _PLANS)")
    add("    if plan is _PLANS:")
    for v in views:
        add(f'        _check("{v.name}", {ids[v.name]}, "{TENSOR[v.dtype]}", {len(v.shape)})')
        if v is not views[0]:
            add(f"        if _device({ids[v.name]}) != device:")
            add(f'            raise ValueError("{abi.kernel}: {v.name} is on another device")')
    add("        if len(_PLANS) >= 1024:")
    add("            _PLANS.clear()")
    add(f"        plan = _PLANS[key] = _plan({', '.join([f'{ids[v.name]}_{p}' for v in views for p in ('shape', 'strides')] + keyed)})")
    for group in abi.noalias:
        members = [v for v in views if v.name in group]
        if len(members) > 1:
            spans = [f'("{v.name}", *_span({ids[v.name]}_p, {ids[v.name]}_shape, {ids[v.name]}_strides, {_itemsize(v.dtype)}))' for v in members]
            add(f"    _disjoint({', '.join(spans)})")
    add("    if plan is None:  # no instance: nothing to do")
    add("        return")
    for k, v in enumerate(spaces):
        n = ids[v.name]
        add(f'    {n} = _empty({ids[views[0].name]}, plan.spaces[{k}], "{TENSOR[v.dtype]}")')
        add(f"    {n}_p = {n}.data_ptr()")
    tensors, pointers = _tuple([ids[v.name] for v in abi.views]), _tuple([f"{ids[v.name]}_p" for v in abi.views])
    add(f"    plan.run({tensors}, {pointers}, {_tuple(scalars)}, device)")
    parts = [RUNTIME.strip("\n")]
    if abi.noalias:
        parts.append(DISJOINT.strip("\n"))
    if spaces:
        parts.append(EMPTY.strip("\n"))
    return "\n\n\n".join([*parts, RUN.strip("\n"), "\n".join(out)]) + "\n"


DISJOINT = '''
def _disjoint(*spans):
    """The caller's promise that these views share no memory, checked by address range."""
    for i, (a, a0, a1) in enumerate(spans):
        for b, b0, b1 in spans[i + 1 :]:
            if a0 < b1 and b0 < a1 and a0 < a1 and b0 < b1:
                raise ValueError(f"{KERNEL}: {a} and {b} overlap, but are declared not to")
'''

EMPTY = '''
def _empty(like, shape, dtype):
    """A workspace on the device of `like`, from the caller's framework."""
    if type(like).__module__.split(".")[0] == "torch":
        import torch

        return torch.empty(shape, dtype=getattr(torch, dtype), device=like.device)
    return like.new_empty(shape, dtype=dtype)
'''


def _tuple(xs: list[str]) -> str:
    return f"({', '.join(xs)}{',' if len(xs) == 1 else ''})"


def _itemsize(dtype: str) -> int:
    from eqkir.base.dtypes import itemsize

    return itemsize(dtype)


def _all_exprs(program: Program, sizes: Sizes) -> list[Expr]:
    out = [*program.preconditions, *sizes.programs, *sizes.reach, *(e for _, e in program.specializations)]
    out += [e for v in program.abi.views for e in v.shape]
    return out + [e for _, bs in sizes.offsets for e in bs]
