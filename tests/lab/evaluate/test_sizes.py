import numpy as np
import pytest

from igcf.data import Interactions
from igcf.lab.evaluate import setup_for
from igcf.lab.evaluate.protocols import prepare
from igcf.lab.evaluate.protocols.sizes import fitting_size


def log(n_users: int, n_reactions: int, n_items: int = 300, *, timed: bool = False) -> Interactions:
    """A log in which every user has equally many reactions, one user after the other."""
    rng = np.random.default_rng(0)
    items = np.concatenate([rng.choice(n_items, n_reactions, replace=False) for _ in range(n_users)])
    users = np.repeat(np.arange(n_users), n_reactions)
    times = np.arange(len(users)) if timed else None
    return Interactions.from_arrays(users, items, rng.integers(1, 6, len(users)).astype(float), times)


@pytest.mark.parametrize(
    ("n_users", "n_reactions", "n_shown", "n_test"),
    [(1000, 150, 120, 200), (1000, 50, 40, 200), (60, 12, 10, 15), (8, 3, 2, 2), (2, 1, 1, 1)],
)
def test_an_experiment_is_as_long_as_its_users_allow(n_users: int, n_reactions: int, n_shown: int, n_test: int) -> None:
    size = fitting_size(log(n_users, n_reactions))
    assert (size.split, size.n_shown, size.n_users) == ("users", n_shown, n_test)


def test_a_small_catalogue_is_not_shown_whole() -> None:
    assert fitting_size(log(200, 20, n_items=30)).n_shown == 10


def test_times_without_new_users_are_split_by_users() -> None:
    in_turn = log(100, 20, timed=True)
    assert fitting_size(in_turn).split == "time"
    mixed = Interactions.from_arrays(
        in_turn.user_idx, in_turn.item_idx, in_turn.values, np.tile(np.arange(20), 100)
    )  # everybody begins at once
    assert fitting_size(mixed).split == "users"


def test_the_setup_of_an_unknown_log_can_be_prepared_and_leaves_validation_users() -> None:
    data = log(80, 12)
    setup = setup_for(data, "top-k")
    assert [(each.rounds, each.slate) for each in setup.sessions] == [(3, 3), (2, 5)]
    case = prepare(data, setup, 0)
    assert len(case.user_ids) == 20
    assert case.task.validation[0].n_users == 20
    assert "at most 20 test users of at least" in setup.sentence
