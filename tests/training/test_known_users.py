"""What serves known users: the temperature of records and the low-pass filter, and how they are chosen."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import igcf
from igcf.data.interactions import MISSING_TIME, Interactions
from igcf.lab.baselines.igcf import DEFAULTS
from igcf.model.usage import RecordTemperature
from igcf.online import Recommender, belief_from_logged
from igcf.training.experts.known_users import (
    MOST_NUMBERS,
    TEMPERATURES,
    TOP,
    at_record_temperature,
    best_low_pass,
    best_record_temperature,
    drawn_records,
    hidden_successes,
    ndcg,
)
from tests.training.worlds import checkerboard, log_of

FAST: dict[str, Any] = {
    "iterations": 2,
    "logistic_dim": 3,
    "validate_rounds": 5,
    "linear_dim": 4,
    "holdout": 0.2,
}


def test_ndcg_counts_hidden_items_by_their_rank() -> None:
    scores = np.array([9.0, 8.0, 7.0, 6.0, 5.0])
    assert ndcg(scores.copy(), np.array([0]), np.array([1, 2])) == pytest.approx(1.0)
    expected = (1 / np.log2(3)) / 1.0
    assert ndcg(scores.copy(), np.array([0]), np.array([2])) == pytest.approx(expected)
    long = np.arange(3.0 * TOP)
    assert ndcg(long, np.array([5]), np.array([0])) == 0.0


def test_what_serves_known_users_changes_nothing_else() -> None:
    log = checkerboard(40, 30)
    model = igcf.pretrain(log, progress=False, **FAST)
    plain = igcf.pretrain(log, progress=False, known_users=False, **FAST)
    assert plain.low_pass is None
    np.testing.assert_array_equal(model.prior_mean, plain.prior_mean)
    for one, other in zip(model.channels, plain.channels, strict=True):
        np.testing.assert_array_equal(one.vectors, other.vectors)
        np.testing.assert_array_equal(one.noise_var, other.noise_var)


def test_the_filter_is_that_of_everybody_chosen_on_validation_users() -> None:
    log = groups(360)
    train, validation = log.only_users(np.arange(0, 360, 2)), log.only_users(np.arange(1, 360, 2))
    settings = {**FAST, "linear_dim": 1, "logistic_dim": 1}
    model = igcf.pretrain(train, validation=validation, progress=False, **settings)
    chosen = model.metadata["low_pass"]
    assert 0.0 < chosen["ndcg"] <= 1.0
    assert model.low_pass is not None
    assert model.low_pass.shape == (80, chosen["rank"])
    np.testing.assert_allclose(
        np.linalg.norm(model.low_pass, axis=0), np.sqrt(chosen["weight"]), rtol=1e-3
    )  # orthonormal directions
    again = igcf.pretrain(train, validation=validation, progress=False, **settings)
    np.testing.assert_array_equal(model.low_pass, again.low_pass)
    alone = igcf.pretrain(train, progress=False, **{**settings, "holdout": 0.0})
    assert alone.low_pass is None


def groups(n_users: int, *, seed: int = 0) -> Interactions:
    """Users of four groups, each with twenty items of its own."""
    shares = np.kron(np.eye(4), np.full((n_users // 4, 20), 0.4)) + 0.02
    users, items = np.nonzero(np.random.default_rng(seed).random((n_users, 80)) < shares)
    return log_of(users, items, np.full(len(users), 5.0), n_users, 80)


@pytest.mark.parametrize("is_noise", [False, True])
def test_a_filter_is_taken_only_where_it_finds_what_the_belief_misses(is_noise: bool) -> None:
    """The belief of one direction cannot tell four groups apart; in noise there is nothing to find."""
    log, rest = (noise(240, 80, seed=each) if is_noise else groups(240, seed=each) for each in (0, 1))
    plain = {**FAST, "linear_dim": 1, "logistic_dim": 1, "known_users": False, "calibrated": False}
    model = igcf.pretrain(log, progress=False, **plain)
    drawn, edges = hidden_successes(model, rest.dense()[::3], 0), log.matrix(np.ones(len(log)))
    found = best_low_pass(model, edges, drawn, 80)
    assert found is not None
    assert (found.weight > 0) is not is_noise
    assert best_low_pass(model, edges, (), 80) is None
    assert best_low_pass(model, edges, drawn, MOST_NUMBERS) is None


def noise(n_users: int, n_items: int, *, seed: int = 0) -> Interactions:
    """Users without tastes, who like what is popular: every item at random, by its own share."""
    shares = 0.3 * 0.93 ** np.arange(n_items)
    users, items = np.nonzero(np.random.default_rng(seed).random((n_users, n_items)) < shares)
    return log_of(users, items, np.full(len(users), 5.0), n_users, n_items)


def test_records_are_believed_less_where_what_was_learned_is_noise() -> None:
    log = noise(200, 60)
    train, validation = log.only_users(np.arange(120)), log.only_users(np.arange(120, 200))
    fixed = {"linear_dim": 20, "likelihood_temperature": 1.0}
    model = igcf.pretrain(train, validation=validation, progress=False, **FAST | fixed)
    found = model.usage.record_temperature
    assert found.linear > 1.0
    assert model.metadata["chosen"]["record_temperature"] == {"linear": found.linear, "logistic": found.logistic}


def test_no_other_temperature_of_linear_channels_ranks_hidden_successes_better() -> None:
    log = noise(120, 40)
    model = igcf.pretrain(log.only_users(np.arange(80)), progress=False, known_users=False, **FAST)
    drawn = hidden_successes(model, log.only_users(np.arange(80, 120)).dense(), 0)

    def score(temperature: RecordTemperature) -> float:
        own = at_record_temperature(model, temperature)
        means = [belief_from_logged(own, record.rows, record.values).belief.mean for record, _ in drawn]
        pairs = zip(means, drawn, strict=True)
        return float(np.mean([ndcg(own.expected(mean), record.rows, hidden) for mean, (record, hidden) in pairs]))

    best = best_record_temperature(model, drawn, 8.0)
    others = [score(replace(best, linear=each)) for each in TEMPERATURES]
    assert score(best) == pytest.approx(max(others), abs=1e-6)
    assert max(others) > min(others)
    assert score(best) >= score(RecordTemperature())


def test_no_record_counts_more_than_its_likelihood_says() -> None:
    model = igcf.pretrain(checkerboard(40, 30), progress=False, known_users=False, **FAST)
    users = checkerboard(60, 30, share=0.2, seed=2).only_users(np.arange(40, 60))
    drawn = hidden_successes(model, users.dense(), 0)
    for of_sessions, least in ((0.7, 1.0), (1.0, 1.0), (2.0, 0.5)):
        found = best_record_temperature(model, drawn, of_sessions)
        assert min(found.linear, found.logistic) >= least
    assert best_record_temperature(model, drawn, 8.0).logistic < 1.0  # these users are better off


def test_without_anybody_to_choose_on_a_record_is_believed_like_a_session() -> None:
    model = igcf.pretrain(checkerboard(40, 30), progress=False, **{**FAST, "holdout": 0.0})
    assert model.usage.record_temperature == RecordTemperature(1.0, 1.0)
    nobody = hidden_successes(model, np.full((3, 30), np.nan, dtype=np.float32), 0)
    assert best_record_temperature(model, nobody, 1.0) == RecordTemperature(1.0, 1.0)


def test_a_known_user_gets_more_of_what_users_with_such_a_record_like() -> None:
    model = igcf.pretrain(checkerboard(80, 40, share=0.5), progress=False, **FAST)
    session = Recommender(model).session(logged=[(f"i{item}", 5.0) for item in range(0, 16, 2)])
    best = [each.item_id for each in session.recommend(8)]
    assert sum(int(item_id[1:]) % 2 == 0 for item_id in best) >= 7


def test_users_to_choose_on_are_drawn_again_with_the_same_seed() -> None:
    log = checkerboard(400, 10)
    assert drawn_records(log, 0).shape == (150, 10)
    np.testing.assert_array_equal(drawn_records(log, 0), drawn_records(log, 0))


def test_evaluation_of_new_users_fits_nothing_for_known_ones() -> None:
    assert DEFAULTS["known_users"] is False


def test_a_model_knows_when_its_items_appeared() -> None:
    log = Interactions.from_arrays(["a", "b", "a"], ["x", "x", "y"], [5.0, 4.0, 1.0], [30, 20, 50])
    assert list(np.asarray(log.first_appearances())) == [20, 50]
    assert list(np.asarray(log.subset(np.array([0, 1])).first_appearances())) == [20, MISSING_TIME]
    assert Interactions.from_arrays(["a"], ["x"], [5.0]).first_appearances() is None
