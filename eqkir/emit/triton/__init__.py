"""The Triton provider: legality, legalization, spelling, checks without a GPU.

`emit` turns a structured program into an `Artifact`: a readable, self-contained module with ``launch(...)``. `interpret_batch` runs emitted
modules in Triton's interpreter, `compile_batch` compiles them offline; both use worker processes.
"""

from __future__ import annotations

from eqkir.emit.triton.artifact import Artifact, emit

__all__ = ["Artifact", "emit"]
