import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from igcf.arrays import FloatArray
from igcf.errors import ConfigError
from igcf.online import Belief
from igcf.online.backend import loops
from igcf.online.backend.types import Evidence
from tests.toys import batch_posterior, direct_posterior


def world(seed: int, dim: int, n: int) -> tuple[Belief, FloatArray, FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(dim, dim + 2))
    belief = Belief(rng.normal(size=dim), root @ root.T / dim)
    return belief, rng.normal(size=(n, dim)), rng.normal(size=n), rng.uniform(0.2, 2.0, n)


def one_by_one(belief: Belief, X: FloatArray, rewards: FloatArray, noise: FloatArray) -> Belief:
    for x, reward, noise_var in zip(X, rewards, noise, strict=True):
        belief = belief.updated(x, reward, noise_var)
    return belief


def test_update_by_hand() -> None:
    """Prior N(0, 10 I), x = [1, 0], r = 2, noise 1: precision 1.1, information 2, so mean 2 / 1.1, variance 1 / 1.1."""
    belief = Belief(np.zeros(2), np.eye(2) * 10).updated([1.0, 0.0], reward=2.0, noise_var=1.0)
    mean, std = belief.moments(np.eye(2))
    np.testing.assert_allclose(mean, [2 / 1.1, 0.0])
    np.testing.assert_allclose(std, [1 / np.sqrt(1.1), np.sqrt(10.0)])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), dim=st.integers(1, 12), n=st.integers(1, 30))
def test_rank_one_block_and_direct_forms_agree(seed: int, dim: int, n: int) -> None:
    prior, X, rewards, noise = world(seed, dim, n)
    mean, cov = direct_posterior(prior.mean, prior.cov, X, rewards, noise)
    for belief in (
        one_by_one(prior, X, rewards, noise),
        Belief(*batch_posterior(prior.mean, prior.cov, X, rewards, noise)),
    ):
        np.testing.assert_allclose(belief.mean, mean, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(belief.cov, cov, rtol=1e-10, atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), order=st.permutations(range(7)))
def test_update_order_does_not_matter(seed: int, order: list[int]) -> None:
    prior, X, rewards, noise = world(seed, 4, 7)
    forward = one_by_one(prior, X, rewards, noise)
    shuffled = one_by_one(prior, X[order], rewards[order], noise[order])
    np.testing.assert_allclose(shuffled.mean, forward.mean, atol=1e-10)
    np.testing.assert_allclose(shuffled.cov, forward.cov, atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_no_uncertainty_grows_by_an_observation(seed: int) -> None:
    belief, X, rewards, noise = world(seed, 5, 6)
    probes = np.random.default_rng(seed + 1).normal(size=(20, 5))
    _, before = belief.moments(probes)
    _, after = belief.updated(X[0], rewards[0], noise[0]).moments(probes)
    assert (after <= before + 1e-12).all()


def test_the_reward_moves_the_mean_only() -> None:
    prior, X, _, _ = world(3, 4, 1)
    high, low = prior.updated(X[0], 5.0, 0.5), prior.updated(X[0], -5.0, 0.5)
    np.testing.assert_array_equal(high.cov, low.cov)
    assert X[0] @ high.mean > X[0] @ low.mean


def test_an_update_leaves_the_old_belief_alone() -> None:
    prior, X, rewards, noise = world(1, 3, 2)
    mean, cov = prior.mean.copy(), prior.cov.copy()
    prior.updated(X[0], rewards[0], noise[0])
    Belief(*batch_posterior(prior.mean, prior.cov, X, rewards, noise))
    np.testing.assert_array_equal(prior.mean, mean)
    np.testing.assert_array_equal(prior.cov, cov)


def test_a_direction_known_for_certain_stays_certain() -> None:
    belief = Belief(np.array([1.0, 0.0]), np.diag([0.0, 1.0])).updated([3.0, 1.0], 5.0, 0.5)
    assert belief.mean[0] == 1.0
    assert belief.cov[0, 0] == 0.0
    assert belief.mean[1] > 0


@pytest.mark.parametrize("singular", [False, True])
def test_forgetting_equals_down_weighting_older_reactions(singular: bool) -> None:
    """Keeping 0.9 of the evidence with each reaction gives reaction s of n the weight 0.9 ** (n - 1 - s)."""
    prior, X, rewards, noise = world(5, 4, 6)
    if singular:
        prior = Belief(prior.mean, np.diag([0.0, 1.0, 2.0, 0.5]))
    belief = prior
    for x, reward, noise_var in zip(X, rewards, noise, strict=True):
        belief = belief.decayed(prior, 0.9).updated(x, reward, noise_var)
    expected = Belief(*batch_posterior(prior.mean, prior.cov, X, rewards, noise / 0.9 ** np.arange(5, -1, -1.0)))
    np.testing.assert_allclose(belief.mean, expected.mean, atol=1e-9)
    np.testing.assert_allclose(belief.cov, expected.cov, atol=1e-9)


def test_forgetting_everything_returns_to_the_population() -> None:
    prior, X, rewards, noise = world(6, 4, 5)
    belief = Belief(*batch_posterior(prior.mean, prior.cov, X, rewards, noise))
    for _ in range(400):
        belief = belief.decayed(prior, 0.9)
    np.testing.assert_allclose(belief.mean, prior.mean, atol=1e-8)
    np.testing.assert_allclose(belief.cov, prior.cov, atol=1e-8)


def test_shapes_that_would_broadcast_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"x has shape \(1,\), this belief needs \(2,\)"):
        Belief(np.zeros(2), np.eye(2)).updated([1.0], 1.0, 1.0)
    with pytest.raises(ConfigError, match="mean has shape"):
        Belief(np.zeros(2), np.eye(3))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), reward=st.sampled_from([0.0, 1.0]), noise=st.floats(0.3, 3.0))
def test_a_logistic_update_finds_the_mode_and_its_curvature(seed: int, reward: float, noise: float) -> None:
    prior, X, _, _ = world(seed, 3, 1)
    mean, cov = prior.mean[None].copy(), prior.cov[None].copy()
    loops.update_beliefs(mean, cov, 0, Evidence(X[:1], np.array([reward]), np.array([noise]), np.array([True])))
    belief = Belief(mean[0], cov[0])
    p = 1 / (1 + np.exp(-X[0] @ belief.mean))
    step = prior.cov @ X[0] * (reward - p) / noise  # where the gradient of the log posterior vanishes
    np.testing.assert_allclose(belief.mean - prior.mean, step, atol=1e-6)
    expected = prior.updated(X[0], 0.0, noise / (p * (1 - p)))  # a Gaussian reward of the same curvature
    np.testing.assert_allclose(belief.cov, expected.cov, atol=1e-6)
