"""Reactions that come at the same time share a commit, and nothing else."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.models.requests import Feedback
from igcf.service.serving.group_commit import Reaction
from igcf.service.serving.reacting import checked_event, store_together
from igcf.service.store import NewEvent, Store
from igcf.service.store.database import StoreEvents
from igcf.service.store.records import Receipt
from tests.service.conftest import OpenService
from tests.service.store.test_store import refuse_reactions_of

Ask = tuple[str, dict[str, Any]]


def all_at_once(context: ServiceContext, asks: list[Ask]) -> list[httpx.Response]:
    """Send reactions to one application so that they arrive together."""

    async def send() -> list[httpx.Response]:
        transport = httpx.ASGITransport(create_app(context))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
            calls = [client.post(f"/v1/users/{user}/feedback", json=said) for user, said in asks]
            return list(await asyncio.gather(*calls))

    return asyncio.run(send())


def count_commits(context: ServiceContext) -> list[float]:
    commits: list[float] = []
    context.store.database.events = StoreEvents(committed=commits.append)
    return commits


def store_when_all_wait(context: ServiceContext, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the turn to write come when so many reactions have arrived."""
    real, append = context.reactions.store, context.store.append_all
    arrived = threading.Semaphore(0)

    def store(*asked: Any) -> Any:
        arrived.release()
        return real(*asked)

    def append_all(additions: Any, model: str, *, begun: Any, **asked: Any) -> Any:
        def when_all_wait() -> None:
            for _ in range(n):
                assert arrived.acquire(timeout=30)
            until = time.monotonic() + 30
            while sum(map(len, additions.values())) < n and time.monotonic() < until:
                begun()

        return append(additions, model, begun=when_all_wait, **asked)

    monkeypatch.setattr(context.reactions, "store", store)
    monkeypatch.setattr(context.store, "append_all", append_all)


def test_reactions_that_come_together_share_commits_and_each_counts_once(
    context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = count_commits(context)
    asks: list[Ask] = [(f"user-{n % 7}", {"item": f"item-{n}", "value": 4.0, "event_id": f"e{n}"}) for n in range(40)]
    store_when_all_wait(context, 45, monkeypatch)
    answers = all_at_once(context, [*asks, *asks[:5]])
    assert {answer.status_code for answer in answers} == {200}
    assert sum(answer.json()["duplicate"] for answer in answers) == 5
    assert len(commits) == 1  # those who came while the first ones waited for their turn are with them
    for number in range(7):
        events = context.store.events(f"user-{number}")
        assert [event.revision for event in events] == list(range(1, len(events) + 1))
        assert {event.event_id for event in events} == {f"e{n}" for n in range(40) if n % 7 == number}
    told = {(user, answer.json()["revision"]) for (user, _), answer in zip(asks, answers, strict=False)}
    assert len(told) == 40  # every new reaction has a revision of its own


def test_errors_of_one_reaction_are_its_own(context: ServiceContext) -> None:
    refuse_reactions_of(context.store, "refused")
    all_at_once(context, [("ann", {"item": "item-1", "value": 5, "event_id": "e"})])
    answers = all_at_once(
        context,
        [
            ("ann", {"item": "item-2", "value": 5}),
            ("ann", {"item": "item-1", "value": 1, "event_id": "e"}),  # the id is in use
            ("bob", {"item": "nothing", "value": 1}),
            ("refused", {"item": "item-1", "value": 1}),
            ("bob", {"item": "item-3", "value": "five"}),
            ("bob", {"item": "item-3", "value": 4}),
            ("ann", {"item": "item-4", "value": 5}),
        ],
    )
    assert [answer.status_code for answer in answers] == [200, 409, 404, 503, 422, 200, 200]
    stored = {user: [event.item_id for event in context.store.events(user)] for user in ("ann", "bob", "refused")}
    assert stored == {"ann": ["item-1", "item-2", "item-4"], "bob": ["item-3"], "refused": []}


def test_a_batch_is_one_commit(context: ServiceContext) -> None:
    commits = count_commits(context)
    reactions = [{"user": f"user-{n % 50}", "item": f"item-{n}", "value": 4} for n in range(100)]
    reactions[3] = {"user": "user-3", "item": "nothing", "value": 4}

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(context))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
            return await client.post("/v1/feedback", json=reactions)

    told = asyncio.run(send()).json()
    assert (told["stored"], told["failed"], len(commits)) == (99, 1, 1)
    assert told["results"][3]["error"] == "UnknownItemError"
    assert [entry["revision"] for entry in told["results"][:3]] == [1, 1, 1]
    assert told["results"][53]["revision"] == 1


def reaction(context: ServiceContext, user: str, number: int) -> Reaction:
    place = context.place(user)
    said = Feedback(item=f"item-{number % 200}", value=4.0, event_id=f"e{number}")
    return Reaction(place.served, user, checked_event(place, said))


def test_two_servers_store_groups_of_the_same_users_in_any_order(open_service: OpenService) -> None:
    servers = [open_service(), open_service()]
    told: list[list[Any]] = [[], []]

    def work(number: int) -> None:
        context = servers[number]
        for turn in range(12):
            users = [f"user-{n}" for n in range(10)][:: 1 if number else -1]
            group = [reaction(context, user, 1000 * number + turn) for user in users]
            shared = [reaction(context, user, 5000 + turn) for user in users]  # both servers are sent these
            told[number] += store_together(context, [*group, *shared])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    receipts = [receipt for each in told for receipt in each if isinstance(receipt, Receipt)]
    assert len(receipts) == 2 * 12 * 20
    assert Counter(receipt.duplicate for receipt in receipts) == {False: 3 * 12 * 10, True: 12 * 10}
    for number in range(10):
        events = servers[0].store.events(f"user-{number}")
        assert [event.revision for event in events] == list(range(1, 37))
        assert len({event.event_id for event in events}) == 36


def test_a_user_who_is_being_changed_elsewhere_keeps_nobody_else_waiting(open_service: OpenService) -> None:
    context = open_service(store_wait_s=1.0)
    if not context.store.database.is_postgres:
        return  # one writer at a time
    store_together(context, [reaction(context, "held", 0)])
    elsewhere = sa.create_engine(context.store.database.engine.url, poolclass=sa.NullPool)
    with elsewhere.connect() as connection:
        connection.execute(sa.text("SELECT 1 FROM users WHERE user_id = 'held' FOR UPDATE"))
        group = [reaction(context, user, 1) for user in ("ann", "held", "bob")]
        found = store_together(context, group, waits=False)
        assert [outcome is None for outcome in found] == [False, True, False]
        held, ann = all_at_once(
            context, [("held", {"item": "item-1", "value": 4}), ("ann", {"item": "item-2", "value": 4})]
        )
        assert (held.status_code, ann.status_code) == (503, 200)
    assert [context.store.version(user)[1] for user in ("ann", "held", "bob")] == [2, 1, 1]


KILLED_BEFORE_COMMIT = """
import sys, time
import sqlalchemy as sa
from igcf.service.store import NewEvent, Store

store = Store(sys.argv[1])
store.append("ann", [NewEvent("before", "i1", 1.0)], "m")
sa.Connection.commit = lambda _: (print("appended", flush=True), time.sleep(60))
store.append_all({user: [NewEvent("e", "i1", 1.0)] for user in ("ann", "bob", "cid")}, "m")
print("acknowledged", flush=True)
"""


def test_a_server_that_is_killed_between_append_and_commit_has_acknowledged_and_stored_nothing(
    store_url: str, tmp_path: Path
) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED_BEFORE_COMMIT)
    process = subprocess.Popen([sys.executable, str(script), store_url], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "appended\n"
    os.kill(process.pid, signal.SIGKILL)
    assert process.communicate(timeout=30)[0] == ""
    store = Store(store_url)
    assert [store.version(user)[1] for user in ("ann", "bob", "cid")] == [1, 0, 0]
    assert [event.event_id for event in store.events("ann")] == ["before"]
    found = store.append_all({user: [NewEvent("e", "i1", 1.0)] for user in ("ann", "bob", "cid")}, "m")
    assert not any(isinstance(each, Exception) or each.receipts[0].duplicate for each in found.values())
    store.close()


def test_reactions_go_on_after_the_system_has_refused_a_thread(
    context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "igcf-reactions":
            raise RuntimeError("can't start new thread")
        start(thread)

    asks: list[Ask] = [("ann", {"item": "item-1", "value": 4.0, "event_id": "e1"})]
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert [answer.status_code for answer in all_at_once(context, asks)] == [500]
    (again,) = all_at_once(context, asks)
    assert (again.status_code, again.json()["revision"]) == (200, 1)
