"""The users who are being served: sessions kept in memory, bounded, brought up to date from the store."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from igcf.online import Session
from igcf.service.serving.learning import Aside, HeldSession, load_session, skipped, usable
from igcf.service.serving.served_model import ServedModel
from igcf.service.settings import ServiceSettings
from igcf.service.store.records import Version, in_force, user_hash
from igcf.service.store.store import Store

CATCH_UP = 16
"""Reactions that a session learns one by one; beyond that it is loaded anew."""


@dataclass
class HotUser:
    """A session in memory and the revision that it has reached."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    session: Session | None = None
    born: str = ""
    revision: int = 0
    aside: Aside = field(default_factory=dict)

    def take(self) -> HeldSession:
        """Take the session out of memory."""
        with self.lock:
            session, self.session = self.session, None
            return HeldSession(session, (self.born, self.revision), self.aside)

    def put_back(self, held: HeldSession) -> None:
        """Put a session back, unless a newer one was loaded meanwhile."""
        born, revision = held.version
        with self.lock:
            if held.session and (self.session is None or (self.born == born and self.revision < revision)):
                self.session, self.born, self.revision = held.session, born, revision
                self.aside = held.aside


@dataclass(frozen=True)
class OpenUser:
    """A session to be used while it is held."""

    session: Session
    revision: int
    aside: tuple[str, ...] = ()
    """Items that the user skipped lately, longest ago first; they are not to be shown now."""


class UsersInMemory:
    """The most recently seen users; the least recently seen one makes room."""

    def __init__(self, store: Store, settings: ServiceSettings, count: Callable[[bool], None]) -> None:
        self.store = store
        self._settings = settings
        self._count = count
        self._users: OrderedDict[tuple[str, str], HotUser] = OrderedDict()
        self._lock = threading.Lock()
        self._nobody: tuple[str, HotUser] = "", HotUser()

    def __len__(self) -> int:
        return len(self._users)

    def is_warm(self, served: ServedModel, user_id: str, version: Version, *, behind: int = 0) -> bool:
        """Whether the session of a user who is at `version` in the store is in memory, free, and current.

        `behind` is how many reactions it may be behind and still count as current.
        """
        born, revision = version
        if revision == 0:
            return not self._newcomer(served).lock.locked()
        hot = self._users.get((served.key, user_id))
        is_here = hot is not None and hot.session is not None and hot.born == born and not hot.lock.locked()
        return is_here and hot is not None and revision - hot.revision <= behind

    @contextmanager
    def open(self, served: ServedModel, user_id: str, version: Version | None = None) -> Iterator[OpenUser]:
        """Hold the session of a user at the store's newest revision; nobody else uses it meanwhile.

        `version` is what the store says of this user, where it was just asked.
        """
        born, revision = self.store.version(user_id) if version is None else version
        if revision == 0:  # nobody has told us anything: all newcomers are served by one session
            newcomer = self._newcomer(served)
            with newcomer.lock:
                yield OpenUser(newcomer.session or served.recommender.session(), 0)
            return
        hot = self._hot(served, user_id)
        with hot.lock:
            session = self._up_to_date(served, user_id, hot, born, revision)
            yield OpenUser(session, hot.revision, self._put_aside(hot) if hot.aside else ())

    @contextmanager
    def hold(self, served: ServedModel, user_id: str) -> Iterator[HeldSession]:
        """Take the session of a user out of memory while reactions are stored; put it back unless that failed.

        Answers that are wanted meanwhile load a session of their own: they never wait for a commit.
        """
        with self._lock:
            hot = self._users.get((served.key, user_id))
        if hot is None:
            yield HeldSession()
            return
        held = hot.take()
        try:
            yield held
        finally:
            if not held.is_ahead:
                hot.put_back(held)

    def forget(self, user_id: str) -> None:
        """Drop a user from memory."""
        with self._lock:
            for key in [key for key in self._users if key[1] == user_id]:
                del self._users[key]

    def forget_hashed(self, hashes: set[str]) -> None:
        """Drop users by the hashes of their ids; one who has come back meanwhile is read from the store again."""
        if hashes:
            with self._lock:
                names = {user_id for _, user_id in self._users}
            for user_id in names:
                if user_hash(user_id) in hashes:
                    self.forget(user_id)

    def keep_only(self, served: ServedModel) -> None:
        """Drop the sessions of all other models."""
        with self._lock:
            for key in [key for key in self._users if key[0] != served.key]:
                del self._users[key]

    def _newcomer(self, served: ServedModel) -> HotUser:
        key, newcomer = self._nobody
        if key != served.key:
            newcomer = HotUser(session=served.recommender.session(rng=np.random.default_rng()))
            self._nobody = served.key, newcomer
        return newcomer

    def _put_aside(self, hot: HotUser) -> tuple[str, ...]:
        """Select the skipped items that stay aside, and drop those that may be shown again."""
        first, since = hot.revision - self._settings.skip_rounds, time.time() - 3600 * self._settings.skip_hours
        hot.aside = {item: (at, when) for item, (at, when) in hot.aside.items() if at > first and when > since}
        return tuple(sorted(hot.aside, key=hot.aside.__getitem__))

    def _hot(self, served: ServedModel, user_id: str) -> HotUser:
        settings, key = self._settings, (served.key, user_id)
        most = max(1, min(settings.hot_users, settings.hot_megabytes * 1_000_000 // served.bytes_per_user()))
        with self._lock:
            hot = self._users.setdefault(key, HotUser())
            self._users.move_to_end(key)
            while len(self._users) > most:
                self._users.popitem(last=False)
        return hot

    def _up_to_date(self, served: ServedModel, user_id: str, hot: HotUser, born: str, revision: int) -> Session:
        is_same = hot.session is not None and hot.born == born
        self._count(is_same and hot.revision >= revision)
        if is_same and hot.session is not None:
            if hot.revision >= revision:
                return hot.session
            news = self.store.events(user_id, after=hot.revision, until=revision)
            if len(news) <= CATCH_UP and all(event.retracts is None and event.evidence != "logged" for event in news):
                for item_id, value in usable(served.model, news):
                    hot.session.observe(item_id, value)
                hot.aside |= skipped(news)
                hot.revision = revision
                return hot.session
        user = self.store.user(user_id)
        events = self.store.events(user_id, until=user.revision)
        session = load_session(served, user, events)
        hot.session, hot.born, hot.revision, hot.aside = session, user.born, user.revision, skipped(in_force(events))
        return session
