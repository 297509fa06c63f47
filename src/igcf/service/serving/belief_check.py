"""Whether the beliefs in a store are what its log says, and computing again what is not."""

import uuid
from collections.abc import Iterable, Iterator

import numpy as np
import sqlalchemy as sa

from igcf.online import Belief, prior_belief
from igcf.progress import Report, silent
from igcf.service.serving.learning import BeliefAlone, counted_once, usable
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.belief_bytes import decode_belief
from igcf.service.store.database import Database
from igcf.service.store.invariants import Problem
from igcf.service.store.records import NEUTRAL_DRIFT, in_force
from igcf.service.store.snapshots import rows_of
from igcf.service.store.tables import beliefs, feedback, users
from igcf.service.store.user_log import read_events

TOLERANCE = 1e-8


def belief_problems(connection: sa.Connection, served: ServedModel, report: Report = silent) -> Iterator[Problem]:
    """Find the saved beliefs that differ from one that is computed from the log; those of other models are not used."""
    mine = beliefs.c.model == served.model_id
    total = connection.execute(sa.select(sa.func.count()).select_from(beliefs).where(mine)).scalar_one()
    query = sa.select(beliefs.c.user_id, beliefs.c.revision, beliefs.c.belief).where(mine)
    for number, row in enumerate(rows_of(connection, query), start=1):
        if number % 500 == 0:
            report("beliefs computed from the log", number, total)
        saved = decode_belief(row.belief, served.model.dim)
        if saved is None:
            yield Problem(beliefs.name, repr(row.user_id), "the belief cannot be read", row.user_id)
            continue
        difference = _difference(saved, _from_log(connection, served, row.user_id, row.revision))
        if not difference <= TOLERANCE:
            what = f"the belief differs from the log by {difference:.2g}, more than {TOLERANCE:g}"
            yield Problem(beliefs.name, repr(row.user_id), what, row.user_id)


def rebuild_users(database: Database, user_ids: Iterable[str]) -> int:
    """Bring the entries of users in line with the log: the revision, and no belief; returns how many there were.

    The next server that meets such a user computes the belief from the log, also one that has the user in memory: it
    takes the user for another one.
    """
    names = sorted(set(user_ids))

    def work(connection: sa.Connection) -> None:
        for user_id in names:
            for table in (users, beliefs):
                connection.execute(sa.delete(table).where(table.c.user_id == user_id))
            last = sa.select(sa.func.max(feedback.c.revision), sa.func.max(feedback.c.time))
            revision, when = connection.execute(last.where(feedback.c.user_id == user_id)).one()
            if revision is not None:
                row = {"user_id": user_id, "born": uuid.uuid4().hex, "revision": revision, "updated": when}
                connection.execute(sa.insert(users).values(drift=NEUTRAL_DRIFT, **row))

    database.write(work)
    return len(names)


def _from_log(connection: sa.Connection, served: ServedModel, user_id: str, revision: int) -> Belief:
    follower = BeliefAlone(served, prior_belief(served.model))
    follower.learn_all(usable(served.model, counted_once(in_force(read_events(connection, user_id, 0, revision)))))
    return follower.belief


def _difference(one: Belief, other: Belief) -> float:
    """The largest difference of an entry of mean or covariance, relative to entries above 1."""
    pairs = ((one.mean, other.mean), (one.cov, other.cov))
    return max(float(np.max(np.abs(a - b) / np.maximum(1.0, np.abs(b)))) for a, b in pairs)
