"""What training will cost is estimated before it starts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from igcf.config import ExpertsConfig
from igcf.data import Interactions, synthetic_catalogue
from igcf.training import cost
from igcf.training.cost import Cost, expected_cost
from tests.cli.test_main import run


@pytest.fixture(autouse=True)
def one_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "float32_rate", lambda: cost.REFERENCE_RATE)


def large_log(n_users: int = 20_000, n_items: int = 60_000, n: int = 200_000) -> Interactions:
    """A log most of whose items have one reaction or none."""
    rng = np.random.default_rng(0)
    items = np.minimum(rng.zipf(1.3, n), n_items) - 1
    none = tuple(map(str, range(n_items)))
    users = rng.integers(n_users, size=n).astype(np.int32)
    return Interactions(tuple(map(str, range(n_users))), none, users, items.astype(np.int32), np.ones(n, np.float32))


def test_larger_logs_cost_more_time_and_memory_and_faster_cores_less(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (expected_cost(synthetic_catalogue(n_users=n, n_items=n)) for n in (100, 400))
    assert small.seconds < large.seconds
    assert small.memory < large.memory
    monkeypatch.setattr(cost, "float32_rate", lambda: 4 * cost.REFERENCE_RATE)
    assert expected_cost(synthetic_catalogue(n_users=400, n_items=400)).seconds < large.seconds


def test_rare_items_that_are_left_out_cost_nothing_but_their_rows() -> None:
    log = large_log()
    whole, frequent = (expected_cost(log, ExpertsConfig(min_item_reactions=least)) for least in (1, 20))
    assert frequent.seconds < whole.seconds
    bare = ExpertsConfig(min_item_reactions=20, known_users=False, calibrated=False)
    assert expected_cost(log, bare).seconds < frequent.seconds
    assert expected_cost(log, replace(bare, holdout=0.0)).seconds < expected_cost(log, bare).seconds


def test_the_sentence_names_time_memory_and_cores(tmp_path: Path) -> None:
    assert str(Cost(41.6, 6.4e8, 2)) == "training will take about 42 s and 0.6 GB on 2 cores"
    assert str(Cost(700.0, 3.1e9, 1)) == "training will take about 12 minutes and 3.1 GB on one core"
    fast = ("--set", "iterations=1", "--set", "logistic_dim=2", "--set", "linear_dim=2", "--set", "known_users=false")
    rows = "".join(f"u{user},i{item},{1 + (user + item) % 5}\n" for user in range(40) for item in range(12))
    (tmp_path / "log.csv").write_text("user,item,value\n" + rows)
    done = run("pretrain", "--dataset", str(tmp_path / "log.csv"), *fast, "--out", str(tmp_path / "model"))
    assert done.exit_code == 0, done.stderr
    assert "training will take about" in done.stderr
