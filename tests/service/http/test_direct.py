"""The short way to a route says the same as the framework's."""

import itertools

from fastapi.testclient import TestClient

BODIES = [
    b'{"k": 2}', b"{}", b'{"k": "2"}', b'{"k": true}', b'{"k": 0}', b'{"k": 2.5}', b'{"k": 2, "other": 1}',
    b'{"exclude": ["a", ""]}', b"[1]", b"null", b"{", b"\xff", b'{"exclude": ["\\ud800"]}', b'{"nu": NaN}', b"",
]  # fmt: skip


def told(client: TestClient, user: str, body: bytes, content_type: str) -> tuple[int, list[str], str | None]:
    headers = {"content-type": content_type}
    answer = client.post(f"/v1/users/{user}/recommendations", content=body, headers=headers)
    found = answer.json()
    return answer.status_code, [item["item"] for item in found.get("items", [])], found.get("message")


def test_the_short_way_answers_and_refuses_as_the_framework_does(client: TestClient) -> None:
    """Only the plain content type takes the short way."""
    answers = set()
    for user, body in itertools.product(["ann", "%01", "a" * 300], BODIES):
        short = told(client, user, body, "application/json")
        assert short == told(client, user, body, "application/json; charset=utf-8"), (user, body)
        answers.add(short[0])
    assert answers == {200, 400, 422}


BATCHES = [
    b'{"feedback": [{"user": "ann", "item": "item-1", "value": 5, "event_id": "e"}]}',
    b'[{"user": "ann", "item": "item-1", "value": 5, "event_id": "e"}]',
    b'[{"user": "ann", "item": "item-1", "value": 1, "event_id": "e"}, {"user": "a/b"}, 5, {"user": "u", "item": "x"}]',
    b'{"feedback": []}', b"[]", b"{}", b"null", b"[", b"\xff", b"", b'{"feedback": {}}', b'{"feedback": [], "o": 1}',
]  # fmt: skip


def test_batches_take_the_short_way_too_and_are_told_the_same(client: TestClient) -> None:
    client.post("/v1/feedback", content=BATCHES[0], headers={"content-type": "application/json"})
    answers = set()
    for body in BATCHES:
        types = ("application/json", "application/json; charset=utf-8")
        short, long = (client.post("/v1/feedback", content=body, headers={"content-type": each}) for each in types)
        assert (short.status_code, short.json()) == (long.status_code, long.json()), body
        assert "null" not in short.text
        answers.add(short.status_code)
    assert answers == {200, 400, 422}
