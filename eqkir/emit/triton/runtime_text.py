"""The fixed parts of an emitted module's host side. Texts only: emitted modules import triton, and torch when the tensors are torch's."""

BASE = '''
_PLANS = {}


def _check(name, t, dtype, rank, device):
    if str(t.dtype).split(".")[-1] != dtype:
        raise ValueError(f"{KERNEL}: {name} has dtype {t.dtype}, expected {dtype}")
    if len(t.shape) != rank:
        raise ValueError(f"{KERNEL}: {name} has {len(t.shape)} axes, expected {rank}")
    if getattr(t, "device", None) != device:
        raise ValueError(f"{KERNEL}: {name} is on {t.device}, the first tensor on {device}")


def _written(name, shape, strides):
    """A written view must not overlap itself: from the smallest stride on, each axis steps over all that the axes before it reach."""
    if 0 in shape:
        return
    reach = 0
    for s, n in sorted((abs(s), n) for s, n in zip(strides, shape) if n > 1):
        if s <= reach:
            raise ValueError(f"{KERNEL}: {name} is written and overlaps itself (a zero stride, or one too small)")
        reach += s * (n - 1)


def _grid(programs):
    """Grid of at least `programs` programs: one axis up to 2**31 - 1, then two."""
    if programs <= 2147483647:
        return (programs, 1, 1)
    rows = -(-programs // 1073741824)
    if rows > 65535:
        raise ValueError(f"{KERNEL}: {programs} programs do not fit a launch")
    return (-(-programs // rows), rows, 1)


class _Plan:
    """One specialization: its compiled kernels and everything of a launch that does not depend on addresses."""

    def __init__(self, grid, integers, flags, spaces, spans):
        self.grid, self.integers, self.flags, self.spaces, self.spans = grid, integers, flags, spaces, spans
        self.launchers, self.device, self.interpreted = {}, None, not isinstance(kernel, triton.runtime.JITFunction)

    def on(self, device):
        if getattr(device, "type", None) == "cpu" and not self.interpreted:
            raise ValueError(f"{KERNEL}: the tensors are not on a GPU")
        self.device = getattr(device, "index", None)
        return self

    def run(self, key, tensors, pointers, scalars):
        if self.interpreted:
            kernel[self.grid](*tensors, *self.integers, *scalars, *self.flags)
            return
        driver = triton.runtime.driver.active
        here = driver.get_current_device()
        if self.device is not None and self.device != here:
            import torch

            with torch.cuda.device(self.device):
                self.start(key, tensors, pointers, scalars, driver.get_current_stream(self.device))
        else:
            self.start(key, tensors, pointers, scalars, driver.get_current_stream(here))

    def start(self, key, tensors, pointers, scalars, stream):
        launcher = self.launchers.get(key)
        if launcher is None:
            compiled = kernel.warmup(*tensors, *self.integers, *scalars, *self.flags, grid=self.grid, **OPTIONS)
            launcher = self.launchers[key] = compiled[self.grid]
        launcher(*pointers, *self.integers, *scalars, *self.flags, stream=stream)
'''

SPAN = '''
def _span(shape, strides, itemsize):
    """Bytes [first, last) that a view touches, from its pointer; an empty view touches none."""
    if 0 in shape:
        return 1 << 62, 0
    ends = [(n - 1) * s * itemsize for n, s in zip(shape, strides)]
    return sum(e for e in ends if e < 0), sum(e for e in ends if e > 0) + itemsize


def _overlap(a, b):
    raise ValueError(f"{KERNEL}: {a} and {b} overlap, but are declared not to")
'''

EMPTY = '''
def _empty(like, shape, dtype):
    """A workspace on the device of `like`, from the caller's framework; never without an element, so that it has an address."""
    shape = (1,) if 0 in shape else shape
    if type(like).__module__.split(".")[0] == "torch":
        import torch

        return torch.empty(shape, dtype=getattr(torch, dtype), device=like.device)
    return like.new_empty(shape, dtype=dtype)
'''

INTEGER = """
def _integer(name, value, low, high):
    try:
        n = operator.index(value)
    except TypeError:
        raise ValueError(f"{KERNEL}: {name} = {value!r} is not an integer") from None
    if not low <= n <= high:
        raise ValueError(f"{KERNEL}: {name} = {n} is outside [{low}, {high}]")
    return n
"""

NARROW = '''
def _odd(x):
    """f64 -> f32 rounded to odd: the kernel's rounding to the narrow dtype is then the only one."""
    x = float(x)
    try:
        y = struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return x
    bits = struct.unpack("<i", struct.pack("<f", y))[0]
    if x == y or x != x or bits & 1:
        return y
    return struct.unpack("<f", struct.pack("<i", bits + (1 if abs(y) < abs(x) else -1)))[0]
'''

BITS = '''
def _bits(x):
    """The bits of an f64 as an integer: float arguments travel as f32."""
    return struct.unpack("<q", struct.pack("<d", x))[0]
'''
