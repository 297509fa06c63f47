import numpy as np
import pytest

from igcf.model import Model
from igcf.online import Belief, ScoringEngine, learned, prior_belief
from tests.toys import batch_posterior, ensemble_model, random_model, two_channel_model


def recomputed(engine: ScoringEngine, user: int) -> tuple[np.ndarray, np.ndarray]:
    mean, std = engine.belief(user).moments(engine.model.item_vectors)
    return mean, std**2


@pytest.mark.parametrize("model", [random_model(60, 8), random_model(60, 8, singular=True), two_channel_model()])
def test_500_rounds_agree_with_recomputation(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("igcf.online.engine.RESYNC_EVERY", 10**9)  # the recursion alone, without its safety net
    engine = ScoringEngine(model, n_users=3, dtype=np.float64)
    rng = np.random.default_rng(0)
    belief = Belief(model.prior_mean, model.prior_cov)
    for _ in range(500):
        rows, values = rng.integers(model.n_items, size=3), rng.uniform(1, 5, size=3)
        values[rng.random(3) < 0.3] = np.nan
        engine.observe(rows, values)
        parts = [
            (each.vectors[rows[0]], each.reward.of_one(values[0]), each.noise_var[rows[0]]) for each in model.channels
        ]
        X, rewards, noise = (np.array(part, dtype=np.float64) for part in zip(*parts, strict=True))
        belief = Belief(*batch_posterior(belief.mean, belief.cov, X, rewards, noise))
        assert (engine.variances >= 0).all()
    for user in range(3):
        mean, var = recomputed(engine, user)
        np.testing.assert_allclose(engine.means[user], mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(engine.variances[user], var, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(engine.belief_means[0], belief.mean, rtol=1e-8, atol=1e-10)


def test_single_precision_products_stay_close_and_are_resynchronised() -> None:
    model = random_model(200, 16)
    engine = ScoringEngine(model)
    rng = np.random.default_rng(1)
    for _ in range(300):
        engine.observe(rng.integers(200, size=1), rng.normal(size=1))
    mean, var = recomputed(engine, 0)
    np.testing.assert_allclose(engine.means[0], mean, atol=2e-5)
    np.testing.assert_allclose(engine.variances[0], var, atol=2e-6)


def test_users_in_lock_step_do_not_touch_each_other() -> None:
    model = random_model()
    rng = np.random.default_rng(2)
    rows, values = rng.integers(model.n_items, size=(20, 4)), rng.normal(size=(20, 4))
    together = ScoringEngine(model, n_users=4, dtype=np.float64)
    for t in range(20):
        together.observe(rows[t], values[t])
    for user in range(4):
        alone = ScoringEngine(model, dtype=np.float64)
        for t in range(20):
            alone.observe(rows[t, user : user + 1], values[t, user : user + 1])
        np.testing.assert_allclose(together.means[user], alone.means[0], atol=1e-10)
        np.testing.assert_allclose(together.variances[user], alone.variances[0], atol=1e-10)


def test_a_slate_equals_its_items_one_after_the_other() -> None:
    model = two_channel_model()
    slate, single = ScoringEngine(model, dtype=np.float64), ScoringEngine(model, dtype=np.float64)
    rows, values = np.array([[3, 9, 4]]), np.array([[5.0, np.nan, 2.0]])
    slate.observe(rows, values)
    for row, value in zip(rows[0][::-1], values[0][::-1], strict=True):
        single.observe(np.array([row]), np.array([value]))
    np.testing.assert_allclose(slate.means, single.means, atol=1e-10)
    np.testing.assert_allclose(slate.variances, single.variances, atol=1e-10)


def test_a_fresh_engine_starts_at_the_prior() -> None:
    model = random_model()
    used = ScoringEngine(model)
    used.observe(np.array([1]), np.array([2.0]))
    fresh = used.fresh(2)
    prior_mean, prior_std = Belief(model.prior_mean, model.prior_cov).moments(model.item_vectors)
    for user in range(2):
        np.testing.assert_allclose(fresh.means[user], prior_mean, atol=1e-5)
        np.testing.assert_allclose(np.sqrt(fresh.variances[user]), prior_std, atol=1e-5)


def test_item_uncertainty_is_the_variance_of_independent_item_vectors() -> None:
    model = random_model(5, 3)
    engine = ScoringEngine(model)
    rng = np.random.default_rng(0)
    users = rng.multivariate_normal(model.prior_mean, model.prior_cov, size=400_000)
    deviations = rng.normal(size=(400_000, 3)) * np.sqrt(model.item_variances[2])
    sampled = np.einsum("nd,nd->n", users, deviations).var()
    assert engine.item_uncertainty()[0, 2] == pytest.approx(sampled, rel=0.02)


def test_the_ensembles_moments_follow_from_its_belief() -> None:
    model = ensemble_model()
    engine = ScoringEngine(model, n_users=2, dtype=np.float64)
    beliefs = [prior_belief(model), prior_belief(model)]
    rng = np.random.default_rng(0)
    for _ in range(60):
        rows, values = rng.integers(model.n_items, size=2), rng.uniform(1, 5, size=2)
        values[rng.random(2) < 0.4] = np.nan
        engine.observe(rows, values)
        beliefs = [learned(*each) for each in zip(beliefs, [model] * 2, rows.tolist(), values.tolist(), strict=True)]
    for user, belief in enumerate(beliefs):
        np.testing.assert_allclose(engine.belief(user).mean, belief.mean, atol=1e-9)
        np.testing.assert_allclose(engine.belief(user).cov, belief.cov, atol=1e-9)
        np.testing.assert_allclose(engine.means[user], model.expected(belief.mean), atol=1e-6)
    before = engine.variances.copy()
    engine.resync()
    np.testing.assert_allclose(engine.variances, before, atol=1e-9)


def test_the_ensembles_spread_is_at_least_that_of_its_draws_to_first_order() -> None:
    model = ensemble_model()
    engine = ScoringEngine(model, dtype=np.float64)
    small = Belief(model.prior_mean, model.prior_cov * 1e-4)  # where first order is exact
    engine.set_belief(small)
    draws = np.random.default_rng(0).multivariate_normal(small.mean, small.cov, size=20_000)
    sampled = model.expected(draws).var(axis=0)
    assert (engine.variances[0] >= 0.95 * sampled).all()
