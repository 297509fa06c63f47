"""What the log says: about a user, as a session, and about new items.

All servers must believe the same about a new item. Its posterior is a function of the log, whichever server computes it
and in whatever order it was read: of the belief about a user who reacts to it, only reactions to items that the model
was trained on count.
"""

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from igcf.errors import AttributesError, FeedbackError
from igcf.model import Model
from igcf.model.attribute_prior import AttributePrior
from igcf.model.new_items import ItemEvidence, UserEvidence
from igcf.online import Belief, Session
from igcf.online.answers import Reaction
from igcf.online.evidence import logged_evidence, logged_record, without_items
from igcf.online.learning import belief_from_history
from igcf.online.new_items.trials import Exposure
from igcf.online.new_items.update import user_number
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.figures import users_with_news
from igcf.service.store.records import Event, EvidenceKind, attributes_in, in_force, user_hash
from igcf.service.store.store import Store
from igcf.service.store.transfer import time_unit

Aside = dict[str, tuple[int, float]]  # items that a user skipped, and the revision and time at which they did
MOST_USERS = Exposure().settled  # users that count, per item
OVERLAP_S = 10.0  # how far a look goes back behind the one before it: clocks differ, and a commit may take a while


def load_user(served: ServedModel, events: Sequence[Event]) -> Session:
    """Open the session of a user from the log."""
    model, rows = served.model, in_force(events)
    return served.recommender.session(
        usable(model, rows),
        logged=usable(model, rows, "logged"),
        until=end_of_record(model, rows),
        attributes=_understood(model.attribute_prior, attributes_in(rows)),
        contexts=contexts_of(model, rows),
        rng=np.random.default_rng(),
    )


def contexts_of(model: Model, events: Iterable[Event]) -> dict[str, dict[str, Any]]:
    """Select the contexts of reactions to known items, by item, as far as a model understands them."""
    found = {
        event.item_id: _understood(model.context_effect, json.loads(event.details))
        for event in events
        if event.evidence == "shown" and event.details is not None and event.item_id in model.row_of
    }
    return {item_id: context for item_id, context in found.items() if item_id is not None and context}


def _understood(prior: AttributePrior | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Select the stored attributes that a model understands; they may have been given to another one."""
    found: dict[str, Any] = {}
    if prior is None:
        return found
    for name, value in given.items():
        with suppress(AttributesError):
            prior.encoder.encode({name: value})
            found[name] = value
    return found


def usable(model: Model, events: Iterable[Event], evidence: EvidenceKind = "shown") -> list[Reaction]:
    """Select the reactions that this model can learn from; a log may name items of older models."""
    found = [(event.item_id, event.value) for event in events if event.evidence == evidence]
    return [(item_id, value) for item_id, value in found if item_id is not None and _can_learn(model, item_id, value)]


def _can_learn(model: Model, item_id: str, value: float | None) -> bool:
    try:
        model.reward.checked(value)
    except FeedbackError:
        return False
    return model.known_row(item_id) is not None


def end_of_record(model: Model, events: Iterable[Event]) -> int | None:
    """Find the time at which the logged record ends, in the units in which the model knows when items appeared."""
    times = [event.time for event in events if event.evidence == "logged" and event.time is not None]
    if model.appeared is None or not times:
        return None
    return math.ceil(time_unit(int(model.appeared.max(initial=0))) * max(times))


def skipped(events: Iterable[Event]) -> Aside:
    """Select the items that a user skipped, with the revision and time of the last skip."""
    skips = (event for event in events if event.evidence == "skip")
    return {event.item_id: (event.revision, event.arrived) for event in skips if event.item_id is not None}


class ItemsFromLog:
    """Evidence about new items from the log: one voice per user and item, of as many users as count."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._served: ServedModel | None = None
        self._start_again()
        self.has_read = False
        """Whether the log was read once; until then answers know new items by their descriptions alone."""

    def _start_again(self) -> None:
        self._samples: dict[str, dict[int, tuple[str, UserEvidence]]] = {}
        """By item, the users that count with their evidence, by the numbers drawn for them."""
        self._overfull: set[str] = set()  # items to which more users have reacted than count
        self._revisions: dict[str, int] = {}
        self._since = -math.inf
        self._deleted: set[tuple[str, float]] = set()

    def look(self, served: ServedModel) -> None:
        """Bring the new items of the model in service to what the log says."""
        if len(served.model.added):
            if self._served is not served:
                self._start_again()
            changed = self._look_at(served)
            if changed is None:  # someone who counted is gone, and others were left out: the draw is made again
                self._start_again()
                changed = self._look_at(served) or set()
            self._teach(served, changed if self._served is served else {*changed, *self._samples})
            self._served = served
        self.has_read = True

    def _look_at(self, served: ServedModel) -> set[str] | None:
        """Read what is new; returns the items with changed evidence, None where all must be read again."""
        started, store = time.time(), self._store
        deletions = set(store.deletions().items())
        hashes = {hashed for hashed, _ in deletions - self._deleted}
        self._deleted = deletions
        changed: set[str | None] = self._forget(hashes) if hashes else set()
        added = [served.model.item_ids[row] for row in served.model.added.tolist()]
        for user_id, revision in users_with_news(store.database, added, self._since).items():
            if None not in changed and self._revisions.get(user_id) != revision:
                found = evidence_of(served, store.events(user_id))
                changed |= {self._put(item_id, user_id, found.get(item_id)) for item_id in {*found, *self._samples}}
                self._revisions[user_id] = revision
        self._since = started - OVERLAP_S
        return None if None in changed else {item_id for item_id in changed if item_id}

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

    def _forget(self, hashes: set[str]) -> set[str | None]:
        self._revisions = {name: n for name, n in self._revisions.items() if user_hash(name) not in hashes}
        users = {user_id for sample in self._samples.values() for user_id, _ in sample.values()}
        gone = [user_id for user_id in users if user_hash(user_id) in hashes]
        return {self._put(item_id, user_id, None) for user_id in gone for item_id in self._samples}

    def _teach(self, served: ServedModel, changed: set[str]) -> None:
        """Give the evidence about some items to the recommender, beside what the model came with."""
        model, evidence = served.model, {}
        for item_id in changed:
            row, start = model.known_row(item_id), served.started_with.get(item_id, ItemEvidence())
            if row is not None and row >= model.n_trained and start.settled is None:
                own = {number: each for number, (_, each) in self._samples[item_id].items()}
                everything = {**start.contributions, **own}
                first = {number: everything[number] for number in sorted(everything)[:MOST_USERS]}
                evidence[row - model.n_trained] = ItemEvidence(first)
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
        shown, logged = usable(trained, before), usable(trained, before, "logged")
        belief = _belief_after(served, shown, logged, end_of_record(trained, before))
        n_known = len({known for known, _ in (*logged, *shown)})
        found[item_id] = served.recommender._live.contribution(model.item_row(item_id), belief, value, n_known)
    return found


def _belief_after(served: ServedModel, shown: list[Reaction], logged: list[Reaction], until: int | None) -> Belief:
    """Return the belief about a user after some reactions to items that the model was trained on."""
    start, trained = None, served.model.trained
    items = trained.item_rows([item_id for item_id, _ in shown])
    record = logged_record(trained, logged, until)
    if record is not None:
        start = logged_evidence(trained).belief(without_items(trained, record, items), trained)
    values = trained.reward.checked_all([value for _, value in shown])
    return belief_from_history(trained, items, values, served.recommender.forgetting, start)
