"""The smallest Triton programs that show what Triton does not express; quoted by docs/providers.md."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def atomic_i16(y, x):
    i = tl.arange(0, 16)
    tl.atomic_add(y + i * 0, tl.load(x + i), sem="relaxed")


@triton.jit
def atomic_max_f32(y, x):
    i = tl.arange(0, 16)
    tl.atomic_max(y + i * 0, tl.load(x + i), sem="relaxed")


@triton.jit
def plus(a, b, n):
    return a + b + n


@triton.jit
def combine_reads_a_symbol(y, x, n):
    i = tl.arange(0, 16)
    tl.store(y + i, tl.associative_scan(tl.load(x + i), 0, plus))


@triton.jit
def lanes_48(y):
    tl.store(y + tl.arange(0, 48), 0.0)


@triton.jit
def fragment_2048_2048(y):
    i = tl.arange(0, 2048)
    tl.store(y + i[:, None] * 2048 + i[None, :], 0.0)


@triton.jit
def dot_k8(y, a, b):
    i = tl.arange(0, 8)
    p = i[:, None] * 8 + i[None, :]
    tl.store(y + p, tl.dot(tl.load(a + p), tl.load(b + p)))


#: program -> pointer types, what shows the limit: a piece of the compiler's message, or of the PTX (after "ptx: ")
LIMITS = {
    "atomic_i16": ({"y": "*i16", "x": "*i16"}, "atomic_add does not support int16"),
    "atomic_max_f32": ({"y": "*fp32", "x": "*fp32"}, "ptx: max.s32"),
    "combine_reads_a_symbol": ({"y": "*i32", "x": "*i32", "n": "i32"}, "missing 1 required positional argument"),
    "lanes_48": ({"y": "*fp32"}, "power of 2"),
    "fragment_2048_2048": ({"y": "*fp32"}, "exceeds triton maximum tensor numel"),
    "dot_k8": ({"y": "*fp32", "a": "*fp16", "b": "*fp16"}, "K >= 16"),
}


def main() -> None:
    """One line a program: what the compiler says of it."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    for name, (signature, _) in LIMITS.items():
        try:
            c = triton.compile(ASTSource(globals()[name], signature, {}), target=GPUTarget("cuda", 90, 32))
            print(name, "ptx:", " ".join(x for x in c.asm["ptx"].split() if "atom" in x or "red." in x))
        except Exception as e:
            print(name, "error:", " ".join(f"{e} {e.__cause__}".split()))


if __name__ == "__main__":
    main()
