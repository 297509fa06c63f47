"""Requests that wait together are answered by one query."""

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from igcf.errors import StoreError
from igcf.service.store import NewEvent, Store
from igcf.service.store.records import Version
from igcf.service.store.store import VersionReader
from tests.service.postgres import Cluster


class CountedStore(Store):
    """A store that remembers who was asked for, and that can be out of reach."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.queries: list[list[str]] = []
        self.is_away = False

    def versions(self, user_ids: Sequence[str]) -> dict[str, Version]:
        self.queries.append(sorted(user_ids))
        if self.is_away:
            raise StoreError("the store did not answer")
        return super().versions(user_ids)


@pytest.fixture
def store(cluster: Cluster) -> Iterator[CountedStore]:
    store = CountedStore(cluster.new_store())
    yield store
    store.close()


def react(store: Store, user_id: str, reactions: int) -> None:
    for number in range(reactions):
        event = NewEvent(f"{user_id}-{number}", "item", 5.0)
        store.append(user_id, [event], "m")


def test_everybody_who_waits_gets_their_own_revision_from_few_queries(store: CountedStore) -> None:
    for number, name in enumerate(["ann", "bob", "o'neil", "ünï"], start=1):
        react(store, name, number)
    names = ["ann", "bob", "o'neil", "ünï", "stranger"] * 8

    async def ask_all() -> list[Version]:
        reader = VersionReader(store)
        return await asyncio.gather(*(reader.version(name) for name in names))

    answers = asyncio.run(ask_all())
    assert answers == [store.version(name) for name in names]
    assert [revision for _, revision in answers[:5]] == [1, 2, 3, 4, 0]
    assert len(store.queries) <= 2


def test_a_request_that_comes_later_sees_what_was_stored_meanwhile(store: CountedStore) -> None:
    async def ask_twice() -> tuple[Version, Version]:
        reader = VersionReader(store)
        before = await reader.version("ann")
        react(store, "ann", 1)
        return before, await reader.version("ann")

    before, after = asyncio.run(ask_twice())
    assert (before[1], after[1]) == (0, 1)


def test_one_who_hangs_up_does_not_disturb_the_others(store: CountedStore) -> None:
    async def ask() -> Version:
        reader = VersionReader(store)
        gone = asyncio.create_task(reader.version("ann"))
        stays = asyncio.create_task(reader.version("ann"))
        await asyncio.sleep(0)
        gone.cancel()
        return await stays

    assert asyncio.run(ask()) == ("", 0)


def test_a_store_that_does_not_answer_is_told_to_everybody_and_asked_again(store: CountedStore) -> None:
    async def ask(reader: VersionReader) -> list[Version | BaseException]:
        return await asyncio.gather(*(reader.version(name) for name in "abc"), return_exceptions=True)

    reader = VersionReader(store)
    store.is_away = True
    assert all(isinstance(answer, StoreError) for answer in asyncio.run(ask(reader)))
    store.is_away = False
    assert asyncio.run(ask(reader)) == [("", 0)] * 3
