"""Copies of a store that is in use, and what `igcf store check` finds."""

import json
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient

from igcf.cli.store import store as command
from igcf.errors import StoreError
from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.settings import ServiceSettings
from igcf.service.store import Store
from igcf.service.store.maintenance import backup_store, check_store, problems, restore_store
from igcf.service.store.transfer import export_store, import_store
from tests.service.conftest import OpenService
from tests.service.postgres import Cluster


def react(context: ServiceContext) -> TestClient:
    """Three reactions of each of three users, and an answer."""
    client = TestClient(create_app(context))
    for user, first in (("ann", 0), ("bob", 10), ("cid", 20)):
        for n in range(3):
            body = {"item": f"item-{first + n}", "value": 5, "event_id": f"e{n}"}
            assert client.post(f"/v1/users/{user}/feedback", json=body).status_code == 200
    client.post("/v1/users/ann/recommendations", json={"k": 2})
    context.audit.flush()
    return client


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


DAMAGE = (
    ("DELETE FROM users WHERE user_id = 'ann'", "users 'ann': reactions of somebody who is not in the table"),
    ("DELETE FROM feedback WHERE user_id = 'ann'", "users 'ann': a user without a reaction"),
    ("UPDATE users SET revision = 7 WHERE user_id = 'ann'", "users 'ann': the revision of the user is not that"),
    ("UPDATE feedback SET revision = 9 WHERE revision = 2", "feedback 'ann' 9: the revision before it is missing"),
    ("UPDATE feedback SET retracts = 'nothing' WHERE revision = 2", "feedback 'ann' 2: it takes back what is not"),
    ("UPDATE feedback SET item_id = NULL WHERE revision = 2", "feedback 'ann' 2: it is a reaction without"),
    ("UPDATE feedback SET evidence = 'told' WHERE revision = 2", "feedback 'ann' 2: its evidence is unknown"),
    ("UPDATE feedback SET time = 1e400 WHERE revision = 2", "feedback 'ann' 2: its value, time or arrival is not"),
    ("UPDATE recommendations SET items = 'x'", "its items cannot be read"),
    ("UPDATE recommendations SET revision = 8", "given at revision 8, the user has 3"),
)


def test_damage_is_found_row_by_row(open_service: OpenService) -> None:
    context = open_service()
    react(context)
    database = context.store.database
    infinity = "'Infinity'" if database.is_postgres else "1e400"
    for damage, row in (("UPDATE users SET updated = 1", None), *DAMAGE):
        with database.engine.connect() as connection:
            if not database.is_postgres:
                connection.exec_driver_sql("BEGIN")
            connection.exec_driver_sql(damage.replace("1e400", infinity))
            found = [str(each) for each in problems(connection)]
            connection.rollback()
        assert (found == []) if row is None else any(row in each for each in found), (damage, found)


def test_a_store_moves_to_the_other_kind_and_back_unchanged(
    cluster: Cluster, model_folder: Path, tmp_path: Path
) -> None:
    first, second, third = str(tmp_path / "a.db"), cluster.new_store(), str(tmp_path / "b.db")
    context = ServiceContext.open(model_folder, ServiceSettings(store=first))
    client = react(context)
    client.delete("/v1/users/bob/feedback/e1")
    client.post("/v1/users/cid/history", json={"reactions": [{"item": "item-7", "value": 3.7, "time": 1e9}]})
    context.store.announce(str(model_folder), "m")
    context.close()
    run = CliRunner().invoke
    for source, target, folder in ((first, second, "one"), (second, third, "two")):
        for arguments in (["export", str(tmp_path / folder), "--store", source],
                          ["import", str(tmp_path / folder), "--store", target]):  # fmt: skip
            done = run(command, arguments)
            assert done.exit_code == 0, done.output
    assert (tmp_path / "one" / "manifest.json").read_text() == (tmp_path / "two" / "manifest.json").read_text()
    tables = json.loads((tmp_path / "one" / "manifest.json").read_text())["rows"]
    assert (tables["feedback"], tables["recommendations"]) == (11, 1)
    with closing(sqlite3.connect(first)) as old, closing(sqlite3.connect(third)) as new:
        for table in tables:
            query = f"SELECT * FROM {table} ORDER BY 1, 2"
            assert old.execute(query).fetchall() == new.execute(query).fetchall()
    assert check_store(second) == check_store(third) == []


def test_an_import_is_whole_or_nothing(open_service: OpenService, store_url: str, tmp_path: Path) -> None:
    context = open_service()
    client = react(context)
    out, empty = tmp_path / "out", Store(str(tmp_path / "empty.db"))
    export_store(context.store, out)
    with pytest.raises(StoreError, match="never overwritten"):
        export_store(context.store, out)
    with pytest.raises(StoreError, match="is not an exported store"):
        import_store(empty, tmp_path)
    manifest = (out / "manifest.json").read_text()
    for wrong in (
        "[" * 100_000,
        '{"format": "igcf-store-1", "files": {}}',
        manifest.replace('"users": ', '"users": "x"'),
        manifest.replace("users/", "strangers/"),
    ):
        (out / "manifest.json").write_text(wrong)
        with pytest.raises(StoreError, match="is not an exported store"):
            import_store(empty, out)
    (out / "manifest.json").write_text(manifest)
    file = out / "users" / "00000.parquet"
    shutil.copy(file, file.with_name("00001.parquet"))  # a file that is not of the export is not read
    pl.read_parquet(file).with_columns(pl.col("revision") + 1).write_parquet(file)
    with pytest.raises(StoreError, match=r"00000.parquet is damaged: .*; nothing was imported"):
        import_store(empty, out)
    file.unlink()
    with pytest.raises(StoreError, match="cannot be read"):
        import_store(empty, out)
    file.with_name("00001.parquet").rename(file)
    assert empty.database.read(lambda connection: connection.exec_driver_sql("SELECT * FROM feedback").all()) == []
    client.post("/v1/users/dan/feedback", json={"item": "item-1", "value": 5})
    with pytest.raises(StoreError, match="is not empty"):
        import_store(context.store, out)
    empty.close()
    manifest = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps(manifest | {"schema": 9}))
    with pytest.raises(StoreError, match="exported with schema 9"):
        import_store(context.store, out)


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
