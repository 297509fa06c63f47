"""Every short cut beside the plain computation that it replaces: random inputs, odd sizes, one item, d = 1."""

import numpy as np
import pytest
from scipy.special import expit

from igcf.model import Model, Reward
from igcf.model.channel import sigmoid
from igcf.model.reward import KINDS, RewardKind
from igcf.online import Recommender, ScoringEngine, Ucb, learned, prior_belief, top_k
from igcf.online.learning import belief_from_history
from igcf.online.selection import Query
from tests.toys import ensemble_model, random_model, two_channel_model

MODELS = [
    random_model(1, 1),
    random_model(7, 1),
    random_model(301, 5),
    random_model(1_500, 8, singular=True),
    two_channel_model(777, 3),
    ensemble_model(901, 4),
]


def reactions(model: Model, n: int, seed: int = 0) -> tuple[list[int], list[float]]:
    rng = np.random.default_rng(seed)
    values = np.where(rng.random(n) < 0.3, np.nan, rng.uniform(1, 3, size=n))
    return rng.integers(model.n_items, size=n).tolist(), values.tolist()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("n", [1, 3, 40])
def test_a_belief_from_a_history_equals_learning_it_one_by_one(model: Model, n: int) -> None:
    rows, values = reactions(model, n)
    belief = prior_belief(model)
    for row, value in zip(rows, values, strict=True):
        belief = learned(belief, model, row, value)
    at_once = belief_from_history(model, rows, values, 1.0)
    np.testing.assert_allclose(at_once.mean, belief.mean, atol=1e-9)
    np.testing.assert_allclose(at_once.cov, belief.cov, atol=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_one_user_alone_learns_like_many_in_lock_step(model: Model) -> None:
    alone, many = ScoringEngine(model, dtype=np.float64), ScoringEngine(model, 2, dtype=np.float64)
    for row, value in zip(*reactions(model, 20), strict=True):
        alone.observe_one(row, value)
        many.observe(np.array([row, row]), np.array([value, value]))
    for user in range(2):
        np.testing.assert_allclose(many.belief_covs[user], alone.belief_covs[0], atol=1e-10)
        np.testing.assert_allclose(many.means[user], alone.means[0], atol=1e-10)
        np.testing.assert_allclose(many.variances[user], alone.variances[0], atol=1e-10)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("nu", [0.0, 0.5, 20.0])
def test_the_first_answer_is_that_of_all_variances(model: Model, k: int, nu: float) -> None:
    """Right after a belief was set, only the items that can be among the best are scored exactly."""
    if k > model.n_items:
        return
    for seed, n in enumerate((0, 2, 60)):
        belief = belief_from_history(model, *reactions(model, n, seed), 1.0) if n else prior_belief(model)
        lazy, plain = ScoringEngine(model), ScoringEngine(model)
        for engine in (lazy, plain):
            engine.set_belief(belief)
        plain.resync()
        available = np.random.default_rng(seed).random((1, model.n_items)) < 0.9
        available[0, :k] = True
        chosen, scores, _, stds, _ = Query(
            Ucb(nu), lazy, available, k, make_rng=lambda: np.random.default_rng(0)
        ).select()
        everything = Ucb(nu).scores(plain, available, rng=np.random.default_rng(seed))
        expected = top_k(everything, available, k, rng=np.random.default_rng(seed))[0]
        np.testing.assert_allclose(scores, everything[0, chosen], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(np.square(stds), plain.variances[0, chosen], rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(everything[0, chosen], everything[0, expected], rtol=1e-5, atol=1e-6)
        assert available[0, chosen].all()


def test_too_few_left_in_most_of_the_catalogue_means_that_all_are_scored() -> None:
    engine = ScoringEngine(random_model(2_000, 4))
    engine.set_belief(prior_belief(engine.model))
    available = np.zeros((1, 2_000), dtype=np.bool_)
    available[0, -3:] = True
    chosen, *_ = Query(Ucb(0.5), engine, available, 3, make_rng=lambda: np.random.default_rng(0)).select()
    assert sorted(chosen) == [1_997, 1_998, 1_999]


@pytest.mark.parametrize("model", [random_model(400, 6), ensemble_model(400, 3)])
def test_a_returning_user_goes_on_like_one_who_never_left(model: Model) -> None:
    recommender = Recommender(model, Ucb(0.5))
    stayed = recommender.session()
    for row, value in zip(*reactions(model, 30), strict=True):
        stayed.observe(model.item_ids[row], None if np.isnan(value) else value)
    back = recommender.session(stayed.history)
    for _ in range(14):  # catches up with all variances on the way
        picks, others = stayed.recommend(5), back.recommend(5)
        assert [pick.item_id for pick in picks] == [other.item_id for other in others]
        assert [pick.mean_rank for pick in picks] == [other.mean_rank for other in others]
        np.testing.assert_allclose([pick.std for pick in picks], [other.std for other in others], atol=1e-5)
        for session in (stayed, back):
            session.observe(picks[0].item_id, 2.0)


def test_engines_at_the_prior_share_its_moments_and_learn_apart() -> None:
    template = ScoringEngine(random_model())
    first, second = template.fresh(), template.fresh(3)
    before = second.means.copy()
    first.observe_one(3, 1.0)
    second.observe(np.array([1, 2, 3]), np.array([1.0, 0.0, 1.0]))
    np.testing.assert_array_equal(template.fresh(3).means, before)
    np.testing.assert_allclose(first.means[0], second.means[2], atol=1e-5)


def test_ties_of_some_users_are_broken_among_their_best_only() -> None:
    scores = np.array([[1.0, 3.0, 3.0], [5.0, 2.0, 1.0], [7.0, 7.0, 7.0]])
    available = np.array([[True, True, True], [True, True, True], [False, True, True]])
    picks = [top_k(scores, available, 1, rng=np.random.default_rng(seed))[:, 0] for seed in range(40)]
    assert {tuple(pick) for pick in picks} == {(a, 0, b) for a in (1, 2) for b in (1, 2)}
    assert scores[2, 0] == 7.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [0.0, 3.5, 4.0, 5.0, float("nan")])
def test_the_reward_of_one_number_equals_that_of_an_array(kind: RewardKind, value: float) -> None:
    for high in (5.0, 0.0):
        reward = Reward(kind, threshold=4.0, low=0.0, high=high)
        np.testing.assert_array_equal(reward.of_one(value), reward.of(value))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_are_exact_and_never_overflow(dtype: type[np.floating]) -> None:
    z = np.array([-1e30, -200.0, -20.0, -1.0, 0.0, 3.0, 90.0, 1e30], dtype=dtype)
    with np.errstate(over="raise", invalid="raise"):
        p = sigmoid(z)
    assert p.dtype == dtype
    np.testing.assert_allclose(p, expit(z), rtol=3e-7, atol=1e-30)
