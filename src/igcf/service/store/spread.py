"""Users spread over several databases: the same interface as one store, which each call is handed on to."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias, TypeVar

from igcf.errors import StoreError
from igcf.service.store.placement import (
    REBALANCE,
    Record,
    agreed,
    by_id,
    place_of,
    place_of_user,
    read_record,
    refuse_change,
    refuse_part,
)
from igcf.service.store.records import Appended, Event, LearnedState, NewEvent, UserRow, Version
from igcf.service.store.store import Store
from igcf.service.store.urls import is_missing_file

T = TypeVar("T")
PROBE_EVERY_S = 0.5


class Spread:
    """Several databases; every user is in one of them, and one holds what belongs to no user.

    A database that is away is not asked by requests, which are refused at once; a thread finds out when it is back.
    """

    def __init__(self, parts: Mapping[str, Store], record: Record) -> None:
        """Put databases together; `parts` are by id."""
        self.by_id = dict(parts)
        self.parts = tuple(parts.values())
        self.record = record
        self._place = lru_cache(maxsize=10_000)(lambda user_id: place_of_user(user_id, self.by_id))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look_for_lost, name="igcf-probe", daemon=True)
        self._thread.start()

    @property
    def living(self) -> tuple[Store, ...]:
        """The databases that answered when they were last asked."""
        return tuple(part for part in self.parts if not part.database.is_away)

    @property
    def common(self) -> Store:
        """The database of what belongs to no user: items, announced models; refuses where it is away."""
        return self._asked(self.by_id[self.record.common])

    def of(self, user_id: str) -> Store:
        """The database that a user is in; refuses where it is away."""
        return self._asked(self.place(user_id))

    def place(self, user_id: str) -> Store:
        """The database that a user belongs to, whether it answers or not."""
        return self.by_id[self._place(user_id)]

    def _asked(self, part: Store) -> Store:
        if part.database.is_away:
            raise StoreError(f"the store {part.database.name} does not answer")
        return part

    def place_of_hash(self, hashed: str) -> Store:
        """The database that a user belongs to, by the hash of the id."""
        return self.by_id[place_of(hashed, self.by_id)]

    def close(self) -> None:
        """Close all connections."""
        self._stop.set()
        self._thread.join(timeout=10)
        for part in self.parts:
            part.close()

    def version(self, user_id: str) -> Version:
        """Read the version of a user."""
        return self.of(user_id).version(user_id)

    def versions(self, user_ids: Sequence[str]) -> dict[str, Version]:
        """Read the versions of many users; those of databases that do not answer are left out."""
        found: dict[str, Version] = {}
        for part, mine in self._grouped(user_ids).items():
            if part.database.is_postgres:
                found |= _or_else(lambda p=part, m=mine: p.versions(m), {})  # type: ignore[misc]
        return found

    def user(self, user_id: str) -> UserRow:
        """Read the state of a user, known or not."""
        return self.of(user_id).user(user_id)

    def events(self, user_id: str, *, after: int = 0, until: int | None = None) -> list[Event]:
        """Read the log of one user."""
        return self.of(user_id).events(user_id, after=after, until=until)

    def append(self, user_id: str, events: Sequence[NewEvent], model: str) -> Appended:
        """Add reactions to the log of a user, each once, in one transaction."""
        return self.of(user_id).append(user_id, events, model)

    def append_all(
        self,
        additions: Mapping[str, Sequence[NewEvent]],
        model: str,
        *,
        waits: bool = True,
        begun: Callable[[], None] | None = None,
    ) -> dict[str, Appended | StoreError]:
        """Add reactions of many users, in one transaction for each database; what became of them, by user.

        `begun` may put further reactions into `additions`; all of them must be of users of one database.
        """
        if begun is not None:
            return self.of(next(iter(additions))).append_all(additions, model, waits=waits, begun=begun)
        found: dict[str, Appended | StoreError] = {}
        for part, mine in self._grouped(additions).items():
            if part.database.is_away:
                found |= dict.fromkeys(mine, StoreError(f"the store {part.database.name} does not answer"))
            else:
                found |= part.append_all({user_id: additions[user_id] for user_id in mine}, model, waits=waits)
        return found

    def save(self, states: Mapping[str, LearnedState]) -> set[str]:
        """Keep what was learned of users, as far as their databases answer; returns those for whom it was done."""
        done: set[str] = set()
        for part, mine in self._grouped(states).items():
            if not part.database.is_away:
                own = {user_id: states[user_id] for user_id in mine}
                done |= _or_else(lambda p=part, o=own: p.save(o), set())  # type: ignore[misc]
        return done

    def retract(self, user_id: str, event_id: str, model: str) -> int | None:
        """Take one reaction back, once."""
        return self.of(user_id).retract(user_id, event_id, model)

    def forget(self, user_id: str) -> int:
        """Delete everything about a user; merges with visitors may be known to any database, so all must answer."""
        parts = [self._asked(part) for part in self.parts]
        deleted = self.of(user_id).forget(user_id)
        for part in parts:
            part.forget_merges(user_id)
        return deleted

    def generation(self) -> tuple[int, str]:
        """Read number and folder of the model loaded last."""
        return self.common.generation()

    def announce(self, folder: str, model: str) -> int:
        """Record that all servers of this store shall serve the model in `folder`; returns its generation."""
        return self.common.announce(folder, model)

    def _grouped(self, user_ids: Sequence[str] | Mapping[str, object]) -> dict[Store, list[str]]:
        groups: defaultdict[Store, list[str]] = defaultdict(list)
        for user_id in user_ids:
            groups[self.place(user_id)].append(user_id)
        return groups

    def _look_for_lost(self) -> None:
        while not self._stop.wait(PROBE_EVERY_S):
            for each, part in self.by_id.items():
                if part.database.is_away and part.database.probe():
                    _or_else(lambda e=each, p=part: refuse_change(p.database, self.record, e), None)  # type: ignore[misc]


AnyStore: TypeAlias = Store | Spread


def open_store(
    urls: Sequence[str], *, connections: int = 8, wait_s: float | None = None, is_import: bool = False
) -> AnyStore:
    """Open a store in one database or in several; of several, some may be away.

    Those that an interrupted import of an export has left half full are opened only for another one.
    """
    if len(urls) == 1:
        store = Store(urls[0], connections=connections, wait_s=wait_s)
        _or_close([store], lambda: refuse_part(store.database))
        return store
    opened: dict[int, Store] = {}

    def put_together() -> Spread:
        for place in sorted(range(len(urls)), key=lambda place: is_missing_file(urls[place])):
            if is_missing_file(urls[place]):
                _refuse_missing_file(urls[place], opened.values())
            opened[place] = Store(urls[place], connections=connections, wait_s=wait_s, must_answer=False)
        return _put_together([opened[place] for place in range(len(urls))], is_import=is_import)

    return _or_close(opened.values(), put_together)


def _refuse_missing_file(url: str, others: Iterable[Store]) -> None:
    """Refuse to create a file that takes the place of a database of a store, or that is misspelt."""
    for other in others:
        record = None if other.database.is_away else read_record(other.database)
        if record is not None:
            names = ", ".join(record.members.values())
            raise StoreError(f"there is no database at {url}; this store has {names}; to add one, run {REBALANCE}")


def refuse_if_changed(store: AnyStore) -> None:
    """Answer nothing any more from databases whose users have been spread anew since they were opened."""
    if isinstance(store, Store):
        refuse_change(store.database, None)
        return
    for each, part in store.by_id.items():
        if not part.database.is_away:
            refuse_change(part.database, store.record, each)


def _put_together(parts: Sequence[Store], *, is_import: bool) -> Spread:
    living = [part for part in parts if not part.database.is_away]
    away = [part for part in parts if part.database.is_away]
    if not living:
        raise StoreError(f"none of the {len(parts)} databases answers: {', '.join(p.database.name for p in parts)}")
    parts_by_id = dict(zip(by_id([part.database for part in living]), living, strict=True))
    if away and not any(read_record(part.database) for part in living):
        raise StoreError(
            f"{away[0].database.name} does not answer; all databases must when they are first put together"
        )
    record = agreed({each: part.database for each, part in parts_by_id.items()}, is_import=is_import)
    left = {each: name for each, name in record.members.items() if each not in parts_by_id}
    for part in away:
        named = [each for each, name in left.items() if name == part.database.name]
        found = named[0] if named else next(iter(left)) if len(left) == len(away) == 1 else None
        if found is None:
            raise StoreError(f"{part.database.name} does not answer, and nothing tells which of the databases it is")
        parts_by_id[found] = part
        del left[found]
    if left:
        raise StoreError(f"the store has {len(record.members)} databases; {', '.join(left.values())} are not named")
    return Spread(parts_by_id, record)


def _or_else(work: Callable[[], T], otherwise: T) -> T:
    try:
        return work()
    except StoreError:
        return otherwise


def _or_close(stores: Iterable[Store], work: Callable[[], T]) -> T:
    try:
        return work()
    except BaseException:
        for store in stores:
            store.close()
        raise
