"""The store: the feedback log (the truth), the beliefs (a cache), deleted users and announced models."""

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.service.store import statements
from igcf.service.store.database import Database, RefusedError
from igcf.service.store.records import Appended, Event, LearnedState, NewEvent, UserRow, Version, user_hash
from igcf.service.store.tables import beliefs, feedback, forgotten, merges, recommendations, serving, users
from igcf.service.store.user_log import (
    append_events,
    hold_user,
    read_events,
    read_user,
    retract_event,
    save_states,
)

FORGET_LOCK = 0x69676367
"""Advisory lock of PostgreSQL that keeps the audit log from being written while a user is deleted."""
FORGET_GRACE_S = 60.0
"""How long the hash of a deleted user keeps answers that are still in a queue from being written."""


class Store:
    """All that survives a restart, in SQLite or PostgreSQL; every change is durable when its method returns."""

    def __init__(self, url: str, *, connections: int = 8, wait_s: float | None = None) -> None:
        self.database = Database(url, connections=connections, wait_s=wait_s)

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    def version(self, user_id: str) -> Version:
        """Read the version of a user: all that a warm answer needs to know."""
        if not self.database.is_postgres:
            with suppress(sqlite3.Error):  # the longer way says what is wrong, or tries again
                rows = self.database.read_quickly(statements.VERSION_SQLITE, user_id)
                return rows[0] if rows else ("", 0)
        row = self.database.read(
            lambda connection: connection.execute(statements.VERSION, {"user_id": user_id}).first()
        )
        return ("", 0) if row is None else (row[0], row[1])

    def versions(self, user_ids: Sequence[str]) -> dict[str, Version]:
        """Read the versions of many users at once (PostgreSQL)."""
        asked = {"user_ids": list(user_ids)}
        rows = self.database.read(lambda connection: connection.execute(statements.VERSIONS, asked).all())
        return dict.fromkeys(user_ids, ("", 0)) | {name: (born, revision) for name, born, revision in rows}

    def user(self, user_id: str) -> UserRow:
        """Read the state of a user, known or not."""
        return self.database.read(lambda connection: read_user(connection, user_id)) or UserRow(user_id)

    def events(self, user_id: str, *, after: int = 0, until: int | None = None) -> list[Event]:
        """Read the log of one user with `after` < revision <= `until`, oldest first, retractions included."""
        return self.database.read(lambda connection: read_events(connection, user_id, after, until))

    def append(self, user_id: str, events: Sequence[NewEvent], model: str) -> Appended:
        """Add reactions to the log of a user, each once, in one transaction; `model` is kept beside them."""
        found = self.append_all({user_id: events}, model)[user_id]
        if isinstance(found, StoreError):
            raise found
        return found

    def append_all(
        self,
        additions: Mapping[str, Sequence[NewEvent]],
        model: str,
        *,
        waits: bool = True,
        begun: Callable[[], None] | None = None,
    ) -> dict[str, Appended | StoreError]:
        """Add reactions of many users in one transaction; what became of them, by user.

        `begun` is called when the turn to write has come, and may put further ones into `additions`.

        Users whom another server is changing at that moment are in one more transaction, or, without `waits`, left out.
        What the database refuses is looked for in ever smaller parts, so that it does not spoil the others.
        """
        found = self._append(additions, model, waits=False, begun=begun)
        busy = {user_id: events for user_id, events in additions.items() if user_id not in found}
        return found | self._append(busy, model, waits=True) if busy and waits else found

    def _append(
        self,
        additions: Mapping[str, Sequence[NewEvent]],
        model: str,
        *,
        waits: bool,
        begun: Callable[[], None] | None = None,
    ) -> dict[str, Appended | StoreError]:
        def work(connection: sa.Connection) -> dict[str, Appended]:
            if begun is not None:
                begun()
            return append_events(connection, additions, model, waits=waits)

        try:
            return dict(self.database.write(work))
        except RefusedError as error:
            if len(additions) == 1:
                return dict.fromkeys(additions, StoreError(str(error)))
            users, half = list(additions), len(additions) // 2
            parts = ({user_id: additions[user_id] for user_id in part} for part in (users[:half], users[half:]))
            return {
                user_id: found for part in parts for user_id, found in self._append(part, model, waits=waits).items()
            }
        except StoreError as error:
            return dict.fromkeys(additions, error)

    def save(self, states: Mapping[str, LearnedState]) -> set[str]:
        """Keep what was learned of users beside their logs; returns those for whom it was done."""
        return self.database.write(lambda connection: save_states(connection, states)) if states else set()

    def retract(self, user_id: str, event_id: str, model: str) -> int | None:
        """Take one reaction back, once; returns the revision at which it was, None when there is no such reaction."""
        return self.database.write(lambda connection: retract_event(connection, user_id, event_id, model))

    def forget(self, user_id: str) -> int:
        """Delete everything about a user; returns the number of reactions that were deleted."""

        def work(connection: sa.Connection) -> int:
            if self.database.is_postgres:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(FORGET_LOCK)))
            hold_user(connection, user_id)  # a first reaction is before all of this, or after it
            deleted = connection.execute(sa.delete(feedback).where(feedback.c.user_id == user_id)).rowcount
            for table in (users, beliefs, recommendations):
                connection.execute(sa.delete(table).where(table.c.user_id == user_id))
            mark = {"user_hash": user_hash(user_id), "time": time.time()}
            is_part = sa.or_(merges.c.visitor_hash == mark["user_hash"], merges.c.user_hash == mark["user_hash"])
            connection.execute(sa.delete(merges).where(is_part))
            connection.execute(sa.delete(forgotten).where(forgotten.c.user_hash == mark["user_hash"]))
            connection.execute(sa.insert(forgotten).values(mark))
            return int(deleted)

        deleted = self.database.write(work)
        if self.database.checkpointer is not None:  # the write-ahead log holds old pages until it is emptied
            self.database.checkpointer.ask()
        return deleted

    def deletions(self) -> dict[str, float]:
        """Read the hashes of users deleted lately, and when they were; the audit log removes them after a minute."""
        query = sa.select(forgotten.c.user_hash, forgotten.c.time)
        rows = self.database.read(lambda connection: connection.execute(query).all())
        return {str(hashed): float(when) for hashed, when in rows}

    def generation(self) -> tuple[int, str]:
        """Read number and folder of the model loaded last by `POST /v1/model`; (0, "") when there was none."""
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
