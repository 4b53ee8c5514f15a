"""Folders on the command line: which files below them count."""

from __future__ import annotations

from pathlib import Path

from eqkir.driver.files import kir_files


def test_a_folder_with_an_ignore_file_is_left_out_unless_it_is_named(tmp_path: Path) -> None:
    for name in ("a.json", "later/b.json", "later/deep/c.json", "other/d.json", ".hidden/e.json"):
        p = tmp_path / name
        p.parent.mkdir(parents=True, exist_ok=True)
        p.write_text('{"kir": 1}')
    (tmp_path / "later" / ".eqkirignore").write_text("")
    names = [p.relative_to(tmp_path).as_posix() for p in kir_files([tmp_path])]
    assert names == ["a.json", "other/d.json"]
    assert [p.name for p in kir_files([tmp_path / "later"])] == ["b.json", "c.json"]
