"""Logged reactions, shown ones, skips and kinds: stored once each, and believed as the library believes them."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from igcf.errors import FeedbackError
from igcf.model import Model, Reward
from igcf.online import Belief, Recommender, Session
from igcf.service.client import Client
from igcf.service.context import ServiceContext
from igcf.service.errors import EventConflictError
from igcf.service.http.application import create_app
from igcf.service.models.requests import RecommendationRequest
from igcf.service.serving.recommending import recommend
from igcf.service.serving.users import user_state
from tests.service.conftest import OpenService, small_model
from tests.toys import ensemble_model

LOG = [("item-3", 5.0), ("item-8", 2.0), ("item-21", 4.0), ("item-40", 5.0)]


def history(*reactions: tuple[str, float], **more: Any) -> dict[str, Any]:
    return {"reactions": [{"item": item, "value": value} | more for item, value in reactions]}


def same(belief: Belief, other: Belief) -> None:
    np.testing.assert_allclose(belief.mean, other.mean, atol=1e-8)
    np.testing.assert_allclose(belief.cov, other.cov, atol=1e-8)


def in_memory(context: ServiceContext, user: str) -> Session:
    with context.users.open(context.current_model.served, user) as found:
        return found.session


def stored(context: ServiceContext, user: str) -> Belief:
    found = user_state(context.store, context.current_model.served, user, with_cov=True).belief
    return Belief(np.array(found.mean), np.array(found.cov))


@pytest.mark.parametrize("kind", ["linear", "ensemble"])
def test_beliefs_from_both_kinds_of_evidence_are_the_librarys_in_memory_and_from_the_store(
    open_service: OpenService, model_folder: Path, tmp_path: Path, kind: str
) -> None:
    folder = model_folder
    if kind == "ensemble":
        folder = tmp_path / "ensemble"
        ensemble_model().save(folder)
    one, two = open_service(folder), open_service(folder)
    client, other = TestClient(create_app(one)), TestClient(create_app(two))
    model = one.current_model.served.model
    items = list(model.item_ids[:12])
    logged = [(items[3], 5.0), (items[8], 2.0), (items[1], 4.0), (items[10], 5.0)]
    shown: list[tuple[str, float | None]] = [(items[5], 5.0), (items[7], None), (items[9], 1.0)]
    client.post("/v1/users/ann/feedback", json={"item": shown[0][0], "value": shown[0][1]})
    client.post("/v1/users/ann/recommendations")  # in memory, without the log
    answer = client.post("/v1/users/ann/history", json=history(*logged))
    assert answer.json() == {
        "user": "ann", "revision": 5, "stored": 4, "duplicates": 0, "conflicts": [], "unknown_items": 0
    }  # fmt: skip
    for item, value in shown[1:]:
        other.post("/v1/users/ann/recommendations")
        said = {"kind": "shown"} if value is None else {"value": value}
        assert other.post("/v1/users/ann/feedback", json={"item": item, **said}).status_code == 200
    expected = Recommender(model).session(shown, logged=logged)
    for context in (one, two, open_service(folder)):
        session = in_memory(context, "ann")
        same(session.belief, expected.belief)
        same(stored(context, "ann"), expected.belief)
        np.testing.assert_allclose(session.moments()[0], expected.moments()[0], atol=1e-6)
        assert session.history == shown
    state = client.get("/v1/users/ann").json()
    assert state["known"] is True
    assert [each["evidence"] for each in state["history"]] == ["shown"] + ["logged"] * 4 + ["shown"] * 2
    free = next(item for item in items if item not in dict(logged) and item not in dict(shown))
    why = client.get(f"/v1/users/ann/explanations/{free}").json()
    assert sorted(part["evidence"] for part in why["contributions"]) == ["logged"] * 4 + ["shown"] * 3
    assert why["prior"] + why["absence"] + sum(p["amount"] for p in why["contributions"]) == pytest.approx(why["mean"])
    assert 0 <= why["low"] <= why["chance"] <= why["high"] <= 1


def test_a_user_with_a_log_only_is_known_and_not_shown_what_is_in_it(client: TestClient) -> None:
    client.post("/v1/users/ann/history", json=history(*LOG))
    assert client.get("/v1/users/ann").json()["known"] is True
    answer = client.post("/v1/users/ann/recommendations", json={"k": 100}).json()
    assert {item["item"] for item in answer["items"]}.isdisjoint(dict(LOG))
    assert all(0 <= item["low"] <= item["chance"] <= item["high"] <= 1 for item in answer["items"])


def test_what_is_logged_counts_as_seen_among_the_beliefs(client: TestClient) -> None:
    client.post("/v1/users/ann/history", json=history(*LOG))
    top = client.get("/page/users/ann/beliefs?top=1000").json()["top"]
    assert {each["item"] for each in top} == set(small_model().item_ids) - {item for item, _ in LOG}


def test_a_repeated_history_counts_once_and_another_time_is_another_reaction(client: TestClient) -> None:
    assert client.post("/v1/users/ann/history", json=history(*LOG)).json()["stored"] == 4
    again = client.post("/v1/users/ann/history", json=history(*LOG)).json()
    assert (again["stored"], again["duplicates"], again["revision"]) == (0, 4, 4)
    later = client.post("/v1/users/ann/history", json=history(LOG[0], time=1e9)).json()
    assert later["stored"] == 1
    named = history(LOG[1], event_id="mine")
    assert client.post("/v1/users/ann/history", json=named).json()["stored"] == 1
    assert client.post("/v1/users/ann/history", json=named).json()["duplicates"] == 1
    other = client.post("/v1/users/ann/history", json=history(LOG[2], event_id="mine")).json()
    assert (other["stored"], other["conflicts"]) == (0, ["mine"])
    past = client.get("/v1/users/ann").json()["history"]
    assert [(each["item"], each["time"]) for each in past[2:]] == [(LOG[0][0], 1e9), (LOG[1][0], None)]
    assert len(past) == 4  # the latest reaction to an item is in force


def test_logged_reactions_are_taken_back_and_deleted_as_others_are(context: ServiceContext, client: TestClient) -> None:
    client.post("/v1/users/ann/history", json=history(*LOG))
    client.post("/v1/users/ann/recommendations")
    event = client.get("/v1/users/ann").json()["history"][1]
    assert client.delete(f"/v1/users/ann/feedback/{event['event_id']}").status_code == 200
    left = [reaction for reaction in LOG if reaction[0] != event["item"]]
    expected = Recommender(context.current_model.served.model).session(logged=left)
    same(in_memory(context, "ann").belief, expected.belief)
    assert client.delete("/v1/users/ann").json()["deleted"] == 5
    assert client.get("/v1/users/ann").json()["known"] is False


def test_a_reaction_given_here_that_comes_again_in_an_undated_log_counts_once(
    context: ServiceContext, client: TestClient
) -> None:
    client.post("/v1/users/ann/feedback", json={"item": "item-3", "value": 5.0})
    client.post("/v1/users/ann/history", json=history(*LOG))
    rest = [reaction for reaction in LOG if reaction[0] != "item-3"]
    expected = Recommender(context.current_model.served.model).session([("item-3", 5.0)], logged=rest)
    same(in_memory(context, "ann").belief, expected.belief)


def test_unknown_items_wait_for_a_model_and_bad_values_store_nothing(client: TestClient) -> None:
    answer = client.post("/v1/users/ann/history", json=history(("no-such", 5.0), ("item-1", 5.0))).json()
    assert (answer["stored"], answer["unknown_items"]) == (2, 1)
    assert client.post("/v1/users/ann/recommendations").status_code == 200
    for bad in ("five", True, 1e9, None):
        reactions = [{"item": "item-5", "value": 5.0}, {"item": "item-6", "value": bad}]
        assert client.post("/v1/users/bob/history", json={"reactions": reactions}).status_code == 422
    assert client.post("/v1/users/bob/history", json={"reactions": [{"item": "item-6"}]}).status_code == 422
    assert client.get("/v1/users/bob").json()["known"] is False


def skip(client: TestClient, item: str, event_id: str | None = None) -> None:
    body = {"item": item, "kind": "skip"} | ({} if event_id is None else {"event_id": event_id})
    assert client.post("/v1/users/ann/feedback", json=body).status_code == 200


def test_twelve_skips_leave_the_belief_as_it_was_on_every_server(open_service: OpenService) -> None:
    one, two = open_service(), open_service()
    client, other = TestClient(create_app(one)), TestClient(create_app(two))
    client.post("/v1/users/ann/feedback", json={"item": "item-1", "value": 5.0})
    before = in_memory(one, "ann").belief
    in_memory(two, "ann")
    gone = []
    for number in range(12):
        item = (client, other)[number % 2].post("/v1/users/ann/recommendations", json={"k": 1}).json()["items"][0]
        gone.append(item["item"])
        skip((client, other)[number % 2], item["item"])
    assert len(set(gone)) == 12
    for context in (one, two, open_service()):
        np.testing.assert_array_equal(in_memory(context, "ann").belief.mean, before.mean)
        np.testing.assert_array_equal(in_memory(context, "ann").belief.cov, before.cov)
        shown = {item.item for item in recommend(context, "ann", RecommendationRequest(k=100)).items}
        assert shown.isdisjoint(gone)
    assert [each["evidence"] for each in client.get("/v1/users/ann").json()["history"]] == ["shown"] + ["skip"] * 12


def best(context: ServiceContext) -> str:
    return recommend(context, "ann", RecommendationRequest(k=1)).items[0].item


def test_a_skipped_item_comes_back_after_some_rounds_when_taken_back_or_when_nothing_else_is_left(
    open_service: OpenService,
) -> None:
    context = open_service(skip_rounds=3)
    client = TestClient(create_app(context))
    first = best(context)
    skip(client, first, "s1")
    second = best(context)
    assert second != first
    client.delete("/v1/users/ann/feedback/s1")
    assert best(context) == first
    skip(client, first, "s2")
    for number in range(2):
        skip(client, f"item-{150 + number}")
        assert first not in {item.item for item in recommend(context, "ann", RecommendationRequest(k=100)).items}
    skip(client, "item-152")
    assert best(context) == first
    skip(client, first, "s3")
    only = RecommendationRequest(k=2, candidates=[first, second])
    assert {item.item for item in recommend(context, "ann", only).items} == {first, second}
    other = open_service(skip_hours=1e-9)
    assert best(other) == first


def test_a_skipped_item_is_aside_again_when_a_clock_that_was_set_ahead_is_set_back(
    open_service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, now = open_service(), time.time()
    first = best(context)
    skip(TestClient(create_app(context)), first)
    second = best(context)
    assert second != first
    monkeypatch.setattr("igcf.service.serving.users.time.time", lambda: now + 10 * 365 * 86_400)
    assert best(context) == first
    monkeypatch.undo()
    assert best(context) == second


def test_the_same_event_id_with_another_payload_is_refused_with_what_is_stored(client: TestClient) -> None:
    first = {"item": "item-1", "value": 5.0, "event_id": "e"}
    client.post("/v1/users/ann/feedback", json=first)
    assert client.post("/v1/users/ann/feedback", json=first).json()["duplicate"] is True
    others: list[dict[str, Any]] = [{"value": 4.0}, {"item": "item-2"}, {"value": None, "kind": "shown"}]
    for change in others:
        answer = client.post("/v1/users/ann/feedback", json=first | change)
        assert answer.status_code == 409
        told = answer.json()
        assert told["error"] == "EventConflictError"
        assert told["stored"] == {"item": "item-1", "value": 5.0, "evidence": "shown", "kind": None}
    skipped = client.post("/v1/users/ann/feedback", json={"item": "item-1", "kind": "skip", "event_id": "e"})
    assert skipped.status_code == 409
    batch = [first | {"user": "ann", "value": 1.0}, {"user": "ann", "item": "item-9", "value": 2.0, "event_id": "f"}]
    told = client.post("/v1/feedback", json=batch).json()
    assert (told["stored"], told["failed"], told["results"][0]["error"]) == (1, 1, "EventConflictError")
    assert [each["item"] for each in client.get("/v1/users/ann").json()["history"]] == ["item-1", "item-9"]


def test_a_bad_kind_is_refused_in_the_callers_terms(client: TestClient) -> None:
    for body, words in (
        ({"item": "item-1", "kind": "buy"}, "kind 'buy' is not known; this model has no kinds"),
        ({"item": "item-1", "kind": "skip", "value": 3}, "kind 'skip' has no value"),
        ({"item": "item-1"}, "has no value; pass a number from 1 to 5"),
    ):
        answer = client.post("/v1/users/ann/feedback", json=body)
        assert answer.status_code == 422
        assert words in answer.json()["message"]


def test_a_reaction_of_a_kind_has_the_value_that_the_model_gives_it(open_service: OpenService, tmp_path: Path) -> None:
    stars = small_model()
    model = Model(
        item_vectors=stars.item_vectors,
        prior_mean=stars.prior_mean,
        prior_cov=stars.prior_cov,
        noise_var=0.2,
        item_ids=stars.item_ids,
        reward=stars.reward,
        kinds={"view": 1.0, "purchase": 5.0},
    )
    model.save(tmp_path / "kinds")
    client = TestClient(create_app(open_service(tmp_path / "kinds")))
    assert client.get("/v1/model").json()["kinds"] == {"view": 1.0, "purchase": 5.0}
    bought = {"item": "item-1", "kind": "purchase", "event_id": "e"}
    assert client.post("/v1/users/ann/feedback", json=bought).json()["duplicate"] is False
    assert client.post("/v1/users/ann/feedback", json=bought).json()["duplicate"] is True
    assert client.post("/v1/users/ann/feedback", json=bought | {"kind": "view"}).status_code == 409
    assert client.post("/v1/users/ann/feedback", json=bought | {"value": 3.0}).status_code == 422
    client.post("/v1/users/ann/history", json={"reactions": [{"item": "item-2", "kind": "view"}]})
    history = client.get("/v1/users/ann").json()["history"]
    assert [(each["value"], each["kind"], each["evidence"]) for each in history] == [
        (5.0, "purchase", "shown"),
        (1.0, "view", "logged"),
    ]


def test_where_every_reaction_is_a_success_one_needs_no_value(open_service: OpenService, tmp_path: Path) -> None:
    stars = small_model()
    model = Model(
        item_vectors=stars.item_vectors,
        prior_mean=stars.prior_mean,
        prior_cov=stars.prior_cov,
        noise_var=0.2,
        item_ids=stars.item_ids,
        reward=Reward("satisfied", threshold=1.0, low=1.0, high=1.0),
    )
    model.save(tmp_path / "implicit")
    context = open_service(tmp_path / "implicit")
    client = TestClient(create_app(context))
    client.post("/v1/users/ann/feedback", json={"item": "item-1"})
    client.post("/v1/users/ann/history", json={"reactions": [{"item": "item-2"}]})
    assert [each["value"] for each in client.get("/v1/users/ann").json()["history"]] == [1.0, 1.0]
    told = client.get("/v1/model").json()
    assert told["reward"]["implicit"] is True
    assert told["satisfied"] == "satisfied: every reaction"


def test_the_client_reports_history_skips_and_conflicts(client: TestClient) -> None:
    with Client("http://testserver") as caller:
        caller._http.close()
        caller._http = client  # type: ignore[assignment]
        told = caller.history("ann", [{"item": "item-1", "value": 5.0, "time": 10.0}, {"item": "item-2", "value": 1.0}])
        assert (told.stored, told.revision) == (2, 2)
        assert caller.skip("ann", "item-3").revision == 3
        assert caller.feedback("ann", "item-4", 4.0, event_id="e").revision == 4
        with pytest.raises(EventConflictError, match="stored with another reaction"):
            caller.feedback("ann", "item-5", 4.0, event_id="e")
        with pytest.raises(FeedbackError, match="'purchase' is not known"):
            caller.feedback("ann", "item-5", kind="purchase")
        state = caller.user("ann")
        assert [each.evidence for each in state.history] == ["logged", "logged", "skip", "shown"]
        assert 0 <= caller.explain("ann", "item-9").chance <= 1
