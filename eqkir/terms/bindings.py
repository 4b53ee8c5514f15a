"""egglog's compiled module by itself: the package around it defines a language in Python, which takes longer to import than most kernels
to saturate, and nothing here uses it. Whoever imports egglog afterwards gets the same module: it cannot be initialised twice."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

NAME = "egglog.bindings"


class _Loaded(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the import system the module that is there already."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(NAME, self, origin=self.module.__file__) if name == NAME else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        """It has run."""


def load() -> ModuleType:
    """The module; through its package where that is imported already. Raises ModuleNotFoundError without egglog."""
    for finder in sys.meta_path:
        if isinstance(finder, _Loaded):
            return finder.module
    package = None if NAME in sys.modules or "egglog" in sys.modules else importlib.util.find_spec("egglog")
    found = package and PathFinder.find_spec(NAME, package.submodule_search_locations)
    if not found or found.loader is None:
        return importlib.import_module(NAME)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    sys.meta_path.insert(0, _Loaded(module))
    return module


bindings: Any = load()
