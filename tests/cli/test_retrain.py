"""`igcf retrain`: a candidate is judged, written with its evidence, and served unless it is worse."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from igcf.cli.main import cli
from igcf.data import synthetic_catalogue
from igcf.model.files import load_model, saved_metadata
from igcf.service.context import ServiceContext
from igcf.service.models.requests import Feedback, RecommendationRequest
from igcf.service.serving.recommending import recommend
from igcf.service.settings import ServiceSettings
from igcf.service.store import Store
from igcf.service.store.transfer import import_interactions
from igcf.training.gate import retrain
from tests.service.conftest import react
from tools.gate_power import first


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, [*words])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with the first 90 % of a log, and the model that was trained on it in service."""
    monkeypatch.chdir(tmp_path)
    log = synthetic_catalogue(n_users=150, n_items=30, seed=3)
    store = Store("shop.db")
    import_interactions(store, first(log, 0.9), "", lambda count: None)
    assert run("retrain", "--store", "shop.db", "--out", "models/first", "--promote")[0] == 0
    import_interactions(store, log, "", lambda count: None)
    store.close()
    return tmp_path


def test_a_model_that_is_not_worse_is_served_with_its_evidence(shop: Path) -> None:
    code, out, _ = run("retrain", "--store", "shop.db", "--out", "models/second", "--promote", "--json")
    told = json.loads(out)
    assert (code, told["promoted"], told["generation"]) == (0, True, 2)
    assert told["gate"]["verdict"] in ("better", "level")
    assert saved_metadata(shop / "models" / "second")["gate"] == told["gate"]
    assert (shop / "models" / "second" / "gate.html").read_text().startswith("<!doctype html>")
    assert load_model(shop / "models" / "second").n_items == 30
    listed = json.loads(run("models", "list", "--store", "shop.db", "--json")[1])["models"]
    assert [row["verdict"] for row in listed] == [told["gate"]["verdict"], "first"]


def test_answers_with_propensities_are_evidence_too(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LEAST_SIZE", 1.0), ("MOST_MISSING", 1.0)):
        monkeypatch.setattr(f"igcf.experiments.off_policy.{name}", value)
    context = ServiceContext.open(shop / "models" / "first", ServiceSettings(store="shop.db", explore=0.5))
    for number in range(300):
        answer = recommend(context, f"visitor-{number}", RecommendationRequest(k=1))
        react(
            context,
            answer.user,
            Feedback(item=answer.items[0].item, value=5.0, recommendation_id=answer.recommendation_id),
        )
    context.close()
    code, out, _ = run("retrain", "--store", "shop.db", "--out", "models/second", "--json")
    (found,) = [each for each in json.loads(out)["gate"]["checks"] if "off-policy" in each["name"]]
    assert code == 0
    assert found["current"] == 1.0  # every answer pleased
    assert found["candidate"] == pytest.approx(1.0, abs=0.1)


def test_a_worse_model_is_written_but_not_served(shop: Path) -> None:
    code, out, told = run("retrain", "--store", "shop.db", "--out", "models/bad", "--promote", "--satisfied", "2")
    assert code == 1
    assert "worse" in out
    assert "models/first stays in service" in told
    assert saved_metadata(shop / "models" / "bad")["gate"]["verdict"] == "worse"
    store = Store("shop.db")
    assert store.generation() == (1, str(shop / "models" / "first"))
    store.close()


def test_bad_input_is_one_sentence_and_leaves_nothing_behind(shop: Path) -> None:
    (shop / "empty").mkdir()
    for words, message in (
        (("--store", "nowhere.db", "--out", "models/x"), "nowhere.db"),
        (("--store", "shop.db", "--out", "models/first"), "already exists"),
        (("--store", "shop.db", "--out", "models/x", "--items", "nowhere.csv"), "nowhere.csv"),
        (("--store", "shop.db", "--out", "models/x", "--satisfied", "99"), "99"),
    ):
        code, out, told = run("retrain", *words)
        lines = [line for line in told.splitlines() if not line.startswith(("store:", "\r"))]
        assert (code, out) == (2, ""), words
        assert lines[-1].startswith("Error: ")
        assert message in lines[-1]
    assert [path.name for path in (shop / "models").iterdir()] == ["first"]
    (shop / "models" / "first" / "meta.json").unlink()
    code, _, told = run("retrain", "--store", "shop.db", "--out", "models/x")
    assert (code, told.count("\n")) == (2, 1)
    assert "is not a model folder" in told


def test_titles_and_categories_of_the_model_in_service_are_kept_without_a_file(shop: Path) -> None:
    log = synthetic_catalogue(n_users=150, n_items=30, seed=3)
    described, _ = retrain(first(log, 0.9), None, {"seed": 0}, progress=False)
    described.save(shop / "models" / "described")
    assert run("models", "promote", "models/described", "--store", "shop.db")[0] == 0
    assert run("retrain", "--store", "shop.db", "--out", "models/next")[0] == 0
    model = load_model(shop / "models" / "next")
    assert (model.catalogue.titles, model.catalogue.categories) == (log.titles, log.categories)
