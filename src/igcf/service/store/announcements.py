"""The models that the servers of a store serve, in order of their announcement, and the way back."""

import time
from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa

from igcf.service.errors import ModelConflictError
from igcf.service.store.database import Database
from igcf.service.store.tables import serving

_COLUMNS = tuple(serving.c[name] for name in ("generation", "folder", "model", "time"))


class Announcement(NamedTuple):
    """A model that all servers of a store are to serve from some moment on."""

    generation: int
    """Number of the announcement; 0: the model that a server was started with, before anything was announced."""
    folder: str
    model: str
    """Id of the model, by its contents."""
    time: float


def announcements(database: Database, limit: int | None = None) -> list[Announcement]:
    """Read what was announced, the newest first."""
    query = sa.select(*_COLUMNS).order_by(serving.c.generation.desc()).limit(limit)
    return [Announcement(*row) for row in database.read(lambda connection: connection.execute(query).all())]


def way_back(newest_first: Sequence[Announcement]) -> list[Announcement]:
    """Return the models that rollbacks lead to, the next one first.

    An announcement of the model before the one in service takes the latter off the way, as a rollback does.
    """
    way: list[Announcement] = []
    for each in reversed(newest_first):
        if len(way) > 1 and (each.folder, each.model) == way[-2][1:3]:
            way.pop()
        elif not way or (each.folder, each.model) != way[-1][1:3]:
            way.append(each)
    return way[-2::-1]


def announce(database: Database, folder: str, model: str, *, after: int | None = None) -> int:
    """Record that all servers shall serve the model in `folder`; return its generation.

    With `after`, refuse when another model was announced since that generation.
    """

    def work(connection: sa.Connection) -> int:
        newest = connection.execute(sa.select(sa.func.coalesce(sa.func.max(serving.c.generation), 0))).scalar_one()
        if after is not None and newest != after:
            raise ModelConflictError(
                f"another model has been announced since (generation {newest}); check it and try again"
            )
        _insert(connection, Announcement(int(newest) + 1, folder, model, time.time()))
        return int(newest) + 1

    return database.write(work)


def note_first(database: Database, folder: str, model: str) -> None:
    """Record as generation 0 the model that a server was started with, where nothing is announced."""

    def work(connection: sa.Connection) -> None:
        found = connection.execute(sa.select(*_COLUMNS).order_by(serving.c.generation.desc()).limit(1)).first()
        if found is None or (found[0] == 0 and tuple(found[1:3]) != (folder, model)):
            connection.execute(sa.delete(serving).where(serving.c.generation == 0))
            _insert(connection, Announcement(0, folder, model, time.time()))

    database.write(work)


def _insert(connection: sa.Connection, row: Announcement) -> None:
    connection.execute(sa.insert(serving).values(row._asdict()))
