"""What an experiment has shown: one number per user and metric, compared so that looking often does no harm."""

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path

from igcf.errors import ConfigError
from igcf.experiments.assignment import Layout, point, unmoved
from igcf.experiments.differences import MISMATCH, mismatch_evidence
from igcf.experiments.metrics import UserInArm, compared, measures
from igcf.model.files import load_model
from igcf.service.errors import UnknownExperimentError
from igcf.service.models.experiments import ExperimentReport, ReportedArm, ReportedMetric
from igcf.service.serving.experiment_changes import experiment_state
from igcf.service.serving.experiments import layout_of
from igcf.service.store.decisions import experiment_rows
from igcf.service.store.figures import experiment_answers, shown_reactions
from igcf.service.store.items import ItemStore
from igcf.service.store.store import Store


def report_experiment(store: Store, name: str | None = None, columns: Sequence[str] = ()) -> ExperimentReport:
    """Report on an experiment of a store, the latest unless it is named.

    Users count who have been in one arm all along, from their first answer in the experiment on. A reaction counts
    where its item was shown to the user in the experiment before. `columns` are numbers of the items, each a further
    metric: its sum over the items that succeeded. `value` is the value of the reaction, of any item.
    """
    rows = experiment_rows(store.database)
    own = [row for row in rows if row.name == (rows[0].name if name is None else name)]
    if not own:
        named = "" if name is None else f" {name!r}"
        raise UnknownExperimentError(f"there has been no experiment{named}; `igcf experiment start` starts one")
    definition = json.loads(own[0].definition)
    layouts = [layout_of(row) for row in reversed(own)]
    weights = {column: _numbers(store, definition, column) for column in columns}
    users, left_out = _users(store, own[0].name, layouts)
    arms: list[str] = list(definition["arms"])
    by_arm = {arm: [user for user in users.values() if user.arm == arm] for arm in arms}
    kept = unmoved(layouts)
    shares = [kept.get(arm, 0) / max(sum(kept.values()), 1) for arm in arms]
    evidence = mismatch_evidence([len(by_arm[arm]) for arm in arms], shares)
    found = []
    metrics = measures(definition["satisfied"], weights)
    for metric, arm, each in compared(by_arm, metrics, planned_users=definition["users"]):
        told = {name: value for name, value in vars(each).items() if isfinite(value)}
        found.append(ReportedMetric(metric=metric, arm=arm, verdict=each.verdict, **{"low": None, "high": None} | told))
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


def _users(store: Store, name: str, layouts: Sequence[Layout]) -> tuple[dict[str, UserInArm], int]:
    """Read what users were shown and did; return those who were in one arm all along, and how many were not."""
    users: dict[str, UserInArm] = {}
    left_out: set[str] = set()
    for user_id, arm, items, when in experiment_answers(store.database, name):
        user = users.setdefault(user_id, UserInArm(arm))
        if user.arm != arm or (not user.answers and any(each.arm(point(name, user_id)) != arm for each in layouts)):
            left_out.add(user_id)
        user.add_answer([item["item"] for item in json.loads(items)], when)
    for user_id in left_out:
        del users[user_id]
    for user_id, item_id, value, arrived in shown_reactions(store.database):
        if user_id in users:
            users[user_id].add_reaction(item_id, value, arrived)
    return users, len(left_out)


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
