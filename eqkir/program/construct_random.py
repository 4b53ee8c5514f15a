"""Counter-based random numbers (kir.md section 6) as integer arithmetic on u32 and u64."""

from __future__ import annotations

from eqkir.kir import model as kir
from eqkir.program.construct_env import Ixs, Steps, construction
from eqkir.program.construct_loops import choice
from eqkir.program.construct_values import Values

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)


class _Words:
    """Arithmetic of 32-bit words, with constants folded."""

    def __init__(self, v: Values) -> None:
        self.v = v

    def node(self, x: int | _Const) -> int:
        return self.v.const(x.value, "u32") if isinstance(x, _Const) else x

    def bin(self, fn: str, a: int, b: int, dtype: str = "u32") -> int:
        return self.v.make("Bin", (fn,), (a, b), dtype)

    def cast(self, x: int, dtype: str) -> int:
        return x if self.v.program.nodes[x].dtype == dtype else self.v.make("Cast", (dtype,), (x,), dtype)

    def xor(self, a: int | _Const, b: int | _Const) -> int | _Const:
        if isinstance(a, _Const) and isinstance(b, _Const):
            return _Const(a.value ^ b.value)
        if _Const(0) in (a, b):
            return b if a == _Const(0) else a
        return self.bin("xor", self.node(a), self.node(b))

    def product(self, m: int, x: int | _Const) -> tuple[int | _Const, int | _Const]:
        """(high, low) word of m·x."""
        if isinstance(x, _Const):
            return _Const(m * x.value >> 32), _Const(m * x.value & 0xFFFFFFFF)
        wide = self.bin("mul", self.v.const(m, "u64"), self.cast(x, "u64"), "u64")
        return self.cast(self.bin("shr", wide, self.v.const(32, "u64"), "u64"), "u32"), self.cast(wide, "u32")


class _Const:
    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Const) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


def philox(v: Values, seed: int, counter: int) -> int:
    """The u32 of Philox4x32-10 of two integers, taken mod 2^64."""
    w = _Words(v)
    seed, counter = w.cast(seed, "u64"), w.cast(counter, "u64")
    block = w.bin("shr", counter, v.const(2, "u64"), "u64")

    def high(x: int) -> int:
        return w.cast(w.bin("shr", x, v.const(32, "u64"), "u64"), "u32")

    c: list[int | _Const] = [w.cast(block, "u32"), high(block), _Const(0), _Const(0)]
    key = [w.cast(seed, "u32"), high(seed)]
    for _ in range(ROUNDS):
        (h0, l0), (h1, l1) = w.product(MULTIPLIERS[0], c[0]), w.product(MULTIPLIERS[1], c[2])
        c = [w.xor(w.xor(h1, c[1]), key[0]), l1, w.xor(w.xor(h0, c[3]), key[1]), l0]
        key = [w.bin("add", k, v.const(x, "u32")) for k, x in zip(key, WEYL, strict=True)]
    word = w.bin("and", counter, v.const(3, "u64"), "u64")
    out = w.node(c[3])
    for i in (2, 1, 0):
        out = choice(v, w.bin("eq", word, v.const(i, "u64"), "bool"), w.node(c[i]), out)
    return out


@construction("random_bits", "seed counter")
def _bits(v: Values, op: kir.RandomBits, n: int, ixs: Ixs) -> Steps:
    seed = yield v.operand(op.seed, ixs)
    counter = yield v.operand(op.counter, ixs)
    return philox(v, seed, counter)


@construction("random_uniform", "seed counter")
def _uniform(v: Values, op: kir.RandomUniform, n: int, ixs: Ixs) -> Steps:
    """The upper 24 bits times 2^-24: exact."""
    seed = yield v.operand(op.seed, ixs)
    counter = yield v.operand(op.counter, ixs)
    bits = v.make("Bin", ("shr",), (philox(v, seed, counter), v.const(8, "u32")), "u32")
    return v.make("Bin", ("mul",), (v.make("Cast", ("f32",), (bits,), "f32"), v.const(2.0**-24, "f32")), "f32")


__all__ = ["philox"]
