"""`igcf store`: check, copy, move, and the audit beside the reactions."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

from igcf.cli.main import cli
from igcf.cli.pretrain import store_files
from igcf.data import synthetic_catalogue
from igcf.data.reading import read_files
from igcf.model import Model
from igcf.service.context import ServiceContext
from igcf.service.models.requests import BatchRequest, Feedback, RecommendationRequest
from igcf.service.serving.recommending import recommend, recommend_to_many
from igcf.service.settings import ServiceSettings
from igcf.service.store import NewEvent, Store
from igcf.service.store.transfer import import_interactions
from tests.service.conftest import react, small_model


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["store", *words])


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with users and an audit."""
    monkeypatch.chdir(tmp_path)
    small_model().save(tmp_path / "model")
    settings = ServiceSettings(store="one.db")
    context = ServiceContext.open(tmp_path / "model", settings)
    for number in range(20):
        answer = recommend(context, f"user-{number}", RecommendationRequest(k=2))
        said = Feedback(item=answer.items[0].item, value=5.0, recommendation_id=answer.recommendation_id)
        react(context, f"user-{number}", said)
    context.close()
    return tmp_path


def test_a_store_is_checked_copied_exported_and_imported(served: Path) -> None:
    here = ["--store", "one.db"]
    assert run("check", *here).exit_code == 0
    assert run("backup", "copy", *here).exit_code == 0
    assert run("restore", "copy", "--store", "a.db").exit_code == 0
    assert run("export", "folder", *here).exit_code == 0
    assert run("import", "folder", "--store", "whole.db").exit_code == 0
    assert run("check", "--store", "whole.db").exit_code == 0


def test_the_audit_is_exported_with_one_row_for_each_item_shown(served: Path) -> None:
    assert run("audit", "--store", "one.db", "--out", "audit.parquet").exit_code == 0
    rows = pl.read_parquet("audit.parquet")
    assert len(rows) == 40
    assert rows.filter("has_reacted")["value"].to_list() == [5.0] * 20
    assert "exists" in run("audit", "--store", "one.db", "--out", "audit.parquet").output


def test_a_small_request_for_large_answers_adds_little_to_the_audit(served: Path) -> None:
    """Three requests of 8 kB added 61 MB: the audit kept all 100 items of 1,000 answers each."""
    context = ServiceContext.open(served / "model", ServiceSettings(store="one.db"))
    ask = BatchRequest(users=[f"stranger-{number:04d}" for number in range(50)], k=100)
    recommend_to_many(context, ask)
    context.audit.flush()
    query = "SELECT SUM(LENGTH(items)), MIN(size), MAX(json_array_length(items)) FROM recommendations WHERE size > 2"
    kept, size, items = context.store.database.read(lambda connection: connection.exec_driver_sql(query).one())
    context.close()
    assert (size, items) == (100, 20)
    assert kept < 50 * 20 * 200


@pytest.mark.slow
def test_a_store_is_learned_from_and_evaluated_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IGCF_CACHE_DIR", str(tmp_path / "cache"))
    store = Store("one.db")
    import_interactions(store, synthetic_catalogue(n_users=160, n_items=120, seed=0), "m")
    store.close()
    places = ["--from-store", "one.db"]
    fast = ["--set", "iterations=2", "--set", "logistic_dim=4", "--set", "linear_dim=6", "--set", "validate_rounds=10"]
    for name, options in (("alone", ()), ("shared", ("--shards", "1"))):
        done = CliRunner().invoke(cli, ["pretrain", *places, *fast, *options, "--out", name])
        assert done.exit_code == 0, done.output
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
        return len(read_files(store_files("one.db", tmp_path / "state", None).path))

    assert n_rows() == 20
    store = Store("one.db")
    store.append("user-1", [NewEvent("later", "item-7", 4.0)], "m")
    assert n_rows() == 21  # the training had not begun
    (tmp_path / "state" / "training.json").write_text("{}")
    store.append("user-1", [NewEvent("last", "item-8", 4.0)], "m")
    store.close()
    assert n_rows() == 21
