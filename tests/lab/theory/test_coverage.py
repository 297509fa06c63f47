import numpy as np
import pytest

from igcf.lab.theory.simulate import failure_rate, simulate_coverage
from igcf.online import Belief
from tests.lab.theory.worlds import small_world

DELTAS = (0.05, 0.2, 0.5)


@pytest.mark.parametrize(("dim", "n_items", "items_low"), [(1, 1, 0.5), (2, 30, 0.4), (4, 100, 0.2), (16, 300, 0.06)])
def test_coverage_is_at_least_one_minus_delta(dim: int, n_items: int, items_low: float) -> None:
    world = small_world(dim=dim, n_items=n_items, items_low=items_low)
    seen = (0,) if n_items == 1 else (0, 10)
    rows = simulate_coverage(world, deltas=DELTAS, seen=seen, n_users=600, rng=np.random.default_rng(1))
    assert len(rows) == len(DELTAS) * len(seen)
    for row in rows:
        assert row["information"]["rate"] <= row["delta"]
        assert row["union"]["rate"] <= row["delta"]
        assert row["ellipsoid"]["low"] <= row["delta"]
        assert row["information"]["rate"] <= row["union"]["rate"]  # the theorem's interval is never narrower
        assert row["nu_theorem"] >= row["nu_union"] >= row["nu_needed"]


def test_the_theorem_is_very_conservative() -> None:
    rows = simulate_coverage(small_world(), deltas=(0.5,), seen=(0,), n_users=1000, rng=np.random.default_rng(0))
    assert rows[0]["information"]["high"] < 0.05


def test_in_one_dimension_the_ellipsoid_is_exact() -> None:
    rows = simulate_coverage(
        small_world(dim=1, items_low=0.5), deltas=DELTAS, seen=(0, 5), n_users=2000, rng=np.random.default_rng(0)
    )
    for row in rows:
        assert row["ellipsoid"]["low"] <= row["delta"] <= row["ellipsoid"]["high"]
        assert row["nu_needed"] == pytest.approx(row["nu_ellipsoid"], rel=0.1)


def test_a_prior_that_is_too_narrow_loses_the_guarantee() -> None:
    world = small_world()
    narrow = Belief(world.mean, world.cov / 25)
    row = simulate_coverage(world, deltas=(0.05,), seen=(0,), n_users=300, prior=narrow, rng=np.random.default_rng(0))[
        0
    ]
    assert row["information"]["low"] > 0.05


def test_same_seed_same_coverage() -> None:
    first, second = (
        simulate_coverage(small_world(), deltas=(0.5,), seen=(3,), n_users=300, rng=np.random.default_rng(7))
        for _ in range(2)
    )
    assert first == second


def test_the_interval_of_a_rate_by_hand() -> None:
    """No failure in n: the upper end solves (1 - p)^n = 0.025."""
    none = failure_rate(np.zeros(100, dtype=np.bool_))
    assert (none["rate"], none["low"]) == (0.0, 0.0)
    assert none["high"] == pytest.approx(1 - 0.025 ** (1 / 100))
    every = failure_rate(np.ones(100, dtype=np.bool_))
    assert every["high"] == 1.0
    assert every["low"] == pytest.approx(1 - none["high"])


def test_the_interval_of_a_rate_contains_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    rates = [failure_rate(rng.random(200) < 0.1) for _ in range(500)]
    assert np.mean([rate["low"] <= 0.1 <= rate["high"] for rate in rates]) >= 0.93
