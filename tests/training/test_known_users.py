"""What serves known users: the temperature of records and the low-pass filter, and how they are chosen."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

import igcf
from igcf.config import HiddenSuccesses
from igcf.data.interactions import MISSING_TIME, Interactions
from igcf.errors import ModelError
from igcf.lab.baselines.igcf import DEFAULTS
from igcf.model.usage import RecordTemperature
from igcf.online import Recommender, belief_from_logged
from igcf.online.evidence import logged_evidence
from igcf.training.experts.hidden import FEWEST_BEFORE, Draw, hidden_successes, on_items
from igcf.training.experts.known_users import (
    ABSENCES,
    MOST_NUMBERS,
    TEMPERATURES,
    TOP,
    at_record_temperature,
    best_low_pass,
    best_record_temperature,
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
    drawn, edges = hidden_successes(model, rest, 0, "random"), log.matrix(np.ones(len(log)))
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
    assert model.metadata["chosen"]["record_temperature"] == asdict(found)


def test_no_temperature_next_to_the_chosen_ones_ranks_hidden_successes_better() -> None:
    log = noise(120, 40)
    model = igcf.pretrain(log.only_users(np.arange(80)), progress=False, known_users=False, **FAST)
    drawn = hidden_successes(model, log.only_users(np.arange(80, 120)), 0, "random")

    def score(temperature: RecordTemperature) -> float:
        own = at_record_temperature(model, temperature)
        means = [belief_from_logged(own, draw.rows, draw.values).belief.mean for draw in drawn]
        pairs = zip(means, drawn, strict=True)
        return float(np.mean([ndcg(own.expected(mean), draw.rows, draw.hidden) for mean, draw in pairs]))

    best = best_record_temperature(model, drawn, 8.0)
    candidates = {"absence": ABSENCES, "linear": TEMPERATURES, "logistic": TEMPERATURES}
    others = []
    for name, each in candidates.items():
        at = each.index(getattr(best, name))
        others += [score(replace(best, **{name: value})) for value in each[max(at - 1, 0) : at + 2]]
    assert score(best) == pytest.approx(max(others), abs=1e-6)
    assert max(others) > min(others)
    assert score(best) >= score(RecordTemperature())


def test_no_record_counts_more_than_its_likelihood_says() -> None:
    model = igcf.pretrain(checkerboard(40, 30), progress=False, known_users=False, **FAST)
    users = checkerboard(60, 30, share=0.2, seed=2).only_users(np.arange(40, 60))
    drawn = hidden_successes(model, users, 0, "random")
    for of_sessions, least in ((0.7, 1.0), (1.0, 1.0), (2.0, 0.5)):
        found = best_record_temperature(model, drawn, of_sessions)
        assert min(found.linear, found.logistic) >= least
    assert best_record_temperature(model, drawn, 8.0).logistic < 1.0  # these users are better off


def test_without_anybody_to_choose_on_a_record_is_believed_like_a_session() -> None:
    model = igcf.pretrain(checkerboard(40, 30), progress=False, **{**FAST, "holdout": 0.0})
    assert model.usage.record_temperature == RecordTemperature(1.0, 1.0)
    nobody = hidden_successes(model, checkerboard(40, 30).subset(np.arange(0)), 0, "latest")
    assert nobody == []
    assert best_record_temperature(model, nobody, 1.0) == RecordTemperature(1.0, 1.0)


def test_a_known_user_gets_more_of_what_users_with_such_a_record_like() -> None:
    model = igcf.pretrain(checkerboard(80, 40, share=0.5), progress=False, **FAST)
    session = Recommender(model).session(logged=[(f"i{item}", 5.0) for item in range(0, 16, 2)])
    best = [each.item_id for each in session.recommend(8)]
    assert sum(int(item_id[1:]) % 2 == 0 for item_id in best) >= 7


@pytest.mark.parametrize("which", ["latest", "random"])
def test_the_same_users_and_successes_are_drawn_with_the_same_seed(which: HiddenSuccesses) -> None:
    log = visits(400)
    model = igcf.pretrain(log, progress=False, **FAST, known_users=False, calibrated=False)
    draws = hidden_successes(model, log, 0, which)
    assert 150 < len(draws) <= 300
    for one, other in zip(draws, hidden_successes(model, log, 0, which), strict=True):
        np.testing.assert_array_equal(one.rows, other.rows)
        np.testing.assert_array_equal(one.hidden, other.hidden)


def visits(n_users: int, *, seed: int = 0) -> Interactions:
    """Users who come twice and look through two pages of ten items each time; some items are liked more than others."""
    rng = np.random.default_rng(seed)
    liked = rng.permutation(np.linspace(0.05, 0.95, 80))
    pages = np.argsort(rng.random((n_users, 8)), axis=1)[:, :4]
    users = np.repeat(np.arange(n_users), 40)
    items = (pages[:, :, None] * 10 + np.arange(10)).ravel()
    second = np.tile(np.repeat([0, 1], 20), n_users)
    seen = rng.random(len(items)) < 0.8
    values = np.where(rng.random(len(items)) < liked[items], 5.0, 1.0)
    log = log_of(users[seen], items[seen], values[seen], n_users, 80)
    return replace(log, timestamps=(second * 1000 + users % 900)[seen].astype(np.int64))


def later_ndcg(model: igcf.Model, users: Interactions) -> float:
    """How well what users like at their second visit is ranked by the record of their first."""
    assert users.timestamps is not None
    found = []
    for user in range(users.n_users):
        own = users.user_idx == user
        first, second = (own & ((users.timestamps >= 1000) == is_second) for is_second in (False, True))
        rows, values = users.item_idx[first].astype(np.int64), users.values[first]
        belief, offset = belief_from_logged(model, rows, values)
        scores = model.expected(belief.mean) + (0.0 if offset is None else offset)
        found.append(ndcg(scores, rows, users.item_idx[second & (users.values == 5.0)].astype(np.int64)))
    return float(np.mean(found))


def test_what_serves_known_users_is_chosen_by_what_they_like_later() -> None:
    """What is missing of a page at random is found by the rest of the page; what is liked later is on other pages."""
    log, rest = visits(300), visits(100, seed=0)
    models = {
        which: igcf.pretrain(log, progress=False, hidden_successes=which, **FAST) for which in ("latest", "random")
    }
    by_latest, by_random = (later_ndcg(models[which], rest) for which in ("latest", "random"))
    assert by_latest > by_random + 0.05
    plain = {which: replace(log, timestamps=None) for which in ("latest", "random")}
    same = [igcf.pretrain(each, progress=False, hidden_successes=which, **FAST) for which, each in plain.items()]
    assert same[0].usage == same[1].usage  # without times there are no latest ones


def test_the_latest_successes_come_after_everything_that_is_left() -> None:
    log = visits(60)
    model = igcf.pretrain(log, progress=False, **FAST, known_users=False, calibrated=False)
    draws = hidden_successes(model, log, 0, "latest")
    assert 60 < len(draws) <= 120
    assert log.timestamps is not None
    records = [dict(zip(log.item_idx[own], log.timestamps[own], strict=True)) for own in own_rows(log)]
    for draw in draws:
        assert len(draw.rows) >= FEWEST_BEFORE
        assert any(follows(draw, record) for record in records)


def own_rows(log: Interactions) -> list[Any]:
    return [np.flatnonzero(log.user_idx == user) for user in range(log.n_users)]


def follows(draw: Draw, record: dict[int, int]) -> bool:
    """Whether a draw is that of a user whose hidden items are later than those that are left."""
    if not {*draw.rows.tolist(), *draw.hidden.tolist()} <= record.keys():
        return False
    return max(record[row] for row in draw.rows.tolist()) < min(record[row] for row in draw.hidden.tolist())


def test_items_that_appeared_later_are_neither_hidden_nor_absent() -> None:
    log = visits(60)
    assert log.timestamps is not None
    log = log.subset((log.item_idx >= 10) | (log.timestamps >= 1000))  # the first page appears with the second visits
    model = igcf.pretrain(log, progress=False, **FAST, known_users=False, calibrated=False)
    draws = [draw for draw in hidden_successes(model, log, 0, "latest") if len(draw.later)]
    assert draws
    for draw in draws:
        assert not np.isin(draw.hidden, draw.later).any()
        assert not np.isin(draw.rows, draw.later).any()


def test_absence_says_less_at_a_higher_temperature() -> None:
    model = igcf.pretrain(checkerboard(60, 30), progress=False, known_users=False, **FAST)
    weights = [
        logged_evidence(at_record_temperature(model, RecordTemperature(absence=each))).weight(np.full(9, 5.0))
        for each in ABSENCES
    ]
    np.testing.assert_allclose(weights, weights[0] / np.array(ABSENCES))
    with pytest.raises(ModelError, match="temperatures of a record"):
        RecordTemperature(absence=0.0)


def test_only_reactions_to_judged_items_are_hidden() -> None:
    log = checkerboard(20, 10)
    part = on_items(log, np.array([1, 4, 7]))
    assert part.n_items == 3
    np.testing.assert_array_equal(part.dense(), log.dense()[:, [1, 4, 7]])
    assert on_items(log, None) is log


def test_evaluation_of_new_users_fits_nothing_for_known_ones() -> None:
    assert DEFAULTS["known_users"] is False


def test_a_model_knows_when_its_items_appeared() -> None:
    log = Interactions.from_arrays(["a", "b", "a"], ["x", "x", "y"], [5.0, 4.0, 1.0], [30, 20, 50])
    assert list(np.asarray(log.first_appearances())) == [20, 50]
    assert list(np.asarray(log.subset(np.array([0, 1])).first_appearances())) == [20, MISSING_TIME]
    assert Interactions.from_arrays(["a"], ["x"], [5.0]).first_appearances() is None
