"""Revisions of the users who are being answered, read together: one query serves all requests that wait."""

import asyncio
from collections import defaultdict

import anyio.to_thread

from igcf.service.store.records import Version
from igcf.service.store.store import Store


class VersionReader:
    """Asks a store across a network once for many requests; belongs to the event loop that it is used in.

    While a query is under way, further requests gather for the next one. Every request is answered by a query that
    began after it arrived, so that no answer is older than if it had asked for itself.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: defaultdict[str, list[asyncio.Future[Version]]] = defaultdict(list)
        self._reading: asyncio.Task[None] | None = None

    async def version(self, user_id: str) -> Version:
        """Read the version of a user as the store has it now."""
        answer: asyncio.Future[Version] = asyncio.get_running_loop().create_future()
        self._waiting[user_id].append(answer)
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_all())
        return await answer

    async def _read_all(self) -> None:
        try:
            while self._waiting:
                asked, self._waiting = self._waiting, defaultdict(list)
                try:
                    found = await anyio.to_thread.run_sync(self._store.versions, list(asked))
                except BaseException as error:
                    _settle(asked, error)
                    if not isinstance(error, Exception):
                        raise
                else:
                    _settle(asked, found)
        finally:
            self._reading = None


def _settle(asked: dict[str, list[asyncio.Future[Version]]], found: dict[str, Version] | BaseException) -> None:
    for user_id, answers in asked.items():
        for answer in answers:
            if answer.done():  # the client went away
                continue
            if isinstance(found, BaseException):
                answer.set_exception(found)
            else:
                answer.set_result(found[user_id])
