import numpy as np
import pytest
import scipy.sparse as sp

from igcf.errors import ConfigError
from igcf.lab.baselines import factors, method_named
from igcf.lab.baselines.factors import factorise, principal_components
from tests.lab.baselines.worlds import task

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
    monkeypatch.setattr(factors, "DENSE_FROM", dense_from)
    items = np.random.default_rng(4).normal(0.0, 0.1, (4, 2))
    for _ in range(3):
        users = brute_force_sweep(RATINGS, items, 0.7)
        items = brute_force_sweep(RATINGS.T.tocsr(), users, 0.7)
    found = factorise(RATINGS, dim=2, penalty=0.7, rounds=3, rng=np.random.default_rng(4))
    np.testing.assert_allclose(found.users, users, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.items, items, rtol=1e-4, atol=1e-6)


def test_blocks_of_rows_give_the_same_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = factorise(RATINGS, dim=2, penalty=1.0, rounds=4, rng=np.random.default_rng(0))
    monkeypatch.setattr(factors, "BLOCK_BYTES", 40)
    blocks = factorise(RATINGS, dim=2, penalty=1.0, rounds=4, rng=np.random.default_rng(0))
    np.testing.assert_allclose(blocks.items, whole.items, rtol=1e-6)


def test_an_item_without_ratings_has_a_zero_vector_and_its_prior_variance() -> None:
    found = factorise(RATINGS, dim=2, penalty=2.0, rounds=3, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(found.items[3], 0.0)
    np.testing.assert_allclose(found.item_variances[3], 0.5)


def test_item_variances_are_the_diagonal_of_the_inverse() -> None:
    found = factorise(RATINGS, dim=2, penalty=1.0, rounds=5, rng=np.random.default_rng(0))
    P = found.users[[0, 1]]  # the users who rated item 0
    np.testing.assert_allclose(found.item_variances[0], np.diag(np.linalg.inv(P.T @ P + np.eye(2))), rtol=1e-5)


def test_ratings_of_a_rank_one_world_are_predicted() -> None:
    rng = np.random.default_rng(0)
    truth = np.outer(rng.uniform(1, 2, 60), rng.uniform(1, 2.5, 40))
    found = factorise(sp.csr_array(truth), dim=2, penalty=0.5, rounds=20, rng=rng)
    assert np.sqrt(np.mean((found.users @ found.items.T - truth) ** 2)) < 0.05


def test_what_cannot_be_factorised_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ConfigError, match="penalty positive, got 2, 1, 0"):
        factorise(RATINGS, dim=2, penalty=0.0, rounds=1, rng=rng)


def test_components_agree_with_the_eigenvectors_of_the_covariance() -> None:
    matrix = (np.random.default_rng(0).random((50, 12)) < 0.4).astype(float)
    mean, loadings = principal_components(sp.csr_array(matrix), 4, rng=np.random.default_rng(1))
    np.testing.assert_allclose(mean, matrix.mean(axis=0))
    size, axes = np.linalg.eigh(np.cov(matrix.T, bias=True))
    leading = axes[:, -4:] * size[-4:] @ axes[:, -4:].T
    np.testing.assert_allclose(loadings @ loadings.T, leading, atol=1e-10)
    assert (np.diff(np.linalg.norm(loadings, axis=0)) < 0).all()


def test_a_new_user_is_expected_to_like_what_the_population_likes() -> None:
    """The first coordinate of the item vectors is the share of satisfied users and every user has it for certain."""
    world = task()
    model = method_named("pca-gp").fit(world, {"dim": 3}, np.random.default_rng(0))
    satisfied = world.train.matrix((world.train.values >= 4).astype(float)).sum(axis=0) / world.train.n_users
    np.testing.assert_allclose(model.item_vectors @ model.prior_mean, satisfied, atol=1e-6)
    assert model.prior_cov[0, 0] == 0.0


def test_more_components_than_users_or_items_are_cut() -> None:
    _, loadings = principal_components(sp.csr_array(np.eye(5)), 48, rng=np.random.default_rng(0))
    assert loadings.shape == (5, 4)
