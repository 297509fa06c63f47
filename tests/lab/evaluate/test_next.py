import numpy as np
import pytest

from igcf.data import Interactions, load_dataset
from igcf.data.synthetic import drifting_catalogue
from igcf.errors import DataError
from igcf.lab.baselines import Task, method_named
from igcf.lab.baselines.trend import trend_weights
from igcf.lab.evaluate import evaluate, prepare, setup_for
from igcf.lab.evaluate.protocols import protocol_named
from igcf.lab.evaluate.protocols.ranking import RankingCase, before


def log() -> Interactions:
    return drifting_catalogue(n_users=150, n_items=120, seed=2)


def pairs(part: Interactions) -> set[tuple[str, int]]:
    return {(part.user_ids[user], item) for user, item in zip(part.user_idx, part.item_idx.tolist(), strict=True)}


@pytest.mark.parametrize("users", ["test", "validation"])
def test_the_log_ends_where_the_hidden_successes_begin(users: str) -> None:
    data = log()
    case = prepare(data, setup_for(data, "next", n_users=50), 0, users)  # type: ignore[arg-type]
    everything = case.task.refitted().train
    assert data.timestamps is not None
    assert everything.timestamps is not None
    last = everything.timestamps.max()
    time_of = dict(zip(zip(data.user_idx.tolist(), data.item_idx.tolist(), strict=True), data.timestamps, strict=True))
    row = {user_id: number for number, user_id in enumerate(data.user_ids)}
    assert isinstance(case, RankingCase)
    hidden = list(zip(*case.hidden.nonzero(), strict=True))
    assert hidden
    assert all(time_of[row[case.user_ids[user]], int(item)] > last for user, item in hidden)
    assert case.record is not None
    assert pairs(case.record) <= pairs(everything)
    assert not {(case.user_ids[user], int(item)) for user, item in hidden} & pairs(everything)
    assert (np.bincount(case.record.user_idx) >= 5).all()


def test_settings_are_tuned_before_the_moment() -> None:
    data = log()
    setup = setup_for(data, "next", n_users=50)
    final, tuning = (prepare(data, setup, 0, users) for users in ("test", "validation"))
    assert final.record is not None
    assert final.record.timestamps is not None
    is_early = before(data, 0.8)
    assert data.timestamps is not None
    assert tuning.task.refitted().train.timestamps.max() < final.task.refitted().train.timestamps.max()  # type: ignore[union-attr]
    early = {(data.user_ids[u], int(i)) for u, i in zip(data.user_idx[is_early], data.item_idx[is_early], strict=True)}
    assert isinstance(tuning, RankingCase)
    hidden = zip(*tuning.hidden.nonzero(), strict=True)
    assert {(tuning.user_ids[user], int(item)) for user, item in hidden} <= early


@pytest.fixture(scope="module")
def drift() -> Interactions:
    return load_dataset("synthetic-drift")


def test_a_short_window_of_popularity_wins_where_popularity_drifts(drift: Interactions) -> None:
    found = evaluate(drift, setup_for(drift, "next", n_users=300), ("pop", "pop-recent"), grid="quick")
    score = {row.method: row.figures["ndcg"]["100"] for row in found.rows}
    assert score["pop-recent"] > 1.5 * score["pop"]
    assert found.rows[1].outcome.settings["days"] < 365


def test_the_trend_helps_where_popularity_drifts(drift: Interactions) -> None:
    found = evaluate(drift, setup_for(drift, "next", n_users=300), ("pop-recent", "ease", "ease-trend"))
    score = {row.method: row.figures["ndcg"]["100"] for row in found.rows}
    assert score["ease-trend"] > 1.2 * max(score["ease"], score["pop-recent"])


def test_the_trend_weighs_what_is_wanted_lately_against_what_was_always_wanted() -> None:
    """Item a: 2 of 3 successes in the last 2 days, b: 0 of 1; expected of the 2 recent ones: 1.5 and .5."""
    times = 86_400 * np.array([0, 1, 9, 10])
    data = Interactions.from_arrays([0, 1, 2, 3], ["a", "b", "a", "a"], [5.0] * 4, timestamps=times)
    weights = trend_weights(Task(data, 4.0), {"days": 2.0, "relative": 1.0, "trend": 2.0})
    np.testing.assert_allclose(weights, [(3 / 2.5) ** 2, (1 / 1.5) ** 2], rtol=1e-6)


def test_popularity_counts_the_successes_of_the_last_days_only() -> None:
    day = 86_400
    data = Interactions.from_arrays(
        users=np.arange(4), items=["a", "a", "b", "b"], values=[5.0, 5.0, 5.0, 1.0], timestamps=day * np.arange(4)
    )
    counts = method_named("pop-recent").fit(Task(data, 4.0), {"days": 2.0}, np.random.default_rng(0))
    assert counts.tolist() == [1.0, 1.0]


def test_a_log_without_times_is_refused() -> None:
    data = log()
    untimed = Interactions.from_arrays(data.user_idx, data.item_idx, data.values)
    with pytest.raises(DataError, match="reactions without a time"):
        prepare(untimed, setup_for(untimed, "next"), 0)
    with pytest.raises(DataError, match="lower --min-reactions"):
        prepare(data, setup_for(data, protocol_named("next", moment=0.5), min_reactions=500), 0)
