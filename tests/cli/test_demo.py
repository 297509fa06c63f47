import json
from pathlib import Path

import pytest

from igcf.model import Model
from tests.cli.test_main import assert_one_line_error, run


@pytest.mark.slow
def test_the_demo_learns_compares_plays_and_writes_a_report(tmp_path: Path) -> None:
    result = run("demo", "--out", str(tmp_path / "demo"), "--rounds", "10", "--json")
    assert result.exit_code == 0, result.stderr
    story = json.loads(result.stdout)
    reached = {row["method"]: row["precision"]["10"] for row in story["comparison"]["rows"]}
    assert reached["igcf"] > reached["random"]
    assert [line["round"] for line in story["user"]["rounds"]] == list(range(1, 11))
    assert "<td>igcf</td>" in (tmp_path / "demo" / "report" / "report.html").read_text()  # a row of its tables
    assert Model.load(tmp_path / "demo" / "model").n_items == 800


def test_a_folder_that_no_demo_wrote_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("keep me")
    assert_one_line_error(run("demo", "--out", str(tmp_path)), "was not written by a demo")
    assert (tmp_path / "precious.txt").read_text() == "keep me"
