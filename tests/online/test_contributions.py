"""Which reaction did what, at any length of a history."""

import tracemalloc

import numpy as np
import pytest

from igcf.arrays import FloatArray
from igcf.model import Model
from igcf.online.learning import beliefs_along, contributions, evidence
from tests.toys import ensemble_model, random_model, two_channel_model


def history(model: Model, n: int, *, seed: int = 0) -> tuple[list[int], list[float]]:
    rng = np.random.default_rng(seed)
    values = rng.uniform(model.reward.low, model.reward.high, n)
    values[rng.random(n) < 0.1] = np.nan
    return rng.integers(model.n_items, size=n).tolist(), values.tolist()


def by_solving_for_all_reactions(
    model: Model, rows: list[int], values: list[float], forgetting: float, item_row: int
) -> FloatArray:
    """The definition: k_s a_s with a = M^-1 (rewards - X m0), M = X S0 X' + noise."""
    x = model.item_vectors[item_row].astype(np.float64)
    X, rewards, noise = evidence(model, rows, values, forgetting)
    surprise = np.linalg.solve(X @ model.prior_cov @ X.T + np.diag(noise), rewards - X @ model.prior_mean)
    return np.asarray((X @ (model.prior_cov @ x) * surprise).reshape(len(rows), -1).sum(axis=1))


@pytest.mark.parametrize("forgetting", [1.0, 0.95])
@pytest.mark.parametrize("n", [1, 3, 200])
@pytest.mark.parametrize(
    "model", [random_model(), random_model(singular=True), random_model(noise_var=1e-4), two_channel_model()]
)
def test_linear_contributions_are_those_of_the_definition(model: Model, n: int, forgetting: float) -> None:
    rows, values = history(model, n)
    prior, amounts = contributions(model, rows, values, forgetting, 5)
    expected = by_solving_for_all_reactions(model, rows, values, forgetting, 5)
    np.testing.assert_allclose(amounts, expected, atol=1e-9 * max(1.0, np.abs(expected).max()))
    *_, last = beliefs_along(model, rows, values, forgetting)
    assert prior + amounts.sum() == pytest.approx(model.expected_of(last.mean, 5), abs=1e-7)


@pytest.mark.parametrize("forgetting", [1.0, 0.95])
@pytest.mark.parametrize("n", [1, 3, 1500])
def test_other_contributions_are_the_differences_that_reactions_made(n: int, forgetting: float) -> None:
    model = ensemble_model()
    rows, values = history(model, n)
    prior, amounts = contributions(model, rows, values, forgetting, 5)
    means = [model.expected_of(belief.mean, 5) for belief in beliefs_along(model, rows, values, forgetting)]
    np.testing.assert_allclose(prior + np.cumsum(amounts), means, atol=1e-12)


@pytest.mark.parametrize("model", [random_model(dim=24), ensemble_model(dim=24)], ids=["linear", "ensemble"])
def test_the_memory_of_an_explanation_grows_with_the_history_only(model: Model) -> None:
    n = 3000
    rows, values = history(model, n)
    tracemalloc.start()
    try:
        contributions(model, rows, values, 1.0, 5)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * 8 * n * model.dim  # a matrix of all pairs takes 8 n^2 bytes, all beliefs 8 n d^2
