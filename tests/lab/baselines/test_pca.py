import numpy as np
import scipy.sparse as sp

from igcf.lab.baselines import method_named
from igcf.lab.baselines.pca import principal_components
from tests.lab.baselines.worlds import task


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
