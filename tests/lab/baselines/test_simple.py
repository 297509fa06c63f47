import numpy as np

from igcf.data import Interactions
from igcf.lab.baselines import Task, method_named
from igcf.online import replay

LOG = Interactions.from_arrays(
    users=["a", "a", "a", "b", "b", "c"], items=["x", "y", "z", "x", "z", "x"], values=[1, 5, 5, 2, 4, 5]
)
TASK = Task(LOG, 4.0, rounds=3)


def order_of(name: str) -> list[str]:
    learner = method_named(name).build(TASK, {}, np.random.default_rng(0))
    nobody = np.full((1, 3), np.nan, dtype=np.float32)
    return [LOG.item_ids[row] for row in replay(learner, nobody, rounds=3, rng=np.random.default_rng(0)).rows[0, :, 0]]


def test_popularity_counts_reactions_of_any_kind() -> None:
    """x has three reactions, z two, y one."""
    assert order_of("pop") == ["x", "z", "y"]


def test_satisfied_popularity_counts_successes_and_ties_keep_the_order_of_the_catalogue() -> None:
    """z satisfied two users, x and y one each."""
    assert order_of("pop-satisfied") == ["z", "x", "y"]


def test_chance_prefers_nothing() -> None:
    learner = method_named("random").build(TASK, {}, np.random.default_rng(0))
    nobody = np.full((3000, 3), np.nan, dtype=np.float32)
    first = replay(learner, nobody, rounds=1, rng=np.random.default_rng(0)).rows[:, 0, 0]
    assert np.abs(np.bincount(first, minlength=3) / 3000 - 1 / 3).max() < 0.04
