"""Tables of an experiment: compressed copies, Parquet, the scaling study."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.lab.columnar import typed, write_parquet
from eqkir.lab.experiment import read
from eqkir.lab.report import write_report
from eqkir.lab.scaling import points, study, table_of, variation_of


def test_a_compressed_table_reads_like_the_table(tmp_path: Path) -> None:
    (tmp_path / "cells.csv.gz").write_bytes(gzip.compress(b"a,b\n1,x\n2,\n"))
    assert read(tmp_path / "cells.csv") == [{"a": "1", "b": "x"}, {"a": "2", "b": ""}]


def test_columns_are_numbers_where_all_of_them_are() -> None:
    assert typed(["1", "", "3"]) == [1, None, 3]
    assert typed(["1", "2.5"]) == [1.0, 2.5]
    assert typed(["1", "x", ""]) == ["1", "x", None]


def test_parquet_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(EqkirError, match="EQK-LAB-EXTRA.*parquet"):
        write_parquet(tmp_path, tmp_path)


def test_parquet_holds_the_rows(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "cells.csv").write_text("instance,cost\nk,1.5\nl,\n")
    (path,) = write_parquet(tmp_path, tmp_path)
    assert parquet.read_table(path).to_pylist() == [{"instance": "k", "cost": 1.5}, {"instance": "l", "cost": None}]


def test_a_scaling_study_has_a_row_a_measurement_and_is_resumable(tmp_path: Path) -> None:
    assert study([1, 2, 3], ["greedy-dag", "ilp"], tmp_path, 1, 5.0, "triton:nvidia-h200", families=False, rows=False) == 12
    rows = read(tmp_path / "scaling.csv")
    assert {r["what"] for r in rows} == {"saturation", "weights", "greedy-dag", "ilp"}
    assert all(float(r["cpu_seconds"]) > 0 and int(r["peak_bytes"]) > 10_000_000 for r in rows)
    stamp = (tmp_path / "scaling.csv").stat().st_mtime_ns
    assert study([1, 2, 3], ["greedy-dag", "ilp"], tmp_path, 1, 5.0, "triton:nvidia-h200", families=False, rows=False) == 12
    assert (tmp_path / "scaling.csv").stat().st_mtime_ns == stamp
    head, lines = table_of(rows)
    assert len(lines) == 4 and len(head) == len(lines[0]) and variation_of(rows)[1] == []
    write_report(tmp_path, tmp_path / "report")
    assert "Growing e-graphs" in (tmp_path / "report" / "index.html").read_text()


def test_the_studies_vary_one_thing_at_a_time() -> None:
    found = points([1, 8], True, True)
    assert len({(p.links, p.without, p.rows) for p in found if p.study == "families"}) == sum(p.study == "families" for p in found)
    assert all(p.without == () and p.links == 8 for p in found if p.study == "rows")
