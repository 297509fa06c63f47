"""Ids, values and bodies that nobody should send: no 5xx, and nothing is stored."""

import json
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from igcf.service.context import ServiceContext
from igcf.service.store.tables import feedback, users

JSON = {"content-type": "application/json"}
FEW = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
BAD_IDS = [
    "a" * 10_000,
    "a" * 257,
    "tab\there",
    "nul\x00",
    "line\nbreak",
    "\x7f",
    "\x9b",
    "slash/inside",
    "..",
    "../../etc/passwd",
    "/",
]
GOOD_IDS = [
    "Ünïcödé",
    "日本語",
    "🙂",
    "a b",
    "%",
    "?x=1#y",
    "'; DROP TABLE users; --",
    "a" * 256,
    "null",
    "0",
    "é",
]


def stored(context: ServiceContext) -> int:
    return context.store.database.read(
        lambda connection: sum(
            connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in (feedback, users)
        )
    )


def test_a_bad_user_id_is_refused_everywhere(client: TestClient, context: ServiceContext) -> None:
    for user in BAD_IDS:
        refuse_user(client, user)
        assert stored(context) == 0, user


def refuse_user(client: TestClient, user: str) -> None:
    body = {"item": "item-1", "value": 5}
    part = quote(user, safe="")
    answers = [
        client.post(f"/v1/users/{part}/feedback", json=body),
        client.post(f"/v1/users/{part}/recommendations"),
        client.get(f"/v1/users/{part}/explanations/item-1"),
        client.delete(f"/v1/users/{part}/feedback/x"),
    ]
    assert {answer.status_code for answer in answers} <= {404, 405, 422}, [answer.text for answer in answers]
    batch = client.post("/v1/feedback", json={"feedback": [body | {"user": user}]})
    assert batch.json()["results"][0]["error"] == "RequestError"


def test_any_other_user_id_works_all_the_way(client: TestClient, context: ServiceContext) -> None:
    for user in GOOD_IDS:
        use_user(client, user)
        assert stored(context) == 0, user


def use_user(client: TestClient, user: str) -> None:
    part = quote(user, safe="")
    answer = client.post(f"/v1/users/{part}/recommendations", json={"k": 1})
    assert answer.json()["user"] == user
    body = {"item": answer.json()["items"][0]["item"], "value": 5, "event_id": user}
    assert client.post(f"/v1/users/{part}/feedback", json=body).json()["revision"] == 1
    assert client.get(f"/v1/users/{part}").json()["history"][0]["event_id"] == user
    assert client.delete(f"/v1/users/{part}/feedback/{part}").json() == {"revision": 2}
    assert client.delete(f"/v1/users/{part}").json()["deleted"] == 2


def test_bad_ids_in_a_body_store_nothing(client: TestClient, context: ServiceContext) -> None:
    texts: list[object] = ["", "nul\x00", "a" * 10_000, "\ud800", 5, [], {}, True]
    for field in ("item", "event_id", "recommendation_id"):
        for text in texts:
            body = json.dumps({"item": "item-1", "value": 5, field: text})  # writes the lone surrogate as \\ud800
            answer = client.post("/v1/users/ann/feedback", content=body, headers=JSON)
            assert answer.status_code == 422, answer.text
    assert stored(context) == 0


BAD_BODIES = [
    b"",
    b"null",
    b"[]",
    b"[" * 50_000,
    b'{"item": "item-1"}',
    b'{"value": 5}',
    b'{"item": "item-1", "value": 5, "extra": 1}',
    b'{"item": "item-1", "value": 5',
    b"\xff\xfe",
    b'{"item": "nothing", "value": 5}',
    b'{"item": "item-1", "value": ' + b"1" * 5000 + b"}",
    b'{"item": "item-1", "value": 1e5000}',
    b'{"item": "item-1", "value": -1e300}',
]


def test_bad_bodies_store_nothing(client: TestClient, context: ServiceContext) -> None:
    for body in BAD_BODIES:
        answer = client.post("/v1/users/ann/feedback", content=body, headers=JSON)
        assert answer.status_code in (400, 404, 422), (body[:80], answer.text)
        assert set(answer.json()) == {"error", "message"}
        assert len(answer.text) < 2000
    assert stored(context) == 0


def test_another_content_type_is_refused(client: TestClient, context: ServiceContext) -> None:
    """A page of another origin could send this without asking first."""
    body = b'{"item": "item-1", "value": 5}'
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        answer = client.post("/v1/users/ann/feedback", content=body, headers={"content-type": kind})
        assert answer.status_code == 415
    assert stored(context) == 0


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@FEW
@given(value=ANYTHING, item=st.text(max_size=20) | st.just("item-1"))
def test_what_is_stored_is_a_number_of_the_logs_range_or_nothing(
    client: TestClient, context: ServiceContext, value: Any, item: str
) -> None:
    body = json.dumps({"item": item, "value": value})
    before = stored(context)
    answer = client.post("/v1/users/ann/feedback", content=body, headers=JSON)
    assert answer.status_code in (200, 404, 422), answer.text
    if answer.status_code == 200:
        assert item == "item-1"
        assert value is None or abs(float(value)) <= 50
        assert not isinstance(value, bool)
    else:
        assert stored(context) == before


@FEW
@given(user=st.text(min_size=1, max_size=30), query=st.text(max_size=30), item=st.text(min_size=1, max_size=30))
def test_no_text_in_a_path_breaks_the_server(client: TestClient, user: str, query: str, item: str) -> None:
    user, item = (quote(text.encode("utf-8", "replace"), safe="") for text in (user, item))
    for answer in (
        client.get(f"/v1/users/{user}"),
        client.get(f"/v1/users/{user}/explanations/{item}"),
        client.get(f"/v1/items/{item}"),
        client.get("/v1/items", params={"query": query.encode("utf-8", "replace").decode()}),
    ):
        assert answer.status_code < 500, answer.text
