"""What all users' reactions tell of new items, computed from the log alone, so that all servers believe the same.

Of a user only reactions to items that the model was trained with say what they are like when they react to a new item;
a posterior is therefore a function of the log, whoever computes it and in whatever order it was read.
"""

import math
import time
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from igcf.online import Belief, prior_belief
from igcf.online.learning import learned
from igcf.service.serving.learning import end_of_record, logged_reactions, usable
from igcf.service.serving.new_items import Evidence, ItemsOfLog
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.records import Event, in_force, user_hash
from igcf.service.store.store import Store
from igcf.service.store.tables import feedback

OVERLAP_S = 10.0
"""How far a look goes back behind the one before it: clocks differ, and a commit may take a while."""


@dataclass
class _Read:
    """How far the store has been read."""

    served: ServedModel | None = None
    since: float = -math.inf
    deleted: set[tuple[str, float]] = field(default_factory=set)


class ItemsFromLog:
    """Reactions to new items as far as they are known here."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._told: dict[str, dict[Hashable, Evidence]] = {}
        self._revisions: dict[str, int] = {}
        self._served: ServedModel | None = None
        self._read = _Read()
        self.has_read = False
        """Whether the log was read once; until then answers know new items by their descriptions alone."""

    def look(self, served: ServedModel) -> None:
        """Bring the new items of the model in service to what the log says."""
        if not len(served.model.added):
            self.has_read = True
            return
        if self._served is None or self._served.trained is not served.trained:
            self._told, self._revisions = {}, {}
            self._read = _Read()
        is_new = self._served is not served
        changed: set[str] = set()
        self._look_at(self._store, served, changed)
        self._teach(served, None if is_new else changed)
        self._served = served
        self.has_read = True

    def _look_at(self, part: Store, served: ServedModel, changed: set[str]) -> None:
        """Read what is new; `changed` receives the items that it tells something else of."""
        started, read = time.time(), self._read
        is_new = read.served is not served
        changed |= self._forget_deleted(part, read)
        news = _users_with_news(part, served, -math.inf if is_new else read.since)
        for user_id, revision in news:
            if self._revisions.get(user_id) != revision or is_new:
                changed |= self._read_user(part, served, user_id)
                self._revisions[user_id] = revision
        read.served, read.since = served, started - OVERLAP_S

    def _read_user(self, part: Store, served: ServedModel, user_id: str) -> set[str]:
        """Read the log of a user; returns the items that it tells something else of than before."""
        before = self._told.get(user_id, {})
        now = evidence_of(served, user_id, part.events(user_id))
        self._told[user_id] = now
        if not now:
            del self._told[user_id]
        return {each.item_id for each in (*before.values(), *now.values())}

    def _forget_deleted(self, part: Store, read: _Read) -> set[str]:
        deletions = set(part.deletions().items())
        fresh, read.deleted = deletions - read.deleted, deletions
        if not fresh:
            return set()
        hashes = {hashed for hashed, _ in fresh}
        gone = [user_id for user_id in self._told if user_hash(user_id) in hashes]
        changed = {each.item_id for user_id in gone for each in self._told.pop(user_id).values()}
        self._revisions = {name: n for name, n in self._revisions.items() if user_hash(name) not in hashes}
        return changed

    def _teach(self, served: ServedModel, changed: set[str] | None) -> None:
        """Let items be known by the earliest reactions to them, as many as settle one; None: all items."""
        items = served.recommender.shared
        if not isinstance(items, ItemsOfLog):
            return
        of_item: defaultdict[str, dict[Hashable, Evidence]] = defaultdict(dict)
        for told in self._told.values():
            for key, each in told.items():
                if changed is None or each.item_id in changed:
                    of_item[each.item_id][key] = each
        for item_id in of_item.keys() if changed is None else changed:
            row, own = served.model.known_row(item_id), of_item[item_id]
            if row is not None and row in items:
                items.learn(row, dict(sorted(own.items(), key=_by_time)[: items.exposure.settled]))


def _users_with_news(part: Store, served: ServedModel, since: float) -> list[tuple[str, int]]:
    """Find those who reacted to a new item, or took a reaction back, and their newest such row."""
    added = [served.model.item_ids[row] for row in served.model.added.tolist()]
    found: dict[str, int] = {}
    for start in range(0, len(added), 500):
        is_news = feedback.c.item_id.in_(added[start : start + 500])
        query = sa.select(feedback.c.user_id, sa.func.max(feedback.c.revision)).group_by(feedback.c.user_id)
        if since > -math.inf:
            query = query.where(feedback.c.arrived >= since, is_news | feedback.c.retracts.is_not(None))
        else:
            query = query.where(is_news)
        for user_id, revision in _rows(part, query):
            found[user_id] = max(found.get(user_id, 0), revision)
    return list(found.items())


def _rows(part: Store, query: sa.Select[Any]) -> Sequence[Any]:
    return part.database.read(lambda connection: connection.execute(query).all())


def _by_time(pair: tuple[Hashable, Evidence]) -> tuple[float, str]:
    return pair[1].time, repr(pair[0])


def evidence_of(served: ServedModel, user_id: str, events: Sequence[Event]) -> dict[Hashable, Evidence]:
    """Find what one user's log tells of items that the model was not trained with.

    What was known of the user at a reaction comes from the rows before it, a logged record included, so that nothing
    that is added to the log later changes what an earlier reaction told.
    """
    trained, model = served.trained.model, served.model
    rows = in_force(events)
    belief, is_known = prior_belief(trained), True
    found: dict[Hashable, Evidence] = {}
    for place, event in enumerate(rows):
        is_known = is_known and event.evidence != "logged"
        for item_id, value in usable(model, [event]):
            if trained.known_row(item_id) is None:
                if not is_known:
                    belief, is_known = _belief_after(served, rows[:place]), True
                given = math.nan if value is None else value
                found[user_id, event.event_id] = Evidence(item_id, event.time or event.arrived, given, belief)
            elif is_known:
                belief = _after(served, belief, [event])
    return found


def _belief_after(served: ServedModel, rows: Sequence[Event]) -> Belief:
    """Return what is believed of a user after some rows, by the items that the model was trained with."""
    trained = served.trained.model
    logged = logged_reactions(trained, rows)
    belief = prior_belief(trained)
    if logged:
        belief = served.trained.recommender.session(logged=logged, until=end_of_record(trained, rows)).belief
    return _after(served, belief, rows)


def _after(served: ServedModel, belief: Belief, rows: Sequence[Event]) -> Belief:
    trained = served.trained.model
    prior = prior_belief(trained)
    for item_id, value in usable(trained, rows):
        given = math.nan if value is None else value
        belief = belief.decayed(prior, served.recommender.forgetting)
        belief = learned(belief, trained, trained.item_row(item_id), given)
    return belief
