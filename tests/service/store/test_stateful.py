"""The store against a simple model in memory: append, skip, retract, merge, delete, restart, export and import."""

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from igcf.service.errors import EventConflictError
from igcf.service.store import NewEvent, Store, in_force
from igcf.service.store import log as log_module
from igcf.service.store.maintenance import check_store
from igcf.service.store.records import user_hash
from igcf.service.store.transfer import export_store, import_store

USERS = st.sampled_from(["ann", "bob", "cid"])
ITEMS = st.sampled_from(["i1", "i2", "i3"])
IDS = st.integers(0, 12).map(lambda number: f"e{number}")
VALUES = st.sampled_from([None, 1.0, 5.0])
TIMES = st.sampled_from([None, 10.0, 20.0, 30.0])
EVIDENCE = st.sampled_from(["shown", "logged", "skip"])


@dataclass
class Simple:
    """An event of the model."""

    event_id: str
    item: str
    value: float | None
    evidence: str
    time: float | None
    is_retracted: bool = False

    @property
    def payload(self) -> tuple[object, ...]:
        return self.item, self.value, self.evidence


def in_force_simply(log: list[Simple]) -> list[Simple]:
    live = [event for event in log if not event.is_retracted]
    kept = []
    for place, event in enumerate(live):
        rivals = [(other, n) for n, other in enumerate(live) if other.item == event.item and other.evidence != "skip"]
        if event.evidence == "skip" or all(_rank(event, place) >= _rank(other, n) for other, n in rivals):
            kept.append(event)
    return kept


def _rank(event: Simple, place: int) -> tuple[bool, float, int]:
    return event.value is not None, 0.0 if event.time is None else event.time, place


class StoreAndModel(RuleBasedStateMachine):
    """Every rule does the same to the store and to the model."""

    @initialize()
    def start(self) -> None:
        self.now = 1e9
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(log_module, "_now", self.tick)
        self.folder = Path(tempfile.mkdtemp(prefix="igcf-stateful-"))
        self.n_files = 0
        self.store = Store(str(self.folder / "0.db"))
        self.logs: dict[str, list[Simple]] = {}
        self.rows: dict[str, int] = {}
        self.merged: dict[str, str] = {}

    def tick(self) -> float:
        self.now += 1.0
        return self.now

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.patch.undo()
            self.store.close()
            shutil.rmtree(self.folder)

    @rule(user=USERS, given=st.lists(st.tuples(IDS, ITEMS, VALUES, EVIDENCE, TIMES), min_size=1, max_size=4))
    def append(self, user: str, given: list[tuple[str, str, float | None, str, float | None]]) -> None:
        events = []
        for event_id, item, value, evidence, time in given:
            said = None if evidence == "skip" else 3.0 if evidence == "logged" and value is None else value
            events.append(Simple(event_id, item, said, evidence, time))
        found = self.store.append(
            user,
            [NewEvent(e.event_id, e.item, e.value, evidence=e.evidence, time=e.time) for e in events],  # type: ignore[arg-type]
            "m",
        )
        log = self.logs.setdefault(user, [])
        for event, receipt in zip(events, found.receipts, strict=True):
            known = next((other for other in log if other.event_id == event.event_id), None)
            assert receipt.duplicate == (known is not None)
            assert (receipt.conflict is not None) == (known is not None and known.payload != event.payload)
            if known is None:
                arrived = next(row.arrived for row in found.fresh if row.event_id == event.event_id)
                event.time = arrived if event.time is None and event.evidence != "logged" else event.time
                log.append(event)
                self.rows[user] = self.rows.get(user, 0) + 1
            assert receipt.revision == self.rows.get(user, 0)

    @rule(user=USERS, event_id=IDS)
    def retract(self, user: str, event_id: str) -> None:
        known = next((event for event in self.logs.get(user, []) if event.event_id == event_id), None)
        found = self.store.retract(user, event_id, "m")
        assert (found is None) == (known is None)
        if known is not None and not known.is_retracted:
            known.is_retracted = True
            self.rows[user] += 1

    @rule(user=USERS)
    def forget(self, user: str) -> None:
        assert self.store.forget(user) == self.rows.get(user, 0)
        self._drop(user)
        self.merged = {visitor: into for visitor, into in self.merged.items() if user not in (visitor, into)}

    @rule(visitor=USERS, user=USERS)
    def merge(self, visitor: str, user: str) -> None:
        if visitor == user:
            return
        if self.merged.get(visitor, user) != user:
            try:
                self.store.merge(visitor, user, "m")
            except EventConflictError:
                return
            raise AssertionError("a visitor was merged into two users")
        had = self.rows.get(visitor, 0)
        own = self.logs.get(user, [])
        moving = in_force_simply(self.logs.get(visitor, []))
        found = self.store.merge(visitor, user, "m")
        there = {event.event_id: event.payload for event in own}
        moved = []
        for each in moving:
            tail = f":{user_hash(visitor)[:16]}"
            names = [each.event_id + end for end in ("", tail, *(f"{tail}-{n}" for n in range(2, 40)))]
            name = next(name for name in names if there.get(name, each.payload) == each.payload)
            if name not in there:
                there[name] = each.payload
                moved.append(replace(each, event_id=name))
        assert (found.moved, found.known) == (len(moved), len(moving) - len(moved))
        added = self.store.events(user)[self.rows.get(user, 0) :]
        for event, row in zip(moved, added, strict=True):
            assert row.event_id == event.event_id
            self.logs.setdefault(user, []).append(event)
        if found.moved:
            self.rows[user] = self.rows.get(user, 0) + found.moved
        is_repeated = self.merged.get(visitor) == user
        assert found.duplicate == (is_repeated and not had)
        self._drop(visitor)
        into = {name: to for name, to in self.merged.items() if to != visitor}
        self.merged = into | ({visitor: user} if had or is_repeated else {})

    def _drop(self, user: str) -> None:
        self.logs.pop(user, None)
        self.rows.pop(user, None)

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = Store(str(self.folder / f"{self.n_files}.db"))

    @rule()
    def export_and_import(self) -> None:
        self.n_files += 1
        export_store(self.store, self.folder / f"export-{self.n_files}")
        self.store.close()
        self.store = Store(str(self.folder / f"{self.n_files}.db"))
        assert import_store(self.store, self.folder / f"export-{self.n_files}") or not self.rows

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "store"):
            return
        for user in ("ann", "bob", "cid"):
            events = self.store.events(user)
            assert len(events) == self.rows.get(user, 0) == self.store.version(user)[1]
            found = [(event.event_id, event.item_id, event.value, event.evidence) for event in in_force(events)]
            simple = in_force_simply(self.logs.get(user, []))
            assert found == [(event.event_id, event.item, event.value, event.evidence) for event in simple]
        assert [each.user for each in self.store.list_users()] == sorted(u for u, n in self.rows.items() if n)
        for item in ("i1", "i2", "i3"):
            expected = [
                (user, event.event_id)
                for user in sorted(self.logs)
                for event in in_force_simply(self.logs[user])
                if event.item == item and event.evidence != "skip"
            ]
            assert [(each.user, each.event_id) for each in self.store.item_feedback(item)] == expected
        assert check_store(str(self.folder / f"{self.n_files}.db")) == []


StoreAndModel.TestCase.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
test_the_store_does_what_a_simple_model_in_memory_does: Any = pytest.mark.slow(StoreAndModel.TestCase)
