"""Copies of a store that is in use, and what `igcf store check` finds."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient

from igcf.cli.store import store as command
from igcf.errors import StoreError
from igcf.service.http.application import create_app
from igcf.service.store import Store
from igcf.service.store.maintenance import backup_store, check_store, restore_store
from tests.service.conftest import OpenService


def test_a_copy_holds_all_that_was_acknowledged_before_it(open_service: OpenService, tmp_path: Path) -> None:
    context = open_service()
    if context.store.database.is_postgres:
        with pytest.raises(StoreError, match="pg_dump"):
            backup_store("postgresql://postgres@/postgres", tmp_path / "copy")
        return
    url, acknowledged, stop = str(tmp_path / "store.db"), [], threading.Event()
    client = TestClient(create_app(context))

    def react() -> None:
        n = 0
        while not stop.is_set():
            body = {"item": f"item-{n % 200}", "value": 5, "event_id": f"e{n}"}
            assert client.post("/v1/users/ann/feedback", json=body).status_code == 200
            acknowledged.append(f"e{n}")
            n += 1

    writer = threading.Thread(target=react)
    writer.start()
    while len(acknowledged) < 5:
        stop.wait(0.01)
    before = list(acknowledged)
    backup_store(url, tmp_path / "copy")
    stop.set()
    writer.join()
    restore_store(tmp_path / "copy", str(tmp_path / "restored.db"))
    assert check_store(str(tmp_path / "restored.db")) == []
    restored = Store(str(tmp_path / "restored.db"))
    assert set(before) <= {event.event_id for event in restored.events("ann")}
    restored.close()
    for target in (tmp_path / "copy", tmp_path / "restored.db"):
        with pytest.raises(StoreError, match="never overwritten"):
            backup_store(url, target)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("DELETE FROM users", "not in the table of users"),
        ("DELETE FROM feedback", "without a reaction"),
        ("UPDATE users SET revision = 7", "not numbered"),
        ("UPDATE feedback SET retracts = 'nothing' WHERE revision = 2", "took back what is not in their log"),
    ],
)
def test_damage_is_found_and_told(open_service: OpenService, store_url: str, damage: str, message: str) -> None:
    client = TestClient(create_app(open_service()))
    for n in range(3):
        client.post("/v1/users/ann/feedback", json={"item": f"item-{n}", "value": 5, "event_id": f"e{n}"})
    assert CliRunner().invoke(command, ["check", "--store", store_url]).exit_code == 0
    broken = Store(store_url)
    broken.database.write(lambda connection: connection.exec_driver_sql(damage))
    broken.close()
    problems = check_store(store_url)
    assert [problem for problem in problems if message in problem and "'ann'" in problem]
    assert CliRunner().invoke(command, ["check", "--store", store_url]).exit_code != 0


def test_a_damaged_or_missing_file_is_not_copied(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        backup_store(str(tmp_path / "nothing.db"), tmp_path / "copy")
    (tmp_path / "broken.db").write_bytes(b"SQLite format 3\x00" + b"x" * 5000)
    with pytest.raises(StoreError, match="cannot copy"):
        backup_store(str(tmp_path / "broken.db"), tmp_path / "copy")
    assert {path.name for path in tmp_path.iterdir()} == {"broken.db"}
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
    (tmp_path / "s.db-wal").touch()
    with pytest.raises(StoreError, match="is left from another store"):
        restore_store(tmp_path / "s.db", str(tmp_path / "s.db"))
