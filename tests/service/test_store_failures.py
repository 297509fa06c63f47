"""Stores that fail while they are in use: nothing is acknowledged that is not kept, and `/readyz` says so."""

import os
import resource
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from igcf.errors import StoreError
from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.serving.model_swap import background, load_and_announce
from igcf.service.settings import ServiceSettings
from igcf.service.store import Store
from igcf.service.store.audit import Answer
from tests.service.conftest import OpenService
from tests.service.postgres import Cluster
from tests.service.processes import Server, wait_until

REACTION = {"item": "item-1", "value": 5}


def react(client: TestClient, user: str = "ann") -> int:
    return client.post(f"/v1/users/{user}/feedback", json=REACTION).status_code


@pytest.mark.parametrize("failure", ["deleted", "replaced", "log deleted"])
def test_a_file_that_is_gone_acknowledges_nothing(tmp_path: Path, model_folder: Path, failure: str) -> None:
    path = tmp_path / "s.db"
    context = ServiceContext.open(model_folder, ServiceSettings(store=str(path)))
    try:
        client = TestClient(create_app(context))
        assert react(client) == 200
        assert client.get("/readyz").status_code == 200
        if failure == "deleted":
            path.unlink()
        elif failure == "replaced":
            shutil.copy(path, tmp_path / "backup")
            os.replace(tmp_path / "backup", path)
        else:
            path.with_name("s.db-wal").unlink()
        assert react(client) == 503
        if failure != "log deleted":
            ready = client.get("/readyz")
            assert (ready.status_code, ready.json()["problems"]) == (503, ["the store cannot be written"])
    finally:
        context.close()


@pytest.mark.slow
def test_a_full_disk_is_not_ready(tmp_path: Path, model_folder: Path) -> None:
    """The kernel refuses to let any file of the server grow, as it does on a full disk."""
    server = Server(model_folder, str(tmp_path / "s.db"), "--log-level", "error").wait_until_ready()
    try:
        unlimited = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (100, unlimited[1]))
        wait_until(lambda: httpx.get(f"{server.url}/readyz", timeout=20).status_code == 503, "it still says ready")
        assert httpx.post(f"{server.url}/v1/users/ann/feedback", json=REACTION, timeout=20).status_code == 503
        assert httpx.get(f"{server.url}/healthz").status_code == 200
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, unlimited)
        wait_until(lambda: httpx.get(f"{server.url}/readyz", timeout=20).status_code == 200, "it did not recover")
        assert httpx.post(f"{server.url}/v1/users/ann/feedback", json=REACTION, timeout=20).json()["revision"] == 1
    finally:
        server.stop()


def test_a_database_that_cannot_be_written_is_not_ready(cluster: Cluster, model_folder: Path) -> None:
    url = cluster.new_store()
    context = ServiceContext.open(model_folder, ServiceSettings(store=url))

    def set_read_only(value: str) -> None:
        with psycopg.connect(f"postgresql://postgres@/postgres?host={cluster.folder}", autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
            connection.execute("SELECT pg_reload_conf()")

    try:
        client = TestClient(create_app(context))
        assert client.get("/readyz").status_code == 200
        set_read_only("on")
        wait_until(lambda: client.get("/readyz").status_code == 503, "it still says ready")
        assert client.get("/readyz").json()["problems"] == ["the store cannot be written"]
        assert react(client) == 503
    finally:
        set_read_only("off")
        wait_until(lambda: client.get("/readyz").status_code == 200, "it did not become ready again")
        context.close()


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.close()


def test_a_database_that_hangs_does_not_hang_requests(own_cluster: Cluster, model_folder: Path) -> None:
    context = ServiceContext.open(model_folder, ServiceSettings(store=own_cluster.new_store(), store_wait_s=0.5))
    client = TestClient(create_app(context))
    postmaster = int((own_cluster.data / "postmaster.pid").read_text().split()[0])
    try:
        assert react(client) == 200
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        stopped = [postmaster, *map(int, children)]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            found: dict[str, int] = {}

            def ask(name: str, method: str, path: str) -> None:
                found[name] = client.request(method, path, json=REACTION if method == "POST" else None).status_code

            askers = [
                threading.Thread(target=ask, args=arguments, daemon=True)
                for arguments in [
                    ("react", "POST", "/v1/users/ann/feedback"),
                    ("read", "GET", "/v1/users/ann"),
                    ("recommend", "GET", "/page/users/ann/beliefs"),
                    ("ready", "GET", "/readyz"),
                ]
            ]
            for asker in askers:
                asker.start()
            wait_until(lambda: len(found) == 4, "somebody waits for a database that hangs")
            assert set(found.values()) == {503}
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        wait_until(lambda: react(client) == 200, "it did not recover")
    finally:
        context.close()


def test_a_lock_that_is_held_elsewhere_is_not_waited_for_without_end(cluster: Cluster, model_folder: Path) -> None:
    url = cluster.new_store()
    context = ServiceContext.open(model_folder, ServiceSettings(store=url, store_wait_s=0.5))
    try:
        client = TestClient(create_app(context))
        assert react(client) == 200
        with psycopg.connect(url) as other:
            other.execute("SELECT * FROM users FOR UPDATE")
            assert react(client) == 503
            assert client.get("/v1/users/ann").json()["revision"] == 1
        assert react(client) == 200
    finally:
        context.close()


def test_following_goes_on_after_any_error(
    open_service: OpenService, second_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = open_service(), open_service()
    failures = [RuntimeError("a mistake"), MemoryError(), KeyError("sha256")]
    read = two.store.generation

    def generation() -> tuple[int, str]:
        if failures:
            raise failures.pop()
        return read()

    monkeypatch.setattr(two.store, "generation", generation)
    threads = background(two, {})
    try:
        wait_until(lambda: not failures, "the thread died of an error")
        announced = load_and_announce(one, str(second_folder))
        wait_until(lambda: two.current_model.served.model_id == announced.model, "a swap was missed")
    finally:
        for thread in threads:
            thread.close()


def test_deleted_users_leave_the_memory_though_the_announced_model_cannot_be_loaded(open_service: OpenService) -> None:
    one, two = open_service(), open_service()
    TestClient(create_app(two)).post("/v1/users/ann/feedback", json=REACTION)
    with two.users.open(two.current_model.served, "ann"):
        pass
    assert len(two.users) == 1
    one.store.announce("/nowhere", "nothing")
    threads = background(two, {})
    try:
        wait_until(lambda: two.current_model.problem is not None, "the model was not looked at")
        one.store.forget("ann")
        wait_until(lambda: len(two.users) == 0, "a deleted user stays in memory")
    finally:
        for thread in threads:
            thread.close()


def answer(name: str, when: float) -> Answer:
    return Answer(name, "ann", "model", 0, "ucb", "exact", [{"item": "item-1", "reason": "please"}], when)


def written(store: Store) -> set[str]:
    rows = store.database.read(lambda c: c.exec_driver_sql("SELECT recommendation_id FROM recommendations").all())
    return {str(row[0]) for row in rows}


def test_answers_to_deleted_users_are_not_written_whatever_the_clocks_say(open_service: OpenService) -> None:
    one, two = open_service(), open_service()
    two.audit.add(answer("by a clock that was far ahead", time.time() + 3600))
    two.audit.add(answer("by a clock that was a little ahead", time.time() + 0.5))
    two.audit.add(answer("before", time.time() - 1))
    one.store.forget("ann")
    two.audit.flush()
    two.audit.add(answer("by a clock that was set back", time.time() - 3600))
    two.audit.flush()
    assert written(one.store) == set()


def test_a_clock_set_ahead_does_not_bring_answers_to_deleted_users_back(
    open_service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = open_service(), open_service()
    for context in (one, two):
        context.audit.close()  # no thread but this one writes
    one.audit.add(answer("before, in the queue of the server that deletes", time.time() - 1))
    two.audit.add(answer("before, in the queue of another server", time.time() - 1))
    one.store.forget("ann")
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 3600)
    one.audit.flush()
    two.audit.flush()
    assert written(one.store) == set()
    assert one.store.deletions()  # other servers hear of it, though an hour seems to have passed


def test_answers_with_an_unconfirmed_commit_are_written_once_and_block_nobody(
    open_service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks between the commit and its answer; more answers have come by the next attempt."""
    context = open_service()
    context.audit.close()  # no thread but this one writes
    write, losses = context.store.database.write, [True]

    def write_and_lose(work: Callable[[sa.Connection], Any]) -> Any:
        done = write(work)
        if losses:
            losses.pop()
            raise StoreError("the answer to the commit is lost")
        return done

    monkeypatch.setattr(context.store.database, "write", write_and_lose)
    context.audit.add(answer("one", time.time()))
    with pytest.raises(StoreError):
        context.audit.flush()
    context.audit.add(answer("two", time.time()))
    context.audit.flush()
    assert written(context.store) == {"one", "two"}
    assert context.audit.waiting == 0
