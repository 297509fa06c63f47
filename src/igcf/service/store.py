"""What the service remembers: the feedback log (the truth), the beliefs (a cache) and the answers given (the audit)."""

import hashlib
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.service import statements
from igcf.service.beliefs import NEUTRAL_DRIFT
from igcf.service.database import Database, database_url
from igcf.service.schema import FORGET_LOCK, feedback, forgotten, recommendations, serving, users

if TYPE_CHECKING:
    from igcf.data import Interactions

T = TypeVar("T")
LAST = 2**31 - 1
FORGET_GRACE_S = 60.0
"""How long the hash of a deleted user keeps answers that are still in a queue from being written."""


@dataclass(frozen=True)
class UserRow:
    """The state of a user; revision 0 and an empty `born` for somebody who never reacted."""

    user_id: str
    born: str = ""
    """Differs between a user and the one who comes back after having been forgotten."""
    revision: int = 0
    belief_model: str | None = None
    belief: bytes | None = None
    drift: float = NEUTRAL_DRIFT


@dataclass(frozen=True)
class Event:
    """One row of the log: a reaction, or the retraction of one."""

    revision: int
    event_id: str | None
    item_id: str | None
    value: float | None
    time: float
    retracts: str | None = None


@dataclass(frozen=True)
class NewEvent:
    """A reaction about to be stored."""

    event_id: str
    item_id: str
    value: float | None
    recommendation_id: str | None = None


def in_force(events: Iterable[Event]) -> list[Event]:
    """The reactions that were not retracted, oldest first."""
    rows = list(events)
    retracted = {row.retracts for row in rows if row.retracts is not None}
    return [row for row in rows if row.retracts is None and row.event_id not in retracted]


class Store:
    """All that survives a restart, in SQLite or PostgreSQL."""

    def __init__(self, url: str, *, connections: int = 8) -> None:
        self.database = Database(url, connections=connections)

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    def version(self, user_id: str) -> tuple[str, int]:
        """`born` and `revision` of a user: all that a warm answer needs to know."""
        row = self.database.read(
            lambda connection: connection.execute(statements.VERSION, {"user_id": user_id}).first()
        )
        return ("", 0) if row is None else (row[0], row[1])

    def versions(self, user_ids: Sequence[str]) -> dict[str, tuple[str, int]]:
        """The same of many users at once (PostgreSQL)."""
        asked = {"user_ids": list(user_ids)}
        rows = self.database.read(lambda connection: connection.execute(statements.VERSIONS, asked).all())
        return dict.fromkeys(user_ids, ("", 0)) | {name: (born, revision) for name, born, revision in rows}

    def user(self, user_id: str) -> UserRow:
        """The state of a user, known or not."""
        return self.database.read(lambda connection: _user_row(connection, user_id, lock=False)) or UserRow(user_id)

    def events(self, user_id: str, *, after: int = 0, until: int | None = None) -> list[Event]:
        """The log of one user with `after` < revision <= `until`, oldest first, retractions included."""
        return self.database.read(lambda connection: _events(connection, user_id, after, until))

    def change(self, user_id: str, work: "Callable[[UserChange], T]") -> T:
        """Run `work` while nobody else, here or on another server, can change this user; all or nothing."""

        def locked(connection: sa.Connection) -> T:
            change = UserChange(connection, user_id)
            result = work(change)
            change.finish()
            return result

        return self.database.write(locked)

    def forget(self, user_id: str) -> int:
        """Delete everything about a user; returns the number of reactions that were deleted."""

        def work(connection: sa.Connection) -> int:
            if self.database.is_postgres:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(FORGET_LOCK)))
            _user_row(connection, user_id, lock=self.database.is_postgres)
            deleted = connection.execute(sa.delete(feedback).where(feedback.c.user_id == user_id)).rowcount
            for table in (users, recommendations):
                connection.execute(sa.delete(table).where(table.c.user_id == user_id))
            mark = {"user_hash": user_hash(user_id), "time": time.time()}
            connection.execute(sa.delete(forgotten).where(forgotten.c.user_hash == mark["user_hash"]))
            connection.execute(sa.insert(forgotten).values(mark))
            return int(deleted)

        deleted = self.database.write(work)
        if not self.database.is_postgres:  # the write-ahead log holds old pages until it is emptied
            self.database.read(lambda connection: connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").all())
        return deleted

    def forgotten(self) -> set[str]:
        """Hashes of the users deleted in the last minute."""
        query = sa.select(forgotten.c.user_hash).where(forgotten.c.time > time.time() - FORGET_GRACE_S)
        return {str(row[0]) for row in self.database.read(lambda connection: connection.execute(query).all())}

    def generation(self) -> tuple[int, str]:
        """Number and folder of the model loaded last by `POST /v1/model`; (0, "") when there was none."""
        query = sa.select(serving.c.generation, serving.c.folder).order_by(serving.c.generation.desc()).limit(1)
        row = self.database.read(lambda connection: connection.execute(query).first())
        return (0, "") if row is None else (int(row[0]), str(row[1]))

    def announce(self, folder: str, model: str) -> int:
        """Record that all servers of this store shall serve the model in `folder`; returns its generation."""

        def work(connection: sa.Connection) -> int:
            newest = connection.execute(sa.select(sa.func.coalesce(sa.func.max(serving.c.generation), 0))).scalar_one()
            row = {"generation": int(newest) + 1, "folder": folder, "model": model, "time": time.time()}
            connection.execute(sa.insert(serving).values(row))
            return int(newest) + 1

        return self.database.write(work)


class UserChange:
    """The transaction in which one user is changed."""

    def __init__(self, connection: sa.Connection, user_id: str) -> None:
        self._connection = connection
        self.user = self._locked(user_id)
        self._revision = self.user.revision
        self._added: list[dict[str, Any]] = []
        self._belief: tuple[str | None, bytes | None] = (self.user.belief_model, self.user.belief)
        self._drift = self.user.drift

    @property
    def revision(self) -> int:
        """The revision after what was appended so far."""
        return self._revision

    def events(self) -> list[Event]:
        """The log of this user before the change."""
        return _events(self._connection, self.user.user_id, 0, None)

    def known(self, event_ids: Sequence[str]) -> set[str]:
        """Those of `event_ids` that are in the log already."""
        asked = {"user_id": self.user.user_id, "event_ids": list(event_ids)}
        return {str(row[0]) for row in self._connection.execute(statements.KNOWN, asked)}

    def append(self, event: NewEvent, *, model: str) -> None:
        """Add one reaction to the log."""
        self._add(
            event_id=event.event_id,
            item_id=event.item_id,
            value=event.value,
            recommendation_id=event.recommendation_id,
            model=model,
        )

    def retract(self, event_id: str, *, model: str) -> bool:
        """Take one reaction back; False when it is not in the log or was taken back before."""
        mine = feedback.c.user_id == self.user.user_id
        query = sa.select(sa.func.count()).where(mine, feedback.c.event_id == event_id)
        done = sa.select(sa.func.count()).where(mine, feedback.c.retracts == event_id)
        if not self._connection.execute(query).scalar_one() or self._connection.execute(done).scalar_one():
            return False
        self._add(retracts=event_id, model=model)
        return True

    def save(self, model: str | None, belief: bytes | None, drift: float) -> None:
        """Set the belief that goes with the new revision."""
        self._belief, self._drift = (model, belief), drift

    def finish(self) -> None:
        """Write what was appended; a user to whom nothing happened is left as they were."""
        if not self._added:
            if self.user.revision == 0:
                self._connection.execute(sa.delete(users).where(users.c.user_id == self.user.user_id))
            return
        self._connection.execute(statements.APPEND, self._added)
        self._connection.execute(
            statements.SAVE,
            {
                "of_user": self.user.user_id,
                "new_revision": self._revision,
                "new_model": self._belief[0],
                "new_belief": self._belief[1],
                "new_drift": self._drift,
                "now": time.time(),
            },
        )

    def _add(self, **columns: Any) -> None:
        self._revision += 1
        empty = dict.fromkeys(("event_id", "item_id", "value", "recommendation_id", "retracts"))
        now = {"user_id": self.user.user_id, "revision": self._revision, "time": time.time()}
        self._added.append(empty | now | columns)

    def _locked(self, user_id: str) -> UserRow:
        is_postgres = self._connection.dialect.name == "postgresql"
        row = _user_row(self._connection, user_id, lock=is_postgres)
        while row is None:  # a row that another server inserts or deletes meanwhile is met in the next turn
            self._connection.execute(
                sa.text(
                    "INSERT INTO users (user_id, born, revision, drift, updated) "
                    "VALUES (:user_id, :born, 0, :drift, :updated) ON CONFLICT DO NOTHING"
                ),
                {"user_id": user_id, "born": uuid.uuid4().hex, "drift": NEUTRAL_DRIFT, "updated": time.time()},
            )
            row = _user_row(self._connection, user_id, lock=is_postgres)
        return row


def user_hash(user_id: str) -> str:
    """What is kept of a deleted user for a minute."""
    return hashlib.sha256(user_id.encode()).hexdigest()


def _user_row(connection: sa.Connection, user_id: str, *, lock: bool) -> UserRow | None:
    row = connection.execute(statements.USER_LOCKED if lock else statements.USER, {"user_id": user_id}).first()
    return None if row is None else UserRow(*row)


def _events(connection: sa.Connection, user_id: str, after: int, until: int | None) -> list[Event]:
    asked = {"user_id": user_id, "after": after, "until": LAST if until is None else until}
    return [Event(*row) for row in connection.execute(statements.EVENTS, asked)]


def interactions_from_store(url: str) -> "Interactions":
    """The reactions in force as a log to learn from; items that were only shown have no value and are left out."""
    from igcf.data import Interactions

    target = database_url(url)
    if target.drivername == "sqlite" and not Path(str(target.database)).is_file():
        raise StoreError(f"there is no store at {target.database}; `igcf serve` creates one")
    store = Store(url)
    try:
        log = feedback.c
        taken_back = feedback.alias("taken_back")
        is_retracted = sa.exists().where(taken_back.c.user_id == log.user_id, taken_back.c.retracts == log.event_id)
        query = sa.select(log.user_id, log.item_id, log.value, log.time).where(log.value.is_not(None), ~is_retracted)
        rows = store.database.read(lambda connection: connection.execute(query.order_by(log.time)).all())
    finally:
        store.close()
    if not rows:
        raise StoreError(f"the store {store.database.name} has no reactions to learn from")
    users_column, items_column, values, times = zip(*rows, strict=True)
    return Interactions.from_arrays(users_column, items_column, values, [int(each) for each in times], name="store")
