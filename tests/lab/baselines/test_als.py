import sys

import numpy as np
import pytest
import scipy.sparse as sp

from igcf.errors import ConfigError
from igcf.lab.baselines import method_named
from igcf.lab.baselines.als import user_factors
from igcf.threads import at_most_threads
from tests.lab.baselines.worlds import task


def successes(n_users: int, n_items: int, seed: int) -> sp.csr_array:
    return sp.csr_array((np.random.default_rng(seed).random((n_users, n_items)) < 0.3).astype(np.float32))


def test_a_folded_in_user_minimises_the_weighted_squares() -> None:
    """Weighted least squares with one row per item, weight alpha where it was liked and 1 elsewhere."""
    items = np.random.default_rng(0).standard_normal((15, 4))
    liked = successes(3, 15, seed=1)
    found = user_factors(items, liked, penalty=2.0, alpha=7.0)
    for user, target in enumerate(liked.toarray()):
        root = np.sqrt(np.where(target > 0, 7.0, 1.0))
        rows = np.vstack([items * root[:, None], np.sqrt(2.0) * np.eye(4)])
        direct = np.linalg.lstsq(rows, np.r_[target * root, np.zeros(4)], rcond=None)[0]
        np.testing.assert_allclose(found[user], direct, atol=1e-10)


def test_a_folded_in_user_is_the_one_of_the_package() -> None:
    als = pytest.importorskip("implicit.als")
    with at_most_threads(1):
        model = als.AlternatingLeastSquares(
            factors=5, regularization=3.0, alpha=4.0, iterations=8, num_threads=1, random_state=0, use_cg=False
        )
        model.fit(sp.csr_matrix(successes(60, 20, seed=2)), show_progress=False)
    new = successes(6, 20, seed=3)
    theirs = np.asarray(model.recalculate_user(np.arange(6), sp.csr_matrix(new)))
    ours = user_factors(np.asarray(model.item_factors, dtype=np.float64), new, penalty=3.0, alpha=4.0)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_without_the_package_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "implicit.als", None)
    method = method_named("als")
    with pytest.raises(
        ConfigError, match=r"als needs the package implicit; install it with `pip install igcf\[bench\]`"
    ):
        method.build(task(), method.settings(), np.random.default_rng(0))
