"""Keys, limits, headers, logs: the door of the service."""

import gzip
import json
import logging
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from igcf.errors import ConfigError
from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.http.authentication import KeyFile, Keys
from igcf.service.http.logs import JsonLines
from igcf.service.settings import ServiceSettings

JSON = {"Content-Type": "application/json"}
CLIENT_KEY, ADMIN_KEY = "client-key-0123456789", "admin-key-0123456789"


@pytest.fixture
def opened(model_folder: Path, tmp_path: Path) -> Iterator[Any]:
    """Builds an application on SQLite with the settings given."""
    context: list[ServiceContext] = []

    def opener(**settings: Any) -> TestClient:
        context.append(ServiceContext.open(model_folder, ServiceSettings(store=str(tmp_path / "s.db"), **settings)))
        return TestClient(create_app(context[-1]), raise_server_exceptions=False)

    yield opener
    for each in context:
        each.close()


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text(f"# who may do what\n\nserver {CLIENT_KEY}\nadmin {ADMIN_KEY}\n")
    return path


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    ("method", "path", "key", "status"),
    [
        ("GET", "/healthz", None, 200),
        ("GET", "/readyz", None, 200),
        ("GET", "/", None, 200),
        ("GET", "/dashboard", None, 200),
        ("GET", "/openapi.json", None, 200),
        ("GET", "/v1/model", None, 401),
        ("GET", "/v1/model", "wrong", 401),
        ("GET", "/v1/model", CLIENT_KEY, 200),
        ("GET", "/v1/model", ADMIN_KEY, 200),
        ("GET", "/v1/users/ann", None, 401),
        ("DELETE", "/v1/users/ann", None, 401),
        ("POST", "/v1/users/ann/recommendations", None, 401),
        ("GET", "/v1/no/such/route", None, 401),
        ("GET", "/page/stats", CLIENT_KEY, 403),
        ("GET", "/page/stats", ADMIN_KEY, 200),
        ("GET", "/metrics", None, 401),
        ("GET", "/metrics", CLIENT_KEY, 403),
        ("GET", "/metrics", ADMIN_KEY, 200),
        ("POST", "/v1/model", CLIENT_KEY, 403),
        ("HEAD", "/page/stats", CLIENT_KEY, 405),
        ("GET", "/page/stats/", CLIENT_KEY, 403),
    ],
)
def test_who_may_do_what(opened: Any, key_file: Path, method: str, path: str, key: str | None, status: int) -> None:
    client = opened(api_key_file=str(key_file))
    answer = client.request(method, path, headers={} if key is None else bearer(key), follow_redirects=True)
    assert answer.status_code == status, answer.text
    if status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["error"] == "KeyRequiredError"


def test_a_wrong_key_is_not_reported_as_a_missing_one(opened: Any, key_file: Path) -> None:
    client = opened(api_key_file=str(key_file))
    assert "needs an API key" in client.get("/v1/model").json()["message"]
    assert "is not in the key file" in client.get("/v1/model", headers=bearer("wrong")).json()["message"]


def test_a_key_may_also_be_sent_as_x_api_key(opened: Any, key_file: Path) -> None:
    client = opened(api_key_file=str(key_file))
    assert client.get("/v1/model", headers={"X-API-Key": CLIENT_KEY}).status_code == 200
    assert client.get("/v1/model", headers={"X-API-Key": b"\xe9" * 20}).status_code == 401


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("server only-a-client-key-here", "no admin key"),
        ("admin short", "at least 16"),
        ("owner 0123456789abcdef", "expected 'server KEY'"),
        ("", "no admin key"),
    ],
)
def test_a_bad_key_file_is_one_sentence_without_the_keys(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        Keys.from_file(path)
    assert "0123456789" not in str(caught.value)
    with pytest.raises(ConfigError, match="cannot read"):
        Keys.from_file(tmp_path / "missing")


def test_a_pipe_or_a_folder_in_the_place_of_the_keys_is_not_waited_for(key_file: Path) -> None:
    keys = KeyFile(key_file)
    for make in (os.mkfifo, os.mkdir):
        key_file.rename(key_file.with_name(make.__name__))
        make(key_file)
        with pytest.raises(ConfigError, match="not a regular file"):
            keys.refresh()
        assert keys.is_stale
        keys.keys.check({"x-api-key": ADMIN_KEY}, "GET", "/metrics")
    with pytest.raises(ConfigError, match="not a regular file"):
        KeyFile(key_file)


def test_answers_of_the_api_are_not_kept_by_caches(opened: Any) -> None:
    client = opened()
    assert client.get("/v1/users/ann").headers["cache-control"] == "no-store"
    assert client.get("/v1/users/ann?x=1").headers["cache-control"] == "no-store"
    assert client.get("/").headers["cache-control"] == "no-cache"


def test_keys_are_rotated_without_a_restart(opened: Any, key_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    with opened(api_key_file=str(key_file)) as client, caplog.at_level(logging.INFO, "igcf.service"):

        def becomes(key: str, status: int) -> None:
            for _ in range(200):
                if client.get("/v1/model", headers=bearer(key)).status_code == status:
                    return
                time.sleep(0.02)
            raise AssertionError(f"{key} is not answered {status}")

        key_file.write_text("server another-key-0123456789\nadmin new-admin-key-0123456789\n")
        becomes("another-key-0123456789", 200)
        assert client.get("/v1/model", headers=bearer(CLIENT_KEY)).status_code == 401
        key_file.write_text("server half-a-")
        for _ in range(200):
            if any("the old ones stay" in record.message for record in caplog.records):
                break
            time.sleep(0.02)
        assert [record for record in caplog.records if "the old ones stay" in record.message]
        assert client.get("/v1/model", headers=bearer("another-key-0123456789")).status_code == 200
        assert "igcf_api_keys_stale 1.0" in client.get("/metrics", headers=bearer("new-admin-key-0123456789")).text
        key_file.write_text(f"admin {ADMIN_KEY}\n")
        becomes(ADMIN_KEY, 200)
        assert "igcf_api_keys_stale 0.0" in client.get("/metrics", headers=bearer(ADMIN_KEY)).text
        assert "half-a-" not in caplog.text


def test_logs_are_json_and_hold_neither_users_nor_keys(
    opened: Any, key_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = opened(api_key_file=str(key_file))
    with caplog.at_level(logging.INFO, "igcf.service"):
        client.post("/v1/users/ann-private/recommendations", headers=bearer(CLIENT_KEY) | {"x-request-id": "my-id.1"})
        client.get("/v1/users/ann-private", headers=bearer("not-the-key-at-all"))
    records = [record for record in caplog.records if record.name == "igcf.service"]
    lines = [JsonLines().format(record) for record in records]
    found = [json.loads(line) for line in lines]
    assert [(line["route"], line["status"]) for line in found] == [
        ("/v1/users/{user}/recommendations", 200),
        ("other", 401),
    ]
    assert found[0]["ms"] > 0
    for secret in ("ann-private", CLIENT_KEY, ADMIN_KEY, "not-the-key"):
        assert secret not in "\n".join(lines)


def test_request_ids_are_echoed_when_sane_and_made_otherwise(opened: Any) -> None:
    client = opened()
    assert client.get("/healthz", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    assert len(client.get("/healthz", headers={"x-request-id": "a b" * 100}).headers["x-request-id"]) == 32


def test_every_answer_carries_a_strict_policy(opened: Any) -> None:
    client = opened()
    for path in ("/", "/dashboard", "/healthz", "/v1/model", "/nothing"):
        policy = client.get(path).headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy


def test_a_large_body_is_refused_before_it_is_read(opened: Any) -> None:
    client = opened(max_body=1000)
    answer = client.post("/v1/feedback", content=b"[" * 2000, headers=JSON)
    assert answer.status_code == 413
    assert answer.json()["error"] == "BodyTooLargeError"

    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 100

    assert client.post("/v1/feedback", content=endless(), headers=JSON).status_code == 413


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
def test_a_compressed_upload_is_refused_and_never_expanded(opened: Any, coding: str) -> None:
    packed = gzip.compress(b'{"feedback": [' + b" " * 50_000_000 + b"]}", compresslevel=9)
    headers = {"content-type": "application/json", "content-encoding": coding}
    answer = opened().post("/v1/feedback", content=packed, headers=headers)
    assert (answer.status_code, answer.json()["message"]) == (
        415, f"the body is compressed ({coding}); send it without Content-Encoding",
    )  # fmt: skip


def test_a_server_may_lower_its_limits_and_not_raise_them(opened: Any) -> None:
    client = opened(max_k=2, max_list=1, max_batch=1, max_nu=1.0)
    ask = "/v1/users/ann/recommendations"
    assert client.post(ask, json={"k": 2}).status_code == 200
    for body in ({"k": 3}, {"k": 1, "exclude": ["a", "b"]}, {"k": 1, "nu": 2}):
        assert client.post(ask, json=body).json()["error"] == "ConfigError"
    entry = {"user": "ann", "item": "item-1", "value": 5}
    assert client.post("/v1/feedback", json={"feedback": [entry, entry]}).status_code == 422
    with pytest.raises(ConfigError, match="max_k must be at most 100"):
        ServiceSettings(max_k=101)


def test_invented_methods_do_not_grow_the_metrics(opened: Any) -> None:
    client = opened()
    for n in range(5):
        client.request(f"FOO{n}", "/v1/model")
    assert "FOO" not in client.get("/metrics").text


def test_overload_is_told_with_the_time_to_come_back(opened: Any) -> None:
    client = opened(max_in_flight=1)
    guard = client.app.build_middleware_stack()
    while type(guard).__name__ != "Guard":
        guard = guard.app
    client.app.middleware_stack = guard
    guard.lanes.reads.in_flight = 1  # as if one request were in work
    answer = client.get("/v1/model")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["error"] == "OverloadedError"
    assert client.get("/healthz").status_code == 200
    guard.lanes.reads.in_flight = 0
    assert client.get("/v1/model").status_code == 200


def test_a_full_audit_log_refuses_instead_of_forgetting_answers(opened: Any, tmp_path: Path) -> None:
    client = opened(audit_queue=2)
    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # the store can be read and not written: the log cannot get rid of anything
        answers = [client.post("/v1/users/ann/recommendations") for _ in range(5)]
        other.execute("ROLLBACK")
    assert [answer.status_code for answer in answers] == [200, 200, 503, 503, 503]
    for answer in answers[2:]:
        assert answer.json()["error"] == "OverloadedError"
        assert answer.headers["retry-after"] == "1"
    deadline = time.monotonic() + 20
    while client.post("/v1/users/ann/recommendations").status_code == 503:
        assert time.monotonic() < deadline, "the log never caught up"
        time.sleep(0.01)
    with closing(sqlite3.connect(tmp_path / "s.db")) as store:
        written = {row[0] for row in store.execute("SELECT recommendation_id FROM recommendations")}
    assert {answer.json()["recommendation_id"] for answer in answers[:2]} <= written


def test_other_origins_are_let_in_only_when_configured(opened: Any) -> None:
    origin = {"Origin": "https://shop.example"}
    preflight = origin | {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    closed = opened()
    assert "access-control-allow-origin" not in closed.get("/v1/model", headers=origin).headers
    assert closed.options("/v1/feedback", headers=preflight).status_code == 405
    shared = opened(cors_origins=("https://shop.example",))
    assert shared.get("/v1/model", headers=origin).headers["access-control-allow-origin"] == "https://shop.example"
    assert shared.options("/v1/feedback", headers=preflight).status_code == 200
    other = shared.get("/v1/model", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers


@pytest.mark.parametrize(
    ("method", "path", "status", "error", "message"),
    [
        ("GET", "/nothing", 404, "NotFoundError", "no route of this server; /docs lists them all"),
        ("PUT", "/v1/feedback", 405, "MethodNotAllowedError", "this address takes POST"),
    ],
)
@pytest.mark.parametrize("body", [None, {"k": 5}])
def test_all_errors_have_one_shape_and_lead_on(
    opened: Any, method: str, path: str, status: int, error: str, message: str, body: dict[str, int] | None
) -> None:
    answer = opened().request(method, path, json=body)
    assert answer.status_code == status
    assert answer.json() == {"error": error, "message": message}


def test_static_files_cannot_be_left(opened: Any) -> None:
    client = opened()
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd"):
        assert client.get(path).status_code == 404


def test_metrics_and_stats_count_what_happened(opened: Any) -> None:
    client = opened()
    answer = client.post("/v1/users/ann/recommendations", json={"k": 3, "nu": 10}).json()
    reactions: list[dict[str, Any]] = [{"value": 5}, {"value": 1}, {"kind": "shown"}]
    for item, said in zip(answer["items"], reactions, strict=True):
        client.post("/v1/users/ann/feedback", json={"item": item["item"], "event_id": item["item"], **said})
    first = answer["items"][0]["item"]
    client.post("/v1/users/ann/feedback", json={"item": first, "value": 5, "event_id": first})
    client.post("/v1/users/ann/recommendations")
    text = client.get("/metrics").text
    assert 'igcf_feedback_total{kind="satisfied"} 1.0' in text
    assert 'igcf_requests_total{method="POST",route="/v1/users/{user}/feedback",status="200"} 4.0' in text
    assert 'igcf_sessions_total{cache="miss"} 1.0' in text
    found = client.get("/page/stats").json()
    assert found["store"]["kind"] == "sqlite"
    assert found["store"]["reactions"] == 3


def test_an_unforeseen_error_tells_nothing_and_is_logged(
    opened: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = opened()
    monkeypatch.setattr("igcf.service.http.routes.model_info", lambda *_: 1 / 0)
    answer = client.get("/v1/model")
    assert answer.status_code == 500
    assert answer.json()["error"] == "InternalError"
    assert answer.json()["message"].endswith(f"see the server log for request ID {answer.headers['x-request-id']}")
    assert "ZeroDivisionError" in caplog.text


def test_pages_of_other_origins_can_read_refusals(opened: Any, key_file: Path) -> None:
    origin = "https://shop.example"
    client = opened(cors_origins=(origin,), api_key_file=str(key_file), max_body=10)
    asked = {"Origin": origin}
    for answer, status in [
        (client.get("/v1/model", headers=asked), 401),
        (client.get("/page/stats", headers=asked | bearer(CLIENT_KEY)), 403),
        (client.get("/nothing", headers=asked), 404),
        (client.post("/v1/feedback", content=b"x" * 20, headers=asked | JSON | bearer(CLIENT_KEY)), 413),
    ]:
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == origin
        assert "retry-after" in answer.headers["access-control-expose-headers"].lower()


def test_a_path_that_is_not_utf_8_names_nobody(opened: Any) -> None:
    client = opened()
    for name in ("%ff", "%fe", "a%c3"):
        answer = client.get(f"/v1/users/{name}")
        assert (answer.status_code, answer.json()["error"]) == (400, "BadRequestError")
    assert client.get("/v1/users/Zo%C3%AB").json()["user"] == "Zoë"


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost", 200), ("LOCALHOST:8000", 200), ("[::1]:80", 200), ("evil.example", 400), ("localhost.evil", 400)],
)
def test_the_server_answers_to_its_own_names_only(opened: Any, host: str, status: int) -> None:
    client = opened(allowed_hosts=("localhost", "::1"))
    assert client.get("/v1/model", headers={"Host": host}).status_code == status


def test_health_can_be_asked_without_a_body(opened: Any) -> None:
    client = opened()
    for path in ("/healthz", "/readyz"):
        answer = client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")


def test_a_refused_method_is_told_all_that_are_allowed(opened: Any) -> None:
    client = opened()
    assert client.put("/v1/users/ann").headers["allow"] == "DELETE, GET"
    assert client.put("/v1/users/ann", json={}).headers["allow"] == "DELETE, GET"
    assert client.delete("/healthz").headers["allow"] == "GET, HEAD"


def test_a_batch_that_is_too_long_is_told_so(opened: Any) -> None:
    client = opened()
    entry = {"user": "ann", "item": "item-1", "value": 5}
    for body in ([entry] * 1001, {"feedback": [entry] * 1001}):
        answer = client.post("/v1/feedback", json=body)
        assert answer.status_code == 422
        assert "must have at most 1000 items" in answer.json()["message"]


def test_what_was_sent_is_not_sent_back_whole(opened: Any) -> None:
    client = opened()
    answer = client.post("/v1/users/ann/feedback", json={"item": "item-1", "value": "x" * 100_000})
    assert answer.status_code == 422
    assert len(answer.content) < 1000


def test_operators_see_the_state_of_the_server(opened: Any) -> None:
    client = opened()
    client.post("/v1/users/ann/feedback", json={"item": "item-1", "value": 5})
    client.get("/readyz")
    text = client.get("/metrics").text
    for line in ('igcf_in_flight{lane="write"} 0.0', 'igcf_in_flight{lane="health"} 1.0', "igcf_ready 1.0"):
        assert line in text
    for name in ("igcf_commit_seconds_count", "igcf_store_errors_total", "igcf_store_retries_total", "igcf_build_info"):
        assert name in text


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/v1/users/a/feedback", '{"item": ', "the body is not JSON: expecting value at character 9"),
        ("/v1/users/a/feedback", "", "a JSON body is missing"),
        ("/v1/users/a/feedback", "[1]", "the body must be an object, got a list"),
        ("/v1/users/a/feedback", "{}", "item is missing"),
        ("/v1/users/a/feedback", '{"item": 5}', "item must be a text, got 5"),
        ("/v1/users/a/feedback", '{"item": "a\\u0000b"}', "item cannot be used: control characters are not allowed"),
        (
            "/v1/users/a/feedback",
            '{"item": "a", "Valu": 1}',
            "Valu is not known here; the fields of this request are in /docs",
        ),
        ("/v1/users/a/recommendations", '{"k": 0}', "k must be at least 1, got 0"),
        ("/v1/users/a/recommendations", '{"k": 1.5}', "k must be a whole number, got 1.5"),
        ("/v1/users/a/recommendations", '{"k": "many"}', "k must be a number, got 'many'"),
        ("/v1/users/a/recommendations", '{"exclude": {}}', "exclude must be a list, got an object"),
        ("/v1/users/a/recommendations", '{"exclude": ["a", 5]}', "exclude[1] must be a text, got 5"),
        (
            "/v1/users/a%2Fb/recommendations",
            "{}",
            "user cannot be used: '/' is not allowed, and neither are '.' and '..' by themselves",
        ),
        ("/v1/feedback", "5", "the body must be an object, got 5"),
        ("/v1/feedback", '{"feedback": 5}', "feedback must be a list, got 5"),
    ],
)
def test_a_mistake_is_told_in_the_callers_own_terms(opened: Any, path: str, body: str, message: str) -> None:
    answer = opened().post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert answer.json() == {"error": "RequestError", "message": message}


def test_mistakes_in_queries_entries_and_bytes_are_told_too(opened: Any) -> None:
    client = opened()
    assert client.get("/v1/items?limit=x").json()["message"] == "limit must be a whole number, got 'x'"
    [entry] = client.post("/v1/feedback", json=[{"user": "ann"}]).json()["results"]
    assert entry["message"] == "item is missing"
    broken = client.post("/v1/users/a/feedback", content=b"\xff", headers={"content-type": "application/json"})
    assert broken.json() == {"error": "BadRequestError", "message": "the body is not JSON in UTF-8"}
    plain = client.post("/v1/users/a/feedback", content=b"a=b", headers={"content-type": "text/plain"})
    assert (plain.status_code, plain.json()["error"]) == (415, "UnsupportedMediaTypeError")


def test_the_document_tells_of_keys_and_has_names_that_stay(opened: Any, key_file: Path) -> None:
    free, keyed = opened().get("/openapi.json").json(), opened(api_key_file=str(key_file)).get("/openapi.json").json()
    assert set(keyed["components"]["securitySchemes"]) == {"bearer", "key"}
    names = [each["operationId"] for methods in keyed["paths"].values() for each in methods.values()]
    assert len(set(names)) == len(names)
    assert {"post_recommendations", "post_feedback", "get_user", "delete_user", "post_model", "readyz"} <= set(names)
    asked = keyed["paths"]["/v1/users/{user}"]["get"]
    assert asked["security"] == [{"bearer": []}, {"key": []}]
    assert free["paths"]["/v1/users/{user}"]["get"]["security"] == [{}, {"bearer": []}, {"key": []}]
    assert "security" not in keyed["paths"]["/healthz"]["get"]
    assert keyed["paths"]["/v1/model"]["post"]["description"].endswith("Needs an admin key.")


def test_the_page_of_the_document_needs_nothing_from_outside(opened: Any) -> None:
    client = opened()
    page = client.get("/docs")
    assert page.status_code == 200
    assert "default-src 'self'" in page.headers["content-security-policy"]
    for name in re.findall(r'(?:src|href)="([^"]+)"', page.text):
        assert name.startswith("/")
        assert client.get(name).status_code == 200, name
