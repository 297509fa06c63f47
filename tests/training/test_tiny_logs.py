"""Logs that hold hardly anything still give a model, or one clear refusal."""

import pytest

from igcf import ExpertsConfig, Interactions, Recommender, pretrain


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


def test_known_users_of_few_others_are_served_by_as_many_directions_as_there_are() -> None:
    users, items = [f"u{row % 50}" for row in range(302)], [f"i{row % 60}" for row in range(302)]
    small = ExpertsConfig(linear_dim=4, logistic_dim=4, iterations=1, validate_rounds=5)
    model = pretrain(Interactions.from_arrays(users, items), small, progress=False)
    assert model.low_pass is not None
    assert model.low_pass.shape[0] == 60
