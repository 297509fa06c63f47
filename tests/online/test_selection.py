"""From a policy's scores to the selected items: beliefs wider than the prior, and policies from outside."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from igcf.arrays import AnyFloatArray, BoolArray
from igcf.errors import ConfigError
from igcf.model import Channel, Model, Reward, Term
from igcf.online import Belief, Greedy, Policy, Recommender, ScoringEngine, Ucb, backend
from igcf.online.backend import NumpyBackend
from igcf.online.selection import Query, select_items
from tests.toys import catalogue, ensemble_model, random_model, two_channel_model


@dataclass
class Fixed(Policy):
    """A policy from outside, whose scores are given."""

    given: Any

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        return self.given  # type: ignore[no-any-return]


def make_rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("loops", [backend.loops, NumpyBackend()], ids=["in use", "numpy"])
@pytest.mark.parametrize("model", [random_model(400, 6), ensemble_model(400, 3)])
def test_a_belief_wider_than_the_prior_is_ranked_by_its_own_variances(
    model: Model, loops: NumpyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prior's variances are no bounds then: an item that it holds for certain may be the most uncertain one."""
    monkeypatch.setattr("igcf.online.backend.loops", loops)
    narrow = model.with_prior(model.prior_mean, model.prior_cov * 1e-4)
    wide = Belief(model.prior_mean, np.eye(model.dim) * 9.0)
    picks = Recommender(narrow, Ucb(3.0)).session([("item-0", 1.0)], belief=wide).recommend(10)
    engine = ScoringEngine(narrow)
    engine.set_belief(wide)
    engine.resync()
    scores = Ucb(3.0).scores(engine, np.ones((1, 400), dtype=np.bool_), rng=make_rng())[0]
    scores[0] = -np.inf
    assert [pick.item_id for pick in picks] == [f"item-{row}" for row in np.argsort(-scores)[:10]]


def test_a_wide_belief_stays_wide_when_it_is_forgotten_in_part() -> None:
    model = random_model(300, 5)
    narrow = model.with_prior(model.prior_mean, model.prior_cov * 1e-4)
    session = Recommender(narrow, Ucb(3.0), forgetting=0.9).session(
        [("item-0", 1.0)], belief=Belief(model.prior_mean, np.eye(5) * 9.0)
    )
    session.observe("item-1", 0.5)
    means, stds = session.moments()
    fresh = Recommender(narrow, Ucb(3.0)).session([("item-0", 1.0), ("item-1", 0.5)], belief=session.belief)
    scores = np.where(np.arange(300) < 2, -np.inf, means + 3.0 * stds)
    expected = [f"item-{row}" for row in np.argsort(-scores)[:5]]
    assert [pick.item_id for pick in session.recommend(5)] == expected
    assert [pick.item_id for pick in fresh.recommend(5)] == expected


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_policy_whose_scores_are_not_finite_is_refused(bad: float, dtype: type) -> None:
    scores: AnyFloatArray = np.zeros((1, 40), dtype=dtype)
    scores[0, 7] = bad
    session = Recommender(random_model(), Fixed(scores)).session()
    with pytest.raises(ConfigError, match=r"policy Fixed returned the score -?(nan|inf) for item row 7 of user 0"):
        session.recommend(3)
    with pytest.raises(ConfigError, match="1 such scores in all"):
        select_items(Fixed(scores), ScoringEngine(random_model()), np.ones((1, 40), np.bool_), 3, make_rng=make_rng)


def test_what_is_not_available_may_have_any_score() -> None:
    scores = np.arange(40.0)[None]
    scores[0, 39], scores[0, 38] = np.inf, np.nan
    session = Recommender(random_model(), Fixed(scores)).session()
    assert [pick.item_id for pick in session.recommend(2, exclude=["item-38", "item-39"])] == ["item-37", "item-36"]


@pytest.mark.parametrize("scores", [np.zeros(40), np.zeros((2, 40)), np.zeros((1, 39)), 0.0])
def test_a_policy_with_another_number_of_scores_is_refused(scores: object) -> None:
    with pytest.raises(ConfigError, match=r"policy Fixed returned scores of shape .*, expected \(1, 40\)"):
        Recommender(random_model(), Fixed(scores)).session().recommend()


def test_a_policy_whose_scores_are_no_real_numbers_is_refused() -> None:
    with pytest.raises(ConfigError, match="policy Fixed returned scores of type complex128, expected real numbers"):
        Recommender(random_model(), Fixed(np.zeros((1, 40), dtype=complex))).session().recommend()


@pytest.mark.parametrize("dtype", [np.int64, np.float16, np.float32, np.float64])
def test_scores_may_be_any_real_numbers(dtype: type) -> None:
    session = Recommender(random_model(), Fixed(np.arange(40, dtype=dtype)[None])).session()
    assert [pick.item_id for pick in session.recommend(2)] == ["item-39", "item-38"]
    assert session.recommend(1)[0].score == 39.0


@pytest.mark.parametrize("policy", [Greedy(), Ucb(0.0), Ucb(0.7), Ucb(0.7, item_uncertainty=True)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model", [random_model(90, 4), two_channel_model(90, 3), ensemble_model(90, 3)])
def test_the_details_are_those_of_the_selected_items(policy: Policy, dtype: type, model: Model) -> None:
    """At the prior, after reactions, and after a belief was set."""
    engine, available = ScoringEngine(model, dtype=dtype), np.ones((1, 90), dtype=np.bool_)
    for step in range(3):
        if step == 1:
            engine.observe_one(3, 1.0)
        if step == 2:
            engine.set_belief(engine.belief())
        found = Query(policy, engine, available, 70 if step == 1 else 5, make_rng).select()
        rows, scores = select_items(policy, engine, available, len(found.rows), make_rng=make_rng)
        assert found.rows == rows[0].tolist()
        np.testing.assert_allclose(found.scores, scores[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found.means, engine.means[0, rows[0]], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(np.square(found.stds), engine.variances[0, rows[0]], rtol=1e-4, atol=1e-6)
        assert found.mean_ranks == [1 + int((engine.means[0] > mean).sum()) for mean in engine.means[0, rows[0]]]


def test_more_channels_than_the_native_loops_have_room_for() -> None:
    """Nine scored channels in nine blocks: their sum is that of one channel with all the vectors side by side."""
    rng = np.random.default_rng(0)
    reward, vectors = Reward("raw", 0.5, -3.0, 3.0), rng.normal(size=(60, 9, 2)).astype(np.float32)
    channels = [Channel(vectors[:, n], np.full(60, 0.5), reward, start=2 * n) for n in range(9)]
    rest = {**catalogue(60), "reward": reward}
    many = Model(
        channels=channels,
        terms=[Term(1.0, (n,)) for n in range(9)],
        prior_mean=np.ones(18),
        prior_cov=np.eye(18),
        **rest,
    )
    session = Recommender(many, Ucb(0.5)).session()
    for row in (3, 8, 12):
        session.recommend(3)
        session.observe(f"item-{row}", 1.0)
    expected = np.ones(18)
    for n in range(9):
        belief = Belief(np.ones(2), np.eye(2))
        for row in (3, 8, 12):
            belief = belief.updated(vectors[row, n], 1.0, 0.5)
        expected[2 * n : 2 * n + 2] = belief.mean
    np.testing.assert_allclose(session.belief.mean, expected, atol=1e-9)
    np.testing.assert_allclose(session.moments()[0], vectors.reshape(60, 18) @ expected, rtol=1e-4, atol=1e-4)
