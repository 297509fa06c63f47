"""Which reaction did what, at any length of a history."""

import time
import tracemalloc

import numpy as np
import pytest

from igcf.model import Model
from igcf.online import Recommender
from igcf.online.explaining import parts_of_mean
from igcf.online.learning import beliefs_along
from tests.toys import ensemble_model, random_model, two_channel_model


def history(model: Model, n: int, *, seed: int = 0) -> tuple[list[int], list[float]]:
    rng = np.random.default_rng(seed)
    values = rng.uniform(model.reward.low, model.reward.high, n)
    values[rng.random(n) < 0.1] = np.nan
    return rng.integers(model.n_items, size=n).tolist(), values.tolist()


@pytest.mark.parametrize("forgetting", [1.0, 0.95])
@pytest.mark.parametrize("n", [1, 3, 200])
@pytest.mark.parametrize("model", [random_model(), random_model(singular=True), two_channel_model(), ensemble_model()])
def test_contributions_are_the_differences_that_reactions_made(model: Model, n: int, forgetting: float) -> None:
    shown = (*history(model, n), forgetting)
    parts = parts_of_mean(model, None, 5, *shown)
    means = [model.expected_of(mean, 5) for mean, _ in beliefs_along(model, *shown)]
    np.testing.assert_allclose(parts.prior + np.cumsum(parts.shown), means, atol=1e-12)
    assert parts.total == pytest.approx(means[-1], abs=1e-12)


def test_the_memory_of_an_explanation_grows_with_the_history_only() -> None:
    model, n = ensemble_model(dim=24), 3000
    rows, values = history(model, n)
    tracemalloc.start()
    try:
        parts_of_mean(model, None, 5, rows, values)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * 8 * n * model.dim  # all beliefs take 8 n d^2


def test_the_time_of_an_explanation_grows_with_the_history_and_not_with_its_square() -> None:
    model = random_model(n_items=6_500, dim=24)

    def seconds(n: int) -> float:
        session = Recommender(model).session([(f"item-{row}", 1.0) for row in range(n)])
        times = []
        for _ in range(5):
            started = time.process_time()
            session.explain("item-6400")
            times.append(time.process_time() - started)
        return min(times)

    assert seconds(6_000) < 60 * seconds(200)  # 30 times as many reactions
