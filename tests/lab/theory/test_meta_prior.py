import numpy as np
import pytest

from igcf.lab.theory.simulate import fitted_slope, meta_belief, simulate_meta_prior
from tests.lab.theory.worlds import small_world

SIZES = (10, 40, 160, 640)


def test_errors_fall_like_one_over_the_root_of_the_number_of_users() -> None:
    rows = simulate_meta_prior(small_world(), sizes=SIZES, rounds=100, repeats=60, rng=np.random.default_rng(0))
    assert fitted_slope(SIZES, [row["mean_error"] for row in rows]) == pytest.approx(-0.5, abs=0.06)
    assert fitted_slope(SIZES, [row["cov_error"] for row in rows]) == pytest.approx(-0.5, abs=0.08)


def test_the_good_event_never_fails_and_its_bounds_are_loose() -> None:
    rows = simulate_meta_prior(small_world(), sizes=SIZES, rounds=100, repeats=60, rng=np.random.default_rng(0))
    for row in rows:
        assert row["failures"] == 0
        assert row["mean_error"] <= row["mean_worst"] < row["mean_bound"]
        assert row["cov_error"] <= row["cov_worst"] < row["cov_bound"]
    assert [row["condition_holds"] for row in rows] == [False, True, True, True]


def test_the_mean_square_error_of_the_mean_is_exact() -> None:
    """E |error|^2 = trace(cov) / M."""
    world, rng = small_world(), np.random.default_rng(0)
    errors = [np.sum((meta_belief(world.draw_users(20, rng)).mean - world.mean) ** 2) for _ in range(2000)]
    assert np.mean(errors) == pytest.approx(np.trace(world.cov) / 20, rel=0.05)


def test_the_divisor_makes_the_covariance_unbiased() -> None:
    world, rng = small_world(), np.random.default_rng(0)
    mean_cov = np.mean([meta_belief(world.draw_users(5, rng)).cov for _ in range(5000)], axis=0)
    np.testing.assert_allclose(mean_cov, world.cov, atol=0.05)


def test_a_prior_of_two_users_is_singular_and_widening_repairs_it() -> None:
    vectors = small_world().draw_users(2, np.random.default_rng(0))
    assert np.linalg.eigvalsh(meta_belief(vectors).cov)[0] == pytest.approx(0.0, abs=1e-12)
    assert np.linalg.eigvalsh(meta_belief(vectors, 0.3).cov)[0] == pytest.approx(0.3)


def test_one_dimension_works() -> None:
    assert meta_belief(np.array([[1.0], [3.0]])).cov.tolist() == [[2.0]]
