import sys

import numpy as np
import pytest

from igcf.arrays import Float32Array
from igcf.online import Greedy, ModelLearner, Recommender, Ucb, replay
from tests.toys import two_channel_model


def truth(n_users: int = 6, seed: int = 0) -> Float32Array:
    rng = np.random.default_rng(seed)
    table = rng.integers(1, 6, size=(n_users, 30)).astype(np.float32)
    table[rng.random(table.shape) < 0.5] = np.nan
    return table


def test_no_item_is_shown_twice_and_values_are_the_users_own() -> None:
    table = truth()
    shown = replay(ModelLearner(two_channel_model(), Ucb()), table, rounds=10, slate=3, rng=np.random.default_rng(0))
    assert shown.rows.shape == shown.values.shape == (6, 10, 3)
    for user in range(6):
        assert len(set(shown.rows[user].ravel().tolist())) == 30
        np.testing.assert_array_equal(shown.values[user], table[user][shown.rows[user]])


def test_lock_step_equals_one_session_per_user() -> None:
    table, model = truth(), two_channel_model()
    shown = replay(ModelLearner(model, Greedy()), table, rounds=12, rng=np.random.default_rng(0))
    for user in range(len(table)):
        session = Recommender(model, Greedy()).session()
        for t in range(12):
            pick = session.recommend()[0].item_id
            assert model.item_row(pick) == shown.rows[user, t, 0]
            value = table[user, model.item_row(pick)]
            session.observe(pick, None if np.isnan(value) else float(value))


def test_blocks_of_users_give_the_same_result_and_are_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    table, model = truth(7), two_channel_model()
    whole = replay(ModelLearner(model, Greedy()), table, rounds=8, rng=np.random.default_rng(0))
    monkeypatch.setattr(sys.modules["igcf.online.environment"], "BLOCK", 3)
    begun: list[list[int]] = []
    blocks = replay(
        ModelLearner(model, Greedy()),
        table,
        rounds=8,
        rng=np.random.default_rng(0),
        begun=lambda users: begun.append(users.tolist()),
    )
    np.testing.assert_array_equal(whole.rows, blocks.rows)
    assert begun == [[0, 1, 2], [3, 4, 5], [6]]


def test_only_available_items_are_shown() -> None:
    table = truth(7)
    available = ~np.isnan(table)
    rounds = int(available.sum(axis=1).min())
    learner = ModelLearner(two_channel_model(), Greedy())
    shown = replay(learner, table, rounds=rounds, rng=np.random.default_rng(0), available=available)
    assert not np.isnan(shown.values).any()
    np.testing.assert_array_equal(available, ~np.isnan(table))  # the caller's table is left alone


def test_tastes_change_when_a_second_table_is_given() -> None:
    before, after = truth(seed=1), truth(seed=2)
    learner = ModelLearner(two_channel_model(), Greedy(), forgetting=0.95)
    shown = replay(learner, [before, after], rounds=10, rng=np.random.default_rng(0))
    users = np.arange(6)[:, None]
    np.testing.assert_array_equal(shown.values[:, :5, 0], before[users, shown.rows[:, :5, 0]])
    np.testing.assert_array_equal(shown.values[:, 5:, 0], after[users, shown.rows[:, 5:, 0]])
