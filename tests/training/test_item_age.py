from dataclasses import replace

import numpy as np
import pytest

from igcf.config import ExpertsConfig
from igcf.data import Interactions, synthetic_catalogue
from igcf.model import Reward
from igcf.training.experts import LinearExpert, LogisticExpert, fit_experts
from igcf.training.experts.choosing import TEMPERATURES, best_choice
from igcf.training.experts.fitting import Fits
from igcf.training.experts.item_age import (
    LARGEST_SHARE,
    PRIOR_USERS,
    age_corrected_linear,
    age_corrected_logistic,
    growth_since_appearance,
)
from igcf.training.experts.shared_log import SharedLog
from igcf.training.selection import held_out_users, interactive_precision

SMALL = ExpertsConfig(satisfied=4.0, iterations=2, logistic_dim=4, linear_dim=4, holdout=0.0)


def log_with_a_late_item(n_users: int = 40) -> Interactions:
    """Users come one after the other and meet items 0 and 1; the last four also meet item 2, nobody meets item 3."""
    pairs = [(user, item) for user in range(n_users) for item in ((0, 1, 2) if user >= n_users - 4 else (0, 1))]
    users, items = np.array(pairs).T
    values = np.where((users + items) % 3 == 0, 2.0, 5.0)
    return Interactions(
        name="late",
        user_ids=tuple(f"u{user}" for user in range(n_users)),
        item_ids=("a", "b", "late", "never"),
        user_idx=users,
        item_idx=items,
        values=values,
        timestamps=np.arange(len(users)),
    )


def test_an_item_that_appeared_late_is_judged_by_what_came_after_its_first_reaction() -> None:
    log = log_with_a_late_item()
    growth = growth_since_appearance(SharedLog.of(log))
    assert growth is not None
    users_after = 40 * (1 - 74 / 84)  # its first reaction is the 75th of 84
    np.testing.assert_allclose(growth[2] * 4 / 40, (3 + PRIOR_USERS * 4 / 40) / (users_after + PRIOR_USERS))
    assert growth[2] > 3


def test_an_item_that_was_always_there_and_one_never_met_stay_as_they_are() -> None:
    growth = growth_since_appearance(SharedLog.of(log_with_a_late_item()))
    assert growth is not None
    np.testing.assert_array_equal(growth[[0, 1, 3]], 1.0)


def test_one_late_reaction_does_not_make_a_late_item() -> None:
    log = log_with_a_late_item()
    once = replace(log, item_idx=np.where(np.arange(len(log)) == len(log) - 1, 3, log.item_idx))
    growth = growth_since_appearance(SharedLog.of(once))
    assert growth is not None
    assert growth[3] == 1.0


def test_without_all_times_nothing_is_corrected() -> None:
    log = log_with_a_late_item()
    untimed = replace(log, timestamps=None)
    assert growth_since_appearance(SharedLog.of(untimed)) is None
    plain, asked = (fit_experts(untimed, replace(SMALL, item_age_correction=flag)) for flag in (False, True))
    np.testing.assert_array_equal(plain.item_vectors, asked.item_vectors)
    assert plain.metadata["chosen"]["item_age_correction"] is asked.metadata["chosen"]["item_age_correction"] is False


def test_the_linear_expert_expects_more_and_is_less_sure_of_it() -> None:
    loadings = np.array([[0.1], [0.2], [0.1], [0.2]])
    means = np.array([0.1, 0.2, 0.3, 0.6])
    expert = LinearExpert(means, loadings, means * (1 - means) - loadings[:, 0] ** 2)
    grown = age_corrected_linear(expert, np.array([4.0, 2.0]))
    np.testing.assert_allclose(grown.means, [0.4, 0.4, LARGEST_SHARE, LARGEST_SHARE])
    np.testing.assert_allclose(grown.residuals, [0.23, 0.20, 0.08, 0.05])
    np.testing.assert_array_equal(grown.loadings, loadings)


def test_the_logistic_expert_moves_what_is_seen_and_leaves_what_is_liked() -> None:
    share = np.array([0.1, 0.3])
    vectors = np.zeros((2, 2, 3))
    vectors[0, :, -1] = np.log(share / (1 - share))
    grown = age_corrected_logistic(LogisticExpert(vectors), np.array([5.0, 1.0]), share)
    np.testing.assert_allclose(1 / (1 + np.exp(-grown.seen[:, -1])), [0.5, 0.3])
    np.testing.assert_array_equal(grown.liked, vectors[1])


def test_a_new_user_is_expected_to_like_a_late_item_more_once_it_counts_from_its_appearance() -> None:
    log = log_with_a_late_item()
    plain, grown = (fit_experts(log, replace(SMALL, item_age_correction=flag)) for flag in (False, True))
    before, after = plain.expected(plain.prior_mean), grown.expected(grown.prior_mean)
    assert after[2] > 2 * before[2]
    np.testing.assert_allclose(after[[0, 1, 3]], before[[0, 1, 3]], rtol=1e-5)


@pytest.mark.slow
def test_no_neighbouring_temperature_and_no_other_age_correction_is_better_than_the_choice() -> None:
    log = synthetic_catalogue(n_users=200, n_items=150, seed=4)
    users = held_out_users(log, 0.2)
    config = ExpertsConfig(satisfied=4.0, iterations=3, logistic_dim=4, validate_rounds=30)
    reward = Reward.from_log(log.values, "satisfied", 4.0)
    fits = Fits(SharedLog.of(log).without_users(users), config, reward, lambda *_: None)
    truth = log.only_users(users).dense()
    best, score = best_choice(fits, truth)
    place = TEMPERATURES.index(best.likelihood_temperature)
    others = [
        replace(best, likelihood_temperature=likelihood_temperature)
        for likelihood_temperature in TEMPERATURES[max(place - 1, 0) : place + 2]
    ]
    others.append(replace(best, item_age_correction=not best.item_age_correction))
    assert score == interactive_precision(fits.model(best), truth, 30)
    assert score >= interactive_precision(fits.model(others[-1]), truth, 30)
    at_no_age = [
        interactive_precision(fits.model(replace(other, item_age_correction=False)), truth, 30) for other in others[:-1]
    ]
    assert interactive_precision(fits.model(replace(best, item_age_correction=False)), truth, 30) >= max(at_no_age)
