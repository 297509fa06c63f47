"""Estimates from logs against worlds whose values are known."""

import numpy as np
import pytest

from igcf.errors import DataError
from igcf.experiments.off_policy import Evaluation, LoggedSlates, direct_method, evaluate

N_ITEMS = 5


def world(n: int, share: float, rng: np.random.Generator, *, other: int = 1, users: int | None = None) -> LoggedSlates:
    """Single items: the log shows item 0 or, with probability `share`, any of five; the candidate always `other`."""
    success = np.array([0.3, 0.5, 0.2, 0.6, 0.1])
    items = np.where(rng.random(n) < share, rng.integers(N_ITEMS, size=n), 0)
    propensities = share / N_ITEMS + (1 - share) * (items == 0)
    chosen = (items == other).astype(np.float64)
    columns = {
        "rewards": (rng.random(n) < success[items]).astype(np.float64),
        "propensities": propensities,
        "slot_propensities": propensities,
        "candidate": chosen,
        "candidate_slots": chosen,
        "expected": 0.5 * success[items] + 0.1,
        "own": np.full(n, 0.5 * success[min(other, N_ITEMS - 1)] + 0.1),
    }
    owners = None if users is None else np.arange(n) % users
    return LoggedSlates(**{name: column[:, None] for name, column in columns.items()}, users=owners)


def by_name(found: Evaluation) -> dict[str, float]:
    return {each.name: each.value for each in found.estimates}


def test_estimates_hit_the_true_value_and_intervals_cover_it() -> None:
    rng, inside, n_refused = np.random.default_rng(0), [], 0
    errors: dict[str, list[float]] = {}
    for _ in range(300):
        found = evaluate(world(4_000, 0.4, rng))
        n_refused += found.refusal is not None
        for each in found.estimates:
            errors.setdefault(each.name, []).append(each.value - 0.5)
            inside.append(each.low <= 0.5 <= each.high)
    assert set(errors) == {"ips, clipped", "self-normalised ips", "doubly robust"}
    assert all(abs(np.mean(each)) < 0.005 for each in errors.values())
    assert 0.92 < np.mean(inside) < 0.98
    assert n_refused <= 15
    assert np.std(errors["doubly robust"]) < np.std(errors["ips, clipped"])


def test_the_verdict_is_about_the_difference_from_what_was_logged() -> None:
    """The log achieves 0.7 * 0.3 + 0.3 * 0.34 = 0.312."""
    found = evaluate(world(20_000, 0.3, np.random.default_rng(1), other=0))
    assert found.difference.low < 0.3 - 0.312 < found.difference.high
    better = evaluate(world(20_000, 0.3, np.random.default_rng(1), other=3))
    assert better.verdict == "better"
    assert evaluate(world(20_000, 0.3, np.random.default_rng(1), other=4)).verdict == "worse"


def test_what_the_log_never_shows_allows_no_conclusion() -> None:
    found = evaluate(world(5_000, 0.4, np.random.default_rng(2), other=9))
    assert found.refusal is not None
    assert found.refusal.startswith("no conclusion: the log never shows about 100%")
    assert found.verdict == "undecided"
    assert found.diagnostics[0].missing == 1.0
    few = evaluate(world(200, 0.05, np.random.default_rng(3)))
    assert few.refusal is not None
    assert "no conclusion: " in few.refusal


def test_a_log_without_exploration_allows_no_conclusion_about_another_policy() -> None:
    found = evaluate(world(5_000, 0.0, np.random.default_rng(2)))
    assert found.refusal is not None


def test_a_log_without_propensities_is_refused_in_one_sentence() -> None:
    log = world(50, 0.4, np.random.default_rng(4))
    log.propensities[:] = np.nan
    with pytest.raises(DataError, match="none of 50 answers has propensities; log them with"):
        evaluate(log)


def test_answers_without_propensities_are_left_out() -> None:
    log = world(5_000, 0.4, np.random.default_rng(4))
    log.propensities[:100] = np.nan
    assert evaluate(log).answers == 4_900


def test_answers_to_one_user_count_together() -> None:
    """Each of 4,000 answers ten times, by the same user: the interval is that of the 4,000."""
    log = world(4_000, 0.4, np.random.default_rng(5))
    repeated = log.at(np.repeat(np.arange(4_000), 10))
    users = np.repeat(np.arange(4_000), 10)
    grouped = LoggedSlates(**{**vars(repeated), "users": users})
    width = [evaluate(each).difference.high - evaluate(each).difference.low for each in (log, grouped, repeated)]
    assert width[1] == pytest.approx(width[0], rel=0.02)
    assert width[2] < 0.4 * width[0]


def test_the_direct_method_never_predicts_a_reward_from_itself() -> None:
    log = world(1_000, 0.4, np.random.default_rng(6))
    before, _ = direct_method(log)
    log.rewards[7] = 100.0
    after, _ = direct_method(log)
    assert after[7] == before[7]
    assert after[8] != before[8]


def slates(n: int, rng: np.random.Generator, *, effect: float) -> tuple[LoggedSlates, float]:
    """Slates of two out of three items; a success in slot 2 is less likely by `effect` below item 0.

    The log draws its items one after the other with equal probability, the candidate shows item 1 and then item 0 with
    probability 0.7, else item 0 and then item 2.
    """
    success = np.array([0.5, 0.3, 0.6])
    first = rng.integers(3, size=n)
    second = (first + 1 + rng.integers(2, size=n)) % 3
    chance = success[second] - effect * (first == 0)
    rewards = np.stack([rng.random(n) < success[first], rng.random(n) < chance], axis=1).astype(np.float64)
    given = np.stack([np.choose(first, [0.3, 0.7, 0.0]), np.where(first == 1, second == 0, second == 2)], axis=1)
    given[first == 2, 1] = 0.5
    slots = np.stack([given[:, 0], np.choose(second, [0.7, 0.0, 0.3])], axis=1)
    own = np.tile([0.7 * 0.3 + 0.3 * 0.5, 0.7 * 0.5 + 0.3 * 0.6], (n, 1))
    expected = success[np.stack([first, second], axis=1)]
    odds = np.tile([1 / 3, 1 / 2], (n, 1)), np.full((n, 2), 1 / 3)
    true = own[0].sum() - 0.3 * effect
    return LoggedSlates(rewards, *odds, given, slots, expected, own), float(true)


def test_slates_without_an_influence_of_the_items_above_are_estimated_by_both_models() -> None:
    log, true = slates(200_000, np.random.default_rng(7), effect=0.0)
    for name, value in by_name(evaluate(log)).items():
        assert value == pytest.approx(true, rel=0.015), name


def test_only_the_cascade_sees_what_the_items_above_do() -> None:
    log, true = slates(200_000, np.random.default_rng(8), effect=0.4)
    found = by_name(evaluate(log))
    assert found["cascade doubly robust"] == pytest.approx(true, rel=0.015)
    assert abs(found["item-position doubly robust"] - true) > 0.01


def test_without_slot_propensities_the_cascade_alone_is_estimated() -> None:
    log, true = slates(50_000, np.random.default_rng(9), effect=0.2)
    log.slot_propensities[3] = np.nan
    found = by_name(evaluate(log))
    assert all(name.startswith("cascade") for name in found)
    assert found["cascade doubly robust"] == pytest.approx(true, rel=0.03)


def test_answers_of_different_lengths_count_by_their_slots() -> None:
    log, _ = slates(50_000, np.random.default_rng(10), effect=0.0)
    for column in vars(log).values():
        if column is not None:
            column[:25_000, 1] = np.nan
    true = 0.7 * 0.3 + 0.3 * 0.5 + 0.5 * (0.7 * 0.5 + 0.3 * 0.6)
    for name, value in by_name(evaluate(log)).items():
        assert value == pytest.approx(true, rel=0.03), name
