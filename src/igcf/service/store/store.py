"""The store: the feedback log, deleted users and announced models."""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import anyio.to_thread
import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.service.models.responses import ItemReaction, ListedUser, MergeReceipt
from igcf.service.store import decisions, log
from igcf.service.store.database import Database, RefusedError
from igcf.service.store.records import Appended, Event, NewEvent, UserRow, Version, rows_in_force
from igcf.service.store.tables import deletions, feedback, users

Additions = Mapping[str, Sequence[NewEvent]]
Outcomes = dict[str, Appended | StoreError]
_VERSION = "SELECT incarnation, revision FROM users WHERE user_id = ?"
_VERSIONS = "SELECT user_id, incarnation, revision FROM users WHERE user_id = ANY(%s)"


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
            with suppress(sqlite3.Error):  # the longer way raises what is wrong, or tries again
                rows = self.database.read_quickly(_VERSION, user_id)
                return rows[0] if rows else ("", 0)
        user = self.user(user_id)
        return user.incarnation, user.revision

    def versions(self, user_ids: Sequence[str]) -> dict[str, Version]:
        """Read the versions of many users at once (PostgreSQL)."""
        rows = self.database.read(lambda connection: connection.exec_driver_sql(_VERSIONS, (list(user_ids),)).all())
        return dict.fromkeys(user_ids, ("", 0)) | {name: (incarnation, n) for name, incarnation, n in rows}

    def user(self, user_id: str) -> UserRow:
        """Read the state of a user, known or not."""
        found = self.database.rows(sa.select(users).where(users.c.user_id == user_id))
        return UserRow(*found[0]) if found else UserRow(user_id)

    def events(self, user_id: str, *, after: int = 0, until: int | None = None) -> list[Event]:
        """Read the log of one user with `after` < revision <= `until`, oldest first, retractions included."""
        return self.database.read(lambda connection: log.read_events(connection, user_id, after, until))

    def list_users(self, after: str = "", limit: int = 1_000) -> list[ListedUser]:
        """List users in the order of their ids; pass the last id of a page as `after` for the next one."""
        columns = (users.c.user_id.label("user"), users.c.revision, users.c.updated)
        page = sa.select(*columns).where(users.c.user_id > after).order_by(users.c.user_id).limit(limit)
        return [ListedUser(**row._mapping) for row in self.database.rows(page)]

    def item_feedback(self, item_id: str, after: str = "", limit: int = 1_000) -> list[ItemReaction]:
        """List the reactions in force to an item, one per user, ordered and paged as by `list_users`."""
        rows = rows_in_force(feedback.c.item_id == item_id, feedback.c.user_id > after, feedback.c.evidence != "skip").c
        query = sa.select(rows.user_id.label("user"), rows.event_id, rows.value, rows.time, rows.evidence, rows.kind)
        page = query.order_by(rows.user_id).limit(limit)
        return [ItemReaction(**row._mapping) for row in self.database.rows(page)]

    def append(self, user_id: str, events: Sequence[NewEvent], model: str) -> Appended:
        """Add events to the log of a user, each once, in one transaction; `model` is stored beside them."""
        found = self.append_all({user_id: events}, model)[user_id]
        if isinstance(found, StoreError):
            raise found
        return found

    def append_all(
        self, additions: Additions, model: str, *, waits: bool = True, begun: Callable[[], None] | None = None
    ) -> Outcomes:
        """Add events of many users in one transaction; return the outcome by user.

        `begun` is called when the transaction has begun, and may add to `additions`. Users whom another server is
        changing at that moment are in one more transaction, or, without `waits`, left out. If the database refuses
        an event, halves are tried, so that it does not spoil the others.
        """
        found = self._append(additions, model, waits=False, begun=begun)
        busy = {user_id: events for user_id, events in additions.items() if user_id not in found}
        return found | self._append(busy, model, waits=True) if busy and waits else found

    def _append(
        self, additions: Additions, model: str, *, waits: bool, begun: Callable[[], None] | None = None
    ) -> Outcomes:
        def work(connection: sa.Connection) -> dict[str, Appended]:
            if begun is not None:
                begun()
            return log.append(connection, additions, model, waits=waits)

        try:
            return dict(self.database.write(work))
        except RefusedError as error:
            if len(additions) == 1:
                return dict.fromkeys(additions, StoreError(str(error)))
            names, half = list(additions), len(additions) // 2
            first, second = ({name: additions[name] for name in part} for part in (names[:half], names[half:]))
            return self._append(first, model, waits=waits) | self._append(second, model, waits=waits)
        except StoreError as error:
            return dict.fromkeys(additions, error)

    def retract(self, user_id: str, event_id: str, model: str) -> int | None:
        """Retract one reaction, once; return the revision of the retraction, None where there is no such reaction."""
        return self.database.write(lambda connection: log.retract(connection, user_id, event_id, model))

    def merge(self, visitor: str, user_id: str, model: str) -> MergeReceipt:
        """Move what is in force of a visitor's log into that of a user, and delete the visitor."""
        return self.database.write_and_erase(lambda connection: log.merge(connection, visitor, user_id, model))

    def forget(self, user_id: str) -> int:
        """Delete everything about a user; return the number of events that were deleted."""
        return self.database.write_and_erase(lambda connection: log.forget(connection, user_id))

    def deletions(self) -> dict[str, float]:
        """Read the hashes of users deleted in the last minute, and when they were."""
        return {str(hashed): float(when) for hashed, when in self.database.rows(sa.select(deletions))}

    def generation(self) -> tuple[int, str]:
        """Read number and folder of the model to serve; (0, "") before the first server was started."""
        newest = decisions.announcements(self.database, 1)
        return (newest[0].generation, newest[0].folder) if newest else (0, "")

    def announce(self, folder: str, model: str, *, after: int | None = None) -> int:
        """Record that all servers of this store shall serve the model in `folder`; return its generation."""
        return decisions.announce(self.database, folder, model, after=after)


class VersionReader:
    """Asks a store across a network once for many requests; belongs to the event loop that it is used in.

    While a query is under way, further requests gather for the next one. Every request is answered by a query that
    began after it arrived, so that no answer is older than if it had asked for itself.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked: set[str] = set()
        self._next: asyncio.Task[dict[str, Version]] | None = None
        self._reading: asyncio.Task[dict[str, Version]] | None = None

    async def version(self, user_id: str) -> Version:
        """Read the version of a user as the store has it now."""
        self._asked.add(user_id)
        if self._next is None:
            self._next = asyncio.create_task(self._read_next())
        return (await asyncio.shield(self._next))[user_id]  # who hangs up does not stop the others

    async def _read_next(self) -> dict[str, Version]:
        if self._reading is not None and not self._reading.done():
            await asyncio.wait([self._reading])
        asked, self._asked = self._asked, set()
        self._reading, self._next = self._next, None
        return await anyio.to_thread.run_sync(self._store.versions, list(asked))
