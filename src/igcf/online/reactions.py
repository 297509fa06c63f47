"""The evidence of one user: a logged record and the events of sessions; the last event can be undone."""

from collections.abc import Mapping
from copy import copy
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from igcf.arrays import FloatArray
from igcf.errors import ConfigError
from igcf.model import Model
from igcf.model.new_items import UserEvidence
from igcf.online.absence import Record
from igcf.online.answers import Past
from igcf.online.attributes import context_shift
from igcf.online.evidence import logged_record, without_items


class Event(NamedTuple):
    """A reaction or a skip."""

    row: int
    value: float  # in the units of the log; NaN: no reaction
    context: Mapping[str, Any] | None = None  # context that the reaction was made in
    counts: bool = True  # whether something was learned: no reaction does not replace one, and a skip teaches nothing
    before: UserEvidence | None = None  # the user's earlier evidence about the item, where it is new
    is_skip: bool = False


_made = partial(tuple.__new__, Event)  # `Event._make` without a Python call per reaction


class Evidence:
    """Reactions of one user; a new reaction to an item replaces the one before, also that of the logged record."""

    def __init__(self, model: Model, past: Past) -> None:
        self.record = logged_record(model, past.logged, past.until)
        rows, values = ([], []) if self.record is None else (self.record.rows.tolist(), self.record.values.tolist())
        self.logged: dict[int, float] = dict(zip(rows, values, strict=True))  # logged values by row
        self.shown: dict[int, Event] = {}  # the reaction to each item shown, by row, oldest first
        self._events: list[Event] = []
        rows = model.item_rows([item_id for item_id, _ in past.history])
        values = model.reward.checked_all([value for _, value in past.history])
        contexts = {model.known_row(item_id): context for item_id, context in past.contexts.items()}
        if not (contexts or self.logged) and len(set(rows)) == len(rows):  # the usual case takes no call per reaction
            rest = repeat(None), repeat(True), repeat(None), repeat(False)
            self._events = list(map(_made, zip(rows, values, *rest, strict=False)))
            self.shown = dict(zip(rows, self._events, strict=True))
            return
        for row, value in zip(rows, values, strict=True):
            self.add(Event(row, value, contexts.get(row) or None, self.counts(row, value)))

    def copied(self) -> "Evidence":
        """Return an independent copy."""
        other = copy(self)
        other.shown, other._events = dict(self.shown), list(self._events)
        return other

    @property
    def reactions(self) -> tuple[list[int], list[float]]:
        """Rows of the items shown, oldest reaction first, and values of the reactions to them."""
        return list(self.shown), [event.value for event in self.shown.values()]

    def has(self, row: int) -> bool:
        """Whether the user reacted to an item, or was shown it."""
        return row in self.shown or row in self.logged

    def counts(self, row: int, value: float) -> bool:
        """Whether a reaction teaches anything: no reaction does not replace one."""
        known = self.shown[row].value if row in self.shown else self.logged.get(row, np.nan)
        return value == value or known != known

    def add(self, event: Event) -> None:
        """Take in what happened."""
        self._events.append(event)
        if event.counts:
            self.shown.pop(event.row, None)
            self.shown[event.row] = event

    def undo(self) -> Event:
        """Take the last event back and return it."""
        if not self._events:
            raise ConfigError("nothing to take back: this user has neither reacted nor skipped")
        last = self._events.pop()
        if last.counts:
            events, self._events, self.shown = self._events, [], {}
            for event in events:
                self.add(event)
        return last

    def skipped(self, n: int) -> list[int]:
        """Return the rows of the items that were skipped among the last `n` events."""
        return [event.row for event in self._events[-n:] if event.is_skip]

    def in_force(self, model: Model) -> Record | None:
        """Return the logged record without the items that the user reacted to since."""
        return None if self.record is None else without_items(model, self.record, list(self.shown))

    def shifts(self, model: Model) -> dict[int, FloatArray]:
        """Return how far contexts moved the user's vector, by the row of the item of the reaction."""
        found = {row: context_shift(model, event.context) for row, event in self.shown.items() if event.context}
        return {row: shift for row, shift in found.items() if shift is not None}
