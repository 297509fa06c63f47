import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from igcf.cli.main import cli

SMALL = ["theory", "--dim", "2", "--n-items", "30", "--rounds", "24", "--n-users", "10"]


def test_json_is_one_document_on_stdout() -> None:
    result = CliRunner().invoke(cli, [*SMALL, "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["settings"]["n_items"] == 30


@pytest.mark.slow
def test_tables_are_printed_and_the_document_is_written(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, [*SMALL, "--out", str(tmp_path / "figures")])
    assert result.exit_code == 0
    assert "| holds |" in result.stdout
    assert json.loads((tmp_path / "figures" / "theory.json").read_text())["settings"]["dim"] == 2


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--delta", "0"], "delta"),
        (["--delta", "1.5"], "delta"),
        (["--noise-var", "0"], "noise_var"),
        (["--noise-var", "-1"], "noise_var"),
        (["--cov-low", "0"], "singular"),
        (["--cov-high", "nan"], "cov_high"),
        (["--rounds", "600"], "n_items"),
        (["--dim", "x"], "dim"),
    ],
)
def test_bad_parameters_are_one_line_and_write_nothing(options: list[str], word: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["theory", *options, "--out", str(tmp_path / "figures")])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert len(result.stderr.splitlines()) == 1
    assert word in result.stderr
    assert not (tmp_path / "figures").exists()


@pytest.mark.parametrize("below", ["", "figures"])
def test_a_file_in_place_of_the_folder_is_refused_before_anything_runs(below: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    result = CliRunner().invoke(cli, ["theory", "--out", str(tmp_path / "taken" / below)])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert "taken" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert (tmp_path / "taken").read_text() == "mine"
