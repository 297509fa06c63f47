"""The store: the feedback log (the truth), the beliefs (a cache), deleted users and announced models."""

import time
from collections.abc import Sequence

import sqlalchemy as sa

from igcf.service.store import statements
from igcf.service.store.database import Database
from igcf.service.store.records import Appended, Event, Learn, Learned, NewEvent, UserRow, Version, user_hash
from igcf.service.store.tables import feedback, forgotten, merges, recommendations, serving, users
from igcf.service.store.user_log import append_events, lock_user, read_events, read_user, retract_event

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

    def append(self, user_id: str, events: Sequence[NewEvent], learn: Learn[Learned]) -> Appended[Learned]:
        """Add reactions to the log of a user and save the belief that `learn` computes, in one transaction.

        `learn` is called while nobody else can change this user, and again where the database asks for a retry.
        """
        return self.database.write(lambda connection: append_events(connection, user_id, events, learn))

    def retract(self, user_id: str, event_id: str, model: str) -> int | None:
        """Take one reaction back; returns the new revision, None when there is no such reaction in force."""
        return self.database.write(lambda connection: retract_event(connection, user_id, event_id, model))

    def forget(self, user_id: str) -> int:
        """Delete everything about a user; returns the number of reactions that were deleted."""

        def work(connection: sa.Connection) -> int:
            if self.database.is_postgres:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(FORGET_LOCK)))
            lock_user(connection, user_id)
            deleted = connection.execute(sa.delete(feedback).where(feedback.c.user_id == user_id)).rowcount
            for table in (users, recommendations):
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
        """Read the hashes of the users deleted in the last minute, and when they were."""
        query = sa.select(forgotten.c.user_hash, forgotten.c.time).where(
            forgotten.c.time > time.time() - FORGET_GRACE_S
        )
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
