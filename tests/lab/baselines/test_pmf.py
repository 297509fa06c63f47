import numpy as np
import pytest
import scipy.sparse as sp

from igcf.errors import ConfigError
from igcf.lab.baselines import pmf
from igcf.lab.baselines.pmf import Estimate, factorise

RATINGS = sp.csr_array(
    (np.array([5.0, 3.0, 0.0, 4.0, 1.0, 2.0]), (np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 2, 1, 2]))),
    shape=(3, 4),
)


def brute_force_sweep(matrix: sp.csr_array, fixed: np.ndarray, penalty: float) -> np.ndarray:
    """Row by row: (Y'Y + penalty I)^-1 Y'r over the stored pairs, stored zeros included."""
    found = np.zeros((matrix.shape[0], fixed.shape[1]))
    for row in range(matrix.shape[0]):
        columns = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
        values = matrix.data[matrix.indptr[row] : matrix.indptr[row + 1]]
        Y = fixed[columns]
        found[row] = np.linalg.solve(Y.T @ Y + penalty * np.eye(fixed.shape[1]), Y.T @ values)
    return found


@pytest.mark.parametrize("dense_from", [0.0, 1.1])
def test_map_sweeps_are_alternating_least_squares(dense_from: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pmf, "DENSE_FROM", dense_from)
    items = np.random.default_rng(4).normal(0.0, 0.1, (4, 2))
    for _ in range(3):
        users = brute_force_sweep(RATINGS, items, 0.7)
        items = brute_force_sweep(RATINGS.T.tocsr(), users, 0.7)
    found = factorise(RATINGS, dim=2, penalty=0.7, rounds=3, estimate="map", rng=np.random.default_rng(4))
    np.testing.assert_allclose(found.users, users, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.items, items, rtol=1e-4, atol=1e-6)


def test_blocks_of_rows_give_the_same_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = factorise(RATINGS, dim=2, penalty=1.0, rounds=4, estimate="map", rng=np.random.default_rng(0))
    monkeypatch.setattr(pmf, "BLOCK_BYTES", 40)
    blocks = factorise(RATINGS, dim=2, penalty=1.0, rounds=4, estimate="map", rng=np.random.default_rng(0))
    np.testing.assert_allclose(blocks.items, whole.items, rtol=1e-6)


def test_an_item_without_ratings_has_a_zero_vector_and_its_prior_variance() -> None:
    found = factorise(RATINGS, dim=2, penalty=2.0, rounds=3, estimate="map", rng=np.random.default_rng(0))
    np.testing.assert_array_equal(found.items[3], 0.0)
    np.testing.assert_allclose(found.item_variances[3], 0.5)


def test_item_variances_are_the_diagonal_of_the_inverse() -> None:
    found = factorise(RATINGS, dim=2, penalty=1.0, rounds=5, estimate="map", rng=np.random.default_rng(0))
    P = found.users[[0, 1]]  # the users who rated item 0
    np.testing.assert_allclose(found.item_variances[0], np.diag(np.linalg.inv(P.T @ P + np.eye(2))), rtol=1e-5)


def test_gibbs_draws_have_the_conditional_mean_and_covariance() -> None:
    """Users with one rating r = 2 of an item q = 1: p ~ N(q r / (q^2 + 1), 1 / (q^2 + 1)) = N(1, 1/2)."""
    side = pmf._Side(sp.csr_array(np.full((20_000, 1), 2.0)))
    means, draws, variances = side.sweep(np.ones((1, 1)), 1.0, np.random.default_rng(0), spread=True)
    np.testing.assert_allclose(means, 1.0)
    np.testing.assert_allclose(variances, 0.5)
    assert abs(draws.mean() - 1.0) < 0.02
    assert abs(draws.var() - 0.5) < 0.02


@pytest.mark.parametrize("estimate", ["mean", "cond", "sample"])
def test_every_estimate_predicts_the_ratings_of_a_rank_one_world(estimate: Estimate) -> None:
    rng = np.random.default_rng(0)
    truth = np.outer(rng.uniform(1, 2, 60), rng.uniform(1, 2.5, 40))
    found = factorise(sp.csr_array(truth), dim=2, penalty=0.5, rounds=20, estimate=estimate, rng=rng)
    users, _, _ = pmf._Side(sp.csr_array(truth)).sweep(found.items, 0.5, None)
    error = np.sqrt(np.mean((users @ found.items.T - truth) ** 2))
    assert error < 0.25


def test_what_cannot_be_factorised_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ConfigError, match="estimate must be one of map, mean, cond, sample, got 'best'"):
        factorise(RATINGS, dim=2, penalty=1.0, rounds=1, estimate="best", rng=rng)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="penalty positive, got 2, 1, 0"):
        factorise(RATINGS, dim=2, penalty=0.0, rounds=1, estimate="map", rng=rng)
