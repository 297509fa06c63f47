"""What every method that starts from a logged history must do, on the checkerboard."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from igcf.arrays import IntArray
from igcf.lab.baselines import METHODS, method_named
from igcf.lab.baselines.history import Logged
from igcf.online import Greedy, Recommender
from tests.lab.baselines.test_contract import QUICK
from tests.lab.baselines.worlds import N_ITEMS, task

TOLD = [name for name, method in METHODS.items() if method.uses_logged]
LEARNING = [name for name in TOLD if name not in ("random", "pop", "pop-satisfied", "pop-recent")]


@cache
def learner(name: str) -> Any:
    if name == "als":
        pytest.importorskip("implicit")
    method = method_named(name)
    return method.build(task(), method.settings(QUICK.get(name, {})), np.random.default_rng(0))


def records() -> list[Logged]:
    """Eight users, even and odd in turn, who rated items 0 to 11: 5 stars if the parities agree, otherwise 1."""
    rows: IntArray = np.arange(12)
    return [Logged(rows, np.where(rows % 2 == user % 2, 5.0, 1.0).astype(np.float32)) for user in range(8)]


@pytest.mark.parametrize("name", TOLD)
def test_a_learner_that_was_told_shows_items_that_are_available(name: str) -> None:
    method = learner(name)
    method.begin(8, rng=np.random.default_rng(0))
    method.know(records())
    available = np.ones((8, N_ITEMS), dtype=np.bool_)
    available[:, :12] = False
    chosen = method.select(available, 6)
    assert (chosen >= 12).all()
    assert all(len(set(row.tolist())) == 6 for row in chosen)


@pytest.mark.parametrize("name", LEARNING)
def test_a_logged_history_tells_which_half_of_the_items_is_liked(name: str) -> None:
    method = learner(name)
    method.begin(8, rng=np.random.default_rng(0))
    method.know(records())
    available = np.ones((8, N_ITEMS), dtype=np.bool_)
    available[:, :12] = False
    agree = method.select(available, 6) % 2 == (np.arange(8) % 2)[:, None]
    assert agree.mean() > 0.9


@pytest.mark.parametrize("name", LEARNING)
def test_begin_forgets_what_was_told(name: str) -> None:
    method = learner(name)
    available = np.ones((8, N_ITEMS), dtype=np.bool_)
    method.begin(8, rng=np.random.default_rng(0))
    before = method.select(available, 3)
    method.know(records())
    method.begin(8, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(method.select(available, 3), before)


@pytest.mark.parametrize("name", ["pca-gp", "igcf", "igcf-graph"])
def test_users_in_lock_step_see_what_a_session_with_the_same_log_recommends(name: str) -> None:
    """Scores may be equal up to rounding, so the expected rewards of what both show are compared, not the order."""
    method = learner(name)
    available = np.ones((8, N_ITEMS), dtype=np.bool_)
    available[:, :12] = False
    method.begin(8, rng=np.random.default_rng(0))
    method.know(records())
    chosen = method.select(available, 5)
    model = method.model
    recommender = Recommender(model, Greedy())
    for user, each in enumerate(records()):
        logged = [(model.item_ids[row], float(value)) for row, value in zip(each.rows, each.values, strict=True)]
        session = recommender.session(logged=logged)
        means = session.moments()[0]
        best = [means[model.item_row(shown.item_id)] for shown in session.recommend(5)]
        np.testing.assert_allclose(means[chosen[user]], best, atol=1e-5)
