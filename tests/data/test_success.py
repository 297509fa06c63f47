from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from igcf.data import Interactions, success_in
from igcf.data.success import Success, unrated_spike
from igcf.errors import DataError


def success_of(values: np.ndarray, satisfied: float | None = None) -> Success:
    return success_in(Interactions.from_arrays(range(len(values)), range(len(values)), values), satisfied)


def repeated(**counts: int) -> np.ndarray:
    """Values as often as told: `v1=3` is three ones."""
    return np.concatenate([np.full(n, float(name[1:])) for name, n in counts.items()])


@pytest.mark.parametrize(
    ("values", "threshold"),
    [
        (repeated(v1=6, v2=11, v3=26, v4=35, v5=22), 4.0),  # MovieLens
        (repeated(v1=15, v2=25, v3=30, v4=27, v5=3), 4.0),  # five stars are rare
        (repeated(v1=8, v2=5, v3=8, v4=19, v5=60), 5.0),  # most are five
        (repeated(v0=40, v1=60), 1.0),
        (repeated(v1=81, v2=10, v3=5, v4=4), 2.0),  # mostly single plays
        (np.exp(np.linspace(0.0, 13.0, 1001)), 670.0),  # counts: the median, rounded
        (np.arange(-20, 21) / 2.0, 0.5),
    ],
)
def test_the_threshold_divides_the_upper_values_most_evenly(values: np.ndarray, threshold: float) -> None:
    assert success_of(values).threshold == threshold


def test_one_value_means_that_every_reaction_is_a_success() -> None:
    found = success_of(np.ones(7))
    assert found.is_implicit
    assert (found.threshold, found.warning) == (1.0, None)
    assert found.sentence == "satisfied: every reaction, 7 of 7 reactions (100 %)"


def test_the_sentence_tells_threshold_count_and_share() -> None:
    found = success_of(repeated(v1=500, v2=700), 2)
    assert found.sentence == "satisfied: value >= 2, 700 of 1,200 reactions (58.3 %)"


@pytest.mark.parametrize("satisfied", [1.0, -3.0, 5.5])
def test_a_threshold_that_none_or_all_reach_is_refused_with_the_range(satisfied: float) -> None:
    with pytest.raises(DataError, match="the values lie between 1 and 5; pass another satisfied="):
        success_of(np.array([1.0, 3.0, 5.0]), satisfied)


@pytest.mark.parametrize(("ones", "word"), [(1, "only 1.0 %"), (99, "as many as 99.0 %")])
def test_a_share_near_none_or_all_is_warned_about(ones: int, word: str) -> None:
    warning = success_of(repeated(v0=100 - ones, v1=ones)).warning
    assert warning is not None
    assert warning.startswith(word)


def test_a_data_set_known_by_name_keeps_its_threshold() -> None:
    values = [1.0, 2.0, 5.0, 5.0, 5.0]
    named = Interactions.from_arrays(range(5), range(5), values, name="ml-1m")
    assert success_in(named).threshold == 4.0
    assert success_in(Interactions.from_arrays(range(5), range(5), values)).threshold == 5.0
    assert success_in(replace(named, values=np.ones_like(named.values))).is_implicit


@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=2, max_size=300).filter(lambda each: len(set(each)) > 1))
def test_every_log_of_several_values_has_successes_and_failures(values: list[float]) -> None:
    found = success_of(np.array(values))
    assert 0 < found.n_successes < len(values)
    assert found.n_successes == sum(value >= found.threshold for value in values)


def test_counts_of_a_large_log_do_not_overflow() -> None:
    """300,000 zeros are not twice the 200,000 ones; 2 x 200,000^2 is beyond 32 bits."""
    levels, counts = np.arange(4, dtype=np.float32), np.array([300_000, 200_000, 90_000, 80_000], dtype=np.uint32)
    assert unrated_spike(levels, counts, "value") is None
    assert unrated_spike(levels, counts * np.array([4, 1, 1, 1], dtype=np.uint32), "value") is not None
