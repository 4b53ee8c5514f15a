"""egglog's compiled module is one module, whoever imports it first."""

from __future__ import annotations

import subprocess
import sys

import pytest

FIRST = "import sys; from eqkir.terms.bindings import bindings; assert 'egglog' not in sys.modules"
LATER = "import egglog, egglog.bindings; assert egglog.bindings is bindings; from egglog.bindings import EGraph"
BEFORE = "import egglog.bindings"
AFTER = "from eqkir.terms.bindings import bindings; assert egglog.bindings is bindings; assert egglog.EGraph"


@pytest.mark.parametrize("text", [f"{FIRST}; {LATER}", f"{BEFORE}; {AFTER}"])
def test_one_module(text: str) -> None:
    r = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert r.returncode == 0, r.stderr


def test_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without egglog the error names the package, as an import's does."""
    from eqkir.terms import bindings

    monkeypatch.setattr(sys, "meta_path", [])
    monkeypatch.setattr(sys, "modules", {k: v for k, v in sys.modules.items() if k.partition(".")[0] != "egglog"})
    monkeypatch.setattr(bindings.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match="egglog"):
        bindings.load()
