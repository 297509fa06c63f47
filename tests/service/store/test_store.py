"""The store by itself: migrations, one truth, nothing left of a forgotten user."""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from igcf.errors import StoreError
from igcf.item import Item
from igcf.service.store import NewEvent, Store, in_force, interactions_from_store, tables
from igcf.service.store.audit import Answer, AuditLog, delete_answers
from igcf.service.store.items import ItemStore
from igcf.service.store.records import Appended
from igcf.service.store.tables import recommendations
from igcf.service.store.urls import database_url
from tests.service.postgres import Cluster
from tests.service.processes import wait_until


def add(store: Store, user: str, *events: NewEvent) -> int:
    return store.append(user, events, "m").version[1]


def test_an_older_schema_is_migrated_and_keeps_its_users(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(store_url)
    add(store, "ann", NewEvent("e1", "i1", 4.5))
    store.close()
    own = tables.SCHEMA
    monkeypatch.setattr(tables, "MIGRATIONS", (*tables.MIGRATIONS, ("ALTER TABLE users ADD COLUMN note TEXT",)))
    monkeypatch.setattr(tables, "SCHEMA", own + 1)
    for _ in range(2):  # once; the second time there is nothing to do
        store = Store(store_url)
        found = store.database.read(lambda connection: connection.exec_driver_sql("SELECT note FROM users").all())
        versions = store.database.read(
            lambda c: c.exec_driver_sql("SELECT version FROM schema_version").scalars().all()
        )
        store.close()
        assert [*map(tuple, found)] == [(None,)]
        assert sorted(versions) == [own, own + 1]


def test_a_store_from_before_attributes_is_migrated(store_url: str) -> None:
    store = Store(store_url)
    add(store, "ann", NewEvent("e1", "i1", 4.5))
    store.close()
    engine = sa.create_engine(database_url(store_url))
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE feedback DROP COLUMN details")
        connection.exec_driver_sql("DROP INDEX recommendations_due")
        for column in ("experiment", "arm", "due"):
            connection.exec_driver_sql(f"ALTER TABLE recommendations DROP COLUMN {column}")
        connection.exec_driver_sql("DROP TABLE experiments")
        connection.exec_driver_sql("UPDATE schema_version SET version = 1")
    engine.dispose()
    store = Store(store_url)
    add(store, "ann", NewEvent("a1", None, None, evidence="attributes", details='{"age": 3}'))
    events = in_force(store.events("ann"))
    assert [(event.event_id, event.details) for event in events] == [("e1", None), ("a1", '{"age": 3}')]
    store.close()


def test_every_table_that_grows_with_the_users_has_the_user_first_in_its_key() -> None:
    """So that a database that shards by user keeps all rows of one user together."""
    of_no_user = {"deletions", "serving", "items", "item_events", "experiments"}
    for name, table in tables.metadata.tables.items():
        assert name in of_no_user or table.primary_key.columns.keys()[0] == "user_id"
        assert not table.foreign_keys


def test_a_newer_schema_is_refused_and_left_alone(store_url: str) -> None:
    Store(store_url).close()
    engine = sa.create_engine(database_url(store_url))
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO schema_version VALUES (99, 0)")
    with pytest.raises(StoreError, match="schema 99"):
        Store(store_url)
    engine.dispose()


def test_several_servers_may_open_a_blank_store_at_once(store_url: str) -> None:
    stores: list[Store] = []
    threads = [threading.Thread(target=lambda: stores.append(Store(store_url))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores) == 6
    for store in stores:
        store.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://host/db", "not supported"),
        ("sqlite:///:memory:", "not supported"),
        ("postgresql://user:secret@127.0.0.1:1/db", "did not answer"),
        ("/no/such/folder/store.db", "did not answer"),
        ("://", "cannot be read"),
    ],
)
def test_a_bad_store_is_one_sentence_without_the_password(url: str, message: str) -> None:
    with pytest.raises(StoreError, match=message) as caught:
        Store(url)
    assert "secret" not in str(caught.value)


def test_postgresql_without_its_driver_names_the_extra_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"pip install 'igcf\[postgresql\]'"):
        Store("postgresql://user@127.0.0.1:1/db")


def test_reactions_of_many_threads_and_servers_all_count(store_url: str) -> None:
    stores = [Store(store_url), Store(store_url)]

    def work(number: int) -> None:
        for i in range(20):
            add(stores[number % 2], "ann", NewEvent(f"{number}-{i // 2}", "i1", 1.0))  # each one twice

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = stores[0].events("ann")
    assert [event.revision for event in events] == list(range(1, 61))
    assert {event.event_id for event in events} == {f"{number}-{i}" for number in range(6) for i in range(10)}
    assert stores[1].version("ann")[1] == 60
    for store in stores:
        store.close()


def refuse_reactions_of(store: Store, user: str) -> None:
    """Let the database refuse whatever is appended to the log of one user."""
    if store.database.is_postgres:
        store.database.write(
            lambda connection: connection.exec_driver_sql(
                "CREATE FUNCTION refuse() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'power cut'; END $$ LANGUAGE "
                "plpgsql; CREATE TRIGGER refusal BEFORE INSERT ON feedback FOR EACH ROW "
                f"WHEN (NEW.user_id = '{user}') EXECUTE FUNCTION refuse()"
            )
        )
    else:
        store.database.write(
            lambda connection: connection.exec_driver_sql(
                f"CREATE TRIGGER refusal BEFORE INSERT ON feedback WHEN NEW.user_id = '{user}' "
                "BEGIN SELECT RAISE(ABORT, 'power cut'); END"
            )
        )


def test_a_change_that_fails_changes_nothing(store_url: str) -> None:
    store = Store(store_url)
    refuse_reactions_of(store, "ann")
    with pytest.raises(StoreError, match="power cut"):
        add(store, "ann", NewEvent("e1", "i1", 1.0))
    assert store.version("ann") == ("", 0)
    assert store.events("ann") == []
    store.close()


def test_one_that_is_refused_among_many_does_not_spoil_the_others(store_url: str) -> None:
    store = Store(store_url)
    refuse_reactions_of(store, "u5")
    found = store.append_all({f"u{n}": [NewEvent("e", "i1", 1.0)] for n in range(9)}, "m")
    assert [user for user, each in found.items() if isinstance(each, StoreError)] == ["u5"]
    assert [store.version(f"u{n}")[1] for n in range(9)] == [1, 1, 1, 1, 1, 0, 1, 1, 1]
    store.close()


def test_retractions_are_rows_of_their_own(store_url: str) -> None:
    store = Store(store_url)
    add(store, "ann", NewEvent("e1", "i1", 1.0), NewEvent("e2", "i2", None))
    assert store.retract("ann", "e1", "m") == 3
    assert store.retract("ann", "e1", "m") == 3
    assert store.retract("ann", "nothing", "m") is None
    assert store.retract("bob", "e1", "m") is None
    assert len(store.events("ann")) == 3
    assert [event.event_id for event in in_force(store.events("ann"))] == ["e2"]
    assert store.version("bob") == ("", 0)
    store.close()


def test_a_retraction_whose_commit_succeeded_without_confirmation_is_reported_as_done(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(store_url)
    add(store, "ann", NewEvent("e1", "i1", 1.0), NewEvent("e2", "i2", None))
    commit, lost = sa.Connection.commit, [True]

    def commit_and_lose_the_answer(connection: sa.Connection) -> None:
        commit(connection)
        if lost.pop() if lost else False:
            raise sa.exc.OperationalError("COMMIT", {}, OSError("gone"), connection_invalidated=True)

    monkeypatch.setattr(sa.Connection, "commit", commit_and_lose_the_answer)
    assert store.retract("ann", "e1", "m") == 3
    assert not lost
    assert len(store.events("ann")) == 3
    store.close()


def everything(store: Store) -> str:
    """All rows of all tables as text."""
    return store.database.read(
        lambda connection: "\n".join(
            str(row) for table in tables.metadata.tables.values() for row in connection.execute(sa.select(table))
        )
    )


def answer(user: str, time: float) -> Answer:
    items = [
        {"item": "i1", "score": 1.0, "mean": 0.5, "std": 0.5, "mean_rank": 1, "reason": "please", "propensity": 1.0}
    ]
    return Answer(f"r-{user}-{time}", user, "m", 1, '{"name": "ucb"}', "exact", items, time)


def test_nothing_of_a_forgotten_user_remains(store_url: str, tmp_path: Path) -> None:
    store = Store(store_url)
    audit = AuditLog(store, size=100)
    add(store, "ann-of-green-gables", NewEvent("secret-event", "i1", 1.0))
    add(store, "bob", NewEvent("other", "i1", 1.0))
    audit.add(answer("ann-of-green-gables", 1.0))
    audit.add(answer("bob", 1.0))
    audit.flush()
    assert "ann-of-green-gables" in everything(store)
    assert store.forget("ann-of-green-gables") == 1
    left = everything(store)
    assert "ann-of-green-gables" not in left
    assert "secret-event" not in left
    assert "bob" in left
    audit.add(answer("ann-of-green-gables", 2.0))  # given before the deletion, written after it by another worker
    audit.flush()
    assert "ann-of-green-gables" not in everything(store)
    audit.close()
    if not store.database.is_postgres:
        assert not store.database.erase()
        for file in tmp_path.glob("store.db*"):
            assert b"ann-of-green-gables" not in file.read_bytes(), file
    store.close()


def test_a_user_who_comes_back_is_a_new_one(store_url: str) -> None:
    store = Store(store_url)
    add(store, "ann", NewEvent("e1", "i1", 1.0))
    first, _ = store.version("ann")
    store.forget("ann")
    add(store, "ann", NewEvent("e1", "i1", 1.0))
    second, revision = store.version("ann")
    assert revision == 1
    assert first != second
    store.close()


def test_the_log_can_be_learned_from(store_url: str) -> None:
    store = Store(store_url)
    with pytest.raises(StoreError, match="no reactions"):
        interactions_from_store(store_url)
    add(store, "ann", NewEvent("e1", "i1", 1.0), NewEvent("e2", "i2", None), NewEvent("e3", "i3", 3.0))
    add(store, "bob", NewEvent("e1", "i3", 5.0))
    store.retract("bob", "nothing", "m")
    store.retract("ann", "e3", "m")
    data = interactions_from_store(store_url)
    found = {
        (data.user_ids[u], data.item_ids[i], float(v))
        for u, i, v in zip(data.user_idx, data.item_idx, data.values, strict=True)
    }
    assert found == {("ann", "i1", 1.0), ("bob", "i3", 5.0)}
    assert data.titles is None
    store.close()


def test_items_are_learned_with_the_descriptions_that_the_store_has(store_url: str) -> None:
    store = Store(store_url)
    add(store, "ann", NewEvent("e1", "i1", 1.0), NewEvent("e2", "i2", 3.0))
    described = Item("i2", title="Second", categories=("Drama",), numbers={"year": 1994.0}, hidden=True)
    ItemStore(store.database).put([described], is_known=lambda _: True)
    data = interactions_from_store(store_url)
    assert data.titles is not None
    assert data.categories is not None
    assert data.attributes is not None
    told = dict(zip(data.item_ids, zip(data.titles, data.categories, strict=True), strict=True))
    assert told == {"i1": ("i1", ()), "i2": ("Second", ("Drama",))}
    assert data.attributes.of(data.item_ids.index("i2"))["numbers"] == {"year": 1994.0}
    assert data.attributes.hidden is None  # the store itself says so, for as long as it is so
    store.close()


def test_names_that_mean_something_elsewhere_are_plain_names_here(store_url: str) -> None:
    names = ['a"b\\c', "é\U0001f600", "100", "null", "$[0]", "'); DROP TABLE users; --", "a:b,c{}", "\u2028"]
    store = Store(store_url)
    for turn in (1, 2):  # the second time everybody is known
        events = [NewEvent(f"{turn} {name}", name, turn / 3) for name in names]
        found = store.append_all({name: [event, event] for name, event in zip(names, events, strict=True)}, "m")
        for name, each in found.items():
            assert isinstance(each, Appended)
            assert [(receipt.revision, receipt.duplicate) for receipt in each.receipts] == [(turn, False), (turn, True)]
            assert store.version(name)[1] == turn
    again = store.append_all({name: [NewEvent(f"1 {name}", name, 1 / 3)] for name in names}, "m")
    assert all(isinstance(each, Appended) and not each.fresh for each in again.values())
    assert [[event.value for event in store.events(name)] for name in names] == [[1 / 3, 2 / 3]] * len(names)
    store.close()


def test_a_store_that_does_not_exist_is_not_created_for_reading(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store at"):
        interactions_from_store(str(tmp_path / "none.db"))
    assert list(tmp_path.iterdir()) == []


def test_answers_are_deleted_from_the_audit_after_some_days(store_url: str) -> None:
    store = Store(store_url)
    now = time.time()
    audit = AuditLog(store, size=100)
    for days in (0, 1, 3, 4, 5):
        audit.add(answer("ann", now - 86_400 * days))
    audit.close()
    assert delete_answers(store.database, before=now - 86_400 * 4.5, limit=1) == 1
    keeping = AuditLog(store, size=100, days=2)
    query = sa.select(sa.func.count()).select_from(recommendations)
    wait_until(
        lambda: store.database.read(lambda connection: connection.execute(query).scalar_one()) == 2,
        "answers older than two days have been deleted",
    )
    keeping.close()
    store.close()


@pytest.mark.parametrize("before", ["DELETE FROM feedback", "DELETE FROM users"])
@pytest.mark.parametrize("way", ["deletion", "merge"])
def test_a_first_reaction_beside_a_deletion_or_a_merge_is_before_all_of_it_or_after_it(
    cluster: Cluster, before: str, way: str
) -> None:
    """PostgreSQL locks rows that are there; somebody without a reaction has none."""
    url = cluster.new_store()
    here, there = Store(url), Store(url)
    threads: list[threading.Thread] = []

    def react(*said: object) -> None:
        if str(said[2]).startswith(before) and not threads:
            threads.append(threading.Thread(target=lambda: add(there, "visitor", NewEvent("e1", "i1", 1.0))))
            threads[0].start()
            threads[0].join(0.3)  # it ends here where nothing keeps it waiting

    ways: dict[str, Callable[[], object]] = {
        "deletion": lambda: here.forget("visitor"),
        "merge": lambda: here.merge("visitor", "ann", "m"),
    }
    event.listen(here.database.engine, "before_cursor_execute", react)
    ways[way]()
    threads[0].join()
    assert [each.event_id for each in here.events("visitor")] == ["e1"]
    assert add(here, "visitor", NewEvent("e2", "i1", 1.0)) == 2
    for store in (here, there):
        store.close()
