"""Reactions that arrive at the same time, stored together: one commit serves all that wait for one."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue

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
    """A reaction in the line; no receipt: it has to wait for another server."""

    reaction: Reaction
    receipt: "Future[Receipt | None]" = field(default_factory=Future)


class GroupCommit:
    """A line of reactions, and the thread that stores all that have arrived when its turn to write has come.

    While some are being committed, further ones line up for the next commit; none waits for more to come. A reaction is
    acknowledged when the commit that holds it has succeeded, and not before.
    """

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._line: SimpleQueue[Place | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    async def store(self, reaction: Reaction, store_all: StoreAll) -> Receipt:
        """Have a reaction stored; refuses when its turn does not come in time."""
        place = Place(reaction)
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, args=(store_all,), name="igcf-reactions", daemon=True)
                thread.start()  # where the system refuses it, the next reaction tries again
                self._thread = thread
        self._line.put(place)
        too_late = asyncio.get_running_loop().call_later(self._wait_s, place.receipt.cancel)  # no effect on its turn
        try:
            receipt = await asyncio.wrap_future(place.receipt)
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise OverloadedError(f"no turn to write came within {self._wait_s:g} s; try again") from None
        finally:
            too_late.cancel()
        if receipt is not None:
            return receipt
        (outcome,) = await in_lane(partial(store_all, [reaction], waits=True))  # the others do not wait for this user
        return received(outcome)

    def close(self) -> None:
        """Store what is in the line, and stop."""
        self._line.put(None)
        if self._thread is not None:
            self._thread.join(timeout=self._wait_s)

    def _run(self, store_all: StoreAll) -> None:
        while (first := self._line.get()) is not None:
            places: list[Place] = []
            self._join(places, first)
            outcomes: Sequence[Outcome | BaseException | None]
            try:
                reactions = [place.reaction for place in places]
                outcomes = store_all(reactions, waits=False, joining=partial(self._join, places))
            except BaseException as error:  # the thread continues; callers get the error
                outcomes = [error] * len(places)
            for place, outcome in zip(places, outcomes, strict=True):
                if isinstance(outcome, BaseException):
                    place.receipt.set_exception(outcome)
                else:
                    place.receipt.set_result(outcome)

    def _join(self, places: list[Place], place: Place | None = None) -> list[Reaction]:
        """Move those who have arrived and have not given up from the line to `places`; returns their reactions."""
        n_before = len(places)
        while place is not None or (len(places) < MOST and not self._line.empty()):
            if (place := place or self._line.get()) is None:  # closing, which comes after these
                self._line.put(None)
                break
            if place.receipt.set_running_or_notify_cancel():
                places.append(place)
            place = None
        return [place.reaction for place in places[n_before:]]


def received(outcome: Outcome | None) -> Receipt:
    """Return the receipt of a reaction; raises what kept it from being stored."""
    if isinstance(outcome, Receipt):
        return outcome
    raise outcome or StoreError("other servers were changing this user all the time")
