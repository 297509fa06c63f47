import numpy as np
import pytest
import scipy.sparse as sp

from igcf.errors import ConfigError
from igcf.lab.baselines.ease import ease_weights


def successes(n_users: int = 40, n_items: int = 9) -> sp.csr_array:
    return sp.csr_array((np.random.default_rng(4).random((n_users, n_items)) < 0.4).astype(float))


@pytest.mark.parametrize("penalty", [0.5, 20.0])
def test_each_column_is_the_ridge_regression_of_an_item_on_all_others(penalty: float) -> None:
    """Solving |y_j - Y_-j b|^2 + penalty |b|^2 for each item j alone gives the same as the closed form."""
    matrix = successes()
    dense = matrix.toarray()
    weights = ease_weights(matrix, penalty)
    for item in range(dense.shape[1]):
        others = np.delete(np.arange(dense.shape[1]), item)
        Y = dense[:, others]
        direct = np.linalg.solve(Y.T @ Y + penalty * np.eye(len(others)), Y.T @ dense[:, item])
        np.testing.assert_allclose(weights[others, item], direct, atol=1e-10)
    np.testing.assert_array_equal(np.diag(weights), 0.0)


def test_a_penalty_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="penalty of ease must be positive, got 0"):
        ease_weights(successes(), 0.0)
