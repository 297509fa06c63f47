from typing import Any

import numpy as np
import pytest

from igcf.lab.theory.bounds import max_information_gain, regret_bound
from igcf.lab.theory.simulate import (
    Run,
    UniformChoice,
    draw_crowd,
    fit_exponent,
    meta_belief,
    simulate_regret,
)
from igcf.online import Belief, Greedy, InfoUcb, Policy, Thompson, Ucb
from tests.lab.theory.test_bounds import information_gain
from tests.lab.theory.worlds import small_world

WORLD = small_world()
CROWD = draw_crowd(WORLD, 80, 200, np.random.default_rng(1))


def run(policy: Policy, **options: Any) -> Run:
    return simulate_regret(WORLD, policy, CROWD, rng=np.random.default_rng(2), **options)


@pytest.mark.parametrize("repeats", [True, False])
@pytest.mark.parametrize("policy", [InfoUcb(1 / 400), Ucb(2.0), Thompson()], ids=lambda policy: type(policy).__name__)
def test_regret_of_ucb_and_thompson_grows_slower_than_the_rounds(policy: Policy, repeats: bool) -> None:
    world = small_world(n_items=250)
    played = simulate_regret(world, policy, CROWD, repeats=repeats, rng=np.random.default_rng(2))
    assert fit_exponent(played, np.random.default_rng(3))["high"] < 0.8


@pytest.mark.parametrize("repeats", [True, False])
def test_regret_of_random_choice_grows_with_the_rounds(repeats: bool) -> None:
    world = small_world(n_items=1000)
    played = simulate_regret(world, UniformChoice(), CROWD, repeats=repeats, rng=np.random.default_rng(2))
    assert fit_exponent(played, np.random.default_rng(3))["value"] == pytest.approx(1.0, abs=0.05)


def test_greedy_can_stop_learning_when_items_come_again() -> None:
    assert fit_exponent(run(Greedy()), np.random.default_rng(0))["value"] > 0.85


def test_the_bound_for_the_correct_prior_holds_at_every_round() -> None:
    curve = run(InfoUcb(1 / 400)).curve
    for t in (1, 2, 5, 20, 100, 200):
        assert curve[t - 1] <= regret_bound(WORLD.assumptions, t).correct_prior


def test_regret_is_never_negative_and_items_come_once_when_asked() -> None:
    world = small_world(n_items=200)
    played = simulate_regret(world, Thompson(), CROWD, repeats=False, rng=np.random.default_rng(0))
    assert (played.regret >= 0).all()
    assert all(len(set(row)) == 200 for row in played.shown.tolist())


def test_information_is_that_of_the_items_shown() -> None:
    played = run(Ucb(1.0))
    exact = information_gain(WORLD.cov, WORLD.items[played.shown[4]], WORLD.noise_var)
    np.testing.assert_allclose(played.information[4], exact, rtol=1e-6)
    assert (played.information <= max_information_gain(WORLD.assumptions, 200)).all()


def test_the_estimated_prior_approaches_the_correct_one_with_more_users() -> None:
    rng = np.random.default_rng(0)
    correct = run(Thompson()).total.mean()
    excess = []
    for n_meta in (3, 8, 200):
        priors = [meta_belief(WORLD.draw_users(n_meta, rng)) for _ in range(80)]
        excess.append(run(Thompson(), prior=priors).total.mean() - correct)
    assert excess[0] > 3 * abs(excess[1])
    assert abs(excess[2]) < 0.15 * correct


def test_a_wrong_prior_costs_regret() -> None:
    wrong = Belief(-WORLD.mean, 0.1 * np.eye(4))
    assert run(Thompson(), prior=wrong).total.mean() > 1.5 * run(Thompson()).total.mean()


def test_one_prior_for_all_equals_the_same_prior_for_each() -> None:
    one = run(Ucb(1.0), prior=WORLD.prior)
    each = run(Ucb(1.0), prior=[WORLD.prior] * 80)
    np.testing.assert_array_equal(one.shown, each.shown)


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_the_exponent_of_a_power_law_is_found(power: float) -> None:
    curve = np.arange(1, 401) ** power
    regret = np.tile(np.diff(curve, prepend=0.0), (5, 1))
    exponent = fit_exponent(Run(regret, np.zeros((5, 400), dtype=int), np.zeros(5)), np.random.default_rng(0))
    assert exponent["low"] <= exponent["value"] + 1e-9
    assert exponent["value"] == pytest.approx(power)


def test_a_policy_without_regret_has_exponent_zero() -> None:
    nothing = Run(np.zeros((5, 40)), np.zeros((5, 40), dtype=int), np.zeros(5))
    assert fit_exponent(nothing, np.random.default_rng(0))["value"] == 0.0


def test_same_seed_same_regret() -> None:
    np.testing.assert_array_equal(run(Thompson()).regret, run(Thompson()).regret)
