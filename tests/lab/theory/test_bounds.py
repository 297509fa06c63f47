import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from igcf.arrays import AnyFloatArray, FloatArray
from igcf.lab.theory.bounds import (
    ellipsoid_factor,
    gamma_t,
    good_event,
    max_information_gain,
    mutual_information,
    nu_t,
    union_factor,
)
from igcf.online import Belief, InfoUcb, ScoringEngine
from tests.lab.theory.worlds import small_assumptions, small_world

ML_1M = 3706
VARIANCES = st.lists(st.floats(0.0, 100.0), min_size=1, max_size=20)
NOISE = st.floats(1e-3, 100.0)
DELTAS = st.floats(1e-6, 1 - 1e-6)


def information_gain(cov: FloatArray, X: FloatArray, noise_var: float) -> float:
    """What all rows of `X` reveal together: log det(I + X cov X' / noise_var) / 2."""
    return float(np.linalg.slogdet(np.eye(len(X)) + X @ cov @ X.T / noise_var)[1] / 2.0)


def information_width(var: AnyFloatArray, noise_var: float, delta: float) -> FloatArray:
    """The half-width Gamma_t / 2 * sqrt(I) of thm:ucb; the last axis of `var` runs over the candidates."""
    gammas = [gamma_t(float(row.max()), noise_var, var.shape[-1], delta) for row in np.atleast_2d(var)]
    return np.asarray(np.reshape(gammas, (*var.shape[:-1], 1)) / 2.0 * np.sqrt(mutual_information(var, noise_var)))


UNHURRIED = settings(deadline=None, max_examples=50)  # a busy machine is no failure


def test_mutual_information_is_the_entropy_that_an_observation_removes() -> None:
    """h(user) - h(user | reward) = (log det cov - log det updated cov) / 2."""
    world = small_world()
    x = world.items[3]
    before, after = world.prior, world.prior.updated(x, 0.7, world.noise_var)
    removed = (np.linalg.slogdet(before.cov)[1] - np.linalg.slogdet(after.cov)[1]) / 2
    np.testing.assert_allclose(mutual_information(x @ world.cov @ x, world.noise_var), removed)


def test_mutual_information_agrees_with_a_monte_carlo_estimate() -> None:
    """I = E log p(r | user) - log p(r), with both densities known."""
    rng = np.random.default_rng(0)
    var, noise_var = 0.8, 0.3
    signal = rng.normal(0.0, np.sqrt(var), 200_000)
    reward = signal + rng.normal(0.0, np.sqrt(noise_var), signal.size)
    given_user = -np.log(noise_var) / 2 - (reward - signal) ** 2 / (2 * noise_var)
    alone = -np.log(var + noise_var) / 2 - reward**2 / (2 * (var + noise_var))
    np.testing.assert_allclose(np.mean(given_user - alone), mutual_information(var, noise_var), atol=0.01)


def test_information_gain_is_the_sum_over_rounds() -> None:
    world = small_world()
    belief: Belief = world.prior
    total = 0.0
    for x in world.items[:6]:
        total += float(mutual_information(x @ belief.cov @ x, world.noise_var))
        belief = belief.updated(x, 0.0, world.noise_var)
    np.testing.assert_allclose(information_gain(world.cov, world.items[:6], world.noise_var), total)


@UNHURRIED
@given(st.integers(0, 1000), st.integers(1, 40))
def test_no_items_reveal_more_than_the_most(seed: int, rounds: int) -> None:
    world = small_world(seed=seed % 5)
    shown = np.random.default_rng(seed).integers(len(world.items), size=rounds)
    gain = information_gain(world.cov, world.items[shown], world.noise_var)
    assert gain <= max_information_gain(world.assumptions, rounds) * (1 + 1e-9)


def test_the_information_bound_of_the_paper_needs_short_items() -> None:
    """One item of length a = 3 and cov = I reveal log(1 + 9) / 2; without a^2 the bound would be log(1 + 1) / 2."""
    assumed = small_assumptions(dim=1, radius=3.0, cov_low=1.0, noise_var=1.0)
    exact = information_gain(np.eye(1), np.array([[3.0]]), 1.0)
    np.testing.assert_allclose(max_information_gain(assumed, 1), exact)
    assert exact > 0.5 * np.log(1 + assumed.cov_high * 1 / assumed.noise_var)


def test_width_by_hand() -> None:
    """noise 0.5, lambda_t = 2, var = 0.1, 3706 items, delta 0.05: 2.32, the plain Gaussian union bound has 1.54."""
    var = np.full(ML_1M, 0.1)
    var[0] = 2.0
    width = information_width(var, 0.5, 0.05)
    assert round(float(width[1]), 2) == 2.32
    assert round(union_factor(ML_1M, 0.05) * np.sqrt(0.1), 2) == 1.54


@pytest.mark.parametrize(("ratio", "nu"), [(0.001, 4.88), (0.1, 5.0), (1, 5.9), (10, 10.0), (100, 22.7)])
def test_nu_for_movielens(ratio: float, nu: float) -> None:
    assert abs(nu_t(ratio * 0.3, 0.3, ML_1M, 0.05) - nu) < 0.06


def test_gamma_is_continuous_at_certainty() -> None:
    np.testing.assert_allclose(gamma_t(0.0, 0.3, 10, 0.1), gamma_t(1e-12, 0.3, 10, 0.1), rtol=1e-9)
    np.testing.assert_allclose(nu_t(0.0, 0.3, 10, 0.1), union_factor(10, 0.1))


@UNHURRIED
@given(VARIANCES, NOISE, DELTAS)
def test_the_width_is_the_union_bound_at_the_largest_variance_and_wider_elsewhere(
    var: list[float], noise_var: float, delta: float
) -> None:
    spread = np.array(var)
    width, plain = information_width(spread, noise_var, delta), union_factor(len(var), delta) * np.sqrt(spread)
    assert (width >= plain * (1 - 1e-9) - 1e-12).all()
    np.testing.assert_allclose(width[spread.argmax()], plain[spread.argmax()], rtol=1e-7, atol=1e-12)


@UNHURRIED
@given(VARIANCES, NOISE, DELTAS)
def test_linucb_is_an_upper_bound_of_the_width(var: list[float], noise_var: float, delta: float) -> None:
    """eq:UCB2 from log(1 + x) <= x; an inequality, so the two do not rank items alike."""
    spread = np.array(var)
    nu = nu_t(float(spread.max()), noise_var, len(var), delta)
    assert (information_width(spread, noise_var, delta) <= nu * np.sqrt(spread) * (1 + 1e-9) + 1e-12).all()


def test_the_policy_uses_this_width() -> None:
    world = small_world()
    engine = ScoringEngine(world.model(), 2, dtype=np.float64)
    engine.observe(np.array([1, 2]), np.array([0.3, -0.2]))
    everything = np.ones((2, len(world.items)), dtype=np.bool_)
    scores = InfoUcb(0.1).scores(engine, everything, rng=np.random.default_rng(0))
    np.testing.assert_allclose(scores - engine.means, information_width(engine.variances, world.noise_var, 0.1))


def test_the_ellipsoid_covers_all_directions_with_exactly_the_promised_probability() -> None:
    norms = np.linalg.norm(np.random.default_rng(0).standard_normal((100_000, 5)), axis=1)
    assert abs(np.mean(norms > ellipsoid_factor(5, 0.1)) - 0.1) < 0.005


@pytest.mark.parametrize(("n_meta", "dim", "ratio"), [(3020, 32, 8.0), (3020, 128, 15.1), (30632, 32, 2.6)])
def test_gamma_of_the_lemma_is_far_wider_than_the_population(n_meta: int, dim: int, ratio: float) -> None:
    assert abs(good_event(dim, 1.0, n_meta, 120).gamma - ratio) < 0.06


def test_good_event_by_hand() -> None:
    """d = 2, M = 101, T = 3, lambda-bar = 2: L = 10 + 2 log(2 * 101 * 3 / 3), and M - 1 = 100 under the root."""
    event = good_event(2, 2.0, 101, 3)
    complexity = 10 + 2 * np.log(202)
    np.testing.assert_allclose(event.gamma, 64 * np.sqrt(complexity / 100))
    np.testing.assert_allclose(event.c_1, 2 * (4 + 3 * np.log(606)))
    np.testing.assert_allclose(np.sqrt(event.c_2 / 101), 2 * event.gamma)
    np.testing.assert_allclose(event.failure, 9 / (101 * 2 * 3))
    assert event.holds
    assert not good_event(2, 2.0, 10, 3).holds
