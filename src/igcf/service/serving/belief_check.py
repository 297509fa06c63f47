"""Whether the saved beliefs of a store follow from its log."""

from collections.abc import Iterator

import numpy as np
import sqlalchemy as sa

from igcf.online import Belief
from igcf.progress import Report, silent
from igcf.service.serving.learning import BeliefAlone, known_attributes, own_model, usable
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.database import rows_of
from igcf.service.store.log import read_events
from igcf.service.store.maintenance import Problem
from igcf.service.store.records import attributes_in, decode_belief, in_force
from igcf.service.store.tables import beliefs

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


def _from_log(connection: sa.Connection, served: ServedModel, user_id: str, revision: int) -> Belief:
    rows = in_force(read_events(connection, user_id, 0, revision))
    attributes = known_attributes(served.model, attributes_in(rows))
    follower = BeliefAlone(served, own_model(served.model, attributes))
    follower.learn_all(usable(served.model, rows))
    return follower.belief


def _difference(one: Belief, other: Belief) -> float:
    """The largest difference of an entry of mean or covariance, relative to entries above 1."""
    pairs = ((one.mean, other.mean), (one.cov, other.cov))
    return max(float(np.max(np.abs(a - b) / np.maximum(1.0, np.abs(b)))) for a, b in pairs)
