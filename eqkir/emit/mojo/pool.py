"""The task pool's library, compiled once for a target and kept in the cache of compiled code."""

from __future__ import annotations

from pathlib import Path

from eqkir.emit.mojo.build import Built, Module, build_one


def pool_module() -> Module:
    """``pool.mojo``."""
    return Module("pool", (Path(__file__).parent / "pool.mojo").read_text(encoding="utf-8"))


def pool_library(cpu: str, *, triple: str = "", folder: Path | None = None) -> Built:
    """The pool for a target. Raises EqkirError (EQK-MOJ-…)."""
    return build_one(pool_module(), cpu, triple=triple, folder=folder)
