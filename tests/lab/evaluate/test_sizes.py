import numpy as np
import pytest

from igcf.data import Interactions, load_dataset
from igcf.lab.evaluate import evaluate, setup_for
from igcf.lab.evaluate.protocols import prepare
from igcf.lab.evaluate.protocols.sizes import fitting_size
from igcf.lab.evaluate.tables import results_tables


def log(n_users: int, n_reactions: int, n_items: int = 300, *, timed: bool = False) -> Interactions:
    """A log in which every user has equally many reactions, one user after the other."""
    rng = np.random.default_rng(0)
    items = np.concatenate([rng.choice(n_items, n_reactions, replace=False) for _ in range(n_users)])
    users = np.repeat(np.arange(n_users), n_reactions)
    times = np.arange(len(users)) if timed else None
    return Interactions.from_arrays(users, items, rng.integers(1, 6, len(users)).astype(float), times)


@pytest.mark.parametrize(
    ("n_users", "n_reactions", "n_shown", "n_test", "least"),
    [(1000, 150, 120, 250, 5), (1000, 50, 40, 250, 5), (60, 12, 10, 15, 5), (8, 3, 10, 2, 2), (2, 1, 1, 1, 1)],
)
def test_an_experiment_is_as_long_as_its_users_allow(
    n_users: int, n_reactions: int, n_shown: int, n_test: int, least: int
) -> None:
    size = fitting_size(log(n_users, n_reactions))
    assert (size.split, size.n_shown, size.n_users, size.least) == ("users", n_shown, n_test, least)


def test_a_small_catalogue_is_not_shown_whole() -> None:
    assert fitting_size(log(200, 20, n_items=30)).n_shown == 10


def mixed_activity() -> Interactions:
    """A log of 300 users with 2, 6, 12 or 150 reactions; few are heavy."""
    rng = np.random.default_rng(0)
    counts = np.repeat([2, 6, 12, 150], [60, 130, 90, 20])
    items = np.concatenate([rng.choice(200, n, replace=False) for n in counts])
    users = np.repeat(np.arange(len(counts)), counts)
    return Interactions.from_arrays(users, items, rng.integers(1, 6, len(users)).astype(float))


def test_ordinary_users_are_tested_and_the_first_table_shows_them_by_activity() -> None:
    data = mixed_activity()
    setup = setup_for(data, "cold-start", satisfied=4.0)
    assert (setup.min_reactions, setup.sessions[0].rounds) == (5, 10)
    assert [(each.name, each.least, each.most) for each in setup.activity] == [
        ("light", 5, 6), ("medium", 7, 12), ("heavy", 13, None),
    ]  # fmt: skip
    assert [each.share for each in setup.activity] == pytest.approx([130 / 300, 90 / 300, 20 / 300])
    results = evaluate(data, setup, ("random", "pop"))
    counts = {row: int(n) for row, n in zip(data.user_ids, np.bincount(data.user_idx), strict=True)}
    tested = [counts[user] for user in results.rows[0].outcome.user_ids]
    assert min(tested) == 6
    assert np.mean(np.array(tested) > 12) < 0.25  # not the most active ones
    table = results_tables(results)[0]
    assert table.header[:3] == ("reactions", "share of all users", "tested")
    assert [row[1] for row in table.rows] == ["43%", "30%", "7%", "20%"]
    assert sum(int(row[2]) for row in table.rows) == results.n_users
    assert {each.metric for each in results.comparisons} >= {"precision@10, light users", "precision@10"}


def test_a_known_data_set_keeps_the_papers_rule_and_says_so() -> None:
    setup = setup_for(load_dataset("synthetic"), "cold-start")
    assert setup.activity == ()
    assert setup.min_reactions == 120
    assert "the paper's rule, the most active first" in setup.sentence


def test_times_without_new_users_are_split_by_users() -> None:
    in_turn = log(220, 20, timed=True)
    assert fitting_size(in_turn).split == "time"
    assert fitting_size(log(100, 20, timed=True)).split == "users"  # half of 50 new users are too few to compare
    mixed = Interactions.from_arrays(
        in_turn.user_idx, in_turn.item_idx, in_turn.values, np.tile(np.arange(20), 220)
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
