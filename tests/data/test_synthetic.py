import re

import numpy as np
import pytest

from igcf.data import DATASETS, cold_start, synthetic_catalogue, synthetic_world
from igcf.errors import DataError

SATISFIED = DATASETS["synthetic"].satisfied
WORLD = synthetic_world(seed=0)


def test_the_same_seed_gives_the_same_catalogue() -> None:
    prints = [synthetic_catalogue(n_users=100, n_items=60, seed=seed).fingerprint() for seed in (3, 3, 4)]
    assert prints[0] == prints[1] != prints[2]


def test_default_size() -> None:
    assert (WORLD.log.n_users, WORLD.log.n_items) == (1200, 800)
    assert 70_000 < len(WORLD.log) < 90_000
    assert set(np.unique(WORLD.log.values)) == {1.0, 2.0, 3.0, 4.0, 5.0}


def test_titles_are_unique_and_readable() -> None:
    titles = WORLD.log.titles
    assert titles is not None
    assert len(set(titles)) == len(titles)
    assert all(re.fullmatch(r"The [A-ZÉ][\wé]+ [A-Z][\wé]+( \d+)? \((19|20)\d\d\)", title) for title in titles)


def test_rows_are_in_the_order_of_time() -> None:
    assert WORLD.log.timestamps is not None
    assert (np.diff(WORLD.log.timestamps) >= 0).all()


def test_the_log_shows_a_part_of_the_truth() -> None:
    log = WORLD.log
    at = log.user_idx, log.item_idx
    shown_early, shown_late = log.values == WORLD.stars[at], log.values == WORLD.later_stars[at]
    assert (shown_early | shown_late).all()
    assert shown_early[~WORLD.is_changing[log.user_idx]].all()


def test_stars_follow_the_probability_of_satisfaction() -> None:
    satisfied = WORLD.stars >= SATISFIED
    for low in np.arange(0.05, 0.95, 0.1):
        cell = (WORLD.satisfaction >= low) & (WORLD.satisfaction < low + 0.1)
        assert satisfied[cell].mean() == pytest.approx(WORLD.satisfaction[cell].mean(), abs=0.02)


def test_popularity_is_a_power_law() -> None:
    counts = np.sort(np.bincount(WORLD.log.item_idx, minlength=800))[::-1]
    assert counts[0] > 5 * counts[100] > 0
    slope = np.polyfit(np.log(np.arange(10, 400)), np.log(counts[10:400]), 1)[0]
    assert -1.0 < slope < -0.3


def test_one_user_in_five_changes_taste() -> None:
    assert WORLD.is_changing.mean() == pytest.approx(0.2, abs=0.04)
    changed = (WORLD.user_tastes != WORLD.later_tastes).any(axis=1)
    assert (changed == WORLD.is_changing).all()


def test_knowing_the_tastes_beats_popularity_by_far() -> None:
    """Hits in 40 rounds on the complete truth: the best possible list is at least 1.3 times the popular one."""
    split = cold_start(WORLD.log, rng=np.random.default_rng(0))
    rows = [WORLD.log.user_ids.index(user_id) for user_id in split.test.user_ids]
    truth = WORLD.stars[rows] >= SATISFIED
    popular = np.argsort(-np.bincount(split.train.item_idx, minlength=800), kind="stable")[:40]
    best = np.argsort(-WORLD.satisfaction[rows], axis=1)[:, :40]
    assert np.take_along_axis(truth, best, axis=1).sum() > 1.3 * truth[:, popular].sum()


def test_any_size_has_unique_titles() -> None:
    titles = synthetic_catalogue(n_users=5, n_items=4000).titles
    assert titles is not None
    assert len(set(titles)) == 4000


def test_a_world_too_small_is_refused() -> None:
    with pytest.raises(DataError, match="2 users and 20 items"):
        synthetic_catalogue(n_users=1)
