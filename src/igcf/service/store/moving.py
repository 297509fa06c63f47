"""Moving users to the databases that they belong to, after one was added or is to be taken out.

All databases are marked first, so that no server uses them meanwhile. A user is copied whole, in one transaction, and
then deleted where the user was, in another; killed in between, the user is in both, and the next run replaces the copy.
When all users are in their places, the databases are marked as steady. Every step may be repeated.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.progress import Report, silent
from igcf.service.store.database import Database
from igcf.service.store.merging import add_answers, add_rows, lock_both, read_log, rows_to_add
from igcf.service.store.placement import (
    Record,
    by_id,
    get,
    is_empty,
    place_of,
    place_of_user,
    put,
    read_record,
    unfinished_import,
    write_record,
)
from igcf.service.store.records import user_hash
from igcf.service.store.rows import insert_rows
from igcf.service.store.statements import count_shown
from igcf.service.store.store import Store
from igcf.service.store.tables import (
    beliefs,
    feedback,
    item_events,
    items,
    merges,
    placement,
    recommendations,
    serving,
    shown,
    users,
)
from igcf.service.store.urls import is_missing_file
from igcf.service.store.user_log import lock_users

OF_USERS = (feedback, users, beliefs, recommendations)
COMMON = (serving, items, item_events)
ADDED = "counts of "
"""Begins the key under which a database keeps that it has the counts of another, until they are deleted there."""
AT_ONCE = 200
"""Users who are moved in one transaction."""
NOTICED_S = 3.0
"""How long to wait after the databases were marked: servers that should have been stopped notice it by then."""


@dataclass(frozen=True)
class Moved:
    """What a rebalancing did."""

    users: int
    databases: int


def rebalance(
    stay: Sequence[str], leave: Sequence[str] = (), report: Report = silent, *, noticed_s: float | None = None
) -> Moved:
    """Spread users over databases, and leave none in those that are to be taken out.

    Args:
        stay: URLs of the databases that users are to be spread over.
        leave: URLs of those that are taken out.
        report: told how many users have been moved.
        noticed_s: how long to wait for servers that should not run; None: three seconds.
    """
    for url in leave:
        if is_missing_file(url):
            raise StoreError(f"there is no database at {url} to take out")
    opened: list[Store] = []
    try:
        for url in (*stay, *leave):
            opened.append(Store(url))
        databases = by_id([store.database for store in opened])
        ids = list(databases)
        return _rebalance(
            databases, ids[: len(stay)], ids[len(stay) :], report, NOTICED_S if noticed_s is None else noticed_s
        )
    finally:
        for store in opened:
            store.close()


def _rebalance(
    databases: Mapping[str, Database], stay: Sequence[str], leave: Sequence[str], report: Report, noticed_s: float
) -> Moved:
    records = {each: _record_of(each, database) for each, database in databases.items()}
    _refuse_missing(databases, records)
    _refuse_unknown(databases, records, leave)
    names = {each: database.name for each, database in databases.items()}
    common = _common(databases, records, stay)
    members, leaving = {each: names[each] for each in stay}, {each: names[each] for each in leave}
    for database in databases.values():
        write_record(database, Record("moving", members, common, leaving))
    report("users moved", 0, None)
    time.sleep(noticed_s)
    _move_common(databases, common)
    for database in databases.values():
        _end_counts(databases, database)
    n = 0
    for each, database in databases.items():
        for group in _strangers(database, each, stay):
            for target in stay:
                mine = [user_id for user_id in group if place_of_user(user_id, stay) == target]
                if mine and target != each:
                    _move_users(database, databases[target], mine)
                    n += len(mine)
                    report("users moved", n, None)
        _move_merges(database, each, databases, stay)
        if each in leaving:
            _move_counts(database, each, databases[common])
    for each in leave:
        write_record(databases[each], Record("left", members, common))
    for each in stay:
        write_record(databases[each], Record("steady", members, common))
    return Moved(n, len(stay))


def _record_of(own: str, database: Database) -> Record | None:
    """Read what a database knows of the others; None also where it is alone and empty: it may join any store."""
    record = read_record(database)
    return None if record is not None and record.members.keys() == {own} and is_empty(database) else record


def _refuse_missing(databases: Mapping[str, Database], records: Mapping[str, Record | None]) -> None:
    """Refuse where a database with users is not named or half full, or where one that joins has users of its own."""
    known: dict[str, str] = {}
    for each, record in _nearest_first(records):
        if record.state == "importing":
            raise StoreError(unfinished_import(databases[each].name))
        if known and not known.keys() & {each, *record.members, *record.leaving}:
            raise StoreError(f"{databases[each].name} belongs to another store; a database that joins must be empty")
        known |= {**record.members, **record.leaving}
    missing = [name for each, name in known.items() if each not in databases]
    if missing:
        raise StoreError(f"{missing[0]} has users of this store; name it with --store, or with --remove to take it out")
    strange = [each for each, record in records.items() if each not in known and not is_empty(databases[each])]
    if len(strange) > (0 if known else 1):
        raise StoreError(f"{databases[strange[-1]].name} belongs to another store; a database that joins must be empty")


def _refuse_unknown(
    databases: Mapping[str, Database], records: Mapping[str, Record | None], leave: Sequence[str]
) -> None:
    """Refuse to take out what never was in."""
    for each in leave:
        if records[each] is None and is_empty(databases[each]):
            raise StoreError(
                f"{databases[each].name} is not one of the databases of this store: it cannot be taken out"
            )


def _nearest_first(records: Mapping[str, Record | None]) -> Iterator[tuple[str, Record]]:
    """Yield what databases know of others, if they do: next always one that has a database in common with those before.

    A rebalancing that was interrupted leaves records that differ, each of which names some of the same databases.
    """
    left = {each: record for each, record in records.items() if record is not None and record.state != "left"}
    met: set[str] = set()
    while left:
        each = next((e for e, r in left.items() if met & {e, *r.members, *r.leaving}), next(iter(left)))
        record = left.pop(each)
        met |= {each, *record.members, *record.leaving}
        yield each, record


def _common(databases: Mapping[str, Database], records: Mapping[str, Record | None], stay: Sequence[str]) -> str:
    """Find the database that is to hold what belongs to no user: the one that does, unless it is taken out."""
    old = _old_common(databases, records)
    return old if old in stay else stay[0]


def _old_common(databases: Mapping[str, Database], records: Mapping[str, Record | None]) -> str:
    known = [record.common for record in records.values() if record is not None and record.state != "left"]
    if known:
        return known[0]
    return next((each for each, database in databases.items() if not is_empty(database)), next(iter(databases)))


def _move_common(databases: Mapping[str, Database], common: str) -> None:
    """Copy items and announced models from the database that held them; what is there already is not replaced."""
    target = databases[common]
    for source in (database for each, database in databases.items() if each != common):
        for table in COMMON:
            rows = _rows(source, sa.select(table))
            if rows:
                key = next(iter(table.primary_key.columns))
                target.write(lambda c, t=table, k=key, r=rows: _insert_missing(c, t, k, r))  # type: ignore[misc]
                source.write(lambda c, t=table: c.execute(sa.delete(t)))  # type: ignore[misc]


def _insert_missing(
    connection: sa.Connection, table: sa.Table, key: "sa.Column[Any]", rows: Sequence[dict[str, Any]]
) -> None:
    there = set(connection.execute(sa.select(key)).scalars())
    insert_rows(connection, table, [row for row in rows if row[key.name] not in there])


def _strangers(database: Database, own: str, stay: Sequence[str]) -> Iterator[list[str]]:
    """Find the users who do not belong into a database, a few at a time."""
    for table in OF_USERS:
        last = ""
        while True:
            query = sa.select(table.c.user_id).where(table.c.user_id > last).distinct().order_by(table.c.user_id)
            found = [row["user_id"] for row in _rows(database, query.limit(AT_ONCE))]
            if not found:
                break
            last = found[-1]
            strangers = [user_id for user_id in found if place_of_user(user_id, stay) != own]
            if strangers:
                yield strangers


def _move_users(source: Database, target: Database, user_ids: Sequence[str]) -> None:
    left = list(user_ids)
    while left:  # again those to whom a server that should have been stopped added something meanwhile
        rows = {table: _rows(source, sa.select(table).where(table.c.user_id.in_(left))) for table in OF_USERS}
        target.write(lambda connection, r=rows, u=left: _take_in(connection, r, u))  # type: ignore[misc]
        known = {row["user_id"]: (row["born"], row["revision"]) for row in rows[users]}
        left = source.write(lambda connection, u=left, k=known: _drop(connection, u, k))  # type: ignore[misc]


def _take_in(
    connection: sa.Connection, rows: Mapping[sa.Table, Sequence[dict[str, Any]]], user_ids: Sequence[str]
) -> None:
    """Put users in their place; one who is there with another log has the reactions of both, each once.

    A copy that an interrupted run left there is replaced; one that has gone on since is not, what comes is older then.
    """
    query = sa.select(users.c.user_id, users.c.born, users.c.revision).where(users.c.user_id.in_(user_ids))
    moved = {row["user_id"]: row for row in rows[users]}
    both = {
        user_id
        for user_id, born, revision in connection.execute(query)
        if user_id in moved and (moved[user_id]["born"] != born or moved[user_id]["revision"] < revision)
    }
    for table in (feedback, users, beliefs):
        whole = [row for row in rows[table] if row["user_id"] not in both]
        names = sorted({row["user_id"] for row in whole})
        connection.execute(sa.delete(table).where(table.c.user_id.in_(names)))
        insert_rows(connection, table, whole)
    for user_id in both:
        revision = lock_both(connection, user_id, user_id)[user_id]
        log = sorted((row for row in rows[feedback] if row["user_id"] == user_id), key=lambda row: row["revision"])
        new, _ = rows_to_add(log, read_log(connection, user_id), user_id, revision, user_hash(user_id))
        if new:
            add_rows(connection, user_id, new, is_new=False)
    add_answers(connection, rows[recommendations])


def _drop(connection: sa.Connection, user_ids: Sequence[str], known: Mapping[str, tuple[str, int]]) -> list[str]:
    """Delete users whose logs are as `known`; returns the others."""
    found = lock_users(connection, sorted(user_ids))
    changed = [each for each, user in found.items() if (user.born, user.revision) != known.get(each)]
    unchanged = [each for each in user_ids if each not in changed]
    for table in OF_USERS:
        connection.execute(sa.delete(table).where(table.c.user_id.in_(unchanged)))
    return changed


def _move_merges(source: Database, own: str, databases: Mapping[str, Database], stay: Sequence[str]) -> None:
    """Move the marks of merges to the databases of their visitors."""
    for row in _rows(source, sa.select(merges)):
        place = place_of(row["visitor_hash"], stay)
        if place != own:
            same = merges.c.visitor_hash == row["visitor_hash"]

            def move(connection: sa.Connection, same: Any = same, row: dict[str, Any] = row) -> None:
                connection.execute(sa.delete(merges).where(same))
                connection.execute(sa.insert(merges).values(row))

            databases[place].write(move)
            source.write(lambda connection, same=same: connection.execute(sa.delete(merges).where(same)))  # type: ignore[misc]


def _move_counts(source: Database, own: str, target: Database) -> None:
    """Add how often items were shown to users of a database that is taken out; once, however often this is run."""
    counts = [(row["item_id"], row["times"], row["explored"]) for row in _rows(source, sa.select(shown))]
    if not counts:
        return

    def add(connection: sa.Connection) -> None:
        if get(connection, f"{ADDED}{own}") is None:  # it is where the answer to the commit was lost
            connection.execute(*count_shown(connection, counts))
            put(connection, f"{ADDED}{own}", "added")

    target.write(add)
    _end_counts({own: source}, target)


def _end_counts(databases: Mapping[str, Database], target: Database) -> None:
    """Delete counts where they were that are in `target` by now, also those that an interrupted run added."""
    keys = _rows(target, sa.select(placement.c.key).where(placement.c.key.startswith(ADDED)))
    for key in (row["key"] for row in keys):
        source = databases.get(key.removeprefix(ADDED))
        if source is not None:
            source.write(lambda connection: connection.execute(sa.delete(shown)))
            target.write(lambda connection, k=key: connection.execute(sa.delete(placement).where(placement.c.key == k)))  # type: ignore[misc]


def _rows(database: Database, query: "sa.Select[Any]") -> list[dict[str, Any]]:
    return database.read(lambda connection: [dict(row) for row in connection.execute(query).mappings()])
