"""`igcf models`: list, promote and rollback on a store."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from igcf.cli.main import cli
from igcf.model.files import model_id
from igcf.service.context import ServiceContext
from igcf.service.serving.model_swap import background, follow
from igcf.service.settings import ServiceSettings
from tests.service.conftest import small_model


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("first", "second")):
        small_model(20, 3, seed=seed).save(tmp_path / "models" / name)
    small_model(5, 3).save(tmp_path / "models" / "other")
    return tmp_path / "models" / "first", tmp_path / "models" / "second"


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["models", *words])
    return result.exit_code, result.output


def _started(folder: Path) -> ServiceContext:
    context = ServiceContext.open(folder, ServiceSettings(store="one.db"))
    for thread in background(context, {}):
        thread.close()
    return context


def test_a_running_server_follows_a_promotion_and_a_rollback(folders: tuple[Path, Path]) -> None:
    first, second = folders
    context = _started(first)
    try:
        assert run("promote", "models/second", "--store", "one.db")[0] == 0
        assert follow(context)
        assert context.current_model.served.model_id == model_id(second)
        listed = json.loads(run("list", "--store", "one.db", "--json")[1])["models"]
        assert [(row["folder"], row["role"]) for row in listed] == [
            (str(second), "in service"),
            (str(first), "rollback leads here"),
        ]
        assert run("rollback", "--store", "one.db")[0] == 0
        assert follow(context)
        assert context.current_model.served.model_id == model_id(first)
    finally:
        context.close()


def test_what_cannot_be_promoted_is_one_sentence_and_changes_nothing(folders: tuple[Path, Path]) -> None:
    assert run("list", "--store", "one.db")[0] == 2  # a store that does not exist is not created
    assert not Path("one.db").exists()
    _started(folders[0]).close()
    for words, message in (
        (("promote", "nowhere"), "no model at nowhere"),
        (("promote", "models/other"), "knows 5 of the 20 items in service"),
        (("rollback",), "no model before the one in service"),
    ):
        code, output = run(*words, "--store", "one.db")
        assert code == 2
        assert output.startswith("Error: ")
        assert output.count("\n") == 1
        assert message in output
    assert len(json.loads(run("list", "--store", "one.db", "--json")[1])["models"]) == 1


def test_pruning_keeps_what_is_served_and_the_way_back(folders: tuple[Path, Path]) -> None:
    _started(folders[0]).close()
    assert run("promote", "models/second", "--store", "one.db")[0] == 0
    for seed in range(3):
        small_model(20, 3, seed=5 + seed).save(Path(f"models/worse-{seed}"))
    assert run("prune", "models", "--store", "one.db", "--keep", "1")[0] == 0
    assert sorted(path.name for path in Path("models").iterdir()) == ["first", "second", "worse-2"]
