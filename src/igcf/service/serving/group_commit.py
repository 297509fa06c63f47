"""Reactions that arrive at the same time, stored together: one commit serves all that wait for one."""

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from igcf.errors import IgcfError, StoreError
from igcf.service.errors import OverloadedError
from igcf.service.lanes import in_lane
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.records import NewEvent, Receipt

MOST = 256  # reactions in one transaction; the others go into the next


@dataclass(slots=True)
class Reaction:
    """A checked reaction, and the model that it was checked against."""

    served: ServedModel
    user_id: str
    event: NewEvent


Outcome = Receipt | IgcfError
Joining = Callable[[], list[Reaction]]  # called when the turn to write has come; returns those that have arrived since


StoreAll = Callable[..., list[Outcome | None]]
"""Stores `(reactions, *, waits, joining=None)` durably, with those that join them, and reports what became of each.

None, without `waits`, stands for those that have to wait for another server.
"""


@dataclass(frozen=True, eq=False)
class Place:
    """A reaction in the line, and who waits for it."""

    reaction: Reaction
    answer: "asyncio.Future[Receipt | None]"


Answered = tuple[Place, Outcome | BaseException | None]


class GroupCommit:
    """A line of reactions, and the thread that stores all that have arrived when its turn to write has come.

    While some are being committed, further ones line up for the next commit; none waits for more to come. A reaction is
    acknowledged when the commit that holds it has succeeded, and not before.
    """

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._line: deque[Place] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    async def store(self, reaction: Reaction, store_all: StoreAll) -> Receipt:
        """Have a reaction stored; refuses when its turn does not come in time."""
        loop = asyncio.get_running_loop()
        place = Place(reaction, loop.create_future())
        with self._changed:
            self._line.append(place)
            if self._thread is None:
                thread = threading.Thread(target=self._run, args=(store_all,), name="igcf-reactions", daemon=True)
                thread.start()  # where the system refuses it, the next reaction tries again
                self._thread = thread
            self._changed.notify()
        too_late = loop.call_later(self._wait_s, self._give_up, place)
        try:
            receipt = await place.answer
        finally:
            too_late.cancel()
        if receipt is not None:
            return receipt
        (outcome,) = await in_lane(partial(store_all, [reaction], waits=True))  # the others do not wait for this user
        return received(outcome)

    def close(self) -> None:
        """Store what is in the line, and stop."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout=self._wait_s)

    def _run(self, store_all: StoreAll) -> None:
        while True:
            with self._changed:
                while not self._line:
                    if self._is_closed:
                        return
                    self._changed.wait()
                places = [self._line.popleft()]
            self._join(places)
            _store(places, partial(store_all, waits=False, joining=partial(self._join, places)))

    def _join(self, places: list[Place]) -> list[Reaction]:
        """Move those who have arrived from the line to `places`; returns their reactions."""
        with self._changed:
            joined = [self._line.popleft() for _ in range(min(len(self._line), MOST - len(places)))]
        places += joined
        return [place.reaction for place in joined]

    def _give_up(self, place: Place) -> None:
        """Refuse a reaction that has not had its turn; one that has is stored or refused by its own outcome."""
        with self._changed:
            is_waiting = place in self._line
            if is_waiting:
                self._line.remove(place)
        if is_waiting:
            _resolve([(place, OverloadedError(f"no turn to write came within {self._wait_s:g} s; try again"))])


def received(outcome: Outcome | None) -> Receipt:
    """Return the receipt of a reaction; raises what kept it from being stored."""
    if isinstance(outcome, Receipt):
        return outcome
    raise outcome or StoreError("other servers were changing this user all the time")


def _store(places: list[Place], store_all: Callable[[list[Reaction]], list[Outcome | None]]) -> None:
    """Store some reactions and wake everybody who waits for one of them."""
    outcomes: Sequence[Outcome | BaseException | None]
    try:
        outcomes = store_all([place.reaction for place in places])
    except BaseException as error:  # the thread continues; callers get the error
        outcomes = [error] * len(places)
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[Answered]] = defaultdict(list)
    for place, outcome in zip(places, outcomes, strict=True):
        by_loop[place.answer.get_loop()].append((place, outcome))
    for loop, answered in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed: nobody is waiting
            loop.call_soon_threadsafe(_resolve, answered)


def _resolve(answered: list[Answered]) -> None:
    for place, outcome in answered:
        if place.answer.done():  # the client went away
            continue
        if isinstance(outcome, BaseException):
            place.answer.set_exception(outcome)
        else:
            place.answer.set_result(outcome)
