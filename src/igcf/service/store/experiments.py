"""What was decided about experiments: started, given other shares, stopped; all servers follow the newest row."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from igcf.service.store.database import Database, rows_of
from igcf.service.store.records import rows_in_force
from igcf.service.store.tables import experiments, feedback, recommendations

_NEWEST_FIRST = sa.select(experiments).order_by(experiments.c.number.desc())


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
    query = _NEWEST_FIRST.limit(limit)
    return [ExperimentRow(*row) for row in database.read(lambda connection: connection.execute(query).all())]


def decide(database: Database, change: Callable[[Sequence[ExperimentRow]], ExperimentRow | None]) -> None:
    """Add the row that `change` makes of all earlier ones, the newest first; None adds nothing.

    Its number and time are set here. Of two servers that decide at the same time, the second sees the first.
    """

    def work(connection: sa.Connection) -> None:
        rows = [ExperimentRow(*row) for row in connection.execute(_NEWEST_FIRST)]
        row = change(rows)
        if row is not None:
            numbered = row._replace(number=1 + (rows[0].number if rows else 0), time=time.time())
            connection.execute(sa.insert(experiments).values(numbered._asdict()))

    database.write(work)


def experiment_answers(database: Database, name: str) -> Iterator[tuple[str, str, str, float]]:
    """Read the answers given in an experiment: user, arm, items as JSON, time."""
    table = recommendations.c
    query = sa.select(table.user_id, table.arm, table["items"], table.time).where(table.experiment == name)
    with database.snapshot() as connection:
        yield from rows_of(connection, query)


def shown_reactions(database: Database) -> Iterator[tuple[str, str, float, float]]:
    """Read all reactions in force to what was shown: user, item, value, time of arrival."""
    log = rows_in_force(feedback.c.evidence == "shown").c
    query = sa.select(log.user_id, log.item_id, log.value, log.arrived).where(log.value.is_not(None))
    with database.snapshot() as connection:
        yield from rows_of(connection, query)
