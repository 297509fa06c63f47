"""Which of several databases a user is in, and the record of all of them that each database keeps.

Every database has an id of its own, made once. A user is in the database whose id, hashed with the user's, gives the
largest number (rendezvous hashing): when a database joins or leaves, only users who come to it or from it move.
"""

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.service.store.database import Database
from igcf.service.store.records import user_hash
from igcf.service.store.tables import feedback, items, placement, serving, users

State = Literal["steady", "moving", "importing", "left"]
REBALANCE = "`igcf store rebalance` with one --store for each database"


@dataclass(frozen=True)
class Record:
    """What a database knows of the others."""

    state: State
    """`moving`, `importing`: users are on their way here, nobody may be served; `left`: it holds nothing any more."""
    members: Mapping[str, str]
    """Names of the databases, for people, by their ids: these are what users are spread over."""
    common: str
    """The id of the database that holds what belongs to no user."""
    leaving: Mapping[str, str] = field(default_factory=dict)
    """Databases whose users are being moved to the others."""

    def is_like(self, other: "Record") -> bool:
        """Whether both say the same, whatever the databases are called."""
        return (self.state, self.common, self.members.keys()) == (other.state, other.common, other.members.keys())


def place_of(hashed: str, ids: Iterable[str]) -> str:
    """Find the id of the database that a user is in, by the hash of the user's id."""
    return max(ids, key=lambda each: hashlib.blake2b(f"{each}:{hashed}".encode(), digest_size=16).digest())


def place_of_user(user_id: str, ids: Iterable[str]) -> str:
    """Find the id of the database that a user is in."""
    return place_of(user_hash(user_id), ids)


def read_record(database: Database) -> Record | None:
    """Read what a database knows of the others; None where it is the only one."""
    query = sa.select(placement.c.value).where(placement.c.key == "record")
    text = database.read(lambda connection: connection.execute(query).scalar())
    return None if text is None else record_from(text, database.name)


def record_from(text: str, name: str) -> Record:
    """Read what a database of this name knows of the others."""
    try:
        return Record(**json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreError(f"what {name} knows of the other databases cannot be read ({error}); restore it") from error


def write_record(database: Database, record: Record) -> None:
    """Let a database know of the others."""
    database.write(lambda connection: put(connection, "record", json.dumps(asdict(record))))


def put(connection: sa.Connection, key: str, value: str) -> None:
    """Keep a value under a key."""
    connection.execute(sa.delete(placement).where(placement.c.key == key))
    connection.execute(sa.insert(placement).values(key=key, value=value))


def get(connection: sa.Connection, key: str) -> str | None:
    """Read the value under a key."""
    return connection.execute(sa.select(placement.c.value).where(placement.c.key == key)).scalar()


def identity(database: Database) -> str:
    """Read the id of a database, which is made when it is first asked for."""
    query = sa.select(placement.c.value).where(placement.c.key == "id")
    found = database.read(lambda connection: connection.execute(query).scalar())
    if found is not None:
        return str(found)
    make = sa.text("INSERT INTO placement (key, value) VALUES ('id', :id) ON CONFLICT DO NOTHING")
    database.write(lambda connection: connection.execute(make, {"id": uuid.uuid4().hex}))
    return identity(database)


def by_id(databases: Sequence[Database]) -> dict[str, Database]:
    """Return databases by their ids; refuses where two are one."""
    found: dict[str, Database] = {}
    for database in databases:
        other = found.setdefault(identity(database), database)
        if other is not database:
            raise StoreError(
                f"a database is named twice: {other.name} and {database.name} are one, or one is a copy of the other; "
                "expected each once"
            )
    return found


def refuse_part(database: Database) -> None:
    """Refuse to serve one of several databases by itself."""
    record = read_record(database)
    if record is not None and not _is_alone(database, record):
        raise StoreError(_said(database, record))


def refuse_change(database: Database, known: Record | None, own: str | None = None) -> None:
    """Answer nothing from this database any more where users have been spread anew since it was opened.

    `known` is what was found then, and `own` its id; None where the database is the only one. Another database that was
    put in its place is refused as well.
    """
    record = read_record(database)
    if known is None:
        is_same = record is None or _is_alone(database, record)
    else:
        is_same = record is not None and record.is_like(known) and identity(database) == own
    if not is_same:
        database.refuse(
            "users have been spread anew, or it is another database; start the server again with all of them"
        )


def _is_alone(database: Database, record: Record) -> bool:
    return record.state == "steady" and record.members.keys() == {identity(database)}


def _said(database: Database, record: Record) -> str:
    if record.state == "left":
        others = ", ".join(record.members.values())
        return f"the users of {database.name} have been moved to other databases ({others}); name those"
    if record.state == "moving":
        return f"users of {database.name} are being moved, or the moving was interrupted; run {REBALANCE} again"
    if record.state == "importing":
        return unfinished_import(database.name)
    all_of_them = ", ".join(record.members.values())
    return f"{database.name} is one of the databases of a store: {all_of_them}; name them all, one --store each"


def unfinished_import(name: str) -> str:
    """Say that a database may hold only some of the users of an export."""
    return (
        f"{name} is being filled by `igcf store import`, or that was interrupted: users may be missing; run it again, "
        "with the same export and all databases"
    )


def agreed(databases: Mapping[str, Database], *, is_import: bool = False) -> Record:
    """Find the one record of all databases that answer; those that are empty are spread over from now on.

    Args:
        databases: by id; one that does not answer is not among them.
        is_import: whether it is the import of an export that asks, which may go on with one that was interrupted.
    """
    found = {each: read_record(database) for each, database in databases.items()}
    if is_import:
        found = {each: _as_steady(record) for each, record in found.items()}
    records = [record for record in found.values() if record is not None]
    for each, record in found.items():
        if record is not None and record.state != "steady":
            raise StoreError(_said(databases[each], record))
    if not records:
        return _first_record(databases)
    missing = [each for each, record in found.items() if record is None]
    if missing:
        raise StoreError(f"{databases[missing[0]].name} is not yet one of the databases of this store; run {REBALANCE}")
    if not all(record.is_like(records[0]) for record in records):
        raise StoreError(f"the databases do not belong together, or a moving was interrupted; run {REBALANCE}")
    strange = [each for each in databases if each not in records[0].members]
    if strange:
        raise StoreError(f"{databases[strange[0]].name} is not one of the databases of this store; run {REBALANCE}")
    return records[0]


def _as_steady(record: Record | None) -> Record | None:
    return replace(record, state="steady") if record is not None and record.state == "importing" else record


def _first_record(databases: Mapping[str, Database]) -> Record:
    for database in databases.values():
        if not is_empty(database):
            raise StoreError(f"{database.name} is in use, and its users are to be spread over all; run {REBALANCE}")
    record = Record("steady", {each: database.name for each, database in databases.items()}, next(iter(databases)))
    # Another server may do the same at this moment: the first one counts.
    make = sa.text("INSERT INTO placement (key, value) VALUES ('record', :record) ON CONFLICT DO NOTHING")
    for database in databases.values():
        database.write(lambda connection: connection.execute(make, {"record": json.dumps(asdict(record))}))
    return agreed(databases)


def is_empty(database: Database) -> bool:
    """Whether a database has neither users nor items nor announced models."""
    queries = [sa.select(sa.literal(1)).select_from(table).limit(1) for table in (users, feedback, items, serving)]
    return all(database.read(lambda c, q=query: c.execute(q).first()) is None for query in queries)  # type: ignore[misc]
