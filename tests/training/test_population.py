import numpy as np
import pytest

from igcf.arrays import Float32Array
from igcf.online import Belief
from igcf.training.variational.objective import curvature
from igcf.training.variational.pairs import Pairs
from igcf.training.variational.population import (
    UserSums,
    Vectors,
    logits_as_rewards,
    meta_distribution,
    residual_variances,
    user_sums,
)
from tests.training.worlds import checkerboard


def users(n: int = 50, d: int = 3) -> Float32Array:
    return np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)


def sums(n: int = 50, d: int = 3) -> UserSums:
    nobody = np.zeros(0, dtype=np.int32)
    return user_sums(users(n, d), users(1, d), Pairs.from_arrays(n, 1, nobody, nobody, np.zeros(0)))


def test_meta_distribution_is_the_sample_mean_and_covariance_plus_gamma() -> None:
    mean, cov = meta_distribution(sums(), gamma=0.1)
    np.testing.assert_allclose(mean, users().mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(cov, np.cov(users().T) + 0.1 * np.eye(3), rtol=1e-5, atol=1e-6)


def test_one_user_gives_a_usable_prior() -> None:
    mean, cov = meta_distribution(sums(1), gamma=1e-3)
    np.testing.assert_allclose(mean, users(1)[0])
    np.testing.assert_allclose(cov, 1e-3 * np.eye(3), atol=1e-15)


@pytest.mark.parametrize("counts_missing", [True, False])
def test_item_noise_agrees_with_visiting_every_pair(counts_missing: bool) -> None:
    log = checkerboard(20, 6)
    pairs = Pairs.from_arrays(20, 6, log.user_idx, log.item_idx, log.values)
    vectors = Vectors(users(6), user_sums(users(20), users(6), pairs))
    table = log.dense()
    errors = (np.nan_to_num(table) - users(20) @ users(6).T) ** 2
    if counts_missing:
        expected = errors.mean(axis=0)
    else:
        seen = ~np.isnan(table)
        expected = ((errors * seen).sum(axis=0) + 10 * errors[seen].mean()) / (seen.sum(axis=0) + 10)
    found = residual_variances(vectors, counts_missing=counts_missing)
    floor = 0.25 * np.average(expected, weights=np.bincount(log.item_idx))
    np.testing.assert_allclose(found, expected + floor, rtol=1e-4)


def test_binary_reaction_in_reward_units_is_the_bounded_logistic_update() -> None:
    """An observation (r - 1/2) / (2 lambda) of the logit with variance 1 / (2 lambda) gives the same user belief."""
    items = users(4)
    prior = Belief(np.array([0.3, -0.2, 0.1]), np.diag([1.0, 2.0, 0.5]))
    xi = 1.7
    lam = curvature(xi)
    vectors, mean, cov = logits_as_rewards(Vectors(items, sums()), prior.mean, prior.cov, xi)
    lifted = Belief(mean, cov).updated(vectors.items[2].astype(float), 1.0, 2 * lam)
    logit = prior.updated(items[2].astype(float), 0.5 / (2 * lam), 1 / (2 * lam))
    np.testing.assert_allclose(lifted.mean[:3], logit.mean, rtol=1e-5)
    np.testing.assert_allclose(lifted.cov[:3, :3], logit.cov, rtol=1e-5, atol=1e-7)
    assert lifted.mean[3] == 1.0


def test_binary_predictions_keep_the_order_of_the_logits() -> None:
    vectors, mean = Vectors(users(9), sums(), users(9) ** 2), np.array([0.3, -0.2, 0.1])
    lifted, lifted_mean, _ = logits_as_rewards(vectors, mean, np.eye(3), 2.0)
    logits, rewards = vectors.items @ mean, lifted.items @ lifted_mean
    np.testing.assert_allclose(rewards, 0.5 + 2 * curvature(2.0) * logits, rtol=1e-5)
    assert lifted.item_variances is not None
    assert not lifted.item_variances[:, 3].any()
