"""examples/nginx for real: two servers on one PostgreSQL behind nginx, load from many clients, one server killed."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from igcf.model import Model
from igcf.service.client import Client
from igcf.service.store import Store
from tests.service.postgres import Cluster
from tests.service.test_server import check_belief_against_log

pytestmark = pytest.mark.slow
EXAMPLE = Path(__file__).parents[2] / "examples" / "nginx"
N_CLIENTS, N_EVENTS, N_USERS = 8, 400, 10
PATIENT = [0.05] * 200


class Example:
    """The running example."""

    def __init__(self, folder: Path, store: str, run: Path) -> None:
        self.run, self.store, ports = run, store, free_ports(3)
        self.url, self.ports = f"http://127.0.0.1:{ports[0]}", ports[1:]
        names = dict(zip(("PORT", "FIRST", "SECOND"), map(str, ports), strict=True))
        programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._errors = (run / "stderr").open("w+")
        self.process = subprocess.Popen(
            [EXAMPLE / "start.sh", folder, store],
            env=os.environ | names | {"RUN": str(run), "PATH": programs},
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,
        )

    def wait_for(self, url: str) -> None:
        """Until the address answers that it is ready."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.errors()
            try:
                if httpx.get(f"{url}/readyz", timeout=5).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError(f"{url} did not become ready: {self.errors()}")

    def kill_server(self, port: int) -> int:
        """`kill -9`; returns the process id."""
        pid = self.server_pid(port)
        os.kill(pid, signal.SIGKILL)
        return pid

    def server_pid(self, port: int) -> int:
        return int((self.run / f"server-{port}.pid").read_text())

    def access_log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.run / "access.log").read_text().splitlines()]

    def errors(self) -> str:
        return (self.run / "stderr").read_text()

    def stop(self) -> int:
        """As Ctrl-C does."""
        self.process.terminate()
        code = self.process.wait(timeout=30)
        self._errors.close()
        return code


def free_ports(n: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="module")
def example(cluster: Cluster, model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    found = Example(model_folder, cluster.new_store(), tmp_path_factory.mktemp("nginx"))
    for url in (found.url, *(f"http://127.0.0.1:{port}" for port in found.ports)):
        found.wait_for(url)
    yield found
    pids = [found.server_pid(port) for port in found.ports]
    assert found.stop() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


class Told:
    """The newest revision that anybody has been told, by user: no later answer may be older."""

    def __init__(self) -> None:
        self._newest: dict[str, int] = defaultdict(int)
        self._lock = threading.Lock()
        self.older: list[str] = []

    def newest(self, user: str) -> int:
        with self._lock:
            return self._newest[user]

    def hears(self, user: str, revision: int, *, at_least: int) -> None:
        with self._lock:
            self._newest[user] = max(self._newest[user], revision)
            if revision < at_least:
                self.older.append(f"{user}: {revision} after {at_least}")


def test_every_event_counts_once_while_a_server_is_killed_under_load(example: Example, model_folder: Path) -> None:
    rng = random.Random(0)
    reactions = [
        {
            "user": f"user-{n % N_USERS}",
            "item": f"item-{rng.randrange(200)}",
            "value": float(rng.randrange(1, 6)),
            "event_id": f"e{n}",
        }
        for n in range(N_EVENTS)
    ]
    sent = reactions + rng.sample(reactions, N_EVENTS // 5)  # duplicates, often at the same time as the first
    rng.shuffle(sent)
    told, progress, fresh = Told(), threading.Semaphore(0), []

    def one_client(number: int) -> None:
        with Client(example.url, pauses_s=PATIENT) as client:
            for n, reaction in enumerate(sent[number::N_CLIENTS]):
                arguments: dict[str, Any] = dict(reaction)
                user = arguments["user"]
                before = told.newest(user)
                receipt = client.feedback(**arguments)
                told.hears(user, receipt.revision, at_least=0 if receipt.duplicate else before)
                if not receipt.duplicate:
                    fresh.append(f"{user} {receipt.event_id}")
                if n % 10 == 0:  # the answer was lost: the same again
                    assert client.feedback(**arguments).duplicate
                before = told.newest(user)
                told.hears(user, client.recommend(user, 3).revision, at_least=before)
                progress.release()

    with ThreadPoolExecutor(N_CLIENTS) as pool:
        clients = [pool.submit(one_client, number) for number in range(N_CLIENTS)]
        for _ in range(len(sent) // 3):
            progress.acquire()
        killed = example.kill_server(example.ports[0])
        for done in clients:
            done.result()
    example.wait_for(f"http://127.0.0.1:{example.ports[0]}")
    assert example.server_pid(example.ports[0]) != killed

    # An acknowledgement that died with its server comes back as a duplicate: fresh may lack it, the log may not.
    assert len(fresh) == len(set(fresh)) <= N_EVENTS
    assert told.older == []
    store, model = Store(example.store), Model.load(model_folder)
    for user in {str(reaction["user"]) for reaction in reactions}:
        events = store.events(user)
        wanted = {str(reaction["event_id"]) for reaction in reactions if reaction["user"] == user}
        assert {event.event_id for event in events} == wanted
        assert [event.revision for event in events] == list(range(1, len(wanted) + 1))
        for url in (example.url, *(f"http://127.0.0.1:{port}" for port in example.ports)):
            with Client(url) as client:
                check_belief_against_log(client, store, user, model)
                assert client.recommend(user, 3).revision == len(wanted)
    store.close()
    lines = example.access_log()
    used = [line["servers"] for line in lines]
    assert {f"127.0.0.1:{port}" for port in example.ports} <= set(used)  # both worked
    # 499, 502 and 504 are the proxy's own: on a busy machine somebody waited too long, and the client asked again.
    assert {line["status"] for line in lines} <= {200, 503, 499, 502, 504}
    assert any(", " in servers for servers in used), "no request was passed on to the other server"


def test_the_proxy_adds_no_surprise(example: Example) -> None:
    with httpx.Client(base_url=example.url, timeout=20) as http:
        named = http.post("/v1/users/ann/recommendations", json={"k": 1}, headers={"X-Request-ID": "mine-1"})
        assert named.headers["x-request-id"] == "mine-1"
        unnamed = http.get("/v1/items/nothing%2Fhere").headers["x-request-id"]
        assert len(unnamed) == 32
        deadline = time.monotonic() + 10
        while not {"mine-1", unnamed} <= {
            line["request_id"] for line in example.access_log()
        }:  # the proxy writes its line after its answer
            assert time.monotonic() < deadline, f"{unnamed} is not in the access log"
            time.sleep(0.05)
        odd = "Zo%C3%AB%20%25%20" + "%F0%9F%8E%AC" * 240
        assert http.get(f"/v1/users/{odd}").json()["known"] is False
        long = [{"user": "ann", "item": "x" * 1800, "value": 5.0}] * 1000
        whole = http.post("/v1/feedback", json=long)  # 1.8 MB pass, and are answered by the service
        assert (whole.status_code, whole.json()["failed"]) == (200, 1000)
        too_large = http.post("/v1/feedback", content=b" " * 2_000_001)
        assert too_large.status_code == 413
        assert too_large.json()["error"] == "BodyTooLargeError"
        assert http.get("/metrics").json()["error"] == "RequestError"
        assert http.get("/").headers["content-security-policy"].startswith("default-src 'self'")


def test_without_servers_callers_are_told_to_try_again(example: Example) -> None:
    """Both are killed: the proxy says 503 in the service's own words, and a patient client gets its answer later."""
    for port in example.ports:
        example.kill_server(port)
    answer = httpx.post(f"{example.url}/v1/users/ann/recommendations", json={"k": 1}, timeout=20)
    if answer.status_code != 200:  # unless one is back already
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert answer.json()["error"] == "OverloadedError"
    with Client(example.url, pauses_s=[0.1] * 200) as client:
        assert client.recommend("ann", 1).items
