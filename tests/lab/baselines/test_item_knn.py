import numpy as np
import pytest
import scipy.sparse as sp

from igcf.errors import ConfigError
from igcf.lab.baselines.item_knn import neighbours

LIKED = sp.csr_array(np.array([[1.0, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 0], [1, 0, 0, 1]]))
"""Item 0 was liked by 4 users, 1 and 2 by 2, 3 by 1; both 0 and 1: 2, 0 and 2: 2, 0 and 3: 1, 1 and 2: 1."""


def test_similarities_are_shrunk_cosines() -> None:
    """n_01 / (sqrt(4 * 2) + 3) = 2 / 5.828; n_12 / (sqrt(2 * 2) + 3) = 1 / 5; n_03 / (sqrt(4) + 3) = 1 / 5."""
    found = neighbours(LIKED, k=3, shrink=3.0).toarray()
    near = 2 / (np.sqrt(8) + 3)
    np.testing.assert_allclose(found, [[0, near, near, 0.2], [near, 0, 0.2, 0], [near, 0.2, 0, 0], [0.2, 0, 0, 0]])


def test_an_item_keeps_its_k_nearest_only() -> None:
    """Item 1 is nearer to 0 than to 2, and item 0 as near to 1 as to 2: the first of the catalogue stays."""
    found = neighbours(LIKED, k=1, shrink=0.0).toarray()
    near = 2 / np.sqrt(8)
    np.testing.assert_allclose(found, [[0, near, near, 0.5], [near, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])


def test_settings_outside_their_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="k of at least 1 and shrink of at least 0, got 0 and 1"):
        neighbours(LIKED, k=0, shrink=1.0)
