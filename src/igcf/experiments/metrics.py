"""What the users of an experiment did, and the metrics that compare its arms: one number per user and metric."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from igcf.experiments.differences import ALPHA, Difference, compare

EARLIER_S = 0.001  # a reaction is stored in whole milliseconds, an answer is not
Measure = Callable[["UserInArm"], float]


@dataclass
class UserInArm:
    """What was counted of one user."""

    arm: str
    answers: int = 0
    shown: dict[str, float] = field(default_factory=dict)  # by item, when it was shown first
    values: dict[str, float] = field(default_factory=dict)  # by item, the reaction to it since

    def add_answer(self, items: Sequence[str], when: float) -> None:
        """Count an answer with these items."""
        self.answers += 1
        for item in items:
            self.shown[item] = min(when, self.shown.get(item, when))

    def add_reaction(self, item: str, value: float, when: float) -> None:
        """Count a reaction, where its item was shown before."""
        if when > self.shown.get(item, float("inf")) - EARLIER_S:
            self.values[item] = value

    def hits(self, satisfied: float) -> list[str]:
        """Return the items that succeeded."""
        return [item for item, value in self.values.items() if value >= satisfied]


def measures(satisfied: float, columns: Mapping[str, Mapping[str, float] | None]) -> dict[str, Measure]:
    """Return the metrics of a user by name.

    Each of `columns`, numbers of the items, adds one: its sum over the items that succeeded; None: the values of all
    reactions.
    """
    return {
        "successes per answer": lambda user: len(user.hits(satisfied)) / user.answers,
        "reactions per user": lambda user: float(len(user.values)),
        "chance of a reaction": lambda user: float(bool(user.values)),
        **{f"{name} per user": partial(_total, numbers, satisfied) for name, numbers in columns.items()},
    }


def _total(numbers: Mapping[str, float] | None, satisfied: float, user: UserInArm) -> float:
    if numbers is None:
        return sum(user.values.values())
    return sum(numbers.get(item, 0.0) for item in user.hits(satisfied))


def compared(
    by_arm: Mapping[str, Sequence[UserInArm]], metrics: Mapping[str, Measure], *, planned_users: float
) -> Iterator[tuple[str, str, Difference]]:
    """Yield metric, arm and difference for every arm but the first, the control; arms share the chance of an error."""
    control, *arms = by_arm
    for metric, measure in metrics.items():
        numbers = {arm: np.array([measure(user) for user in users]) for arm, users in by_arm.items()}
        for arm in arms:
            alpha = ALPHA / len(arms)
            yield metric, arm, compare(numbers[arm], numbers[control], planned_users=planned_users, alpha=alpha)
