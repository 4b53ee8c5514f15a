"""Algorithms of several kernels: each function composes kernels of the corpus in their order.

A function takes `launch`, which runs one kernel by name on arrays (and scalars) by parameter name and changes its outputs in place, and
arrays with numpy's interface. It allocates outputs and intermediate results and computes nothing itself.
"""

from __future__ import annotations

from corpus.host.compact import nonzero
from corpus.host.layers import attention_backward, attention_decode, gated_delta, layer_norm_backward, mamba2, moe
from corpus.host.scans import segmented_sum

__all__ = ["attention_backward", "attention_decode", "gated_delta", "layer_norm_backward", "mamba2", "moe", "nonzero", "segmented_sum"]
