import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from igcf.cli.main import cli
from igcf.lab.bench import PARTS, as_text
from igcf.lab.bench.report import all_rows

ROW = {"group", "job", "against", "ours_ms", "reference_ms", "ratio", "at_most", "clock", "repeats", "met"}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("bench") / "new"
    result = CliRunner().invoke(cli, ["bench", "--quick", "--json", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert isinstance(document, dict)
    return document, folder


@pytest.mark.slow
def test_json_has_every_part_and_complete_rows(measured: tuple[dict[str, Any], Path]) -> None:
    document, _ = measured
    assert set(document) == {"machine", "seconds", *PARTS}
    rows = all_rows(document)
    assert {row["group"] for row in rows} >= {"start", "online", "pretraining"}
    for row in rows:
        assert set(row) == ROW
        assert row["ours_ms"] > 0
        assert row["reference_ms"] > 0
        assert row["met"] is (None if row["at_most"] is None else row["ratio"] <= row["at_most"])


@pytest.mark.slow
def test_every_peer_is_measured_or_named(measured: tuple[dict[str, Any], Path]) -> None:
    peers = measured[0]["peers"]
    assert len(peers["rows"]) + len(peers["missing"]) + len(peers["failed"]) == 4


@pytest.mark.slow
def test_the_table_shows_every_row_and_the_document_is_written(measured: tuple[dict[str, Any], Path]) -> None:
    document, folder = measured
    text = as_text(document)
    for row in all_rows(document):
        assert f"| {row['job']} | {row['against']} |" in text
    assert json.loads((folder / "bench.json").read_text(encoding="utf-8")) == document


def test_a_file_in_place_of_the_folder_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    result = CliRunner().invoke(cli, ["bench", "--out", str(tmp_path / "taken")])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert "taken" in result.stderr
