"""Loading a whole log of reactions: many users in one transaction, every reaction once however often it is repeated."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from igcf.service.store.log import append
from igcf.service.store.records import NewEvent
from igcf.service.store.store import Store

if TYPE_CHECKING:
    from igcf.arrays import FloatArray
    from igcf.data import Interactions

BATCH = 10_000
"""Reactions in one transaction, give or take the last user's."""


def logged_event_id(user_id: str, item_id: str, value: float | None, when: float | None) -> str:
    """Make an event id out of what a logged reaction says, so that a repeated import counts once."""
    number = "" if value is None else f"{value:.6g}"  # six digits: a log keeps values as float32
    moment = "" if when is None else f"{when:.3f}"
    said = "\x1f".join((user_id, item_id, number, moment))
    return f"log-{hashlib.blake2b(said.encode(), digest_size=16).hexdigest()}"


@dataclass(frozen=True)
class Imported:
    """What an import did."""

    users: int
    reactions: int
    """Reactions in the log that was read."""
    stored: int
    """Reactions that were not in the store before."""


def import_interactions(
    store: Store, data: "Interactions", model: str, report: Callable[[int], None] = lambda _: None
) -> Imported:
    """Store a whole log as logged reactions, in durable batches; killed and repeated, it stores every reaction once.

    Args:
        store: where to.
        data: the log.
        model: id of the model in service, kept beside each reaction.
        report: called after each batch with the number of reactions done.
    """
    stored = done = 0
    logs = _user_logs(data)
    while batch := _next_batch(logs):
        appended = store.database.write(lambda connection, batch=batch: append(connection, batch, model))  # type: ignore[misc]
        stored += sum(len(each.fresh) for each in appended.values())
        done += sum(map(len, batch.values()))
        report(done)
    return Imported(data.n_users, len(data), stored)


def _next_batch(logs: Iterator[tuple[str, list[NewEvent]]]) -> dict[str, list[NewEvent]]:
    batch: dict[str, list[NewEvent]] = {}
    size = 0
    for user_id, events in logs:
        batch[user_id] = events
        size += len(events)
        if size >= BATCH:
            break
    return batch


def _user_logs(data: "Interactions") -> Iterator[tuple[str, list[NewEvent]]]:
    order = np.argsort(data.user_idx, kind="stable")
    ends = np.cumsum(np.bincount(data.user_idx, minlength=data.n_users)).tolist()
    items, item_rows = data.item_ids, data.item_idx[order].tolist()
    # Shortest decimal text of a float32, read again: 3.7 is stored as 3.7.
    distinct, which = np.unique(data.values[order], return_inverse=True)
    numbers, places = [float(str(value)) for value in distinct], which.tolist()
    times = _seconds(data, order)
    start = 0
    for user_id, end in zip(data.user_ids, ends, strict=True):
        events = []
        for n in range(start, end):
            item_id, value, when = items[item_rows[n]], numbers[places[n]], times[n]
            event_id = logged_event_id(user_id, item_id, value, when)
            events.append(NewEvent(event_id, item_id, value, evidence="logged", time=when))
        start = end
        if events:
            yield user_id, events


def _seconds(data: "Interactions", order: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> list[float | None]:
    """Return the times in seconds, in the order `order`; None where a time is unknown."""
    from igcf.data.interactions import MISSING_TIME

    if data.timestamps is None:
        return [None] * len(order)
    times = data.timestamps[order]
    is_known = times != MISSING_TIME
    largest = int(np.abs(times[is_known]).max(initial=0))
    seconds: FloatArray = times / time_unit(largest)
    return [second if known else None for second, known in zip(seconds.tolist(), is_known.tolist(), strict=True)]


def time_unit(largest: int) -> float:
    """Return how many units of a log's times a second has; numbers too large for seconds are milli- or microseconds."""
    return 1e6 if largest > 1e14 else 1e3 if largest > 1e11 else 1.0
