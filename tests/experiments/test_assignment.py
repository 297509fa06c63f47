"""Users are spread evenly over the arms, and stay where they are while shares change."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from igcf.errors import ConfigError
from igcf.experiments.assignment import PARTS, Layout, point, unmoved

USERS = [f"user-{i}" for i in range(20_000)]


def arms(layout: Layout, experiment: str = "colours") -> list[str]:
    return [layout.arm(point(experiment, user)) for user in USERS]


def test_users_are_spread_evenly_over_the_range() -> None:
    counts = np.bincount([point("colours", user) * 100 // PARTS for user in USERS], minlength=100)
    assert chisquare(counts).pvalue > 0.001


def test_arms_get_their_shares() -> None:
    found = arms(Layout.first({"control": 0.7, "a": 0.2, "b": 0.1}))
    counts = [found.count(name) for name in ("control", "a", "b")]
    assert chisquare(counts, [len(USERS) * share for share in (0.7, 0.2, 0.1)]).pvalue > 0.001


def test_the_arm_in_one_experiment_says_nothing_of_that_in_another() -> None:
    half = Layout.first({"control": 0.5, "a": 0.5})
    both = sum(x == y for x, y in zip(arms(half, "one"), arms(half, "two"), strict=True))
    assert chisquare([both, len(USERS) - both]).pvalue > 0.001


def test_a_place_is_the_same_on_every_machine() -> None:
    assert [point("colours", user) for user in ("alice", "bob", "émile")] == [220955, 891445, 714859]


def test_an_arm_that_grows_takes_users_from_the_control_and_moves_nobody_else() -> None:
    before = Layout.first({"control": 0.8, "a": 0.1, "b": 0.1})
    after = before.changed({"control": 0.5, "a": 0.4, "b": 0.1})
    moves = {(x, y) for x, y in zip(arms(before), arms(after), strict=True) if x != y}
    assert moves == {("control", "a")}


SHARES = (
    st.lists(st.integers(0, 20), min_size=3, max_size=3)
    .filter(any)
    .map(lambda n: {name: each / sum(n) for name, each in zip(("control", "a", "b"), n, strict=True)})
)


@settings(deadline=None)
@given(st.lists(SHARES, min_size=2, max_size=6))
def test_no_more_users_move_than_the_shares_demand(history: list[dict[str, float]]) -> None:
    layouts = [Layout.first(history[0])]
    for shares in history[1:]:
        layouts.append(layouts[-1].changed(shares))
        assert sum(length for length, _ in layouts[-1].cells) == PARTS
        sizes = [{arm: sum(n for n, a in each.cells if a == arm) for arm in shares} for each in layouts[-2:]]
        assert all(abs(sizes[1][arm] - share * PARTS) <= 1 for arm, share in shares.items())
        kept = unmoved(layouts[-2:])
        assert all(kept.get(arm, 0) == min(sizes[0][arm], sizes[1][arm]) for arm in shares)


def test_shares_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"add up to 0\.9; expected 1"):
        Layout.first({"control": 0.5, "a": 0.4})
    with pytest.raises(ConfigError, match="share of arm 'a' is -1"):
        Layout.first({"control": 1.0, "a": -1.0, "b": 1.0})
