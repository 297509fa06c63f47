"""Clients that are slow, silent or many, over real sockets: they keep nobody else from being answered."""

import json
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.http.connections import limited_protocol
from igcf.service.server import bound_socket
from igcf.service.settings import ServiceSettings
from tests.service.processes import wait_until

ADMIN_KEY = "admin-key-0123456789"


class Running:
    """A server in a thread of this process, on a real socket."""

    def __init__(self, folder: Path, store: str, **settings: Any) -> None:
        self.context = ServiceContext.open(folder, ServiceSettings(store=store, **settings))
        protocol: Any = limited_protocol(self.context.settings)
        config = uvicorn.Config(create_app(self.context), http=protocol, log_config=None, access_log=False, port=0)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        wait_until(lambda: self._server.started, "the server did not start")
        self.port: int = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def connect(self, text: bytes = b"") -> socket.socket:
        """Open a connection and send the beginning of something."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        connection.sendall(text)
        return connection

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()


Run = Callable[..., Running]


@pytest.fixture
def run(model_folder: Path, tmp_path: Path) -> Iterator[Run]:
    started: list[Running] = []

    def runner(store: str | None = None, **settings: Any) -> Running:
        started.append(Running(model_folder, store or str(tmp_path / "s.db"), **settings))
        return started[-1]

    yield runner
    for server in started:
        server.stop()


@contextmanager
def many(connections: list[socket.socket]) -> Iterator[None]:
    try:
        yield
    finally:
        for connection in connections:
            connection.close()


def answer_on(connection: socket.socket) -> tuple[int, str]:
    """Read the head of an answer: its status, and everything up to where the body begins."""
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(65536)
        assert part, f"closed after {received!r}"
        received += part
    return int(received.split()[1]), received.partition(b"\r\n\r\n")[0].decode().lower()


def is_closed(connection: socket.socket) -> bool:
    """Wait for the other side to close."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


def test_bodies_that_never_come_keep_nobody_waiting(run: Run) -> None:
    server = run(max_in_flight=4)
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
    paths = [b"/v1/feedback", b"/v1/users/ann/feedback", b"/v1/users/ann/recommendations"]
    with many([server.connect(head % paths[n % 3]) for n in range(24)]):
        for _ in range(5):
            assert httpx.post(f"{server.url}/v1/users/bob/recommendations").status_code == 200
            assert httpx.post(f"{server.url}/v1/feedback", json=[]).status_code == 200
            assert httpx.get(f"{server.url}/v1/model").status_code == 200


def test_what_needs_no_body_is_refused_before_it(run: Run, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"admin {ADMIN_KEY}\n")
    server = run(api_key_file=str(keys))
    rest = b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n%s\r\n"
    key = b"X-API-Key: %s\r\n" % ADMIN_KEY.encode()
    for line, sent, status in [
        (b"POST /v1/feedback", b"", 401),
        (b"POST /nothing", b"", 404),
        (b"POST /v1/nothing", key, 404),
        (b"PUT /v1/users/ann", key, 405),
        (b"POST /healthz", b"", 405),
    ]:
        with closing(server.connect(line + rest % sent)) as connection:
            found, head = answer_on(connection)
            assert found == status
            if line.startswith(b"PUT"):
                assert "allow: delete, get" in head


def test_a_refused_body_may_still_arrive_and_the_connection_goes_on(run: Run) -> None:
    server = run()
    with closing(server.connect(b"POST /nothing HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n")) as connection:
        assert answer_on(connection)[0] == 404
        connection.sendall(b"x" * 200_000 + b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
        received = b""
        while b"HTTP/1.1 200 OK" not in received:
            part = connection.recv(65536)
            assert part, f"closed after {received!r}"
            received += part


@pytest.mark.parametrize(
    "beginning",
    [b"", b"GET /healthz HTTP/1.1\r\nHost: loc", b"POST /nothing HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n"],
    ids=["silent", "half a head", "refused, the rest owed"],
)
def test_connections_that_owe_a_request_are_closed(run: Run, beginning: bytes) -> None:
    server = run(header_timeout_s=0.3)
    with closing(server.connect(beginning)) as connection:
        assert is_closed(connection)


def test_a_head_that_arrives_byte_by_byte_is_not_waited_for(run: Run) -> None:
    server = run(header_timeout_s=0.5)
    with closing(server.connect()) as connection:

        def drip() -> bool:
            try:
                connection.sendall(b"G")
            except OSError:
                return True
            return False

        wait_until(drip, "the connection was never closed", 30)


def test_an_idle_connection_between_requests_stays_open(run: Run) -> None:
    server = run(header_timeout_s=0.2)
    request = b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"
    with closing(server.connect(request)) as idle, closing(server.connect()) as silent:
        assert answer_on(idle)[0] == 200
        assert is_closed(silent)  # so much time has passed
        idle.sendall(request)
        assert answer_on(idle)[0] == 200


def test_an_answer_that_is_not_taken_does_not_keep_its_place(run: Run) -> None:
    server = run(send_timeout_s=0.3, max_in_flight=1)
    with closing(socket.socket()) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        deaf.connect(("127.0.0.1", server.port))
        deaf.sendall(b"GET /v1/items?limit=1000 HTTP/1.1\r\nHost: h\r\n\r\n" * 200)
        wait_until(lambda: httpx.get(f"{server.url}/v1/model").status_code == 200, "the place was never free again")


def test_a_connection_that_nobody_uses_makes_room_when_there_are_too_many(run: Run) -> None:
    server = run(max_connections=4, header_timeout_s=100.0, body_timeout_s=100.0)
    request = b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"
    head = b"POST /v1/feedback HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\nContent-Type: application/json\r\n"
    head += b"Expect: 100-continue\r\n\r\n"

    def working() -> socket.socket:
        connection = server.connect(head)
        assert answer_on(connection)[0] == 100  # the body is waited for
        return connection

    with closing(server.connect(request)) as half, closing(server.connect()) as used:
        assert answer_on(half)[0] == 200
        half.sendall(b"GET /hea")
        used.sendall(request)
        assert answer_on(used)[0] == 200
        first = [working(), working()]
        assert httpx.get(f"{server.url}/healthz", timeout=30).status_code == 200
        assert is_closed(half)  # it was used longest ago
        with many([*first, working(), working()]):
            assert is_closed(used)
            wait_until(lambda: _is_refused(server), "more than so many requests were let in")


def test_bodies_of_thousands_of_tiny_chunks_are_refused(run: Run) -> None:
    """Reading each of them takes a moment in which nobody else is answered."""
    server = run(header_timeout_s=100.0, body_timeout_s=100.0)
    head = b"POST %s HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    for path in (b"/v1/feedback", b"/nothing"):
        with closing(server.connect(head % path)) as connection:
            if path == b"/nothing":
                assert answer_on(connection)[0] == 404
            connection.sendall(b"1\r\n \r\n" * 1_200)
            assert is_closed(connection)
    entries = b",".join(b'{"user": "ann", "item": "item-%d", "value": 5}' % n for n in range(200))
    body = b"[" + b" " * 120_000 + entries + b"]"
    parts = [body[place : place + 100] for place in range(0, len(body), 100)]
    sent = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    with closing(server.connect(head % b"/v1/feedback" + sent + b"0\r\n\r\n")) as connection:
        assert answer_on(connection)[0] == 200


def _is_refused(server: Running) -> bool:
    answer = httpx.get(f"{server.url}/healthz")
    if answer.status_code == 503:
        assert answer.headers["retry-after"] == "1"
        assert answer.json()["error"] == "OverloadedError"
    return answer.status_code == 503


def test_two_ways_to_end_a_body_are_refused(run: Run) -> None:
    server = run()
    head = b"POST /v1/feedback HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with closing(server.connect(head)) as connection:
        assert answer_on(connection)[0] == 400
        assert is_closed(connection)


def test_what_is_no_http_is_refused_as_everything_else(run: Run) -> None:
    with closing(run().connect(b"GARBAGE\r\n\r\n")) as connection:
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert received.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert json.loads(received.partition(b"\r\n\r\n")[2])["error"] == "BadRequestError"


def test_a_blocked_writer_stops_neither_reads_nor_health(run: Run, tmp_path: Path) -> None:
    server = run(store_wait_s=1.0, max_in_flight=8)
    httpx.post(f"{server.url}/v1/users/ann/feedback", json={"item": "item-1", "value": 5}).raise_for_status()
    answers: list[httpx.Response] = []
    body = {"item": "item-2", "value": 5, "event_id": "later"}

    def react() -> None:
        answers.append(httpx.post(f"{server.url}/v1/users/ann/feedback", json=body, timeout=60))

    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        writers = [threading.Thread(target=react) for _ in range(8)]
        for writer in writers:
            writer.start()
        wait_until(lambda: "igcf_requests" in httpx.get(f"{server.url}/metrics").text, "no metrics")
        while any(writer.is_alive() for writer in writers):
            assert httpx.get(f"{server.url}/healthz").status_code == 200
            assert httpx.get(f"{server.url}/metrics").status_code == 200
            assert httpx.get(f"{server.url}/v1/users/ann").json()["revision"] == 1
            assert httpx.post(f"{server.url}/v1/users/ann/recommendations").status_code == 200
        ready = httpx.get(f"{server.url}/readyz", timeout=30)
        assert ready.status_code == 503
        assert "written" in ready.json()["problems"][0]
        other.execute("ROLLBACK")
    for answer in answers:
        assert answer.status_code == 503, answer.text
        assert answer.headers["retry-after"] == "1"
    again = httpx.post(f"{server.url}/v1/users/ann/feedback", json=body, timeout=30)
    assert (again.status_code, again.json()["revision"]) == (200, 2)
    wait_until(lambda: httpx.get(f"{server.url}/readyz").status_code == 200, "it did not become ready again")


def test_a_deletion_waits_for_no_reader_and_is_finished_when_the_reader_has_gone(run: Run, tmp_path: Path) -> None:
    server = run()
    secret = "somebody-who-leaves"
    httpx.post(f"{server.url}/v1/users/{secret}/feedback", json={"item": "item-1", "value": 5}).raise_for_status()

    def is_in_the_log() -> bool:
        return secret.encode() in (tmp_path / "s.db-wal").read_bytes()

    def pending() -> str:
        lines = httpx.get(f"{server.url}/metrics").text.splitlines()
        return next(line.split()[-1] for line in lines if line.startswith("igcf_erasure_pending "))

    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM users").fetchall()
        started = time.monotonic()
        httpx.delete(f"{server.url}/v1/users/{secret}", timeout=60).raise_for_status()
        deletion = time.monotonic() - started
        assert is_in_the_log()
        wait_until(lambda: pending() == "1.0", "that the deletion is unfinished is not told")
        body = {"item": "item-1", "value": 5}
        httpx.post(f"{server.url}/v1/users/bob/feedback", json=body, timeout=60).raise_for_status()
        assert deletion < server.context.settings.store_wait_s  # it does not wait for readers, who may stay for ever
        reader.execute("COMMIT")
    wait_until(lambda: not is_in_the_log(), "the write-ahead log still holds the user")
    wait_until(lambda: pending() == "0.0", "the deletion is said to be unfinished")
    assert secret.encode() not in (tmp_path / "s.db").read_bytes()
    assert json.loads(httpx.get(f"{server.url}/v1/users/{secret}").text)["known"] is False


def test_head_and_body_of_an_answer_do_not_wait_for_an_acknowledgement() -> None:
    """They are two writes: without TCP_NODELAY the second waits 40 ms for the client."""
    with closing(bound_socket("127.0.0.1", 0)) as bound, closing(socket.create_connection(bound.getsockname())):
        accepted, _ = bound.accept()
        with closing(accepted):
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
