import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from igcf.cli.main import cli
from igcf.online.index import load_lists
from tests.service.conftest import small_model

pytest.importorskip("faiss")


def test_an_index_is_stored_with_its_model(tmp_path: Path) -> None:
    small_model().save(tmp_path / "m")
    result = CliRunner().invoke(cli, ["index", str(tmp_path / "m"), "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["items"], told["lists"]) == (200, 56)
    assert told["bytes"] == sum(path.stat().st_size for path in (tmp_path / "m" / "index").iterdir())
    found = load_lists(tmp_path / "m")
    assert found is not None
    assert sorted(found.rows.tolist()) == list(range(200))
    result = CliRunner().invoke(cli, ["index", str(tmp_path / "m")])
    assert "200 items in 56 lists" in result.stderr.replace("\n", " ")


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["index", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert "no model at" in result.stderr
