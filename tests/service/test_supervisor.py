"""Workers that die and cannot come back at once, restarts after a swap, and what other users of the machine can see."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from igcf.model.files import model_id
from igcf.service.client import Client
from tests.service.conftest import small_model
from tests.service.postgres import Cluster
from tests.service.processes import Server, wait_until

STARTS_S = 90.0
"""Two starts of a worker in a row on a busy machine: each imports all packages anew; the pause between them is 1 s."""

pytestmark = pytest.mark.slow
StartServer = Callable[..., Server]


@pytest.fixture
def start() -> Iterator[StartServer]:
    """Starts servers; all are stopped after the test."""
    started: list[Server] = []

    def starter(*arguments: Any, **options: Any) -> Server:
        started.append(Server(*arguments, **options))
        return started[-1].wait_until_ready()

    yield starter
    for server in started:
        server.stop()


@pytest.fixture
def models(tmp_path: Path) -> tuple[Path, Path]:
    """Two models in one folder, which a test may remove."""
    first, second = tmp_path / "models" / "first", tmp_path / "models" / "second"
    small_model(40, 3).save(first)
    small_model(40, 3, seed=1).save(second)
    return first, second


def served_by(server: Server, n: int = 20) -> set[str]:
    """Ask over fresh connections, so that every worker has its turn."""
    return {httpx.get(f"{server.url}/v1/model", timeout=20).json()["model"] for _ in range(n)}


def has_come_back(server: Server, before: list[int]) -> bool:
    """Whether another worker has taken the place of a dead one, and answers."""
    now = server.workers()
    return len(now) == len(before) and now != before and httpx.get(f"{server.url}/readyz").status_code == 200


def test_a_worker_comes_back_with_the_announced_model_though_the_first_one_is_gone(
    start: StartServer, tmp_path: Path, models: tuple[Path, Path]
) -> None:
    first, second = models
    server = start(first, str(tmp_path / "s.db"), "--workers", "2")
    wanted = httpx.post(f"{server.url}/v1/model", json={"folder": str(second)}, timeout=20).json()["model"]
    shutil.rmtree(first)
    before = server.workers()
    os.kill(before[0], signal.SIGKILL)
    wait_until(lambda: has_come_back(server, before), "the worker did not come back")
    wait_until(lambda: served_by(server) == {wanted}, "a worker serves another model than the announced one")
    assert server.process.poll() is None


def test_a_worker_that_cannot_restart_is_tried_again_while_the_others_serve(
    start: StartServer, tmp_path: Path, models: tuple[Path, Path]
) -> None:
    first, second = models
    server = start(first, str(tmp_path / "s.db"), "--workers", "2")
    wanted = httpx.post(f"{server.url}/v1/model", json={"folder": str(second)}, timeout=20).json()["model"]
    wait_until(lambda: served_by(server) == {wanted}, "the swap did not reach all workers")
    second.rename(tmp_path / "away")
    before = server.workers()
    os.kill(before[0], signal.SIGKILL)
    wait_until(lambda: server.written().count("cannot be loaded") >= 2, "the worker was not tried again", STARTS_S)
    assert served_by(server) == {wanted}
    (tmp_path / "away").rename(second)
    wait_until(lambda: has_come_back(server, before), "the worker did not come back")
    assert served_by(server) == {wanted}


def test_a_worker_that_dies_while_asked_for_a_sign_of_life_is_replaced_at_once(
    start: StartServer, tmp_path: Path, models: tuple[Path, Path]
) -> None:
    server = start(models[0], str(tmp_path / "s.db"), "--workers", "2")
    wait_until(lambda: server.written().count("startup complete") == 2, "a worker did not start")
    before = server.workers()
    os.kill(before[0], signal.SIGSTOP)
    time.sleep(1.5)  # it is asked every half second
    os.kill(before[0], signal.SIGKILL)
    wait_until(lambda: len(server.workers()) == 2 and server.workers() != before, "the worker was waited for", 15)


def test_workers_outlive_a_database_that_goes_away(start: StartServer, models: tuple[Path, Path]) -> None:
    cluster = Cluster()
    try:
        server = start(models[0], cluster.new_store(), "--workers", "2")
        cluster.stop()
        for pid in server.workers():
            os.kill(pid, signal.SIGKILL)
        wait_until(
            lambda: server.written().count("Error: the store") >= 3, "the workers were not tried again", STARTS_S
        )
        assert server.process.poll() is None
        cluster.start()
        server.wait_until_ready(60)
        with Client(server.url) as client:
            assert client.feedback("ann", "item-1", 5.0).revision == 1
    finally:
        cluster.close()


def test_only_at_the_first_start_does_a_mistake_end_the_server(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "igcf", "serve", str(tmp_path / "nothing"), "--workers", "2", "--port", "0"]
    done = subprocess.run(
        [*command, "--store", str(tmp_path / "s.db")], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert "no model at" in done.stderr
    assert not (tmp_path / "s.db").exists()


def test_a_restarted_server_serves_what_was_announced_unless_told_otherwise(
    start: StartServer, tmp_path: Path, models: tuple[Path, Path]
) -> None:
    (first, second), store = models, str(tmp_path / "s.db")
    server = start(first, store)
    httpx.post(f"{server.url}/v1/model", json={"folder": str(second)}, timeout=20).raise_for_status()
    server.stop()
    one, two = start(first, store), start(first, store, "--workers", "2")
    assert served_by(one) == served_by(two) == {model_id(second)}
    three = start(first, store, "--model-override")
    assert served_by(three) == {model_id(first)}
    for each in (one, two):  # all servers of a store agree
        wait_until(lambda each=each: served_by(each) == {model_id(first)}, "a server did not follow")  # type: ignore[misc]


def test_the_password_of_the_database_is_not_in_the_process_list(
    start: StartServer, cluster: Cluster, models: tuple[Path, Path], tmp_path: Path
) -> None:
    secret = "not-for-everybody"
    plain = cluster.new_store()
    (tmp_path / "password").write_text(secret)
    for server in (
        start(models[0], plain, "--workers", "2", "--store-password-file", str(tmp_path / "password")),
        start(models[0], None, "--workers", "2", IGCF_STORE=plain.replace("postgres@", f"postgres:{secret}@", 1)),
    ):
        assert httpx.get(f"{server.url}/readyz").status_code == 200
        assert len(server.workers()) == 2
        for pid in (server.process.pid, *server.workers()):
            assert secret.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert secret not in server.written()


def test_a_killed_parent_leaves_no_metrics_behind(
    start: StartServer, tmp_path: Path, models: tuple[Path, Path]
) -> None:
    (tmp_path / "tmp").mkdir()
    server = start(models[0], str(tmp_path / "s.db"), "--workers", "2", TMPDIR=str(tmp_path / "tmp"))

    def found() -> list[Path]:
        return list((tmp_path / "tmp").glob("igcf-metrics-*"))

    assert len(found()) == 1
    os.kill(server.process.pid, signal.SIGKILL)
    wait_until(lambda: not found(), "the metrics of a dead server stay")


def test_every_line_of_the_log_has_a_time(start: StartServer, tmp_path: Path, models: tuple[Path, Path]) -> None:
    server = start(models[0], str(tmp_path / "s.db"), "--workers", "2")
    os.kill(server.workers()[0], signal.SIGKILL)
    wait_until(lambda: " died" in server.written(), "the death was not told")
    lines = [line for line in server.written().splitlines() if line.startswith("{")]
    assert lines
    assert all('"time":' in line for line in lines)
