"""Logs that are not five stars go from `validate` to `evaluate` with no option, and are learned from."""

import json
from pathlib import Path

import pytest

from igcf.data import load_dataset
from igcf.model import Model
from igcf.online import Recommender
from tests.cli.test_main import run
from tests.logs import LOGS

TOLD = {
    "play_counts": "satisfied: value >= 150, 4,492 of 9,000 reactions (49.9 %)",
    "implicit": "satisfied: every reaction, 4,804 of 4,804 reactions (100 %)",
    "zero_one": "satisfied: value >= 1, 5,653 of 9,000 reactions (62.8 %)",
    "halves": "satisfied: value >= 2.5, 4,459 of 9,000 reactions (49.5 %)",
    "rare_fives": "satisfied: value >= 4, 4,050 of 9,000 reactions (45.0 %)",
}
SEPARATORS = {"play_counts": "\t", "halves": ";", "zero_one": "|"}


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGS)
def test_a_log_goes_from_validation_to_a_model_and_an_experiment_with_no_option(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IGCF_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / f"{name}.dat"
    LOGS[name]().write_csv(path, separator=SEPARATORS.get(name, ","))
    checked = run("data", "validate", str(path))
    assert checked.exit_code == 0, checked.output
    assert TOLD[name] in checked.stdout
    assert "columns: user = " in checked.stdout
    trained = run("pretrain", "--dataset", str(path), "--out", str(tmp_path / "model"))
    assert trained.exit_code == 0, trained.stderr
    assert TOLD[name] in trained.stderr
    model = Model.load(tmp_path / "model")
    assert model.metadata["success"]["sentence"] == TOLD[name]
    assert model.reward.is_implicit == (name == "implicit")
    meet(model)
    met = run("evaluate", "--dataset", str(path), "--methods", "pop,igcf", "--jobs", "1", "--json")
    assert met.exit_code == 0, met.stderr
    assert TOLD[name] in met.stderr
    document = json.loads(met.stdout)
    reached = {row["method"]: row["precision"][str(row["rounds"])] for row in document["rows"]}
    assert reached["igcf"] > 1.3 * reached["pop"]
    assert document["verdict"]["winner"] == "igcf"
    assert not document["verdict"]["tie"]


def meet(model: Model) -> None:
    """Learn from the best and the worst value of the log, whatever its scale."""
    session = Recommender(model).session()
    session.observe(model.item_ids[0], model.reward.high)
    session.observe(model.item_ids[1], model.reward.low)
    session.observe(model.item_ids[2], None)
    assert len(session.recommend(3)) == 3


@pytest.mark.slow
def test_the_graph_model_learns_a_log_with_negative_values_and_one_without_values(tmp_path: Path) -> None:
    for name in ("halves", "implicit"):
        path = tmp_path / f"{name}.csv"
        LOGS[name]().write_csv(path)
        for reward in ("raw", "scaled", "satisfied"):
            quick = (
                "--method",
                "graph",
                "--dim",
                "4",
                "--epochs",
                "2",
                "--set",
                f"reward={reward}",
                "--set",
                "holdout=0",
            )
            out = tmp_path / f"{name}-{reward}"
            result = run("pretrain", "--dataset", str(path), *quick, "--out", str(out))
            assert result.exit_code == 0, result.stderr
            meet(Model.load(out))


def test_every_generated_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    for name, table in LOGS.items():
        path = tmp_path / f"{name}.csv"
        table().write_csv(path)
        assert len(load_dataset(path)) == len(table())
