import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from igcf.lab.theory.bounds import gamma_t, informative_from, regret_bound, user_norm
from tests.lab.theory.worlds import small_assumptions, small_world

UNHURRIED = settings(deadline=None, max_examples=50)  # a busy machine is no failure


def test_bound_by_hand() -> None:
    """d = 1, N = 1, T = 1, all else 1: Gamma = 4 sqrt(log 4 / log 2) = 4 sqrt 2, I = log(2) / 2, B = 1 + 1."""
    bound = regret_bound(small_assumptions(dim=1, n_items=1, noise_var=1.0, radius=1.0, cov_low=1.0), 1)
    np.testing.assert_allclose(bound.gamma, 4 * np.sqrt(2))
    np.testing.assert_allclose(bound.failure, 2)
    np.testing.assert_allclose(bound.correct_prior, 4 * np.sqrt(np.log(2)) + 2)
    np.testing.assert_allclose(bound.printed, bound.correct_prior)  # a = 1 and d = 1: nothing to correct
    assert bound.trivial == 4
    assert bound.vacuous


@UNHURRIED
@given(st.floats(1.0, 10.0), st.integers(1, 10_000))
def test_long_items_widen_the_corrected_bound(radius: float, rounds: int) -> None:
    """The correction a^2 is what makes lambda_t <= a^2 lambda-bar true."""
    short, long = (
        regret_bound(small_assumptions(radius=each, items_low=0.01), rounds) for each in (radius, radius * 1.5)
    )
    assert long.correct_prior > short.correct_prior
    assert long.gamma > short.gamma


def test_the_largest_variance_can_exceed_what_the_paper_allows_but_not_the_corrected_limit() -> None:
    world = small_world(radius=2.0, items_low=0.5, n_items=2000)
    largest = np.einsum("nd,de,ne->n", world.items, world.cov, world.items).max()
    assert world.assumptions.cov_high < largest <= 4.0 * world.assumptions.cov_high


def test_the_bound_grows_like_the_square_root_of_the_rounds() -> None:
    rounds = np.array([10**6, 10**8])
    bounds = [regret_bound(small_assumptions(), int(t)).correct_prior for t in rounds]
    slope = np.log(bounds[1] / bounds[0]) / np.log(100)
    assert 0.5 < slope < 0.56  # the logarithms


@pytest.mark.parametrize("dim", [1, 8, 64])
def test_informative_from_is_where_the_sign_changes(dim: int) -> None:
    assumed = small_assumptions(dim=dim, items_low=0.01)
    first = informative_from(assumed)
    assert not regret_bound(assumed, first).vacuous
    assert first == 1 or regret_bound(assumed, first - 1).vacuous


def test_the_failure_term_covers_what_users_outside_the_interval_cost() -> None:
    """T times E sum_i (|score_i - mean_i| - width_i)+ at delta = 1 / (2 T): an exact Gaussian tail, far below B."""
    rounds, assumed = 50, small_assumptions()
    c = np.sqrt(2 * np.log(2 * assumed.n_items * 2 * rounds))
    draws = np.abs(np.random.default_rng(0).standard_normal(4_000_000))
    tail = np.maximum(draws - c, 0).mean() * assumed.radius * np.sqrt(assumed.cov_high)
    assert rounds * assumed.n_items * tail < regret_bound(assumed, rounds).failure


def test_user_norm_is_no_less_than_the_mean_norm_of_users() -> None:
    world = small_world()
    norms = np.linalg.norm(world.draw_users(20_000, np.random.default_rng(0)), axis=1)
    assert norms.mean() <= user_norm(world.assumptions)


def test_gamma_of_the_bound_is_that_of_the_theorem_at_half_a_failure_in_all_rounds() -> None:
    bound = regret_bound(small_assumptions(), 100)
    np.testing.assert_allclose(bound.gamma, gamma_t(1.5**2, 0.25, 60, 1 / 200))
