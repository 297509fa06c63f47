"""What all servers of a store follow: the models announced, and what was decided about experiments."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from igcf.service.errors import ModelConflictError
from igcf.service.store.database import Database
from igcf.service.store.tables import experiments, serving

_NEWEST_MODEL_FIRST = sa.select(serving).order_by(serving.c.generation.desc())
_NEWEST_EXPERIMENT_FIRST = sa.select(experiments).order_by(experiments.c.number.desc())


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
    return [Announcement(*row) for row in database.rows(_NEWEST_MODEL_FIRST.limit(limit))]


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
        newest = int(connection.execute(sa.select(sa.func.max(serving.c.generation))).scalar() or 0)
        if after is not None and newest != after:
            raise ModelConflictError(
                f"another model has been announced since (generation {newest}); check it and try again"
            )
        row = Announcement(newest + 1, folder, model, time.time())
        connection.execute(sa.insert(serving).values(row))
        return row.generation

    return database.write(work)


def note_first(database: Database, folder: str, model: str) -> None:
    """Record as generation 0 the model that a server was started with, where nothing is announced."""

    def work(connection: sa.Connection) -> None:
        found = connection.execute(_NEWEST_MODEL_FIRST.limit(1)).first()
        if found is None or (found.generation == 0 and (found.folder, found.model) != (folder, model)):
            connection.execute(sa.delete(serving).where(serving.c.generation == 0))
            connection.execute(sa.insert(serving).values(Announcement(0, folder, model, time.time())))

    database.write(work)


class ExperimentRow(NamedTuple):
    """One decision about an experiment."""

    number: int
    name: str
    running: int
    """1 from its start on, 0 when it was stopped."""
    definition: str
    """JSON; the same in all rows of an experiment."""
    layout: str
    """JSON: pairs of length and arm."""
    time: float


def experiment_rows(database: Database, limit: int | None = None) -> list[ExperimentRow]:
    """Read what was decided, the newest first."""
    return [ExperimentRow(*row) for row in database.rows(_NEWEST_EXPERIMENT_FIRST.limit(limit))]


def decide(database: Database, change: Callable[[Sequence[ExperimentRow]], ExperimentRow | None]) -> None:
    """Add the row that `change` makes of all earlier ones, the newest first; None adds nothing.

    Its number and time are set here. Of two servers that decide at the same time, the second sees the first.
    """

    def work(connection: sa.Connection) -> None:
        rows = [ExperimentRow(*row) for row in connection.execute(_NEWEST_EXPERIMENT_FIRST)]
        row = change(rows)
        if row is not None:
            numbered = row._replace(number=1 + (rows[0].number if rows else 0), time=time.time())
            connection.execute(sa.insert(experiments).values(numbered))

    database.write(work)
