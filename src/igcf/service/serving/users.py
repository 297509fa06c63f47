"""Users: their sessions in memory, bounded and brought up to date from the store, and what is known about one."""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from igcf.online import Session
from igcf.service.models import responses
from igcf.service.serving.learning import Aside, contexts_of, load_user, skipped, usable
from igcf.service.serving.served_model import ServedModel
from igcf.service.settings import ServiceSettings
from igcf.service.store.records import Appended, Event, Version, attributes_in, in_force, user_hash
from igcf.service.store.store import Store

CATCH_UP = 16  # reactions that a session learns one by one; beyond that it is loaded anew
FEW = 4  # reactions that a session may have to learn and still count as warm
LISTED = 1_000  # reactions that an answer lists unless it is asked for more


@dataclass
class HotUser:
    """A session in memory and the revision that it has reached."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    session: Session | None = None
    incarnation: str = ""
    revision: int = 0
    aside: Aside = field(default_factory=dict)
    pending: list[Event] = field(default_factory=list)
    """Committed reactions that follow the revision and are yet to be learned."""
    reacted: set[str | None] = field(default_factory=set)  # items with a reaction

    @property
    def last_revision(self) -> int:
        """The revision that can be reached without asking the store."""
        return self.revision + len(self.pending)

    def receive(self, appended: Appended) -> None:
        """Take note of committed reactions, if they follow what is known; otherwise the store will be asked."""
        if not self.lock.acquire(blocking=False):  # in use: storing a reaction never waits for an answer
            return
        before, fresh = appended.before, appended.fresh
        is_next = (self.incarnation, self.last_revision) == (before.incarnation, before.revision)
        if self.session is not None and is_next and len(self.pending) + len(fresh) <= CATCH_UP:
            self.pending += fresh
        self.lock.release()

    def can_learn(self, pending: Sequence[Event]) -> bool:
        """Whether new events leave all earlier ones in force; otherwise the session is loaded anew."""
        if any(event.retracts is not None or event.evidence in ("logged", "attributes") for event in pending):
            return False
        items = [event.item_id for event in pending if event.evidence != "skip"]
        return len(set(items)) == len(items) and self.reacted.isdisjoint(items)

    def learn(self, served: ServedModel, session: Session, pending: Sequence[Event]) -> None:
        """Bring the session to the last of some reactions."""
        self.session = None  # unless all of it is learned
        contexts = contexts_of(served.model, pending)
        for item_id, value in usable(served.model, pending):
            session.observe(item_id, value, context=contexts.get(item_id))
        self.aside |= skipped(pending)
        self.reacted |= {event.item_id for event in pending if event.evidence != "skip"}
        self.session, self.revision, self.pending = session, self.revision + len(pending), []


@dataclass(frozen=True)
class OpenUser:
    """A session to be used while it is held."""

    session: Session
    revision: int
    aside: tuple[str, ...] = ()  # items that the user skipped lately, longest ago first; they are not to be shown now


class UsersInMemory:
    """The most recently seen users; the least recently seen one makes room."""

    def __init__(self, store: Store, settings: ServiceSettings, count: Callable[[bool], None]) -> None:
        self.store = store
        self._settings = settings
        self._count = count
        self._users: OrderedDict[tuple[str, str], HotUser] = OrderedDict()
        self._lock = threading.Lock()
        self._nobody: dict[str, HotUser] = {}  # by model, the session of all who have not reacted yet

    def __len__(self) -> int:
        return len(self._users)

    def is_warm(self, served: ServedModel, user_id: str, version: Version, *, behind: int = 0) -> bool:
        """Whether the session of a user who is at `version` in the store is in memory, free, and current.

        `behind` is how many reactions it may be behind and still count as current.
        """
        incarnation, revision = version
        if revision == 0:
            return not self._newcomer(served).lock.locked()
        hot = self._users.get((served.key, user_id))
        if hot is None or hot.session is None or hot.incarnation != incarnation or hot.lock.locked():
            return False
        return revision - hot.last_revision <= behind and revision - hot.revision <= FEW

    @contextmanager
    def open(self, served: ServedModel, user_id: str, version: Version | None = None) -> Iterator[OpenUser]:
        """Lock the session of a user at the store's newest revision.

        `version` is the user's version, if it was just read from the store.
        """
        incarnation, revision = self.store.version(user_id) if version is None else version
        if revision == 0:  # nobody has told us anything: all newcomers are served by one session
            newcomer = self._newcomer(served)
            with newcomer.lock:
                yield OpenUser(newcomer.session or served.recommender.session(), 0)
            return
        hot = self._hot(served, user_id)
        with hot.lock:
            session = self._up_to_date(served, user_id, hot, (incarnation, revision))
            yield OpenUser(session, hot.revision, self._put_aside(hot) if hot.aside else ())

    def publish(self, served: ServedModel, user_id: str, appended: Appended) -> None:
        """Let the session of a user, if it is in memory, know of reactions that are committed."""
        hot = self._users.get((served.key, user_id))
        if hot is not None and appended.fresh:
            hot.receive(appended)

    def forget(self, user_id: str) -> None:
        """Drop a user from memory."""
        self._drop(lambda _, own: own == user_id)

    def forget_hashed(self, hashes: set[str]) -> None:
        """Drop users by the hashes of their ids; a user who has returned since is read from the store again."""
        if hashes:
            self._drop(lambda _, own: user_hash(own) in hashes)

    def keep_only(self, *served: ServedModel) -> None:
        """Drop the sessions of all other models."""
        keys = {each.key for each in served}
        self._drop(lambda key, _: key not in keys)
        self._nobody = {key: hot for key, hot in list(self._nobody.items()) if key in keys}

    def _drop(self, is_gone: Callable[[str, str], bool]) -> None:
        with self._lock:
            for key in [key for key in self._users if is_gone(*key)]:
                del self._users[key]

    def _newcomer(self, served: ServedModel) -> HotUser:
        if (found := self._nobody.get(served.key)) is None:
            found = self._nobody[served.key] = HotUser(session=served.recommender.session(rng=np.random.default_rng()))
        return found

    def _put_aside(self, hot: HotUser) -> tuple[str, ...]:
        """Select the skipped items that stay aside; revisions never go back, so only they make one be dropped.

        The clock may be set ahead and back again: what it says now decides for this answer alone.
        """
        first, since = hot.revision - self._settings.skip_rounds, time.time() - 3600 * self._settings.skip_hours
        hot.aside = {item: (at, when) for item, (at, when) in hot.aside.items() if at > first}
        return tuple(sorted((item for item in hot.aside if hot.aside[item][1] > since), key=hot.aside.__getitem__))

    def _hot(self, served: ServedModel, user_id: str) -> HotUser:
        settings, key = self._settings, (served.key, user_id)
        with self._lock:
            hot = self._users.get(key)
            if hot is not None:
                self._users.move_to_end(key)
                return hot
            hot = self._users[key] = HotUser()
            most = max(1, min(settings.hot_users, settings.hot_megabytes * 1_000_000 // served.bytes_per_user()))
            while len(self._users) > most:
                self._users.popitem(last=False)
        return hot

    def _up_to_date(self, served: ServedModel, user_id: str, hot: HotUser, version: Version) -> Session:
        incarnation, revision = version
        is_same = hot.session is not None and hot.incarnation == incarnation
        self._count(is_same and hot.revision >= revision)
        if is_same and hot.session is not None:
            if hot.revision >= revision:
                return hot.session
            is_current = hot.last_revision >= revision
            pending = hot.pending if is_current else self.store.events(user_id, after=hot.revision, until=revision)
            if len(pending) <= CATCH_UP and hot.can_learn(pending):
                hot.learn(served, hot.session, pending)
                return hot.session
        user = self.store.user(user_id)
        events = self.store.events(user_id, until=user.revision)
        hot.session, hot.pending = load_user(served, events), []
        past = in_force(events)
        hot.incarnation, hot.revision, hot.aside = user.incarnation, user.revision, skipped(past)
        hot.reacted = {event.item_id for event in past if event.evidence != "skip"}
        return hot.session


def user_state(
    store: Store, served: ServedModel, user_id: str, *, with_cov: bool, limit: int = LISTED
) -> responses.UserState:
    """Answer `GET /v1/users/{user}`, with the latest `limit` reactions."""
    user = store.user(user_id)
    events = store.events(user_id, until=user.revision)
    belief = load_user(served, events).belief
    rows = in_force(events)
    past = [event for event in rows if event.evidence != "attributes"]
    return responses.UserState(
        user=user_id,
        known=user.revision > 0,
        model=served.model_id,
        revision=user.revision,
        reactions=len(past),
        history=[_past(served, event) for event in past[max(0, len(past) - limit) :]],
        attributes=attributes_in(rows),
        belief=responses.BeliefSummary(
            mean=belief.mean.tolist(),
            std=np.sqrt(np.maximum(np.diag(belief.cov), 0.0)).tolist(),
            trace=float(np.trace(belief.cov)),
            prior_trace=float(np.trace(served.model.prior_cov)),
            cov=belief.cov.tolist() if with_cov else None,
        ),
    )


def _past(served: ServedModel, event: Event) -> responses.PastReaction:
    own: dict[str, Any] = {name: getattr(event, name) for name in ("value", "evidence", "kind", "time")}
    item_id = event.item_id or ""
    return responses.PastReaction(event_id=event.event_id or "", item=item_id, title=served.title_of(item_id), **own)


def explanation(
    users: UsersInMemory, served: ServedModel, user_id: str, item_id: str, *, limit: int = LISTED
) -> responses.ExplanationResponse:
    """Answer `GET /v1/users/{user}/explanations/{item}`, with the `limit` reactions that matter most."""
    served.model.item_row(item_id)
    with users.open(served, user_id) as user:
        revision, found = user.revision, user.session.explain(item_id)
    parts = [*found.logged, *found.contributions]
    largest = sorted(range(len(parts)), key=lambda place: -abs(parts[place].amount))
    listed, others = sorted(largest[:limit]), largest[limit:]
    return responses.ExplanationResponse(
        user=user_id,
        item=item_id,
        model=served.model_id,
        revision=revision,
        title=served.title_of(item_id),
        prior=found.prior,
        **{name: getattr(found, name) for name in responses.Scores.model_fields},
        attributes=[responses.AttributePart(**vars(part)) for part in found.attributes],
        contributions=[
            responses.ContributionPart(
                item=parts[place].item_id,
                value=parts[place].value,
                evidence="logged" if place < len(found.logged) else "shown",
                amount=parts[place].amount,
                title=served.title_of(parts[place].item_id),
            )
            for place in listed
        ],
        rest=math.fsum(parts[place].amount for place in others),
        absence=found.absence,
    )
