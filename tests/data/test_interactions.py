from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from igcf.data import MISSING_TIME, Interactions
from igcf.errors import DataError
from igcf.item import Item

LOG = Interactions.from_arrays(["b", "a", "b", "c"], ["x", "y", "y", "x"], [5.0, 3.0, 1.0, 4.0], [4, 3, 2, 1])


def test_ids_become_rows_in_lexicographic_order() -> None:
    assert LOG.user_ids == ("a", "b", "c")
    assert LOG.item_ids == ("x", "y")
    assert LOG.user_idx.tolist() == [1, 0, 1, 2]
    assert LOG.item_idx.tolist() == [0, 1, 1, 0]
    assert [str(column.dtype) for column in (LOG.user_idx, LOG.values)] == ["int32", "float32"]


def test_numbers_as_ids_are_in_numeric_order_whether_written_as_text_or_not() -> None:
    for ids in ([10, 9, 100], ["10", "9", "100"], [10.0, 9.0, 100.0], np.array([10, 9, 100])):
        assert Interactions.from_arrays(ids, ["x"] * 3, [1.0] * 3).user_ids == ("9", "10", "100")


def test_leading_zeros_make_another_id() -> None:
    assert Interactions.from_arrays(["007", "7", "10"], ["x"] * 3, [1.0] * 3).user_ids == ("007", "10", "7")


def test_large_and_negative_numbers_are_ids_too() -> None:
    ids = [2**63 + 1, 5], [-(10**15), 10**15], [-3, 2]
    for users in ids:
        log = Interactions.from_arrays(users, ["x", "y"], [1.0, 2.0])
        assert set(log.user_ids) == {str(user) for user in users}
        assert [log.user_ids[row] for row in log.user_idx] == [str(user) for user in users]


def test_a_mix_of_numbers_and_text_is_text() -> None:
    assert Interactions.from_arrays([1, "a", 20], ["x"] * 3, [1.0] * 3).user_ids == ("1", "20", "a")


@given(st.permutations(range(6)))
def test_ids_do_not_depend_on_the_order_of_the_rows(order: list[int]) -> None:
    users, items = [*"caabbc"], ["3", "1", "2", "3", "1", "2"]
    log = Interactions.from_arrays([users[i] for i in order], [items[i] for i in order], [1.0] * 6)
    assert (log.user_ids, log.item_ids) == (("a", "b", "c"), ("1", "2", "3"))
    assert log.matrix().sum() == 6


def test_the_latest_of_several_reactions_counts() -> None:
    log = Interactions.from_arrays(["a", "a", "b", "a"], ["x"] * 4, [1.0, 2.0, 3.0, 4.0], [10, 30, 5, 20])
    assert log.values.tolist() == [2.0, 3.0]
    assert log.n_duplicates == 2


def test_without_time_or_at_equal_times_the_last_row_counts() -> None:
    for times in (None, [7, 7, 7]):
        log = Interactions.from_arrays(["a", "b", "a"], ["x"] * 3, [1.0, 2.0, 3.0], times)
        assert log.values.tolist() == [2.0, 3.0]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=40))
def test_duplicates_agree_with_a_dictionary(rows: list[tuple[int, int, int]]) -> None:
    users, items, times = zip(*rows, strict=True)
    log = Interactions.from_arrays(users, items, range(len(rows)), times)
    expected: dict[tuple[str, str], tuple[int, float]] = {}
    for number, (user, item, time) in enumerate(rows):
        key = (str(user), str(item))
        expected[key] = max(expected.get(key, (-1, 0.0)), (time, float(number)))
    assert log.timestamps is not None
    columns = zip(log.user_idx, log.item_idx, log.timestamps, log.values, strict=True)
    assert {(log.user_ids[u], log.item_ids[i]): (t, v) for u, i, t, v in columns} == expected
    assert log.n_duplicates == len(rows) - len(expected)


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(DataError, match=r"differ in length.*'user': 2.*'value': 1"):
        Interactions.from_arrays(["a", "b"], ["x", "y"], [1.0])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e300, None, "many"])
def test_a_value_that_is_no_finite_number_is_refused_with_its_row(bad: float) -> None:
    with pytest.raises(DataError, match=r"'value' is .* in 1 row, first .* in row 2"):
        Interactions.from_arrays(["a", "b"], ["x", "y"], [1.0, bad])


@pytest.mark.parametrize("bad", [None, "", float("nan")])
def test_a_missing_id_is_refused_with_its_row(bad: object) -> None:
    with pytest.raises(DataError, match="'item' is empty in 1 row, first in row 2"):
        Interactions.from_arrays([1, 2], [3.0 if isinstance(bad, float) else "x", bad], [1.0, 2.0])


def test_an_empty_log_is_refused() -> None:
    with pytest.raises(DataError, match="no rows"):
        Interactions.from_arrays([], [], [])


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_times_sort_before_all_others(missing: object) -> None:
    log = Interactions.from_arrays(["a", "b"], ["x", "y"], [1.0, 2.0], np.array([missing, -5.0]))
    assert log.timestamps is not None
    assert log.timestamps.tolist() == [MISSING_TIME, -5]


def test_subset_keeps_the_rows_of_users_and_items() -> None:
    part = LOG.subset(LOG.values >= 4)
    assert part.user_ids == LOG.user_ids
    assert part.matrix().toarray().tolist() == [[0, 0], [5, 0], [4, 0]]


def test_only_users_renumbers_users_in_the_order_given() -> None:
    part = LOG.only_users(np.array([2, 1]))
    assert part.user_ids == ("c", "b")
    np.testing.assert_array_equal(part.dense(), [[4, np.nan], [5, 1]])
    assert part.timestamps is not None
    assert part.timestamps.tolist() == [4, 2, 1]


def test_the_users_of_two_logs_of_the_same_items_follow_each_other() -> None:
    log = Interactions.from_arrays(["a", "b", "c"], ["x", "y", "x"], [1.0, 2.0, 3.0], [5, 6, 7])
    first, rest = log.only_users(np.array([0, 1])), log.only_users(np.array([2]))
    assert first.with_users_of(rest).fingerprint() == log.fingerprint()
    with pytest.raises(DataError, match="user 'c' is in both logs"):
        log.with_users_of(rest)
    with pytest.raises(DataError, match="the same items in the same order"):
        first.with_users_of(Interactions.from_arrays(["c"], ["x"], [1.0]))


def test_descriptions_replace_what_they_say_and_nothing_else() -> None:
    first, second = LOG.item_ids
    log = LOG.described({first: Item(first, title="X", categories=("g",)), "other": Item("other", title="Z")})
    assert (log.titles, log.categories) == (("X", second), (("g",), ()))
    assert log.described({second: Item(second, title="Y")}).titles == ("X", "Y")
    assert log.described({}).categories == log.categories


def test_the_fingerprint_changes_with_any_reaction() -> None:
    same = Interactions.from_arrays(["b", "a", "b", "c"], ["x", "y", "y", "x"], [5.0, 3.0, 1.0, 4.0], [4, 3, 2, 1])
    other = Interactions.from_arrays(["b", "a", "b", "c"], ["x", "y", "y", "x"], [5.0, 3.0, 1.5, 4.0], [4, 3, 2, 1])
    assert same.fingerprint() == LOG.fingerprint() != other.fingerprint()


def test_arrays_may_be_written_to(tmp_path: Path) -> None:
    """Other libraries warn about arrays that are read-only views."""
    (tmp_path / "log.csv").write_text("user,item,value,timestamp\na,x,1,1\nb,y,2,2\n")
    log = Interactions.from_csv(tmp_path / "log.csv")
    assert log.timestamps is not None
    assert all(column.flags.writeable for column in (log.user_idx, log.item_idx, log.values, log.timestamps))
