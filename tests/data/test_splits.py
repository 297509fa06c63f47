from dataclasses import replace

import numpy as np
import pytest

from igcf.data import Interactions, cold_start, synthetic_catalogue, taste_drift
from igcf.errors import DataError

RNG_SEED = 0


def rng() -> np.random.Generator:
    return np.random.default_rng(RNG_SEED)


def test_time_split_trains_on_the_first_half_of_the_rows_and_meets_only_later_users() -> None:
    """Rows in time: a a b c | b c d d. Train = a a b c; only d has no row in it."""
    data = Interactions.from_arrays(
        list("dcbadbac"), ["1", "2", "1", "1", "2", "2", "2", "1"], [5.0] * 8, [8, 6, 3, 1, 7, 5, 2, 4]
    )
    split = cold_start(data, split="time", min_reactions=1, rng=rng())
    assert split.train.user_ids == ("a", "b", "c")
    assert len(split.train) == 4
    assert split.test.user_ids == ("d",)
    assert len(split.test) == 2
    assert split.validation.n_users == 0


def test_equal_times_keep_the_order_of_the_log() -> None:
    data = Interactions.from_arrays(["x", "y", "z", "w"], ["1"] * 4, [1.0] * 4, [7] * 4)
    assert cold_start(data, split="time", min_reactions=1, rng=rng()).train.user_ids == ("x", "y")


def test_test_users_are_the_most_active_and_validation_users_the_next() -> None:
    data = synthetic_catalogue(n_users=300, n_items=100)
    split = cold_start(data, n_test=20, n_validation=30, min_reactions=20, rng=rng())
    n_test, n_validation = np.bincount(split.test.user_idx), np.bincount(split.validation.user_idx)
    assert (len(n_test), len(n_validation)) == (20, 30)
    assert n_test.min() >= n_validation.max()
    assert (np.diff(n_test) <= 0).all()


@pytest.mark.parametrize("how", ["time", "users"])
@pytest.mark.parametrize("by_activity", [True, False])
def test_no_user_is_in_two_parts_and_items_keep_their_rows(how: str, by_activity: bool) -> None:
    data = synthetic_catalogue(n_users=300, n_items=100)
    split = cold_start(
        data,
        split=how,  # type: ignore[arg-type]
        n_test=20,
        n_validation=20,
        min_reactions=10,
        by_activity=by_activity,
        rng=rng(),
    )
    parts = (split.train, split.validation, split.test)
    ids = [user_id for part in parts for user_id in part.user_ids]
    assert len(ids) == len(set(ids))
    for part in parts:
        assert part.item_ids == data.item_ids
        assert (np.bincount(part.user_idx, minlength=part.n_users) > 0).all()


def test_users_split_is_repeated_by_the_same_seed_only() -> None:
    data = synthetic_catalogue(n_users=300, n_items=100)
    splits = [
        cold_start(data, split="users", min_reactions=10, rng=np.random.default_rng(seed)).train.user_ids
        for seed in (0, 0, 1)
    ]
    assert splits[0] == splits[1] != splits[2]


def test_a_cold_users_whole_history_is_the_truth() -> None:
    data = synthetic_catalogue(n_users=300, n_items=100)
    test = cold_start(data, min_reactions=10, rng=rng()).test
    of_user = {data.user_ids[row]: count for row, count in enumerate(np.bincount(data.user_idx))}
    assert [of_user[user_id] for user_id in test.user_ids] == np.bincount(test.user_idx).tolist()


def test_auto_splits_by_time_only_where_every_reaction_has_one() -> None:
    without = Interactions.from_arrays(["a", "a", "b", "b"], ["1", "2", "1", "2"], [1.0] * 4)
    with pytest.raises(DataError, match="no timestamps"):
        cold_start(without, split="time", min_reactions=1, rng=rng())
    assert cold_start(without, min_reactions=1, rng=rng()).test.n_users == 1


def test_too_high_a_bar_for_test_users_says_what_there_is() -> None:
    data = synthetic_catalogue(n_users=100, n_items=50)
    with pytest.raises(DataError, match="most active has 25 reactions, min_reactions is 120"):
        cold_start(data, rng=rng())


def test_taste_drift_finds_the_user_who_changed_genre() -> None:
    """Each user watches 4 items in time; only `fickle` goes from comedies (items 1, 2) to westerns (3, 4)."""
    order = {"steady": "1324", "fickle": "1234", "mixed": "3142"}
    users, items = zip(*((user, item) for user, row in order.items() for item in row), strict=True)
    data = Interactions.from_arrays(users, items, [4.0] * 12, [*range(4)] * 3)
    data = replace(data, categories=(("Comedy",), ("Comedy",), ("Western",), ("Western",)))
    drift = taste_drift(data, n_test=1, n_validation=1, min_reactions=4)
    assert drift.test_before.user_ids == drift.test_after.user_ids == ("fickle",)
    assert drift.test_before.item_idx.tolist() == [0, 1]
    assert drift.test_after.item_idx.tolist() == [2, 3]
    assert drift.train.n_users == 1
    assert "fickle" not in drift.train.user_ids + drift.validation_before.user_ids


def test_an_odd_history_gives_its_extra_reaction_to_the_second_period() -> None:
    data = Interactions.from_arrays(["a"] * 5 + ["b"] * 5, [*"12345"] * 2, [4.0] * 10, [*range(5)] * 2)
    drift = taste_drift(replace(data, categories=(("x",),) * 5), n_test=1, n_validation=0, min_reactions=1)
    assert (len(drift.test_before), len(drift.test_after)) == (2, 3)


def test_taste_drift_needs_categories_and_times() -> None:
    data = Interactions.from_arrays(["a", "a"], ["1", "2"], [1.0, 2.0])
    with pytest.raises(DataError, match="no item categories"):
        taste_drift(data, min_reactions=1)
    with pytest.raises(DataError, match="no timestamps"):
        taste_drift(replace(data, categories=(("x",), ("y",))), min_reactions=1)
