"""What an experiment has shown: one number per user and metric, compared so that looking often does no harm."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from pathlib import Path

import numpy as np

from igcf.errors import ConfigError
from igcf.experiments.assignment import Layout, point, unmoved
from igcf.experiments.differences import ALPHA, MISMATCH, compare, mismatch_evidence
from igcf.model.files import load_model
from igcf.service.errors import UnknownExperimentError
from igcf.service.models.experiments import ExperimentReport, ReportedArm, ReportedMetric
from igcf.service.serving.experiment_changes import experiment_state
from igcf.service.serving.experiments import layout_of
from igcf.service.store.decisions import experiment_rows
from igcf.service.store.figures import experiment_answers, shown_reactions
from igcf.service.store.items import ItemStore
from igcf.service.store.store import Store

EARLIER_S = 0.001  # a reaction is stored in whole milliseconds, an answer is not


@dataclass
class _User:
    """What was counted of one user."""

    arm: str
    answers: int = 0
    shown: dict[str, float] = field(default_factory=dict)  # by item, when it was shown first
    values: dict[str, float] = field(default_factory=dict)  # by item, the reaction to it since

    def hits(self, satisfied: float) -> list[str]:
        """Return the items that succeeded."""
        return [item for item, value in self.values.items() if value >= satisfied]


def report_experiment(store: Store, name: str | None = None, columns: Sequence[str] = ()) -> ExperimentReport:
    """Report on an experiment of a store, the latest unless it is named.

    Users count who have been in one arm all along, from their first answer in the experiment on. A reaction counts
    where its item was shown to the user in the experiment before. `columns` are numbers of the items, each a further
    metric: its sum over the items that succeeded. `value` is the value of the reaction, of any item.
    """
    rows = experiment_rows(store.database)
    own = [row for row in rows if row.name == (rows[0].name if name is None else name)]
    if not own:
        raise UnknownExperimentError("there has been no experiment" + ("" if name is None else f" {name!r}"))
    definition = json.loads(own[0].definition)
    layouts = [layout_of(row) for row in reversed(own)]
    weights = {column: _numbers(store, definition, column) for column in columns}
    users, left_out = _users(store, own[0].name, layouts)
    _add_reactions(store, users)
    arms: list[str] = list(definition["arms"])
    by_arm = {arm: [user for user in users.values() if user.arm == arm] for arm in arms}
    kept = unmoved(layouts)
    shares = [kept.get(arm, 0) / max(sum(kept.values()), 1) for arm in arms]
    evidence = mismatch_evidence([len(by_arm[arm]) for arm in arms], shares)
    metrics: dict[str, Callable[[_User], float]] = {
        "successes per answer": lambda user: len(user.hits(definition["satisfied"])) / user.answers,
        "reactions per user": lambda user: float(len(user.values)),
        "chance of a reaction": lambda user: float(bool(user.values)),
        **{
            f"{column} per user": partial(_total, numbers, definition["satisfied"])
            for column, numbers in weights.items()
        },
    }
    found = []
    for metric, measure in metrics.items():
        numbers = {arm: np.array([measure(user) for user in by_arm[arm]], dtype=np.float64) for arm in arms}
        for arm in arms[1:]:
            alpha = ALPHA / (len(arms) - 1)
            each = compare(numbers[arm], numbers[arms[0]], planned_users=definition["users"], alpha=alpha)
            told = {name: value for name, value in vars(each).items() if isfinite(value)}
            found.append(
                ReportedMetric(metric=metric, arm=arm, verdict=each.verdict, **{"low": None, "high": None} | told)
            )
    return ExperimentReport(
        name=own[0].name,
        state=experiment_state(own[0], own[-1]).state,
        control=arms[0],
        arms=[
            ReportedArm(arm=arm, users=len(mine), answers=sum(user.answers for user in mine), share=share)
            for (arm, mine), share in zip(by_arm.items(), shares, strict=True)
        ],
        metrics=found,
        assignment=min(evidence, 1e300),
        is_assignment_sound=evidence < 1 / MISMATCH,
        left_out=left_out,
    )


def _total(numbers: Mapping[str, float] | None, satisfied: float, user: _User) -> float:
    """Sum a number of the items over the successes; None: the values of all reactions."""
    if numbers is None:
        return sum(user.values.values())
    return sum(numbers.get(item, 0.0) for item in user.hits(satisfied))


def _users(store: Store, name: str, layouts: Sequence[Layout]) -> tuple[dict[str, _User], int]:
    """Read the answers of an experiment by user; return those who were in one arm all along, and how many were not."""
    users: dict[str, _User] = {}
    left_out: set[str] = set()
    for user_id, arm, items, when in experiment_answers(store.database, name):
        user = users.setdefault(user_id, _User(arm))
        if user.arm != arm or (not user.answers and any(each.arm(point(name, user_id)) != arm for each in layouts)):
            left_out.add(user_id)
        user.answers += 1
        for item in json.loads(items):
            user.shown[item["item"]] = min(when, user.shown.get(item["item"], when))
    return {user_id: user for user_id, user in users.items() if user_id not in left_out}, len(left_out)


def _add_reactions(store: Store, users: Mapping[str, _User]) -> None:
    for user_id, item_id, value, arrived in shown_reactions(store.database):
        user = users.get(user_id)
        if user is not None and arrived > user.shown.get(item_id, float("inf")) - EARLIER_S:
            user.values[item_id] = value


def _numbers(store: Store, definition: Mapping[str, dict[str, dict[str, str]]], column: str) -> dict[str, float] | None:
    """Find a number of all items; None for the value of a reaction."""
    if column == "value":
        return None
    catalogues = [load_model(Path(arm["model"])).catalogue for arm in definition["arms"].values()]
    items = [catalogue.item(row) for catalogue in catalogues for row in range(len(catalogue))]
    items += [item.described() for item in ItemStore(store.database).changes()]  # they replace what the models say
    found = {item.id: item.numbers[column] for item in items if column in item.numbers}
    if not found:
        raise ConfigError(f"no item has the number {column!r}; name one of the items' numbers, or 'value'")
    return found
