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
