import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from igcf.errors import ConfigError
from igcf.lab.baselines import method_named
from igcf.lab.baselines.als import als_users, ials_rows
from igcf.lab.baselines.history import Logged, ease_weights, item_neighbours, training_successes
from igcf.lab.baselines.slim import slim_weights
from igcf.threads import at_most_threads
from tests.lab.baselines.test_contract import QUICK
from tests.lab.baselines.worlds import task

LIKED = sp.csr_array(np.array([[1.0, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 0], [1, 0, 0, 1]]))
"""Item 0 was liked by 4 users, 1 and 2 by 2, 3 by 1; both 0 and 1: 2, 0 and 2: 2, 0 and 3: 1, 1 and 2: 1."""


def successes(n_users: int = 40, n_items: int = 9, seed: int = 4, share: float = 0.4) -> sp.csr_array:
    return sp.csr_array((np.random.default_rng(seed).random((n_users, n_items)) < share).astype(float))


def test_similarities_are_shrunk_cosines() -> None:
    """n_01 / (sqrt(4 * 2) + 3) = 2 / 5.828; n_12 / (sqrt(2 * 2) + 3) = 1 / 5; n_03 / (sqrt(4) + 3) = 1 / 5."""
    found = item_neighbours(LIKED, k=3, shrink=3.0).toarray()
    near = 2 / (np.sqrt(8) + 3)
    np.testing.assert_allclose(found, [[0, near, near, 0.2], [near, 0, 0.2, 0], [near, 0.2, 0, 0], [0.2, 0, 0, 0]])


def test_an_item_keeps_its_k_nearest_only() -> None:
    """Item 1 is nearer to 0 than to 2, and item 0 as near to 1 as to 2: the first of the catalogue stays."""
    found = item_neighbours(LIKED, k=1, shrink=0.0).toarray()
    near = 2 / np.sqrt(8)
    np.testing.assert_allclose(found, [[0, near, near, 0.5], [near, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])


def test_neighbours_outside_their_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="k of at least 1 and shrink of at least 0, got 0 and 1"):
        item_neighbours(LIKED, k=0, shrink=1.0)


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


def test_a_folded_in_user_minimises_the_weighted_squares() -> None:
    """Weighted least squares with one row per item, weight alpha where it was liked and 1 elsewhere."""
    items = np.random.default_rng(0).standard_normal((15, 4))
    liked = successes(3, 15, seed=1, share=0.3)
    found = als_users(items, liked, penalty=2.0, alpha=7.0)
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
        model.fit(sp.csr_matrix(successes(60, 20, seed=2, share=0.3).astype(np.float32)), show_progress=False)
    new = successes(6, 20, seed=3, share=0.3).astype(np.float32)
    theirs = np.asarray(model.recalculate_user(np.arange(6), sp.csr_matrix(new)))
    ours = als_users(np.asarray(model.item_factors, dtype=np.float64), new, penalty=3.0, alpha=4.0)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_without_the_package_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "implicit.als", None)
    method = method_named("als")
    with pytest.raises(
        ConfigError, match=r"implicit.als needs the package implicit; install it with `pip install 'igcf\[lab\]'`"
    ):
        method.build(task(), method.settings(), np.random.default_rng(0))


def elastic_net(Y: np.ndarray, item: int, l1: float, l2: float) -> np.ndarray:
    """Non-negative coordinate descent for one item until nothing moves."""
    w, gram = np.zeros(Y.shape[1]), Y.T @ Y
    for _ in range(200):
        for other in range(len(w)):
            if other != item:
                rest = gram[other, item] - gram[other] @ w + gram[other, other] * w[other]
                w[other] = max(0.0, rest - l1) / (gram[other, other] + l2)
    return w


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.5), (0.7, 3.0), (2.0, 20.0)])
def test_slim_is_the_non_negative_elastic_net_of_each_item_on_all_others(l1: float, l2: float) -> None:
    matrix = successes()
    weights = slim_weights(matrix, l1, l2, tolerance=1e-12)
    direct = np.column_stack([elastic_net(matrix.toarray(), item, l1, l2) for item in range(9)])
    np.testing.assert_allclose(weights, direct, atol=1e-6)
    if l1:
        assert 0 < np.count_nonzero(weights) < weights.size - 9


def test_slim_needs_a_positive_ridge() -> None:
    with pytest.raises(ConfigError, match="slim needs l1 of at least 0 and a positive l2"):
        slim_weights(successes(), 1.0, 0.0)


SETTINGS = {"factors": 3, "regularization": 0.2, "unobserved": 0.3, "exponent": 0.7, "iterations": 4}


def ials_objective(users: np.ndarray, items: np.ndarray, Y: np.ndarray) -> float:
    """The objective of `fit_ials`, pair by pair."""
    a, exponent = 0.3, 0.7
    found = 0.0
    for user, row in enumerate(Y):
        found += 0.2 * (row.sum() + a * Y.shape[1]) ** exponent * (users[user] ** 2).sum()
        for item, liked in enumerate(row):
            predicted = users[user] @ items[item]
            found += liked * (1.0 - predicted) ** 2 + a * predicted**2
    return found


def test_a_row_of_ials_minimises_its_objective() -> None:
    items, liked = np.random.default_rng(0).standard_normal((9, 3)), successes(5)
    users = ials_rows(items, liked, SETTINGS)
    least = ials_objective(users, items, liked.toarray())
    for user, factor in np.ndindex(users.shape):
        for step in (-1e-3, 1e-3):
            moved = users.copy()
            moved[user, factor] += step
            assert ials_objective(moved, items, liked.toarray()) > least


def test_penalties_of_ials_grow_with_the_number_of_likes() -> None:
    """Without the exponent all rows are penalised alike, so that an active user's vector is longer than with it."""
    items, liked = np.random.default_rng(0).standard_normal((9, 3)), sp.csr_array(np.ones((1, 9)))
    same, scaled = (ials_rows(items, liked, {**SETTINGS, "exponent": each}) for each in (0.0, 1.0))
    assert np.linalg.norm(scaled) < np.linalg.norm(same)


@pytest.mark.parametrize("name", ["item-knn", "ease", "slim", "graph-filter", "als", "ials", "mult-vae"])
def test_hidden_likes_of_known_users_are_found_far_more_often_than_by_popularity(name: str) -> None:
    """Training users as test users: half of what they liked is given, the rest is to be found among 24 items."""
    if name == "als":
        pytest.importorskip("implicit")
    world = task()
    liked = training_successes(world).toarray() > 0
    is_given = np.random.default_rng(3).random(liked.shape) < 0.5
    logged = [Logged(rows, np.full(len(rows), 5.0, np.float32)) for rows in map(np.flatnonzero, liked & is_given)]
    available = ~(liked & is_given)

    def found(method: str) -> float:
        learner: Any = method_named(method).build(
            world, method_named(method).settings(QUICK.get(method, {})), np.random.default_rng(0)
        )
        learner.begin(len(liked), rng=np.random.default_rng(0))
        learner.know(logged)
        return float(np.take_along_axis(liked, learner.select(available, 3), axis=1).mean())

    assert found(name) > 1.4 * found("pop-satisfied")
