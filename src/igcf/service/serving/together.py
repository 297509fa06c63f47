"""Reactions that arrive at the same time, stored together: one commit serves all that wait for one."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
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
StoreAll = Callable[[Sequence[Reaction]], list[Outcome]]
"""Stores reactions durably; what became of each."""
if TYPE_CHECKING:
    Place = tuple[Reaction, asyncio.Future[Receipt]]


@dataclass
class Line:
    """The reactions that wait in one event loop."""

    waiting: list["Place"] = field(default_factory=list)
    storing: asyncio.Task[None] | None = None


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
        place = reaction, loop.create_future()
        line.waiting.append(place)
        if line.storing is None:
            line.storing = asyncio.create_task(_store_all(line, store_all))
        too_late = loop.call_later(self._wait_s, partial(_give_up, line, place, self._wait_s))
        try:
            return await place[1]
        finally:
            too_late.cancel()


async def _store_all(line: Line, store_all: StoreAll) -> None:
    try:
        while line.waiting:
            await asyncio.sleep(0)  # those that have arrived already come along
            taken, line.waiting = line.waiting[:MOST], line.waiting[MOST:]
            reactions = [reaction for reaction, _ in taken]
            try:
                outcomes: Sequence[Outcome | BaseException] = await in_lane(partial(store_all, reactions))
            except BaseException as error:
                _settle(taken, [error] * len(taken))
                if not isinstance(error, Exception):
                    raise
            else:
                _settle(taken, outcomes)
    finally:
        line.storing = None


def _settle(taken: Sequence["Place"], outcomes: Sequence[Outcome | BaseException]) -> None:
    for (_, answer), outcome in zip(taken, outcomes, strict=True):
        if answer.done():  # the client went away
            continue
        if isinstance(outcome, Receipt):
            answer.set_result(outcome)
        else:
            answer.set_exception(outcome)


def _give_up(line: Line, place: "Place", wait_s: float) -> None:
    """Refuse a reaction that has not had its turn; one that has is stored or not, and told so."""
    if place in line.waiting:
        line.waiting.remove(place)
        place[1].set_exception(OverloadedError(f"no turn to write came within {wait_s:g} s; try again"))
