"""Logs that hold hardly anything still give a model, or one clear refusal."""

import pytest

from igcf import Interactions, Recommender, pretrain


@pytest.mark.parametrize(
    ("n_users", "n_items"), [(1, 1), (1, 5), (2, 1), (2, 2), (3, 3), (10, 10)], ids=lambda size: str(size)
)
@pytest.mark.parametrize("graded", [False, True])
def test_a_log_in_which_all_users_are_alike_can_be_learned(n_users: int, n_items: int, graded: bool) -> None:
    users = [f"u{user}" for user in range(n_users) for _ in range(n_items)]
    items = [f"i{item}" for _ in range(n_users) for item in range(n_items)]
    values = [float(1 + item % 5) for _ in range(n_users) for item in range(n_items)] if graded else None
    log = Interactions.from_arrays(users, items, values)
    model = pretrain(log, progress=False, satisfied=1.0 if graded and n_items == 1 else None)
    [pick] = Recommender(model).session().recommend()
    assert 0.0 <= pick.low <= pick.chance <= pick.high <= 1.0
