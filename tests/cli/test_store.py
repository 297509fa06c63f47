"""`igcf store` with several databases, and the audit beside the reactions."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from igcf.cli.main import cli
from igcf.service.context import ServiceContext
from igcf.service.http.requests import Feedback, RecommendAsk
from igcf.service.serving.reacting import react
from igcf.service.serving.recommending import recommend
from igcf.service.settings import ServiceSettings
from igcf.service.sources import load_settings
from igcf.service.store import moving
from tests.service.conftest import small_model


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["store", *words])


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of one database with users and an audit in a folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(moving, "NOTICED_S", 0.0)
    small_model().save(tmp_path / "model")
    settings = ServiceSettings(store="one.db", audit="audit")
    context = ServiceContext.open(tmp_path / "model", settings)
    for number in range(20):
        answer = recommend(context, f"user-{number}", RecommendAsk(k=2))
        said = Feedback(item=answer.items[0].item, value=5.0, recommendation_id=answer.recommendation_id)
        react(context, f"user-{number}", said)
    context.close()
    return tmp_path


def test_users_are_spread_checked_copied_and_brought_together_again(served: Path) -> None:
    both = ["--store", "one.db", "--store", "two.db"]
    done = run("rebalance", *both)
    assert done.exit_code == 0, done.output
    assert "spread over 2 databases" in done.output
    assert run("check", *both, "--model", "model").exit_code == 0
    alone = run("check", "--store", "one.db")
    assert alone.exit_code != 0
    assert "one of the databases of a store" in alone.output
    assert run("backup", "copies", *both).exit_code == 0
    assert run("restore", "copies", "--store", "a.db", "--store", "b.db").exit_code == 0
    assert run("export", "folder", *both).exit_code == 0
    assert run("import", "folder", "--store", "whole.db").exit_code == 0
    assert "Moved" in run("rebalance", "--store", "one.db", "--remove", "two.db").output
    assert run("check", "--store", "one.db", "--model", "model", "--audit", "audit").exit_code == 0


def test_the_audit_is_compared_with_the_reactions(served: Path) -> None:
    found = run("audit", "--store", "one.db", "--audit", "audit", "--model", "model", "--json")
    assert found.exit_code == 0, found.output
    rows = json.loads(found.stdout)["audit"]
    assert sum(row["shown"] for row in rows) == 40
    assert sum(row["reactions"] for row in rows) == 20
    text = run("audit", "--store", "one.db", "--audit", "audit", "--model", "model").output
    assert "satisfied 1.000" in text
    assert (
        "is no folder of an audit" in run("audit", "--store", "one.db", "--audit", "model", "--model", "model").output
    )


def test_several_stores_come_from_options_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "igcf.toml").write_text('store = ["one.db", "two.db"]\n')
    loaded = load_settings({}, file=tmp_path / "igcf.toml")
    assert loaded.settings.store == ("one.db", "two.db")
    assert 'store = ["one.db", "two.db"]' in loaded.toml()
    monkeypatch.setenv("IGCF_STORE", '["postgresql://a:sesame@h/d", "three.db"]')
    found = load_settings({})
    assert found.settings.store[1] == "three.db"
    assert "sesame" not in found.toml()
    assert load_settings({"store": ("four.db",)}).settings.store == ("four.db",)
