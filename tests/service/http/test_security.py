"""What a stranger, a page of another site, a lost key or a foreign model can do: as little as documented."""

import asyncio
import io
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from igcf.model import Model, Reward
from igcf.service.context import ServiceContext
from igcf.service.errors import CatalogueMismatchError, RequestCancelledError, TimeBudgetError
from igcf.service.http.application import create_app
from igcf.service.http.guard import Guard
from igcf.service.http.logs import configure
from igcf.service.lanes import Budget, Lanes, budget_of_request
from igcf.service.metrics import Metrics
from igcf.service.models.requests import BatchRequest
from igcf.service.page_tokens import page_token
from igcf.service.serving.model_swap import load_and_announce
from igcf.service.serving.recommending import recommend_to_many
from igcf.service.settings import ServiceSettings
from tests.service.conftest import small_model
from tests.service.processes import wait_until

SERVER_KEY, ADMIN_KEY, SECRET = "server-key-0123456789", "admin-key-0123456789", "page-secret-0123456789"
Opened = Callable[..., ServiceContext]


@pytest.fixture
def opened(model_folder: Path, tmp_path: Path) -> Any:
    contexts: list[ServiceContext] = []

    def opener(**settings: Any) -> ServiceContext:
        contexts.append(ServiceContext.open(model_folder, ServiceSettings(store=str(tmp_path / "s.db"), **settings)))
        return contexts[-1]

    yield opener
    for context in contexts:
        context.close()


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text(f"server {SERVER_KEY}\nadmin {ADMIN_KEY}\npage {SECRET}\n")
    return path


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/users/ann/recommendations", 200),
        ("POST", "/v1/users/ann/feedback", 422),  # let in; the body is missing
        ("DELETE", "/v1/users/ann/feedback/e1", 404),  # let in; there is no such event
        ("POST", "/v1/users/bob/recommendations", 403),
        ("POST", "/v1/users/bob/feedback", 403),
        ("DELETE", "/v1/users/bob/feedback/e1", 403),
        ("GET", "/v1/users/ann", 403),
        ("DELETE", "/v1/users/ann", 403),
        ("POST", "/v1/users/ann/merge", 403),
        ("POST", "/v1/users/ann/history", 403),
        ("GET", "/v1/users/ann/explanations/item-1", 403),
        ("POST", "/v1/feedback", 403),
        ("POST", "/v1/recommendations", 403),
        ("GET", "/v1/items", 403),
        ("POST", "/v1/items", 403),
        ("GET", "/v1/model", 403),
        ("POST", "/v1/model", 403),
        ("GET", "/metrics", 403),
    ],
)
def test_a_page_token_recommends_and_reacts_for_its_user_and_nothing_else(
    opened: Any, key_file: Path, method: str, path: str, status: int
) -> None:
    client = TestClient(create_app(opened(api_key_file=str(key_file))))
    assert client.request(method, path, headers=bearer(page_token(SECRET, "ann"))).status_code == status


def test_a_page_token_that_is_expired_forged_or_revoked_is_refused(opened: Any, key_file: Path) -> None:
    client = TestClient(create_app(opened(api_key_file=str(key_file))))
    good = page_token(SECRET, "ann")
    _, user, expiry, signature = good.split(".")
    forged = [
        page_token(SECRET, "ann", ttl_s=-1),
        page_token("another-secret-0123", "ann"),
        f"page.{user}.{int(expiry) + 1}.{signature}",
        f"page.Ym9i.{expiry}.{signature}",
        "page.",
        "page..",
        SECRET,
    ]
    for token in forged:
        assert client.post("/v1/users/ann/recommendations", headers=bearer(token)).status_code == 401, token
    key_file.write_text(f"admin {ADMIN_KEY}\n")
    with client:  # its threads read the keys
        deadline = time.monotonic() + 20
        while client.post("/v1/users/ann/recommendations", headers=bearer(good)).status_code != 401:
            assert time.monotonic() < deadline, "a revoked secret is still good"


@pytest.mark.parametrize("user", ["Zoë", "a b", "x" * 256])
def test_page_tokens_name_any_user(opened: Any, key_file: Path, user: str) -> None:
    client = TestClient(create_app(opened(api_key_file=str(key_file))))
    assert client.post(f"/v1/users/{user}/recommendations", headers=bearer(page_token(SECRET, user))).is_success


def test_a_server_key_keeps_users_and_items_and_an_admin_key_the_model_too(opened: Any, key_file: Path) -> None:
    client = TestClient(create_app(opened(api_key_file=str(key_file))))
    for key, model in ((SERVER_KEY, 403), (ADMIN_KEY, 422)):
        assert client.delete("/v1/users/ann", headers=bearer(key)).status_code == 200
        assert client.delete("/v1/items/item-1", headers=bearer(key)).status_code == 200
        assert client.post("/v1/model", json={"folder": "nothing"}, headers=bearer(key)).status_code == model


def test_a_revoked_key_waits_neither_for_learning_nor_for_the_store(
    opened: Any, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = opened(api_key_file=str(key_file))
    release, learning, following = threading.Event(), threading.Event(), threading.Event()

    def stuck(busy: threading.Event) -> dict[str, float]:
        busy.set()
        release.wait(120)
        return {}

    monkeypatch.setattr(context.items_from_log, "look", lambda _: stuck(learning))
    monkeypatch.setattr(context.store, "deletions", lambda: stuck(following))
    with TestClient(create_app(context)) as client:
        try:
            assert learning.wait(60)
            assert following.wait(60)
            key_file.write_text(f"admin {ADMIN_KEY}\n")
            asked = partial(client.get, "/v1/model", headers=bearer(SERVER_KEY))
            wait_until(lambda: asked().status_code == 401, "the key is still taken while other threads are busy")
            assert not release.is_set()
        finally:
            release.set()


def ask(guard: Guard, method: str, headers: dict[str, str], path: str = "/v1/users/a/feedback") -> int:
    """Send one request to the guard alone: what the framework would say does not matter."""
    sent: list[Any] = []
    body = json.dumps({"item": "item-1", "value": 5}).encode()
    told = {"host": "shop.example", "content-length": str(len(body))} | headers
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in told.items()],
    }  # fmt: skip

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(guard(scope, receive, send))
    return int(sent[0]["status"])


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (JSON, 200),
        (JSON | {"origin": "https://shop.example", "sec-fetch-site": "same-origin"}, 200),
        (JSON | {"origin": "https://shop.example"}, 200),
        (JSON | {"origin": "https://page.example", "sec-fetch-site": "cross-site"}, 200),  # --cors-origin
        (JSON | {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}, 403),
        (JSON | {"origin": "https://evil.example"}, 403),
        (JSON | {"origin": "null"}, 403),
        (JSON | {"sec-fetch-site": "cross-site"}, 403),
        ({}, 415),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "application/json; charset=utf-8"}, 200),
    ],
)
def test_writes_of_other_sites_are_refused_whatever_the_framework_does(
    opened: Any, headers: dict[str, str], status: int
) -> None:
    context = opened(cors_origins=("https://page.example",))
    app = create_app(context)

    async def framework(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    (settings,) = [dict(each.kwargs) for each in app.user_middleware if "lanes" in each.kwargs]
    guard = Guard(framework, **settings)  # type: ignore[arg-type]
    assert ask(guard, "POST", headers) == status
    assert ask(guard, "GET", {"origin": "https://evil.example", "content-length": "0"}, "/v1/model") == 200


@pytest.fixture
def budget() -> Iterator[Budget]:
    budget = Budget(60.0)
    token = budget_of_request.set(budget)
    yield budget
    budget_of_request.reset(token)


def test_a_batch_answers_for_the_users_that_its_time_allows(opened: Any, budget: Budget) -> None:
    context = opened()
    count, add = 0, context.audit.add

    def noted(answer: Any) -> None:
        nonlocal count
        count += 1
        budget.started -= 60.0 if count == 5 else 0.0
        add(answer)

    context.audit.add = noted
    found = recommend_to_many(context, BatchRequest(users=[f"u{n}" for n in range(10)], k=2)).results
    assert [each.error for each in found] == [None] * 5 + [TimeBudgetError.__name__] * 5


def test_a_batch_ends_when_its_client_hangs_up(opened: Any, budget: Budget) -> None:
    context = opened()
    users = [f"u{n}" for n in range(1000)]
    count = 0
    publish = context.audit.add

    def noted(answer: Any) -> None:
        nonlocal count
        count += 1
        budget.is_cancelled = count >= 3
        publish(answer)

    context.audit.add = noted
    with pytest.raises(RequestCancelledError):
        recommend_to_many(context, BatchRequest(users=users, k=2))
    assert count == 3


def test_a_client_that_hangs_up_is_noticed_while_a_thread_works(opened: Any) -> None:
    context = opened()
    lane = Lanes(context.settings).batches

    async def hung_up() -> Any:
        await asyncio.sleep(0.05)
        return {"type": "http.disconnect"}

    def work() -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            budget_of_request.get().check()
            time.sleep(0.01)

    async def serve() -> None:
        budget_of_request.set(Budget(60.0, hung_up))
        await lane.run(work)

    with pytest.raises(RequestCancelledError):
        asyncio.run(serve())


def test_batches_have_a_lane_of_their_own(opened: Any) -> None:
    lanes = Lanes(opened().settings)
    batch, read = lanes.of("POST", "/v1/recommendations"), lanes.of("POST", "/v1/users/ann/recommendations")
    assert batch is not read
    assert batch.threads is not None
    assert batch.threads.total_tokens == 1


def test_a_full_temporary_folder_is_an_error_and_no_signal(tmp_path: Path) -> None:
    """`/dev/full` takes nothing; memory-mapped files would end the process by SIGBUS."""
    metrics = Metrics(str(tmp_path))
    (tmp_path / f"{os.getpid()}.part").symlink_to("/dev/full")
    metrics.refused.inc()
    with pytest.raises(OSError, match="No space left"):
        metrics.share()
    assert b"igcf_refused_total 1.0" in metrics.exposition()


def test_metrics_of_other_workers_are_added_and_gauges_of_dead_ones_are_not(tmp_path: Path) -> None:
    metrics = Metrics(str(tmp_path))
    metrics.refused.inc(2)
    metrics.audit_waiting.set(3)
    metrics.share()
    (tmp_path / f"{os.getpid()}.json").rename(tmp_path / "999999999.json")
    text = metrics.exposition()
    assert b"igcf_refused_total 4.0" in text
    assert b"igcf_audit_waiting 3.0" in text


def test_a_model_of_another_catalogue_is_refused_unless_it_is_forced(opened: Any, model_folder: Path) -> None:
    context = opened()
    bands = small_model(200, 4, seed=5)
    foreign = Model(
        item_vectors=bands.item_vectors, prior_mean=bands.prior_mean, prior_cov=bands.prior_cov, noise_var=0.2,
        item_ids=[f"item-{n}" if n < 20 else f"band-{n}" for n in range(200)], reward=bands.reward,
    )  # fmt: skip
    folder = model_folder.parent / "bands"
    if not folder.exists():
        foreign.save(folder)
    with pytest.raises(CatalogueMismatchError, match=r"knows 20 of the 200 items in service \(10%\)"):
        load_and_announce(context, "bands")
    assert context.current_model.generation == 0
    assert load_and_announce(context, "bands", force=True).generation == 1


def test_a_model_with_another_scale_is_refused_unless_it_is_forced(opened: Any, model_folder: Path) -> None:
    context, own = opened(), small_model()
    other = Model(
        item_vectors=np.asarray(own.item_vectors), prior_mean=own.prior_mean, prior_cov=own.prior_cov, noise_var=0.2,
        item_ids=own.item_ids, reward=Reward("satisfied", threshold=0.5, low=0.0, high=1.0),
    )  # fmt: skip
    folder = model_folder.parent / "scale"
    if not folder.exists():
        other.save(folder)
    client = TestClient(create_app(context))
    refused = client.post("/v1/model", json={"folder": "scale"})
    assert (refused.status_code, refused.json()["error"]) == (409, "CatalogueMismatchError")
    assert "from satisfied, 1 to 5 to satisfied, 0 to 1 (it knows 100% of the items" in refused.json()["message"]
    assert client.post("/v1/model", json={"folder": "scale", "force": True}).status_code == 200


def test_ids_with_slashes_never_collide_with_routes(opened: Any) -> None:
    client = TestClient(create_app(opened()))
    ids = ["a/similar", "a", "/", "x/y/z"]
    client.post("/v1/items", json={"items": [{"id": each, "title": each} for each in ids]}).raise_for_status()
    for each in ids:
        quoted = each.replace("/", "%2F")
        assert client.get(f"/v1/items/{quoted}").json()["item"] == each
        assert client.patch(f"/v1/items/{quoted}", json={"title": "T"}).json()["item"]["item"] == each
    assert client.get("/v1/items/a/similar").status_code == 404  # neighbours of "a", which no model knows
    assert client.get("/v1/items/a%1fb").status_code in (404, 422)


def test_up_to_k_returns_what_is_left(opened: Any) -> None:
    client = TestClient(create_app(opened()))
    two = {"candidates": ["item-1", "item-2"]}
    assert client.post("/v1/users/ann/recommendations", json={"k": 3, **two}).status_code == 409
    found = client.post("/v1/users/ann/recommendations", json={"k": 3, "fewer": True, **two}).json()
    assert {item["item"] for item in found["items"]} == {"item-1", "item-2"}
    for item in ("item-1", "item-2"):
        client.post("/v1/users/ann/feedback", json={"item": item, "value": 5}).raise_for_status()
    assert client.post("/v1/users/ann/recommendations", json={"k": 3, "fewer": True, **two}).json()["items"] == []
    capped = {"k": 5, "fewer": True, "rules": {"caps": {"even": 1, "odd": 1}}}
    assert len(client.post("/v1/users/bob/recommendations", json=capped).json()["items"]) == 2


def test_a_server_without_free_file_descriptors_logs_one_line_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio reports every refused connection with a traceback, up to 2,048 at a time."""
    now, written = 0.0, io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setattr("igcf.service.http.logs.time.monotonic", lambda: now)
    loggers = [logging.getLogger(name) for name in ("igcf.service", "uvicorn", "uvicorn.error", "asyncio")]
    before = [(each.handlers, each.filters, each.propagate, each.level) for each in loggers]
    try:
        configure("info")
        loop = asyncio.new_event_loop()
        for second in range(3):
            now = float(second)
            for _ in range(2_000):
                refused = OSError(24, "Too many open files")
                loop.call_exception_handler({"message": "socket.accept() out of system resource", "exception": refused})
        loop.close()
    finally:
        for each, (handlers, filters, propagate, level) in zip(loggers, before, strict=True):
            each.handlers, each.filters, each.propagate = handlers, filters, propagate
            each.setLevel(level)
    lines = written.getvalue().splitlines()
    assert len(lines) == 3
    assert all("Too many open files" in json.loads(line)["message"] for line in lines)
