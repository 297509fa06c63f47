"""`igcf store` with several databases, and the audit beside the reactions."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from igcf.cli.main import cli
from igcf.cli.pretrain import store_files
from igcf.data import synthetic_catalogue
from igcf.data.frames import read_parquet
from igcf.model import Model
from igcf.service.context import ServiceContext
from igcf.service.models.requests import Feedback, RecommendationRequest
from igcf.service.serving.reacting import react
from igcf.service.serving.recommending import recommend
from igcf.service.settings import ServiceSettings
from igcf.service.sources import load_settings
from igcf.service.store import NewEvent, moving
from igcf.service.store.audit_files import AuditFolder
from igcf.service.store.importing import import_interactions
from igcf.service.store.spread import open_store
from tests.service.conftest import small_model
from tests.service.store.test_audit_files import line


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
        answer = recommend(context, f"user-{number}", RecommendationRequest(k=2))
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


def test_a_store_of_two_databases_with_its_audit_is_learned_from_and_evaluated_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IGCF_CACHE_DIR", str(tmp_path / "cache"))
    store = open_store(["one.db", "two.db"])
    import_interactions(store, synthetic_catalogue(n_users=160, n_items=120, seed=0), "m")
    store.close()
    AuditFolder(tmp_path / "audit").append([line("an answer", "user-1")])
    places = ["--from-store", "one.db", "--from-store", "two.db", "--from-store", "audit"]
    fast = ["--set", "iterations=2", "--set", "logistic_dim=4", "--set", "linear_dim=6", "--set", "validate_rounds=10"]
    for name, options in (("alone", ()), ("shared", ("--shards", "1"))):
        done = CliRunner().invoke(cli, ["pretrain", *places, *fast, *options, "--out", name])
        assert done.exit_code == 0, done.output
        assert "1 items of the audit drew no reaction" in done.output
    alone, shared = Model.load(Path("alone")), Model.load(Path("shared"))
    assert shared.metadata["chosen"] == alone.metadata["chosen"]
    assert shared.item_ids == alone.item_ids
    gram, other = (each.channels[0].vectors @ each.channels[0].vectors.T for each in (alone, shared))
    assert np.linalg.norm(gram - other) <= 1e-5 * np.linalg.norm(gram)
    asked = ["evaluate", *places, "--methods", "pop", "--users", "10", "--rounds", "12", "--jobs", "1", "--json"]
    played = CliRunner().invoke(cli, asked)
    assert played.exit_code == 0, played.output
    assert json.loads(played.stdout)["dataset"] == "store"
    both = CliRunner().invoke(cli, ["evaluate", "--dataset", "synthetic", *places])
    assert "--dataset or --from-store, one of them" in both.output


def test_a_training_that_is_resumed_learns_from_the_reactions_that_it_began_with(served: Path, tmp_path: Path) -> None:
    def n_rows() -> int:
        return len(read_parquet(store_files(("one.db",), tmp_path / "state", None).path))

    assert n_rows() == 20
    store = open_store(["one.db"])
    store.append("user-1", [NewEvent("later", "item-7", 4.0)], "m")
    assert n_rows() == 21  # the training had not begun
    (tmp_path / "state" / "training.json").write_text("{}")
    store.append("user-1", [NewEvent("last", "item-8", 4.0)], "m")
    store.close()
    assert n_rows() == 21
