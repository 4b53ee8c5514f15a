"""The commands of the tutorial in docs/rules.md do what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eqkir.cli.app import app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "rules.md").read_text()
BLOCKS = re.findall(r"```\n(eqkir rules new .*?)```", PAGE, flags=re.DOTALL)


def test_there_are_three_rules_of_three_commands_each() -> None:
    assert [len(b.strip().splitlines()) for b in BLOCKS] == [3, 3, 3]


@pytest.mark.parametrize("block", BLOCKS, ids=["identity", "realisation", "order"])
def test_the_commands_run_and_the_rule_shows_up(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    new, check, explain = (line.split()[1:] for line in block.strip().splitlines())
    runner = CliRunner()
    assert runner.invoke(app, new).exit_code == 0
    checked = runner.invoke(app, check)
    assert checked.exit_code == 0, checked.output
    assert "1 proved" in checked.output or "1 tested" in checked.output, checked.output
    stem = Path(new[2]).stem
    shown = runner.invoke(app, explain)
    assert shown.exit_code == 0 and f"{stem}-" in shown.output, shown.output
    assert "the chain ends at the chosen program" in shown.output
