"""What the CPU benchmark's kernels are timed beside in torch: the eager formulas of `peers`, and those of kernels that change or fill
several views. ``EAGER[kernel](t, s)`` computes the job from the views `t` and the sizes `s`; torch.compile gets the same function."""

from __future__ import annotations

from typing import Any

import peers
import torch

Tensors = dict[str, Any]


def _integer_mix(t: Tensors, s: dict[str, Any]) -> Any:
    x = t["X"]
    y = torch.div(x, 7, rounding_mode="floor") * 16 + torch.remainder(x, -5) - (x >> 3) + ((x & 0xFF) ^ (x << 2))
    return y, (((x & 0xFF) >> 1) | 0x80).to(torch.uint8)


def _three(t: Tensors, s: dict[str, Any]) -> Any:
    x = t["X"]
    return x.sum(1), x.amax(0), x * 0.5


EAGER: dict[str, peers.Eager] = {
    **peers.EAGER,
    "add_in_place": lambda t, s: t["X"].add_(1.0),
    "column_scale": lambda t, s: t["X"].flip(1) + t["U"][:, None] * t["V"],
    "integer_mix": _integer_mix,
    "sign_and_fma": lambda t, s: torch.copysign(t["X"] * t["Y"] + 1.0, t["X"]),
    "three_reductions": _three,
    "two_outputs": lambda t, s: (t["X"] * 2.0, torch.exp(t["U"])),
}
