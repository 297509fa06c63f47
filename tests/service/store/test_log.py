"""One write path and one definition of what is in force."""

import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from igcf.service.store import NewEvent, Store, in_force
from igcf.service.store import audit as audit_module
from igcf.service.store import database as database_module
from igcf.service.store import log as log_module
from igcf.service.store.audit import AuditLog
from igcf.service.store.records import user_hash
from igcf.service.store.tables import deletions
from tests.service.conftest import OpenService
from tests.service.processes import wait_until


def values(store: Store, user: str) -> list[tuple[str | None, float | None]]:
    return [(event.item_id, event.value) for event in in_force(store.events(user))]


def test_the_latest_reaction_to_an_item_is_in_force_by_the_time_at_which_it_happened(store_url: str) -> None:
    store = Store(store_url)
    store.append("ann", [NewEvent("e1", "i1", 1.0), NewEvent("e2", "i2", 2.0)], "m")
    store.append("ann", [NewEvent("e3", "i1", 5.0)], "m")
    assert values(store, "ann") == [("i2", 2.0), ("i1", 5.0)]
    store.append("ann", [NewEvent("e4", "i1", 3.0, time=10.0)], "m")  # from the queue of a phone that was offline
    store.append("ann", [NewEvent("e5", "i1", None)], "m")  # shown again, without a reaction
    assert values(store, "ann") == [("i2", 2.0), ("i1", 5.0)]
    store.retract("ann", "e3", "m")
    assert values(store, "ann") == [("i1", 1.0), ("i2", 2.0)]
    store.close()


def test_a_clock_that_is_set_back_does_not_change_the_order(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(store_url)
    store.append("ann", [NewEvent("e1", "i1", 1.0)], "m")
    monkeypatch.setattr(log_module, "_now", lambda: 1_000.0)
    store.append("ann", [NewEvent("e2", "i1", 5.0)], "m")
    assert values(store, "ann") == [("i1", 5.0)]
    arrived = [event.arrived for event in store.events("ann")]
    assert arrived == sorted(arrived)
    store.close()


def test_event_time_is_the_clients_and_arrival_the_servers(store_url: str) -> None:
    store = Store(store_url)
    before = time.time() - 1
    store.append("ann", [NewEvent("e1", "i1", 1.0, time=10.0), NewEvent("e2", "i2", 1.0, time=9e9)], "m")
    store.append("ann", [NewEvent("e3", "i3", 1.0, evidence="logged")], "m")
    one, two, three = store.events("ann")
    assert one.time == 10.0
    assert two.time == two.arrived  # nothing that was shown happens after it has arrived
    assert three.time is None
    assert before < one.arrived <= two.arrived <= three.arrived
    store.close()


def test_a_reaction_dated_an_hour_back_reaches_all_servers(open_service: OpenService) -> None:
    """Servers looked for changes by the time of the reaction, so that they disagreed about a new item."""
    one, two = open_service(), open_service()
    query = sa.text("SELECT COUNT(*) FROM feedback WHERE arrived >= :since")
    since = time.time() - 10
    one.store.append("ann", [NewEvent("e1", "item-1", 5.0, time=time.time() - 3600)], "m")
    assert two.store.database.read(lambda connection: connection.execute(query, {"since": since}).scalar_one()) == 1


def test_users_and_the_reactions_to_an_item_are_listed_in_pages(store_url: str) -> None:
    store = Store(store_url)
    names = [f"user-{number:02d}" for number in range(10)]
    for name in names:
        store.append(name, [NewEvent("e1", "i1", 1.0), NewEvent("e2", "i1", 5.0), NewEvent("e3", "i2", 2.0)], "m")
    store.append("user-03", [NewEvent("e4", "i1", None, evidence="skip")], "m")
    store.retract("user-04", "e1", "m")
    store.retract("user-04", "e2", "m")
    listed: list[str] = []
    while page := store.list_users(listed[-1] if listed else "", 4):
        listed += [user.user for user in page]
    assert listed == names
    found: list[tuple[str, float | None]] = []
    while rows := store.item_feedback("i1", found[-1][0] if found else "", 3):
        found += [(row.user, row.value) for row in rows]
    assert found == [(name, 5.0) for name in names if name != "user-04"]
    store.close()


def test_the_number_of_statements_does_not_grow_with_the_users_of_a_batch(store_url: str) -> None:
    store = Store(store_url)
    statements: list[str] = []
    event.listen(store.database.engine, "before_cursor_execute", lambda *said: statements.append(said[2]))
    counts = []
    for n_users in (1, 60):
        statements.clear()
        store.append_all({f"u{n}": [NewEvent(f"e{n_users}", "i1", 1.0)] for n in range(n_users)}, "m")
        counts.append(len(statements))
    assert counts[0] == counts[1] or counts[1] <= counts[0] + 2
    store.close()


def test_the_hash_of_a_deleted_user_leaves_an_idle_server(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was removed only when an answer was written to the audit."""
    monkeypatch.setattr(audit_module, "FORGET_GRACE_S", 0.2)
    monkeypatch.setattr(audit_module, "TIDY_EVERY_S", 0.1)
    store = Store(store_url)
    audit = AuditLog(store, size=10)
    store.append("ann", [NewEvent("e1", "i1", 1.0)], "m")
    store.forget("ann")
    assert set(store.deletions()) == {user_hash("ann")}
    query = sa.select(sa.func.count()).select_from(deletions)
    wait_until(
        lambda: store.database.read(lambda connection: connection.execute(query).scalar_one()) == 0,
        "the mark of the deletion is gone",
    )
    audit.close()
    store.close()


def test_commits_wait_for_the_disk_and_a_long_log_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(tmp_path / "s.db"))
    for engine in (store.database.engine, store.database.reader):
        with engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2  # FULL
    assert not store.database.erase()
    store.append("ann", [NewEvent("e1", "i1", 1.0)], "m")
    log = tmp_path / "s.db-wal"
    assert not store.database.erase()
    assert log.stat().st_size > 0
    monkeypatch.setattr(database_module, "LONG_LOG", 1_000)
    assert not store.database.erase()
    assert log.stat().st_size == 0
    store.close()
