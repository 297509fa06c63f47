import dataclasses
from typing import Any

import numpy as np
import pytest

from igcf.errors import ConfigError
from igcf.lab.theory.world import truncated_variance
from tests.lab.theory.worlds import small_assumptions, small_world


def test_a_world_has_the_constants_it_was_asked_for() -> None:
    world = small_world()
    for field in dataclasses.fields(world.assumptions):
        wanted, found = getattr(small_assumptions(), field.name), getattr(world.assumptions, field.name)
        assert found == pytest.approx(wanted)
    assert np.linalg.norm(world.items, axis=1).max() <= 1.5 + 1e-6


def test_items_have_the_covariance_that_the_assumption_asks_for() -> None:
    items = small_world(n_items=50_000).items
    np.testing.assert_allclose(np.linalg.eigvalsh(np.cov(items, rowvar=False)), 0.2, rtol=0.04)
    np.testing.assert_allclose(items.mean(axis=0), 0.0, atol=0.01)


def test_truncated_variance_agrees_with_rejection_sampling() -> None:
    draws = np.random.default_rng(0).normal(0.0, np.sqrt(0.5), (200_000, 3))
    kept = draws[np.linalg.norm(draws, axis=1) <= 1.2]
    assert kept.var() == pytest.approx(truncated_variance(0.5, 1.2, 3), rel=0.02)


def test_users_come_from_the_population() -> None:
    world = small_world()
    users = world.draw_users(50_000, np.random.default_rng(1))
    np.testing.assert_allclose(users.mean(axis=0), world.mean, atol=0.02)
    np.testing.assert_allclose(np.cov(users, rowvar=False), world.cov, atol=0.03)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"noise_var": 0.0}, "noise_var"),
        ({"noise_var": -1.0}, "noise_var"),
        ({"noise_var": float("nan")}, "noise_var"),
        ({"cov_low": 0.0}, "singular"),
        ({"cov_low": 2.0}, "cov_low <= cov_high"),
        ({"cov_high": float("inf")}, "cov_high"),
        ({"mean_norm": -1.0}, "mean_norm"),
        ({"radius": 0.0}, "radius"),
        ({"dim": 0}, "dim"),
        ({"dim": 2.5}, "dim"),
        ({"n_items": 0}, "n_items"),
        ({"items_low": 1.0}, "items_low"),
    ],
)
def test_impossible_worlds_are_refused(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        small_world(**changes)
