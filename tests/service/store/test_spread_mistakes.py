"""Several databases, named wrongly: refused in one sentence, and nothing is half done."""

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from igcf.cli.main import cli
from igcf.errors import StoreError
from igcf.service.store import NewEvent, Store
from igcf.service.store import moving as moving_module
from igcf.service.store.database import Database
from igcf.service.store.maintenance import backup_store, check_store, restore_store
from igcf.service.store.moving import Moved
from igcf.service.store.placement import Record, write_record
from igcf.service.store.spread import Spread, open_store, refuse_if_changed
from igcf.service.store.tables import shown
from igcf.service.store.transfer import export_store, import_store
from tests.service.store.test_spread import USERS, counts, fill, logs, moved


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def filled(*urls: str) -> None:
    store = open_store(urls)
    fill(store)
    store.close()


def test_two_stores_are_never_made_one(here: Path) -> None:
    filled("a.db", "b.db")
    filled("x.db", "y.db")
    filled("alone.db")
    moved(["alone.db"])  # it has a record of itself from now on
    before = [logs("a.db", "b.db"), logs("x.db", "y.db")]
    for stay, leave in ((["a.db", "b.db", "x.db", "y.db"], []), (["a.db", "b.db"], ["x.db", "y.db"])):
        with pytest.raises(StoreError, match=r"x\.db belongs to another store; a database that joins must be empty"):
            moved(stay, leave)
    with pytest.raises(StoreError, match=r"alone\.db belongs to another store"):
        moved(["a.db", "b.db", "alone.db"])
    assert [logs("a.db", "b.db"), logs("x.db", "y.db")] == before
    assert check_store("a.db", "b.db") == check_store("x.db", "y.db") == []


def test_an_empty_database_joins_also_after_it_was_by_itself(here: Path) -> None:
    filled("a.db")
    moved(["b.db"])
    assert moved(["a.db", "b.db"]) > 0


def test_a_misspelt_database_is_not_created(here: Path) -> None:
    filled("a.db", "b.db")
    for urls in (["a.db", "c.db"], ["c.db", "a.db"], ["a.db", "b.db", "c.db"]):
        with pytest.raises(StoreError, match=r"no database at c\.db; this store has sqlite:///a\.db, sqlite:///b\.db"):
            open_store(urls)
    with pytest.raises(StoreError, match=r"no database at c\.db to take out"):
        moved(["a.db", "b.db"], ["c.db"])
    assert not (here / "c.db").exists()
    Store("c.db").close()
    with pytest.raises(StoreError, match=r"c\.db is not one of the databases of this store"):
        moved(["a.db", "b.db"], ["c.db"])


def test_one_database_under_two_names_is_refused(here: Path) -> None:
    filled("a.db")
    moved(["a.db"])
    (here / "link.db").symlink_to("a.db")
    (here / "copy.db").write_bytes((here / "a.db").read_bytes())
    for other in ("link.db", "copy.db", f"sqlite:///{here}/a.db"):
        with pytest.raises(StoreError, match=r"named twice: sqlite:///a\.db and .* are one, or one is a copy"):
            moved(["a.db", other])


def test_the_databases_to_spread_over_are_named(here: Path) -> None:
    filled("a.db")
    found = CliRunner().invoke(cli, ["store", "rebalance", "--remove", "a.db"])
    assert found.exit_code == 2
    assert "name the databases that users are to be spread over" in found.output
    assert not (here / "igcf.db").exists()


def test_the_password_of_a_file_is_also_that_of_a_database_that_leaves(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def noted(stay: list[str], leave: list[str], _: object) -> Moved:
        asked.extend((*stay, *leave))
        return Moved(0, 1)

    monkeypatch.setattr(moving_module, "rebalance", noted)
    (here / "secret").write_text("hush")
    monkeypatch.setenv("IGCF_STORE_PASSWORD_FILE", "secret")
    command = ["store", "rebalance", "--store", "postgresql://u@one/igcf", "--remove", "postgresql://u@two/igcf"]
    found = CliRunner().invoke(cli, command)
    assert found.exit_code == 0, found.output
    assert asked == ["postgresql+psycopg://u:hush@one/igcf", "postgresql+psycopg://u:hush@two/igcf"]


def test_a_copy_that_is_behind_does_not_replace_what_came_after_it(here: Path) -> None:
    filled("a.db")
    moved(["a.db"])
    old = (here / "a.db").read_bytes()
    moved(["a.db", "b.db"])
    store = open_store(["a.db", "b.db"])
    assert isinstance(store, Spread)
    for user in USERS:
        store.append(user, [NewEvent("later", "i9", 5.0)], "m")
    store.close()
    expected = logs("a.db", "b.db")
    at_b = set(logs("b.db"))
    (here / "a.db").write_bytes(old)  # put back from before: all users are in it, as they were
    with pytest.raises(StoreError, match="rebalance"):
        open_store(["a.db", "b.db"])
    moved(["a.db", "b.db"])
    found = logs("a.db", "b.db")
    assert at_b
    assert {user: found[user] for user in at_b} == {user: expected[user] for user in at_b}


def test_what_a_forgotten_server_adds_while_its_user_is_moved_is_moved_too(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled("a.db")
    server = Store("a.db")
    take_in = moving_module._take_in
    late: list[str] = []

    def slow(connection: sa.Connection, rows: object, user_ids: list[str]) -> None:
        take_in(connection, rows, user_ids)  # type: ignore[arg-type]
        if not late:
            late.extend(user_ids)
            for user in user_ids:
                server.append(user, [NewEvent("late", "i9", 5.0)], "m")

    monkeypatch.setattr(moving_module, "_take_in", slow)
    moved(["a.db", "b.db"])
    server.close()
    assert late
    found = logs("a.db", "b.db")
    assert all(found[user].count(("late", "i9", 5.0)) == 1 for user in late)
    assert check_store("a.db", "b.db") == []


def test_counts_of_shown_items_are_moved_once_also_where_another_command_ends_the_moving(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled("a.db")
    store = Store("a.db")
    store.database.write(lambda c: c.execute(sa.insert(shown).values(item_id="i1", times=5, explored=2)))
    store.close()
    with monkeypatch.context() as patch:
        patch.setattr(moving_module, "_end_counts", _stopped_after_counts(moving_module._end_counts))
        with pytest.raises(KeyboardInterrupt):
            moved(["b.db"], ["a.db"])
    moved(["c.db"], ["a.db", "b.db"])
    last = Store("c.db")
    assert last.database.read(lambda c: c.execute(sa.select(shown)).all()) == [("i1", 5, 2)]
    last.close()


def _stopped_after_counts(end: Callable[..., None]) -> Callable[..., None]:
    def work(databases: dict[str, Database], target: Database) -> None:
        if len(databases) == 1:  # the counts are in both
            raise KeyboardInterrupt
        end(databases, target)

    return work


def test_an_export_is_imported_into_all_databases_or_into_none(here: Path) -> None:
    filled("a.db", "b.db")
    store = open_store(["a.db", "b.db"])
    export_store(store, Path("export"))
    store.close()
    target = open_store(["c.db", "d.db"])
    second = target.parts[1]
    second.append("somebody", [NewEvent("e1", "i1", 1.0)], "m")
    with pytest.raises(StoreError, match="is not empty"):
        import_store(target, Path("export"))
    target.close()
    assert counts("c.db", "d.db") == [0, 1]


STEPS_OF_AN_IMPORT = 6
"""Two databases are marked, filled, and marked as steady."""
KILLED_AFTER = """
import os, signal, sys
from igcf.cli.main import cli
from igcf.service.store import transfer

last, done = int(sys.argv.pop(1)), []

def counted(step):
    def work(*given):
        found = step(*given)
        done.append(step)
        if len(done) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    return work

transfer.write_record, transfer._import_part = counted(transfer.write_record), counted(transfer._import_part)
cli.main(sys.argv[1:])
"""


@pytest.mark.parametrize("step", range(1, STEPS_OF_AN_IMPORT + 1))
def test_a_store_whose_import_was_killed_is_not_served_before_it_is_repeated(
    here: Path, model_folder: Path, step: int
) -> None:
    filled("a.db", "b.db")
    store = open_store(["a.db", "b.db"])
    content = export_store(store, Path("export"))
    store.close()
    command = ["store", "import", "export", "--store", "c.db", "--store", "d.db"]
    killed = subprocess.run([sys.executable, "-c", KILLED_AFTER, str(step), *command], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    if step < STEPS_OF_AN_IMPORT:
        for work in (
            lambda: open_store(["c.db", "d.db"]),
            lambda: backup_store(["c.db", "d.db"], Path("copies")),
            lambda: moved(["c.db", "d.db"]),
        ):
            with pytest.raises(StoreError, match=r"by `igcf store import`, or that was interrupted: .*; run it again"):
                work()
        served = CliRunner().invoke(cli, ["serve", str(model_folder), "--store", "c.db", "--store", "d.db"])
        assert (served.exit_code, "users may be missing; run it again" in served.stderr) == (2, True), served.output
    again = CliRunner().invoke(cli, command)
    assert again.exit_code == 0, again.output
    target = open_store(["c.db", "d.db"])
    assert export_store(target, Path("again")) == content
    target.close()


def test_an_export_that_is_damaged_leaves_the_databases_empty_and_in_use(here: Path) -> None:
    filled("a.db", "b.db")
    store = open_store(["a.db", "b.db"])
    export_store(store, Path("export"))
    store.close()
    (here / "export" / "users" / "00000.parquet").unlink()
    target = open_store(["c.db", "d.db"], is_import=True)
    with pytest.raises(StoreError, match="users is damaged"):
        import_store(target, Path("export"))
    target.close()
    assert counts("c.db", "d.db") == [0, 0]
    open_store(["c.db", "d.db"]).close()


def test_a_copy_of_several_databases_is_whole_or_not_there(here: Path) -> None:
    filled("a.db", "b.db")
    with pytest.raises(StoreError, match=r"one of several databases of a store; name also sqlite:///b\.db"):
        backup_store(["a.db"], Path("copy"))
    backup_store(["b.db", "a.db"], Path("copies"))
    with pytest.raises(StoreError, match="has copies of 2 databases, 1 are named"):
        restore_store(Path("copies"), ["new.db"])
    with pytest.raises(StoreError, match=r"a\.db exists"):
        restore_store(Path("copies"), ["new.db", "a.db"])
    with pytest.raises(StoreError, match="named twice"):
        restore_store(Path("copies"), ["new.db", "new.db"])
    with pytest.raises(StoreError, match="no copy of a store at nothing"):
        restore_store(Path("nothing"), ["new.db", "newer.db"])
    (here / "b.db").write_bytes(b"SQLite format 3\x00" + b"x" * 5000)
    with pytest.raises(StoreError, match="cannot copy"):
        backup_store(["a.db", "b.db"], Path("again"))
    assert {path.name for path in here.iterdir()} == {"a.db", "b.db", "copies"}


def test_nothing_is_copied_while_users_are_moved(here: Path) -> None:
    filled("a.db", "b.db")
    with closing(sqlite3.connect("a.db")) as connection:
        (own,) = connection.execute("SELECT value FROM placement WHERE key = 'id'").fetchone()
    database = Database("a.db")
    write_record(database, Record("moving", {own: "a.db"}, own))
    database.close()
    with pytest.raises(StoreError, match="are being moved"):
        backup_store(["a.db", "b.db"], Path("copies"))


@pytest.mark.parametrize("put", [lambda path: Store(str(path)).close(), lambda path: path.unlink()])
def test_another_database_in_the_place_of_one_is_not_served(here: Path, put: Callable[[Path], None]) -> None:
    (here / "away").mkdir()
    filled("a.db", "away/b.db")
    (here / "away").rename("elsewhere")
    store = open_store(["a.db", "away/b.db"])
    assert isinstance(store, Spread)
    user = next(user for user in USERS if store.place(user) is store.parts[1])
    (here / "away").mkdir()
    (here / "away" / "b.db").touch()
    put(here / "away" / "b.db")
    store.parts[1].database.probe()
    refuse_if_changed(store)
    with pytest.raises(StoreError):
        store.append(user, [NewEvent("lost", "i1", 1.0)], "m")
    store.close()


def test_a_deletion_that_needs_a_database_that_is_away_deletes_nothing(here: Path) -> None:
    (here / "away").mkdir()
    filled("a.db", "away/b.db")
    (here / "away").rename("elsewhere")
    store = open_store(["a.db", "away/b.db"])
    user = next(user for user in USERS if store.place(user) is store.parts[0])
    before = store.version(user)
    with pytest.raises(StoreError, match="does not answer"):
        store.forget(user)
    assert store.version(user) == before
    store.close()


@pytest.mark.parametrize("record", ["{broken", "[]", '{"state": "steady"}', '{"of a later version": 1}'])
def test_a_record_that_cannot_be_read_is_told_in_one_sentence(here: Path, record: str) -> None:
    filled("a.db", "b.db")
    with closing(sqlite3.connect("b.db")) as connection:
        connection.execute("UPDATE placement SET value = ? WHERE key = 'record'", (record,))
        connection.commit()
    for work in (
        lambda: open_store(["a.db", "b.db"]),
        lambda: moved(["a.db", "b.db"]),
        lambda: backup_store(["a.db", "b.db"], Path("copies")),
    ):
        with pytest.raises(StoreError, match=r"what .*b\.db knows of the other databases cannot be read"):
            work()


def test_a_database_of_a_later_version_is_named(here: Path) -> None:
    filled("a.db", "b.db")
    with closing(sqlite3.connect("b.db")) as connection:
        connection.execute("INSERT INTO schema_version VALUES (99, 0)")
        connection.commit()
    with pytest.raises(StoreError, match=r"the store sqlite:///b\.db has schema 99"):
        open_store(["a.db", "b.db"])
