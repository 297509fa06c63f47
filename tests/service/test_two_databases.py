"""Two real PostgreSQL servers, one of them killed under load: users of the other are served on, nothing is lost."""

import os
import random
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from igcf.model import Model
from igcf.service.client import Client
from igcf.service.store.maintenance import check_store
from igcf.service.store.spread import Spread, open_store
from tests.service.postgres import Cluster
from tests.service.processes import Server, wait_until
from tests.service.test_server import check_belief_against_log

USERS = [f"user-{number}" for number in range(24)]


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[Cluster, Cluster]]:
    found = Cluster(), Cluster()
    yield found
    for cluster in found:
        cluster.close()


class Load:
    """Clients that react and ask, and remember what they were told."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self.sent: dict[tuple[str, str], dict[str, object]] = {}
        self.acknowledged: set[tuple[str, str]] = set()
        self.answers: defaultdict[str, list[tuple[int, str | None]]] = defaultdict(list)
        """Status and Retry-After of every answer, by user."""
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(4)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        rng = random.Random(number)
        with httpx.Client(base_url=self._url, timeout=30) as client:
            for step in range(100_000):
                if self._stop.is_set():
                    return
                user, event = rng.choice(USERS), f"e{number}-{step}"
                body = {"item": f"item-{rng.randrange(200)}", "value": float(rng.randrange(1, 6)), "event_id": event}
                self.sent[user, event] = body
                told = client.post(f"/v1/users/{user}/feedback", json=body)
                if told.status_code == 200:
                    self.acknowledged.add((user, event))
                self.answers[user].append((told.status_code, told.headers.get("Retry-After")))
                asked = client.post(f"/v1/users/{user}/recommendations", json={"k": 2})
                self.answers[user].append((asked.status_code, asked.headers.get("Retry-After")))

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.parametrize("killed", [0, 1], ids=["the common one", "the other one"])
@pytest.mark.parametrize("workers", [1, 2])
def test_users_of_the_other_database_are_served_on_and_nothing_acknowledged_is_lost(
    clusters: tuple[Cluster, Cluster],
    model_folder: Path,
    killed: int,
    workers: int,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    urls = [cluster.new_store() for cluster in clusters]
    audit = ("--audit", str(tmp_path / "audit")) if workers > 1 else ()
    options = ("--store", urls[1], "--workers", str(workers), *audit)
    server = Server(model_folder, urls[0], *options).wait_until_ready()
    store = open_store(urls)
    assert isinstance(store, Spread)
    assert store.record.common == next(each for each, part in store.by_id.items() if part is store.parts[0])
    lost = [user for user in USERS if store.place(user) is store.parts[killed]]
    kept = [user for user in USERS if user not in lost]
    store.close()
    assert len(lost) > 3
    assert len(kept) > 3
    load = Load(server.url)
    try:
        wait_until(lambda: len(load.acknowledged) > 100, "nothing was stored")
        clusters[killed].stop()
        try:
            n_lost, n_kept = (sum(len(load.answers[user]) for user in users) for users in (lost, kept))
            wait_until(lambda: sum(len(load.answers[user]) for user in lost) > n_lost + 60, "nobody was answered")
            wait_until(lambda: sum(len(load.answers[user]) for user in kept) > n_kept + 60, "nobody was answered")
            ready = httpx.get(f"{server.url}/readyz", timeout=10)
            assert (ready.status_code, ready.json()["status"]) == (200, "ready")
            wait_until(lambda: {load.answers[user][-1] for user in lost} == {(503, "1")}, "somebody was not refused")
            wait_until(lambda: "igcf_databases_away 1.0" in httpx.get(f"{server.url}/metrics").text, "nothing counted")
        finally:
            clusters[killed].start()
        began = len(load.acknowledged)
        wait_until(lambda: all(load.answers[user][-1][0] == 200 for user in lost), "the database was not found again")
        wait_until(lambda: len(load.acknowledged) > began + 100, "nothing was stored afterwards")
    finally:
        load.stop()
        request.addfinalizer(server.stop)
    assert {status for user in kept for status, _ in load.answers[user]} == {200}
    with Client(server.url) as client:
        for (user, event), body in load.sent.items():
            if (user, event) not in load.acknowledged:
                client.feedback(user, str(body["item"]), body["value"], event_id=event)  # type: ignore[arg-type]
        model = Model.load(model_folder)
        store = open_store(urls)
        for user in USERS:
            events = [event.event_id for event in store.events(user)]
            assert sorted(map(str, events)) == sorted(event for name, event in load.sent if name == user)
            check_belief_against_log(client, store.of(user), user, model)
        store.close()
    assert check_store(*urls) == []


def test_a_server_starts_while_a_database_is_away_and_finds_it_later(
    clusters: tuple[Cluster, Cluster], model_folder: Path
) -> None:
    urls = [cluster.new_store() for cluster in clusters]
    store = open_store(urls)
    assert isinstance(store, Spread)
    lost = next(user for user in USERS if store.place(user) is store.parts[1])
    kept = next(user for user in USERS if store.place(user) is store.parts[0])
    store.close()
    clusters[1].stop()
    try:
        server = Server(model_folder, urls[0], "--store", urls[1]).wait_until_ready()
        body = {"item": "item-1", "value": 5.0}
        assert httpx.post(f"{server.url}/v1/users/{kept}/feedback", json=body).status_code == 200
        assert httpx.post(f"{server.url}/v1/users/{lost}/feedback", json=body).status_code == 503
    finally:
        clusters[1].start()

    def is_back() -> bool:
        time.sleep(0.05)
        return httpx.post(f"{server.url}/v1/users/{lost}/feedback", json=body).status_code == 200

    wait_until(is_back, "the database was not found again")
    server.stop()


def test_a_database_that_hangs_is_taken_for_away_and_the_users_of_the_other_are_served_on(
    clusters: tuple[Cluster, Cluster], model_folder: Path
) -> None:
    urls = [cluster.new_store() for cluster in clusters]
    server = Server(model_folder, urls[0], "--store", urls[1], IGCF_STORE_WAIT_S="0.5").wait_until_ready()
    store = open_store(urls)
    assert isinstance(store, Spread)
    lost = [user for user in USERS if store.place(user) is store.parts[1]]
    store.close()
    load = Load(server.url)
    postmaster = int((clusters[1].data / "postmaster.pid").read_text().split()[0])
    try:
        wait_until(lambda: len(load.acknowledged) > 60, "nothing was stored")
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        stopped = [postmaster, *map(int, children)]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            wait_until(lambda: "igcf_databases_away 1.0" in httpx.get(f"{server.url}/metrics").text, "not noticed")
            before = {user: len(load.answers[user]) for user in USERS}
            wait_until(lambda: all(len(load.answers[user]) > before[user] + 4 for user in USERS), "somebody waits")
            assert {load.answers[user][-1][0] for user in lost} == {503}
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        wait_until(lambda: all(load.answers[user][-1][0] == 200 for user in lost), "it did not recover")
    finally:
        load.stop()
        server.stop()
    assert {status for user in USERS if user not in lost for status, _ in load.answers[user]} == {200}
