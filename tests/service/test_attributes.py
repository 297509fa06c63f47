"""Attributes over HTTP: stored, versioned, explained, merged, exported and forgotten."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from igcf.online import Greedy, Recommender
from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.store import interactions_from_store
from tests.service.conftest import OpenService, small_model
from tests.toys import attributed, contextual

MODEL = contextual(attributed(small_model()))
ANN: dict[str, Any] = {"gender": "f", "country": ["nz"], "income": 250}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "with-attributes"
    MODEL.save(folder)
    return folder


@pytest.fixture
def service(open_service: OpenService, folder: Path) -> ServiceContext:
    return open_service(folder)


@pytest.fixture
def client(service: ServiceContext) -> TestClient:
    return TestClient(create_app(service))


def put(client: TestClient, user: str, attributes: Any) -> Any:
    return client.put(f"/v1/users/{user}/attributes", json={"attributes": attributes})


def items(client: TestClient, user: str, **body: Any) -> list[tuple[str, Any]]:
    answer = client.post(f"/v1/users/{user}/recommendations", json={"policy": "greedy", **body})
    assert answer.status_code == 200, answer.text
    return [(each["item"], pytest.approx(each["mean"], abs=1e-5)) for each in answer.json()["items"]]


def expected(history: list[tuple[str, float | None]], attributes: dict[str, Any]) -> list[tuple[str, float]]:
    session = Recommender(MODEL, Greedy()).session(history, attributes=attributes)
    return [(each.item_id, each.mean) for each in session.recommend(5)]


def test_attributes_are_stored_and_move_every_later_answer(client: TestClient) -> None:
    plain = items(client, "ann")
    receipt = put(client, "ann", ANN).json()
    assert receipt == {"user": "ann", "revision": 1, "attributes": ANN, "ignored": []}
    assert put(client, "ann", ANN).json()["revision"] == 1
    assert items(client, "ann") == expected([], ANN) != plain
    client.post("/v1/users/ann/feedback", json={"item": "item-3", "value": 5})
    assert items(client, "ann") == expected([("item-3", 5.0)], ANN)
    other = {"gender": "m"}
    assert put(client, "ann", other).json()["revision"] == 3
    assert items(client, "ann") == expected([("item-3", 5.0)], other)
    state = client.get("/v1/users/ann").json()
    assert (state["attributes"], len(state["history"]), state["reactions"]) == (other, 1, 1)
    put(client, "ann", {})
    assert items(client, "ann") == expected([("item-3", 5.0)], {})


def test_attributes_of_a_request_hold_for_one_answer(client: TestClient) -> None:
    plain = items(client, "bob")
    assert items(client, "bob", attributes=ANN) == expected([], ANN)
    assert items(client, "bob") == plain
    client.post("/v1/users/bob/feedback", json={"item": "item-3", "value": 5})
    put(client, "bob", {"gender": "m", "income": 3})
    assert items(client, "bob", attributes={"gender": "f"}) == expected([("item-3", 5.0)], {"gender": "f", "income": 3})
    assert items(client, "bob") == expected([("item-3", 5.0)], {"gender": "m", "income": 3})
    answer = client.post("/v1/users/bob/recommendations", json={"attributes": {"country": "xx"}}).json()
    assert answer["ignored"] == ["country: 'xx' is unknown or was too rare in training"]


def test_explanations_have_a_line_per_attribute_and_add_up(client: TestClient) -> None:
    put(client, "ann", ANN)
    client.post("/v1/users/ann/feedback", json={"item": "item-3", "value": 5})
    why = client.get("/v1/users/ann/explanations/item-7").json()
    assert [part["name"] for part in why["attributes"]] == ["gender", "country", "income"]
    amounts = sum(part["amount"] for part in (*why["attributes"], *why["contributions"]))
    assert abs(why["prior"] + amounts + why["rest"] + why["absence"] - why["mean"]) < 1e-9


def test_the_model_lists_what_it_understands(client: TestClient) -> None:
    found = client.get("/v1/model").json()["attributes"]
    assert [(each["name"], each["kind"], each["values"]) for each in found] == [
        ("gender", "category", ["f", "m"]),
        ("country", "category", ["(other)", "de", "nz"]),
        ("income", "number", []),
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"height": 3}, "this model knows gender, country, income"),
        ({"gender": {"a": {"b": 1}}}, "attribute 'gender' is"),
        ({"country": ["nz"] * 10_000}, "10,000 values"),
        ({"income": "NaN"}, "attribute 'income' is 'NaN'"),
        ({"income": 1e400}, "attribute 'income' is"),
        ([1], "attributes"),
    ],
)
def test_bad_attributes_are_refused_and_nothing_is_stored(client: TestClient, given: Any, message: str) -> None:
    body = json.dumps({"attributes": given})
    for method, path in (("PUT", "/v1/users/eve/attributes"), ("POST", "/v1/users/eve/recommendations")):
        answer = client.request(method, path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 422), answer.text
        assert "\n" not in answer.json()["message"]
        assert message in answer.json()["message"] or "NaN" in body or "Infinity" in body
    assert client.get("/v1/users/eve").json()["revision"] == 0


def test_deletion_and_merge_take_attributes_with_them(service: ServiceContext, client: TestClient) -> None:
    put(client, "visitor", {"gender": "f", "income": 7})
    put(client, "ann", {"gender": "m"})
    assert client.post("/v1/users/ann/merge", json={"from": "visitor"}).status_code == 200
    assert client.get("/v1/users/ann").json()["attributes"] == {"gender": "m", "income": 7}
    assert client.get("/v1/users/visitor").json()["attributes"] == {}
    assert client.delete("/v1/users/ann").status_code == 200
    assert client.get("/v1/users/ann").json()["attributes"] == {}
    assert service.store.events("ann") == []


def test_a_store_is_trained_from_with_the_attributes_of_its_users(service: ServiceContext, client: TestClient) -> None:
    for number in range(6):
        client.post(f"/v1/users/u{number}/feedback", json={"item": "item-3", "value": 5})
        put(client, f"u{number}", {"country": "nz" if number % 2 else ["de", "fr"], "income": number})
    put(client, "without reactions", {"gender": "f"})
    data = interactions_from_store(service.settings.store)
    assert (len(data), data.n_users) == (6, 6)
    assert data.users is not None
    assert data.users.given("u0")["country"] == ["de", "fr"]
    assert data.users.given("u1")["country"] == ["nz"]


def test_attributes_are_in_no_log_and_no_metric(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        put(client, "ann", {"country": "nz", "income": 31337})
        items(client, "ann", attributes={"income": 31338})
        put(client, "ann", {"country": "secret-land"})
    told = caplog.text + client.get("/metrics").text
    assert not any(word in told for word in ("31337", "31338", "secret-land"))


def test_a_model_that_knows_no_attributes_keeps_those_that_are_stored(
    service: ServiceContext, client: TestClient, open_service: OpenService
) -> None:
    put(client, "ann", ANN)
    plain = TestClient(create_app(open_service()))  # the same vectors without attributes
    stranger = plain.get("/v1/users/nobody").json()["belief"]["mean"]
    found = plain.get("/v1/users/ann").json()
    assert found["attributes"] == ANN
    np.testing.assert_allclose(found["belief"]["mean"], stranger)
    assert "knows no attributes" in put(plain, "ann", {"gender": "f"}).json()["message"]


def test_a_context_moves_one_answer_and_is_stored_with_the_reaction(
    service: ServiceContext, client: TestClient
) -> None:
    phone, desk = {"device": "phone", "time": "2026-11-18T21:00:00+13:00"}, {"device": "desk"}
    plain = items(client, "ann")
    assert items(client, "ann", context=phone) != plain
    assert items(client, "ann") == plain
    session = Recommender(MODEL, Greedy()).session()
    history: list[tuple[str, float | None, Any]] = [
        ("item-3", 5.0, phone),
        ("item-4", 1.0, None),
        ("item-5", None, desk),
    ]
    for item, value, context in history:
        body = {"item": item, "value": value} if value is not None else {"item": item, "kind": "shown"}
        answer = client.post("/v1/users/ann/feedback", json=body | {"context": context})
        assert answer.status_code == 200, answer.text
        session.observe(item, value, context=context)
        wanted = [(each.item_id, each.mean) for each in session.recommend(5, context=desk)]
        assert items(client, "ann", context=desk) == wanted
    for _ in range(2):  # from memory, and from the store
        found = client.get("/v1/users/ann").json()["belief"]["mean"]
        np.testing.assert_allclose(found, session.belief.mean, atol=1e-8)
        assert items(client, "ann", context=desk) == wanted
        service.users.forget("ann")
    bodies: list[tuple[str, dict[str, Any]]] = [("recommendations", {}), ("feedback", {"item": "item-9", "value": 5})]
    for path, own in bodies:
        answer = client.post(f"/v1/users/ann/{path}", json={**own, "context": {"season": "winter"}})
        assert answer.status_code in (400, 422)
        assert "this model knows device, time" in answer.json()["message"]
    assert [each["name"] for each in client.get("/v1/model").json()["context"]] == ["device", "time"]
