"""Reactions that arrive at the same time, stored together: one commit serves all that wait for one."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

from igcf.errors import IgcfError
from igcf.service.errors import OverloadedError
from igcf.service.http.lanes import in_lane
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.records import NewEvent, Receipt

MOST = 256
"""Reactions in one transaction; the others go into the next."""


@dataclass(frozen=True)
class Reaction:
    """A checked reaction, and the model that it was checked against."""

    served: ServedModel
    user_id: str
    event: NewEvent


Outcome = Receipt | IgcfError


class StoreAll(Protocol):
    """Stores reactions durably and tells what became of each; None, without `waits`, of those that have to wait."""

    def __call__(self, reactions: Sequence[Reaction], *, waits: bool) -> list[Outcome | None]: ...  # noqa: D102


if TYPE_CHECKING:
    Place = tuple[Reaction, asyncio.Future[Receipt]]


@dataclass
class Line:
    """The reactions that wait in one event loop."""

    waiting: list["Place"] = field(default_factory=list)
    storing: asyncio.Task[None] | None = None
    apart: set[asyncio.Task[None]] = field(default_factory=set)
    """Reactions of users whom another server is changing: the others do not wait for them."""


class ReactionsTogether:
    """While some reactions are being committed, further ones line up for the next commit; none waits for more to come.

    A reaction is acknowledged when the commit that holds it has succeeded, and not before.
    """

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, Line] = WeakKeyDictionary()

    async def store(self, reaction: Reaction, store_all: StoreAll) -> Receipt:
        """Have a reaction stored; refuses when its turn does not come in time."""
        loop = asyncio.get_running_loop()
        line = self._lines.setdefault(loop, Line())
        future: asyncio.Future[Receipt] = loop.create_future()
        place = reaction, future
        line.waiting.append(place)
        if line.storing is None:
            line.storing = asyncio.create_task(_store_all(line, store_all))
        too_late = loop.call_later(self._wait_s, partial(_give_up, line, place, self._wait_s))
        try:
            return await future
        finally:
            too_late.cancel()


async def _store_all(line: Line, store_all: StoreAll) -> None:
    try:
        while line.waiting:
            await asyncio.sleep(0)  # those that have arrived already come along
            taken, line.waiting = line.waiting[:MOST], line.waiting[MOST:]
            busy = await _store(taken, partial(store_all, waits=False))
            if busy:
                task = asyncio.create_task(_store_apart(busy, store_all))
                line.apart.add(task)
                task.add_done_callback(line.apart.discard)
    finally:
        line.storing = None


async def _store_apart(places: Sequence["Place"], store_all: StoreAll) -> None:
    await _store(places, partial(store_all, waits=True))


async def _store(
    places: Sequence["Place"], store_all: Callable[[list[Reaction]], list[Outcome | None]]
) -> list["Place"]:
    """Store some reactions and tell those who wait; returns those of whom nothing can be told yet."""
    try:
        outcomes = await in_lane(partial(store_all, [reaction for reaction, _ in places]))
    except BaseException as error:
        for _, answer in places:
            _tell(answer, error)
        if not isinstance(error, Exception):
            raise
        return []
    for (_, answer), outcome in zip(places, outcomes, strict=True):
        if outcome is not None:
            _tell(answer, outcome)
    return [place for place, outcome in zip(places, outcomes, strict=True) if outcome is None]


def _tell(answer: asyncio.Future[Receipt], outcome: Outcome | BaseException) -> None:
    if answer.done():  # the client went away
        return
    if isinstance(outcome, Receipt):
        answer.set_result(outcome)
    else:
        answer.set_exception(outcome)


def _give_up(line: Line, place: "Place", wait_s: float) -> None:
    """Refuse a reaction that has not had its turn; one that has is stored or not, and told so."""
    if place in line.waiting:
        line.waiting.remove(place)
        place[1].set_exception(OverloadedError(f"no turn to write came within {wait_s:g} s; try again"))
