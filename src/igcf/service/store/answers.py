"""Reading the audit, wherever it is: every item that was shown, beside the reaction that it drew."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.service.store.audit_files import AuditFolder
from igcf.service.store.audit_reading import COLUMNS, Answer
from igcf.service.store.database import Database
from igcf.service.store.snapshots import rows_of, snapshot
from igcf.service.store.spread import AnyStore
from igcf.service.store.tables import feedback, recommendations

AT_ONCE = 20_000
"""Answers of a database that are read at a time."""


def read_answers(store: AnyStore, folder: AuditFolder | None = None) -> Iterator[list[Answer]]:
    """Read the answers in a store, then those in a folder, some at a time, in the columns of the folder's files."""
    for part in store.parts:
        yield from _stored_answers(part.database)
    if folder is not None:
        yield from folder.answers()


def _stored_answers(database: Database) -> Iterator[list[Answer]]:
    with snapshot(database) as connection:
        rows = rows_of(connection, sa.select(*(recommendations.c[name] for name in COLUMNS)))
        part: list[Answer] = []
        for row in rows:
            try:
                part.append(dict(row._mapping) | {"items": json.loads(row.items)})
            except (ValueError, RecursionError) as error:
                raise StoreError(f"answer {row.recommendation_id} of {database.name} cannot be read") from error
            if len(part) == AT_ONCE:
                yield part
                part = []
        yield part


def shown_items(store: AnyStore, folder: AuditFolder | None = None) -> Iterator[list[dict[str, Any]]]:
    """Read every item that was shown with an answer, with the value of the reaction to it.

    `has_reacted` tells whether there is a reaction in force that names the answer; its value is None where the item was
    shown and drew none, as the caller said. A skip is no reaction.
    """
    log, taken_back = feedback.c, feedback.alias("taken_back")
    is_retracted = sa.exists().where(taken_back.c.user_id == log.user_id, taken_back.c.retracts == log.event_id)
    query = sa.select(log.recommendation_id, log.item_id, sa.func.max(log.value)).where(
        log.recommendation_id.is_not(None), log.evidence == "shown", ~is_retracted
    )
    grouped = query.group_by(log.recommendation_id, log.item_id)
    reactions = {
        (answer, item): value
        for part in store.parts
        for answer, item, value in part.database.read(lambda connection: connection.execute(grouped).all())
    }
    for answers in read_answers(store, folder):
        yield [
            {
                **{name: value for name, value in answer.items() if name not in ("items", "propensity")},
                "propensity_kind": answer["propensity"],
                **item,
                "value": reactions.get((answer["recommendation_id"], item["item"])),
                "has_reacted": (answer["recommendation_id"], item["item"]) in reactions,
            }
            for answer in answers
            for item in answer["items"] or ()
        ]


def summary(shown: Iterable[list[dict[str, Any]]], satisfied: float) -> list[dict[str, Any]]:
    """Count by model, policy and reason what was shown, what drew a reaction, and how much of it satisfied.

    `expected` is the mean of the chances that were told for the items with a reaction: beside `satisfied` it says
    whether they came true. Both are None where nothing drew a reaction.
    """
    counts: defaultdict[tuple[str, str, str], Counts] = defaultdict(Counts)
    for item in (item for items in shown for item in items):
        counts[item["model"], item["policy"], item.get("reason") or ""].add(item, satisfied)
    return [
        {
            "model": model,
            "policy": policy,
            "reason": reason or None,
            "shown": n.shown,
            "reactions": n.reactions,
            "satisfied": n.hits / n.reactions if n.reactions else None,
            "expected": n.chances / n.n_chances if n.n_chances else None,
        }
        for (model, policy, reason), n in sorted(counts.items())
    ]


@dataclass
class Counts:
    """What is counted of the items of one model, policy and reason."""

    shown: int = 0
    reactions: int = 0
    hits: int = 0
    chances: float = 0.0
    n_chances: int = 0

    def add(self, item: dict[str, Any], satisfied: float) -> None:
        """Count one item that was shown."""
        self.shown += 1
        if not item["has_reacted"]:
            return
        self.reactions += 1
        self.hits += item["value"] is not None and item["value"] >= satisfied
        if item.get("chance") is not None:
            self.chances += item["chance"]
            self.n_chances += 1
