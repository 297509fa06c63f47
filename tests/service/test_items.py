"""Items over HTTP and in the store: they change at once and for good, bad input changes nothing, rules hold."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from igcf.arrays import FloatArray
from igcf.errors import UnknownItemError
from igcf.service.client import Client
from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.serving.model_swap import load_and_announce
from igcf.service.store.audit import AuditLog
from igcf.service.store.tables import recommendations
from tests.model.test_adding import genre_model
from tests.service.conftest import OpenService

MANY = {"k": 100}


def shown(client: TestClient, user: str = "alice", **ask: Any) -> list[str]:
    answer = client.post(f"/v1/users/{user}/recommendations", json=MANY | ask)
    assert answer.status_code == 200, answer.text
    return [item["item"] for item in answer.json()["items"]]


def refused(answer: Any) -> tuple[int, str]:
    told = answer.json()
    assert len(told["message"]) < 500
    return answer.status_code, told["message"]


def test_a_retired_item_is_in_no_answer_and_comes_back_described_anew(client: TestClient) -> None:
    first = shown(client)[0]
    assert client.delete(f"/v1/items/{first}").json() == {"item": first, "revision": 1, "duplicate": False}
    assert first not in shown(client)
    assert first not in shown(client, k=1, candidates=[first, "item-3"], rules={"pinned": [first]})
    assert client.delete(f"/v1/items/{first}").json()["duplicate"]
    assert client.get(f"/v1/items/{first}").json()["status"] == "retired"
    back = {"id": first, "title": "Back again", "categories": ["even"], "numbers": {"year": 1999}}
    receipt = client.post("/v1/items", json={"items": [back]}).json()
    assert receipt == {"revision": 2, "duplicate": False, "added": 0, "changed": 0, "returned": 1, "unchanged": 0}
    assert shown(client)[0] == first
    told = client.get(f"/v1/items/{first}").json()
    assert (told["title"], told["numbers"], told["status"]) == ("Back again", {"year": 1999.0}, "active")


def test_changes_reach_other_servers_survive_a_restart_and_another_model(
    open_service: OpenService, second_folder: Path
) -> None:
    one, two = open_service(), open_service()
    with TestClient(create_app(one)) as first, TestClient(create_app(two)) as second:
        gone, renamed = shown(second)[:2]
        first.delete(f"/v1/items/{gone}")
        first.patch(f"/v1/items/{renamed}", json={"title": "New name", "tags": ["sale"]})
        until = time.monotonic() + 5
        while second.get(f"/v1/items/{renamed}").json()["title"] != "New name" and time.monotonic() < until:
            time.sleep(0.05)
        assert gone not in shown(second)
        answer = second.post("/v1/users/bob/recommendations", json={"k": 1, "rules": {"filter": {"any": ["sale"]}}})
        assert [(item["item"], item["title"]) for item in answer.json()["items"]] == [(renamed, "New name")]
        load_and_announce(one, str(second_folder))
        assert gone not in shown(first)
    later = open_service(second_folder)
    client = TestClient(create_app(later))
    assert gone not in shown(client)
    assert client.get(f"/v1/items/{renamed}").json()["title"] == "New name"


def test_an_answer_looks_itself_where_nobody_looked_for_a_while(open_service: OpenService) -> None:
    one, two = open_service(), open_service()
    first, second = TestClient(create_app(one)), TestClient(create_app(two))  # without lifespan: nobody follows
    gone = shown(second)[0]
    first.delete(f"/v1/items/{gone}")
    two.items._looked -= 10.0
    assert gone not in shown(second)


def test_hidden_and_scheduled_items_are_not_shown_until_their_time(client: TestClient, context: ServiceContext) -> None:
    hidden, scheduled, expired = shown(client)[:3]
    now = time.time()
    client.patch(f"/v1/items/{hidden}", json={"hidden": True})
    client.patch(f"/v1/items/{scheduled}", json={"available_from": now + 100})
    client.patch(f"/v1/items/{expired}", json={"available_until": now - 100})
    assert not {hidden, scheduled, expired} & set(shown(client))
    states = [client.get(f"/v1/items/{item}").json()["status"] for item in (hidden, scheduled, expired)]
    assert states == ["hidden", "scheduled", "expired"]
    assert client.get("/v1/items?status=scheduled").json()["total"] == 1
    context.current_model.served.recommender.clock = lambda: now + 200
    assert scheduled in shown(client)
    assert not {hidden, expired} & set(shown(client))
    client.patch(f"/v1/items/{hidden}", json={"hidden": None})
    assert hidden in shown(client)


BAD_BATCHES: list[tuple[Any, str]] = [
    ({"items": [{"id": "a"}, {"id": "a"}]}, "item 2 has the id 'a' of item 1"),
    ({"items": [{"id": "a"}, {"id": "b", "genre": "x"}]}, "unknown field 'genre'"),
    ({"items": [{"id": "a", "title": "x" * 10_000_000}]}, "10,000,000 characters; at most 1,000"),
    ({"items": [{"id": "a"}, {"title": "x"}]}, "item 2 has no id"),
    ({"items": []}, "items"),
    ({"items": [{"id": "a"}] * 10_001}, "items"),
    ({"itmes": []}, "items"),
    ([], "body"),
]


def test_a_bad_batch_is_one_error_and_nothing_is_stored(client: TestClient) -> None:
    for body, told in BAD_BATCHES:
        status, message = refused(client.post("/v1/items", json=body))
        assert status == 422
        assert told in message
    assert client.get("/v1/items?status=waiting").json()["total"] == 0
    assert client.get("/v1/items/a").status_code == 404


def test_numbers_that_are_none_and_items_that_are_not_there_are_refused(client: TestClient) -> None:
    nan = client.post(
        "/v1/items",
        content='{"items": [{"id": "a", "numbers": {"year": NaN}}]}',
        headers={"content-type": "application/json"},
    )
    assert nan.status_code == 422
    assert "finite number" in nan.json()["message"]
    assert refused(client.delete("/v1/items/nothing")) == (
        404, "item 'nothing' is neither in the store nor in the model",
    )  # fmt: skip
    assert client.patch("/v1/items/nothing", json={"hidden": True}).status_code == 404
    assert refused(client.patch("/v1/items/item-1", json={"hiden": True})) == (
        422, "item 'item-1' has the unknown field 'hiden'; did you mean 'hidden'?",
    )  # fmt: skip
    assert client.patch("/v1/items/item-1", json={}).status_code == 422
    client.patch("/v1/items/item-1", json={"available_from": 100.0})
    assert client.patch("/v1/items/item-1", json={"available_until": 50.0}).status_code == 422
    assert client.get("/v1/items/item-1").json()["available_until"] is None


def test_a_batch_with_an_event_id_counts_once_and_another_under_its_id_is_refused(client: TestClient) -> None:
    batch = {"items": [{"id": f"new-{i}", "title": f"New {i}"} for i in range(3)], "event_id": "e1"}
    assert client.post("/v1/items", json=batch).json()["added"] == 3
    client.delete("/v1/items/new-1")
    again = client.post("/v1/items", json=batch).json()
    assert (again["duplicate"], again["added"], again["returned"]) == (True, 0, 0)
    assert client.get("/v1/items/new-1").json()["status"] == "retired"
    other = client.post("/v1/items", json=batch | {"items": [{"id": "x"}]})
    assert other.status_code == 409


def test_rules_of_requests_hold_over_http(client: TestClient) -> None:
    odd = shown(client, k=20, rules={"filter": {"none": ["even"]}})
    assert all(int(item[5:]) % 2 for item in odd)
    capped = shown(client, k=20, rules={"caps": {"even": 3}})
    assert sum(int(item[5:]) % 2 == 0 for item in capped) == 3
    assert shown(client, k=2, rules={"pinned": ["item-150"]})[0] == "item-150"
    status, message = refused(client.post("/v1/users/a/recommendations", json={"rules": {"filter": {"any": ["evn"]}}}))
    assert (status, message) == (422, "no item has the category or tag 'evn'; did you mean 'even'?")
    assert client.post("/v1/users/a/recommendations", json={"rules": {"fliter": {}}}).status_code == 422
    assert client.post("/v1/users/a/recommendations", json={"rules": {"pinned": ["nothing"]}}).status_code == 404
    assert client.post("/v1/users/a/recommendations", json={"k": 5, "rules": {"caps": {"*": 1}}}).status_code == 409
    kept = client.post("/v1/users/a/recommendations", json={"k": 2, "reserve": 9, "rules": {"caps": {"*": 1}}}).json()
    assert len(kept["items"]) == 2
    sampled = client.post("/v1/users/a/recommendations", json={"policy": "thompson", "rules": {"boost": {"odd": 1}}})
    assert sampled.json()["items"][0]["propensity"] is None


def test_random_requests_with_rules_break_none_over_http(client: TestClient) -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        labels = [str(each) for each in rng.choice(["even", "odd", "other"], 2, replace=False)]
        caps, k = {labels[0]: int(rng.integers(0, 4))}, int(rng.integers(1, 8))
        rules = {"filter": {"none": labels[1:]}} if rng.random() < 0.5 else {"caps": caps, "boost": {labels[1]: 0.3}}
        items = client.post("/v1/users/a/recommendations", json={"k": k, "rules": rules}).json().get("items", [])
        counts = {label: sum(label in item["categories"] for item in items) for label in labels}
        assert "filter" in rules or counts[labels[0]] <= caps[labels[0]]
        assert "caps" in rules or counts[labels[1]] == 0


def test_rules_of_the_server_hold_for_everybody(open_service: OpenService, tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text(json.dumps({"filter": {"none": ["even"]}}))
    client = TestClient(create_app(open_service(rules=str(tmp_path / "rules.json"))))
    assert all(int(item[5:]) % 2 for item in shown(client, k=50))
    assert all(int(item[5:]) % 2 for item in shown(client, k=50, rules={"boost": {"even": 5.0}}))


def test_the_catalogue_is_filtered_and_unknown_parameters_are_told(client: TestClient) -> None:
    page = client.get("/v1/items?category=odd&limit=1000").json()
    assert page["total"] == 100
    assert all("odd" in item["categories"] for item in page["items"])
    assert refused(client.get("/v1/items?category=od")) == (
        422, "no item has the category 'od'; did you mean 'odd'?",
    )  # fmt: skip
    assert refused(client.get("/v1/items?categroy=odd")) == (
        422, "query: 'categroy' is not a parameter of this route; did you mean 'category'?",
    )  # fmt: skip
    for method, path in (
        ("GET", "/v1/users/a?conv=true"), ("POST", "/v1/users/a/recommendations?k=3"), ("GET", "/v1/model?x="),
        ("GET", "/v1/items/item-1?full=1"), ("DELETE", "/v1/users/a?really=1"), ("GET", "/v1/items/item-1/similar?n=3"),
    ):  # fmt: skip
        assert client.request(method, path, json={} if method == "POST" else None).status_code == 422, path


def test_similar_items_are_those_that_the_same_people_like(client: TestClient, context: ServiceContext) -> None:
    model = context.current_model.served.model
    vectors = model.item_vectors.astype(np.float64)
    cov = vectors @ model.prior_cov @ vectors.T
    expected = cov[7] / np.sqrt(np.diag(cov) * cov[7, 7])
    expected[7] = -np.inf
    order = np.argsort(-expected)
    client.delete(f"/v1/items/item-{order[1]}")
    answer = client.get("/v1/items/item-7/similar?limit=4").json()
    assert [item["item"] for item in answer["items"]] == [f"item-{row}" for row in order[[0, 2, 3, 4]]]
    assert answer["items"][0]["similarity"] == pytest.approx(expected[order[0]], abs=1e-4)
    assert client.get("/v1/items/nothing/similar").status_code == 404


def test_trending_items_are_liked_more_than_they_used_to_be(client: TestClient) -> None:
    day, now = 86_400, time.time()
    past = [("item-1", 5.0, 1)] * 2 + [("item-2", 5.0, 1)] * 2 + [("item-2", 5.0, 20)] * 40 + [("item-3", 1.0, 1)]
    for number, (item, value, days) in enumerate(past):
        reaction = {"item": item, "value": value, "time": now - days * day}
        client.post(f"/v1/users/user-{number}/history", json={"reactions": [reaction]})
    undated = [{"item": "item-4", "value": 5.0, "event_id": f"e{number}"} for number in range(9)]
    client.post("/v1/users/ann/history", json={"reactions": undated})
    loud = [{"item": "item-5", "value": 5.0, "time": now - number} for number in range(9)]
    client.post("/v1/users/ben/history", json={"reactions": loud})  # one user is one voice
    page = client.get("/v1/items?sort=trending").json()
    assert [(item["item"], item["trend"]) for item in page["items"]] == [
        ("item-1", 7 / 5), ("item-5", 6 / 5), ("item-2", 7 / 15),
    ]  # fmt: skip


def test_many_users_are_answered_at_once_each_as_if_alone(client: TestClient) -> None:
    client.post("/v1/users/ann/feedback", json={"item": "item-5", "value": 5})
    answer = client.post("/v1/recommendations", json={"users": ["ann", "ben"], "k": 3, "rules": {"caps": {"even": 1}}})
    results = answer.json()["results"]
    for entry in results:
        assert [item["item"] for item in entry["answer"]["items"]] == shown(
            client, entry["user"], k=3, rules={"caps": {"even": 1}}
        )
    assert [entry["answer"]["revision"] for entry in results] == [1, 0]
    assert client.post("/v1/recommendations", json={"users": ["a", "a"]}).status_code == 422
    assert client.post("/v1/recommendations", json={"users": [str(i) for i in range(1001)]}).status_code == 422
    assert client.post("/v1/recommendations", json={"users": []}).status_code == 422
    few = client.post("/v1/recommendations", json={"users": ["ann", "ben"], "candidates": ["item-5"], "k": 1}).json()
    assert [entry.get("error") for entry in few["results"]] == ["NoItemsLeftError", None]


def history(client: TestClient, user: str) -> list[tuple[str, float]]:
    return [(each["item"], each["value"]) for each in client.get(f"/v1/users/{user}").json()["history"]]


def test_a_visitor_becomes_a_user_and_nothing_counts_twice(client: TestClient) -> None:
    for user, item, event in (
        ("visitor", "item-1", "a"), ("visitor", "item-2", "b"), ("visitor", "item-3", "c"),
        ("alice", "item-9", "a"), ("alice", "item-2", "b"),
    ):  # fmt: skip
        client.post(f"/v1/users/{user}/feedback", json={"item": item, "value": 5, "event_id": event})
    client.delete("/v1/users/visitor/feedback/c")
    receipt = client.post("/v1/users/alice/merge", json={"from": "visitor"}).json()
    assert receipt == {"user": "alice", "revision": 3, "moved": 1, "known": 1, "duplicate": False}
    assert history(client, "alice") == [("item-9", 5.0), ("item-2", 5.0), ("item-1", 5.0)]
    assert history(client, "visitor") == []
    again = client.post("/v1/users/alice/merge", json={"from": "visitor"}).json()
    assert (again["moved"], again["revision"], again["duplicate"]) == (0, 3, True)
    assert client.post("/v1/users/bob/merge", json={"from": "visitor"}).status_code == 409
    assert client.post("/v1/users/alice/merge", json={"from": "alice"}).status_code == 422
    one_go = [("item-9", 5.0), ("item-2", 5.0), ("item-1", 5.0)]
    for item, value in one_go:
        client.post("/v1/users/carol/feedback", json={"item": item, "value": value})
    assert shown(client, "alice") == shown(client, "carol")
    assert not {item for item, _ in one_go} & set(shown(client, "alice"))
    client.delete("/v1/users/alice")
    assert client.post("/v1/users/bob/merge", json={"from": "visitor"}).json()["moved"] == 0


def test_a_visitor_who_comes_back_may_use_event_ids_again(client: TestClient, context: ServiceContext) -> None:
    long = "e" * 256
    client.post("/v1/users/alice/feedback", json={"item": "item-0", "value": 5, "event_id": long})
    for number in (1, 2, 2, 3):
        client.post("/v1/users/visitor/feedback", json={"item": f"item-{number}", "value": 5, "event_id": long})
        assert client.post("/v1/users/alice/merge", json={"from": "visitor"}).status_code == 200
    assert [item for item, _ in history(client, "alice")] == ["item-0", "item-1", "item-2", "item-3"]
    for each in client.get("/v1/users/alice").json()["history"]:
        assert client.delete(f"/v1/users/alice/feedback/{each['event_id']}").status_code == 200
    assert history(client, "alice") == []


def test_answers_to_a_visitor_that_are_not_written_yet_become_the_users_or_are_gone(open_service: OpenService) -> None:
    one, two = open_service(), open_service()
    here, elsewhere = TestClient(create_app(one)), TestClient(create_app(two))
    here.post("/v1/users/visitor/feedback", json={"item": "item-1", "value": 5})
    assert isinstance(one.audit, AuditLog)
    assert isinstance(two.audit, AuditLog)
    for audit in (one.audit, two.audit):
        audit._writing.acquire()
    mine = here.post("/v1/users/visitor/recommendations", json={"k": 1}).json()["recommendation_id"]
    elsewhere.post("/v1/users/visitor/recommendations", json={"k": 1})
    one.audit._writing.release()
    here.post("/v1/users/alice/merge", json={"from": "visitor"})
    two.audit._writing.release()
    two.audit.flush()
    query = sa.select(recommendations.c.recommendation_id, recommendations.c.user_id)
    rows = one.store.database.read(lambda connection: connection.execute(query).all())
    assert [tuple(row) for row in rows] == [(mine, "alice")]


def test_a_new_user_may_be_made_of_a_visitor_and_merging_nobody_makes_nobody(client: TestClient) -> None:
    client.post("/v1/users/visitor/feedback", json={"item": "item-1", "value": 5})
    assert client.post("/v1/users/new/merge", json={"from": "visitor"}).json()["revision"] == 1
    assert history(client, "new") == [("item-1", 5.0)]
    empty = client.post("/v1/users/nobody/merge", json={"from": "nobody-else"}).json()
    assert (empty["revision"], empty["moved"], empty["duplicate"]) == (0, 0, False)
    assert client.get("/v1/users/nobody").json()["revision"] == 0


@pytest.fixture(scope="module")
def content_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "content"
    genre_model().save(folder)
    return folder


def test_a_new_item_is_recommended_by_its_content_learned_from_and_retired(
    open_service: OpenService, content_folder: Path
) -> None:
    one, two = open_service(content_folder), open_service(content_folder)
    first, second = TestClient(create_app(one)), TestClient(create_app(two))
    for item in ("i0", "i2", "i4"):
        first.post("/v1/users/alice/feedback", json={"item": item, "value": 5})
    before = shown(first, "alice", k=5)
    items = [{"id": "funny", "title": "Funny", "categories": ["comedy"]}, {"id": "scary", "categories": ["horror"]}]
    assert first.post("/v1/items", json={"items": items}).json()["added"] == 2
    two.items.look()
    for client in (first, second):
        assert shown(client, "alice", k=1, candidates=["funny", "scary"]) == ["funny"]
        assert client.get("/v1/items/funny").json()["status"] == "active"
        assert client.get("/v1/items?status=waiting").json()["total"] == 0
    assert shown(first, "alice", k=5, exclude=["funny", "scary"]) == before
    assert second.post("/v1/users/alice/feedback", json={"item": "funny", "value": 5}).status_code == 200
    assert "funny" not in shown(first, "alice", k=50)
    first.patch("/v1/items/scary", json={"categories": ["comedy"]})
    assert first.get("/v1/items/scary/similar?limit=50").status_code == 200
    first.delete("/v1/items/scary")
    two.items.look()
    for client in (first, second):
        assert (
            client.post("/v1/users/bob/recommendations", json={"k": 1, "candidates": ["scary"]}).json()["error"]
            == "NoItemsLeftError"
        )
    again = TestClient(create_app(open_service(content_folder)))
    assert [each["item"] for each in again.get("/v1/users/alice").json()["history"]] == ["i0", "i2", "i4", "funny"]
    assert "funny" in shown(again, "bob", k=100, rules={"pinned": ["funny"]})[:1]


def test_the_client_speaks_of_items_and_of_many_users(client: TestClient) -> None:
    speaker = Client("http://testserver")
    speaker._http.close()
    speaker._http = client  # type: ignore[assignment]
    assert speaker.add_items([{"id": "new"}], event_id="e").added == 1
    assert speaker.change_item("item-1", title="Other", hidden=True).item.status == "hidden"
    assert speaker.retire_item("item-2").duplicate is False
    assert len(speaker.similar("item-3", limit=4).items) == 4
    many = speaker.recommend_many(["a", "b"], 2, rules={"filter": {"any": ["even"]}})
    assert [len(entry.answer.items) for entry in many.results if entry.answer is not None] == [2, 2]
    assert speaker.recommend("a", 1, rules={"pinned": ["item-9"]}).items[0].item == "item-9"
    speaker.feedback("visitor", "item-4", 5)
    assert speaker.merge("ann", "visitor").moved == 1
    with pytest.raises(UnknownItemError, match="neither in the store nor in the model"):
        speaker.retire_item("nothing")


def test_new_items_learn_from_everybodys_reactions_the_same_on_all_servers(
    open_service: OpenService, content_folder: Path
) -> None:
    one, two = open_service(content_folder), open_service(content_folder)
    first, second = TestClient(create_app(one)), TestClient(create_app(two))
    first.post("/v1/items", json={"items": [{"id": "funny", "categories": ["comedy"]}, {"id": "scary"}]})
    two.items.look()
    before = posterior(one, "funny")
    for number in range(6):
        client, user = (first, second)[number % 2], f"user-{number}"
        client.post(f"/v1/users/{user}/feedback", json={"item": f"i{2 * number}", "value": 5})
        client.post(
            f"/v1/users/{user}/feedback", json={"item": "funny", "value": 1 + 4 * (number % 3 > 0), "event_id": "e"}
        )
        if number % 2:
            for each in (one, two):
                each.items_from_log.look(each.current_model.served)
    first.delete("/v1/users/user-1/feedback/e")
    first.delete("/v1/users/user-2")
    first.post("/v1/users/user-4/merge", json={"from": "user-3"})
    for each in (one, two):
        each.items_from_log.look(each.current_model.served)
    three = open_service(content_folder)
    three.items_from_log.look(three.current_model.served)
    items = three.current_model.served.recommender.new_items
    assert items is not None
    assert items.n_reactions.tolist() == [3, 0]  # of six, one was taken back, one user is gone, two became one
    found = [posterior(each, "funny") for each in (one, two, three)]
    np.testing.assert_allclose(found[0], found[2], atol=1e-8)
    np.testing.assert_allclose(found[1], found[2], atol=1e-8)
    assert np.abs(found[0] - before).max() > 1e-3
    told = first.get("/v1/items/funny").json()["new"]
    assert (told["reactions"], told["settled"]) == (3, False)
    assert first.get("/v1/items/i1").json().get("new") is None
    first.post("/v1/items", json={"items": [{"id": "newer", "categories": ["horror"]}]})
    one.items_from_log.look(one.current_model.served)
    np.testing.assert_allclose(posterior(one, "funny"), found[2], atol=1e-8)


def test_what_is_known_of_a_new_item_is_what_a_fresh_reading_of_the_log_says(
    open_service: OpenService, content_folder: Path
) -> None:
    one = open_service(content_folder)
    client = TestClient(create_app(one))
    client.post("/v1/items", json={"items": [{"id": "funny", "categories": ["comedy"]}]})

    def compare() -> FloatArray:
        one.items_from_log.look(one.current_model.served)
        fresh = open_service(content_folder)
        fresh.items_from_log.look(fresh.current_model.served)
        np.testing.assert_allclose(posterior(one, "funny"), posterior(fresh, "funny"), atol=1e-8)
        return posterior(one, "funny")

    def react(user: str, item: str, event: str, value: int = 5) -> None:
        answer = client.post(f"/v1/users/{user}/feedback", json={"item": item, "value": value, "event_id": event})
        assert answer.status_code == 200

    for user in ("ann", "ben", "visitor"):
        react(user, "i0", "known", 1)
        react(user, "funny", "new")
    before = compare()
    client.delete("/v1/users/ann/feedback/known")  # what was known of her when she met the new item was something else
    after = compare()
    assert np.abs(after - before).max() > 1e-3
    record = {"reactions": [{"item": f"i{n}", "value": 5, "time": 1e9} for n in range(0, 20, 2)]}
    client.post("/v1/users/ben/history", json=record)
    compare()
    for _ in range(2):  # the visitor comes back after having become somebody
        client.post("/v1/users/carol/merge", json={"from": "visitor"})
        compare()
        react("visitor", "funny", "again", 1)
        compare()
    client.post("/v1/users/carol/merge", json={"from": "visitor"})
    client.delete("/v1/users/carol")
    compare()
    assert client.get("/v1/items/funny").json()["new"]["reactions"] == 2


def posterior(context: ServiceContext, item: str) -> FloatArray:
    model = context.current_model.served.model
    return np.array(model.channels[0].vectors[model.item_row(item)], dtype=np.float64)


def test_a_server_is_ready_when_it_has_read_the_reactions_to_new_items(
    open_service: OpenService, tmp_path: Path
) -> None:
    genre_model().save(tmp_path / "genres")
    first = open_service(tmp_path / "genres")
    TestClient(create_app(first)).post("/v1/items", json={"items": [{"id": "fresh", "categories": ["Drama"]}]})
    later = open_service(tmp_path / "genres")
    client = TestClient(create_app(later))  # without the thread that follows the store
    assert len(later.current_model.served.model.added) == 1
    assert client.get("/readyz").json()["problems"] == ["the reactions to new items are not read yet"]
    later.items_from_log.look(later.current_model.served)
    assert client.get("/readyz").json()["problems"] == []


def test_items_of_an_answer_that_may_have_fewer_count_as_shown_once(open_service: OpenService, tmp_path: Path) -> None:
    """A share of what a user is shown may be trials of new items; looking for how many are left shows nothing."""
    genre_model().save(tmp_path / "genres")
    context = open_service(tmp_path / "genres")
    client = TestClient(create_app(context))
    client.post("/v1/items", json={"items": [{"id": "new", "categories": ["comedy"]}]}).raise_for_status()
    client.post("/v1/users/ann/feedback", json={"item": "i0", "value": 5.0}).raise_for_status()
    assert len(shown(client, "ann", k=3, fewer=True)) == 3
    with context.users.open(context.current_model.served, "ann") as user:
        assert user.session._n_shown == 3
