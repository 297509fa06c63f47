"""Verdicts stay true however often one looks, and the plan's number of users suffices."""

import numpy as np
import pytest

from igcf.errors import ConfigError
from igcf.experiments.differences import MISMATCH, compare, mismatch_evidence, plan, radius
from tools.experiment_power import declared


def test_experiments_without_a_difference_seldom_declare_one_though_looked_at_after_every_100_users() -> None:
    rng = np.random.default_rng(1)
    assert declared((0.3, 0.3), 10_000, 300, every=100, rng=rng) <= 0.05


def test_a_lift_is_found_with_the_power_of_the_plan() -> None:
    rng = np.random.default_rng(2)
    found = plan(0.2, 0.3)
    assert declared((0.3, 0.36), found.users, 300, every=100, rng=rng) >= 0.9
    assert declared((0.3, 0.36), found.users // 4, 300, every=100, rng=rng) < 0.6


def test_the_simulation_draws_the_interval_that_reports_show() -> None:
    rng = np.random.default_rng(3)
    arm, control = (rng.random(400) < 0.5).astype(float), (rng.random(600) < 0.4).astype(float)
    found = compare(arm, control, planned_users=5_000)
    p, q = arm.mean(), control.mean()
    error = np.sqrt(p * (1 - p) / 399 + q * (1 - q) / 599)
    assert found.high - found.difference == pytest.approx(radius(error, 1_000, planned_users=5_000))
    assert found.difference == pytest.approx(p - q)


def test_arms_that_differ_are_better_or_worse_and_few_users_decide_nothing() -> None:
    ones, zeros = np.tile([1.0, 1.0, 0.0], 100), np.tile([1.0, 0.0, 0.0], 100)
    assert compare(ones, zeros).verdict == "better"
    assert compare(zeros, ones).verdict == "worse"
    assert compare(ones, ones).verdict == "undecided"
    assert compare(ones[:40], zeros).verdict == "undecided"


def test_the_check_of_the_assignment_finds_what_is_broken_and_nothing_else() -> None:
    rng = np.random.default_rng(4)
    shares = [0.5, 0.3, 0.2]
    alarms = 0
    for _ in range(300):
        counts = np.zeros(3, dtype=int)
        worst = 0.0
        for _ in range(50):
            counts += rng.multinomial(200, shares)
            worst = max(worst, mismatch_evidence(counts.tolist(), shares))
        alarms += worst >= 1 / MISMATCH
    assert alarms <= 2
    assert mismatch_evidence([5_300, 4_700], [0.5, 0.5]) >= 1 / MISMATCH
    assert mismatch_evidence([3, 0], [1.0, 0.0]) < 2
    assert mismatch_evidence([3, 1], [1.0, 0.0]) == np.inf


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"lift": 0.0, "rate": 0.3}, "lift is 0; expected any number but 0"),
        ({"lift": 0.05, "rate": 0.0}, "rate is 0; expected above 0"),
        ({"lift": 0.05, "rate": 3.0}, "rate is 3; pass a share between 0 and 1"),
        ({"lift": 3.0, "rate": 0.3}, "makes a rate of 0.3 1.2"),
        ({"lift": 0.05, "rate": 0.3, "power": 1.0}, "power is 1; expected between 0 and 1"),
        ({"lift": 1e-9, "rate": 0.3}, "takes more than"),
    ],
)
def test_a_plan_that_cannot_be_made_says_why(values: dict[str, float], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        plan(**values)
