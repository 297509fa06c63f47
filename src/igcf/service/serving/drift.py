"""Whose taste has changed: how well the earlier half of a user's reactions foretells the later one, and the other way.

The reactions of somebody whose taste stays are foretold better by their own other half than by the population alone.
Where it is the other way round, the halves contradict each other: the taste drifts.
"""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import sqlalchemy as sa

from igcf.arrays import BoolArray, FloatArray
from igcf.online import Recommender
from igcf.online.answers import Reaction
from igcf.service.models.dashboard_responses import DriftingUser
from igcf.service.serving.learning import usable
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.records import in_force
from igcf.service.store.store import Store
from igcf.service.store.tables import users

FEWEST = 12
"""Reactions below which nothing is said."""
LONGEST = 60
"""Latest reactions that are looked at."""
CLIPPED = 0.05
"""Chances are kept this far from 0 and 1, so that one reaction cannot decide."""
CANDIDATES, AT_ONCE, REMEMBERED = 60, 20, 1000
"""Users that are ranked, of whom so many are new at once; and results that are remembered."""
_known: "OrderedDict[tuple[str, str, int], float | None]" = OrderedDict()


def drift_of(recommender: Recommender, history: Sequence[Reaction]) -> float | None:
    """Return how much worse the halves foretell each other than the population does, in nats per reaction.

    Above 0 the taste has probably changed; None where there are too few reactions.
    """
    threshold = recommender.model.reward.threshold
    told = [(item_id, value) for item_id, value in history if value is not None][-LONGEST:]
    if len(told) < FEWEST:
        return None
    half = len(told) // 2
    halves = told[:half], told[half:]
    rows = [recommender.model.item_rows([item_id for item_id, _ in part]) for part in halves]
    hits = [np.array([value >= threshold for _, value in part]) for part in halves]
    nobody = recommender.session().chances().chance
    excess = 0.0
    for known, unknown in ((0, 1), (1, 0)):
        chance = recommender.session(halves[known]).chances().chance
        own = _loss(chance[rows[unknown]], hits[unknown])
        excess += own - _loss(nobody[rows[unknown]], hits[unknown])
    return excess / len(told)


def _loss(chances: FloatArray, hits: BoolArray) -> float:
    """Sum of the negative logarithms of the chances of what happened."""
    kept = np.clip(chances, CLIPPED, 1.0 - CLIPPED)
    return float(-np.log(np.where(hits, kept, 1.0 - kept)).sum())


def drifting_users(store: Store, served: ServedModel, top: int) -> list[DriftingUser]:
    """Rank the users seen last by their drift; what was computed before is remembered, a few are new at each call."""
    rows = users.c
    latest = sa.select(rows.user_id, rows.revision).where(rows.revision >= FEWEST).order_by(rows.updated.desc())
    query = latest.limit(CANDIDATES)
    seen = store.database.read(lambda connection: connection.execute(query).all())
    found: list[DriftingUser] = []
    left = AT_ONCE
    for user_id, revision in seen:
        key = served.model_id, user_id, revision
        if key not in _known:
            if not left:
                continue
            left -= 1
            history = usable(served.model, in_force(store.events(user_id, until=revision)))
            _known[key] = drift_of(served.recommender, history)
            while len(_known) > REMEMBERED:
                _known.popitem(last=False)
        drift = _known[key]
        if drift is not None:
            found.append(DriftingUser(user=user_id, drift=drift, reactions=revision))
    return sorted(found, key=lambda each: -each.drift)[:top]
