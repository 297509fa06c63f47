"""Evidence about new items, computed from the log alone, so that all servers believe the same.

Only reactions to items that the model was trained on count for the belief about a user who reacts to a new item; a
posterior is therefore a function of the log, whichever server computes it and in whatever order it was read.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from igcf.model import Model
from igcf.model.new_items import ItemEvidence, UserEvidence
from igcf.online import Belief
from igcf.online.answers import Reaction
from igcf.online.evidence import logged_evidence, logged_record, without_items
from igcf.online.learning import belief_from_history
from igcf.online.new_items.trials import Exposure
from igcf.online.new_items.update import user_number
from igcf.service.serving.learning import end_of_record, logged_reactions, usable
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.figures import users_with_news
from igcf.service.store.records import Event, in_force, user_hash
from igcf.service.store.store import Store

MOST_USERS = Exposure().settled
"""Users that count, per item."""
OVERLAP_S = 10.0
"""How far a look goes back behind the one before it: clocks differ, and a commit may take a while."""


@dataclass
class _Read:
    """How far the store has been read."""

    since: float = -math.inf
    deleted: set[tuple[str, float]] = field(default_factory=set)


class ItemsFromLog:
    """Evidence about new items from the log: one voice per user and item, of as many users as count."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._samples: dict[str, dict[int, tuple[str, UserEvidence]]] = {}
        """By item, the users that count with their evidence, by the numbers drawn for them."""
        self._overfull: set[str] = set()
        """Items to which more users have reacted than count."""
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
        if self._served is not served:
            self._start_again()
        changed = self._look_at(served)
        if changed is None:  # someone who counted is gone, and others were left out: the draw is made again
            self._start_again()
            changed = self._look_at(served) or set()
        self._teach(served, changed if self._served is served else {*changed, *self._samples})
        self._served = served
        self.has_read = True

    def _start_again(self) -> None:
        self._samples, self._overfull, self._revisions, self._read = {}, set(), {}, _Read()

    def _look_at(self, served: ServedModel) -> set[str] | None:
        """Read what is new; returns the items with changed evidence, None where all must be read again."""
        started, read, store = time.time(), self._read, self._store
        changed = self._forget_deleted(store, read)
        added = [served.model.item_ids[row] for row in served.model.added.tolist()]
        for user_id, revision in users_with_news(store.database, added, read.since).items():
            if changed is not None and self._revisions.get(user_id) != revision:
                found = evidence_of(served, store.events(user_id))
                own = [self._put(item_id, user_id, found.get(item_id)) for item_id in {*found, *self._samples}]
                changed = None if None in own else changed | {item_id for item_id in own if item_id}
                self._revisions[user_id] = revision
        read.since = started - OVERLAP_S
        return changed

    def _put(self, item_id: str, user_id: str, evidence: UserEvidence | None) -> str | None:
        """Replace the evidence of a user about an item; returns its id, "" where nothing changed, None: read again."""
        sample, number = self._samples.setdefault(item_id, {}), user_number(user_id, item_id)
        if evidence is None:
            if number not in sample:
                return ""
            del sample[number]
            return None if item_id in self._overfull else item_id
        sample[number] = user_id, evidence
        if len(sample) > MOST_USERS:
            self._overfull.add(item_id)
            del sample[max(sample)]
        return item_id if number in sample else ""

    def _forget_deleted(self, store: Store, read: _Read) -> set[str] | None:
        deletions = set(store.deletions().items())
        fresh, read.deleted = deletions - read.deleted, deletions
        if not fresh:
            return set()
        hashes = {hashed for hashed, _ in fresh}
        self._revisions = {name: n for name, n in self._revisions.items() if user_hash(name) not in hashes}
        users = {user_id for sample in self._samples.values() for user_id, _ in sample.values()}
        gone = [user_id for user_id in users if user_hash(user_id) in hashes]
        own = [self._put(item_id, user_id, None) for user_id in gone for item_id in self._samples]
        return None if None in own else {item_id for item_id in own if item_id}

    def _teach(self, served: ServedModel, changed: set[str]) -> None:
        """Give the evidence about some items to the recommender, beside what the model came with."""
        model, evidence = served.model, {}
        for item_id in changed:
            row = model.known_row(item_id)
            if row is not None and row >= model.n_trained:
                start = served.started_with.get(item_id, ItemEvidence())
                own = {number: each for number, (_, each) in self._samples[item_id].items()}
                if start.settled is None:
                    numbers = sorted({**start.contributions, **own})[:MOST_USERS]
                    everything = {**start.contributions, **own}
                    evidence[row - model.n_trained] = ItemEvidence({number: everything[number] for number in numbers})
        served.recommender._live.set_evidence(evidence)


def evidence_of(served: ServedModel, events: Sequence[Event]) -> dict[str, UserEvidence]:
    """Return what one user's log says about new items, by item: the last reaction to each counts.

    The belief about the user before a reaction comes from the rows before it, by the items that the model was trained
    on, so that nothing that is added to the log later changes it; neither do attributes, which may be replaced.
    """
    model, rows = served.model, in_force(events)
    trained, last = model.trained, {}
    for place, event in enumerate(rows):
        for item_id, value in usable(model, [event]):
            if model.item_row(item_id) >= model.n_trained:
                last[item_id] = place, math.nan if value is None else value
    found = {}
    for item_id, (place, value) in last.items():
        before = rows[:place]
        shown, logged = usable(trained, before), dict(logged_reactions(trained, before))
        belief = _belief_after(served, trained, before, shown)
        n_known = len(logged.keys() | {item for item, _ in shown})
        live = served.recommender._live
        found[item_id] = live.contribution(model.item_row(item_id), belief, value, n_known)
    return found


def _belief_after(served: ServedModel, trained: Model, rows: Sequence[Event], shown: Sequence[Reaction]) -> Belief:
    """Return the belief about a user after some rows."""
    start = None
    items = trained.item_rows([item_id for item_id, _ in shown])
    own = set(items)
    logged = [(item_id, value) for item_id, value in logged_reactions(trained, rows)]
    if logged:
        record = logged_record(trained, list(logged), end_of_record(trained, rows))
        assert record is not None  # noqa: S101
        start = logged_evidence(trained).belief(without_items(trained, record, list(own)), trained)
    values = trained.reward.checked_all([value for _, value in shown])
    return belief_from_history(trained, items, values, served.recommender.forgetting, start)
