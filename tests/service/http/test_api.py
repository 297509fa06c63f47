"""The routes, on both stores."""

import json
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from igcf.arrays import AnyFloatArray, BoolArray
from igcf.errors import ConfigError
from igcf.online import Policy, Recommender, ScoringEngine
from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.http.page import page_api_routes
from igcf.service.serving.users import LISTED
from igcf.service.settings import ServiceSettings
from igcf.service.store import NewEvent
from igcf.service.store.export import shown_items
from igcf.service.store.tables import recommendations
from tests.service.conftest import OpenService, small_model


def recommend(client: TestClient, user: str = "ann", **ask: Any) -> Any:
    answer = client.post(f"/v1/users/{user}/recommendations", json=ask)
    assert answer.status_code == 200, answer.text
    return answer.json()


def react(client: TestClient, item: str, value: float | None, user: str = "ann", **more: Any) -> Any:
    said = {"kind": "shown"} if value is None and "kind" not in more else {"value": value}
    answer = client.post(f"/v1/users/{user}/feedback", json={"item": item, **said, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_new_user_gets_the_answer_of_the_library(client: TestClient) -> None:
    answer = recommend(client, k=5)
    expected = Recommender(small_model()).session().recommend(5)
    assert [item["item"] for item in answer["items"]] == [pick.item_id for pick in expected]
    np.testing.assert_allclose([item["mean"] for item in answer["items"]], [pick.mean for pick in expected])
    assert answer["revision"] == 0
    assert answer["user"] == "ann"
    assert set(answer["items"][0]) >= {"item", "score", "mean", "std"}


def test_reactions_change_the_next_answer_as_in_the_library(client: TestClient) -> None:
    session = Recommender(small_model()).session()
    for number in range(12):
        answer = recommend(client, k=3)
        assert answer["revision"] == number
        picks = session.recommend(3)
        assert [item["item"] for item in answer["items"]] == [pick.item_id for pick in picks]
        np.testing.assert_allclose([item["std"] for item in answer["items"]], [pick.std for pick in picks], atol=1e-6)
        item, value = picks[0].item_id, [5.0, 1.0, None][number % 3]
        session.observe(item, value)
        assert react(client, item, value) | {"event_id": ""} == {
            "revision": number + 1,
            "duplicate": False,
            "event_id": "",
        }
    state = client.get("/v1/users/ann", params={"cov": True}).json()
    np.testing.assert_allclose(state["belief"]["mean"], session.belief.mean, atol=1e-10)
    np.testing.assert_allclose(state["belief"]["cov"], session.belief.cov, atol=1e-10)
    assert [(past["item"], past["value"]) for past in state["history"]] == session.history


def test_the_same_event_twice_counts_once(client: TestClient) -> None:
    first = react(client, "item-1", 5, event_id="e1")
    again = react(client, "item-1", 5, event_id="e1")
    assert (first["revision"], first["duplicate"]) == (1, False)
    assert (again["revision"], again["duplicate"]) == (1, True)
    assert len(client.get("/v1/users/ann").json()["history"]) == 1


def test_the_same_event_id_of_two_users_is_two_events(client: TestClient) -> None:
    react(client, "item-1", 5, user="ann", event_id="e1")
    assert react(client, "item-1", 5, user="bob", event_id="e1")["duplicate"] is False


def test_candidates_exclusions_policy_and_nu_are_obeyed(client: TestClient) -> None:
    candidates = [f"item-{i}" for i in range(10)]
    answer = recommend(client, k=4, candidates=candidates, exclude=["item-3", "no such item"], policy="greedy")
    shown = [item["item"] for item in answer["items"]]
    assert set(shown) <= set(candidates) - {"item-3"}
    assert answer["policy"] == {"name": "greedy"}
    assert [item["reason"] for item in answer["items"]] == ["please"] * 4
    eager = recommend(client, k=5, nu=10.0)
    assert eager["policy"] == {"name": "ucb", "nu": 10.0}
    assert "learn" in [item["reason"] for item in eager["items"]]


BAD_QUESTIONS: list[tuple[dict[str, Any], int, str]] = [
    ({"k": 0}, 422, "RequestError"),
    ({"k": 101}, 422, "RequestError"),
    ({"k": 5, "candidates": ["item-1"]}, 409, "NoItemsLeftError"),
    ({"candidates": ["nothing"]}, 404, "UnknownItemError"),
    ({"policy": "magic"}, 422, "ConfigError"),
    ({"nu": 11}, 422, "RequestError"),
    ({"nu": 1, "policy": "greedy"}, 422, "ConfigError"),
    ({"surprise": 1}, 422, "RequestError"),
]


def test_a_bad_question_is_answered_in_one_sentence(client: TestClient) -> None:
    for ask, status, error in BAD_QUESTIONS:
        answer = client.post("/v1/users/ann/recommendations", json=ask)
        assert answer.status_code == status, answer.text
        assert answer.json()["error"] == error
        assert set(answer.json()) == {"error", "message"}


def test_a_bad_value_stores_nothing(client: TestClient) -> None:
    for value in ("NaN", "Infinity", "-Infinity", "1e400", '"5"', "true", "[]", "{}", "1e9", "9" * 400):
        body = f'{{"item": "item-1", "value": {value}}}'
        answer = client.post("/v1/users/ann/feedback", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 422, (value, answer.text)
    assert client.get("/v1/users/ann").json()["known"] is False


def test_a_batch_reports_each_entry(client: TestClient) -> None:
    entries = [
        {"user": "ann", "item": "item-1", "value": 5, "event_id": "a"},
        {"user": "bob", "item": "item-2", "value": 1, "event_id": "a"},
        {"user": "ann", "item": "unknown", "value": 5, "event_id": "b"},
        {"user": "ann", "item": "item-1", "value": 5, "event_id": "a"},
        {"user": "ann", "item": "item-3", "value": "five", "event_id": "c"},
        {"user": "ann", "item": "item-4", "kind": "shown"},
        {"user": "a/b", "item": "item-4", "value": 5},
        {"user": "ann", "value": 5},
        "nonsense",
    ]
    answer = client.post("/v1/feedback", json={"feedback": entries}).json()
    assert (answer["stored"], answer["duplicates"], answer["failed"]) == (3, 1, 5)
    kinds = [result.get("error") or result["duplicate"] for result in answer["results"]]
    assert kinds == [False, False, "UnknownItemError", True, "FeedbackError", False, *["RequestError"] * 3]
    assert client.get("/v1/users/ann").json()["revision"] == 2
    again = client.post("/v1/feedback", json=entries[:2]).json()  # a bare list will do
    assert (again["stored"], again["duplicates"]) == (0, 2)


def test_undo_gives_the_belief_without_the_reaction(client: TestClient) -> None:
    react(client, "item-1", 5, event_id="a")
    before = client.get("/v1/users/ann").json()["belief"]
    react(client, "item-2", 1, event_id="b")
    recommend(client)
    assert client.delete("/v1/users/ann/feedback/b").json() == {"revision": 3}
    after = client.get("/v1/users/ann").json()
    np.testing.assert_allclose(after["belief"]["mean"], before["mean"], atol=1e-10)
    assert [past["event_id"] for past in after["history"]] == ["a"]
    assert "item-2" in [item["item"] for item in recommend(client, k=1, candidates=["item-2"])["items"]]
    assert client.delete("/v1/users/ann/feedback/b").json() == {"revision": 3}  # asked again, the same
    assert client.delete("/v1/users/ann/feedback/none").status_code == 404
    assert react(client, "item-2", 1, event_id="b")["duplicate"] is True


def test_an_explanation_adds_up_to_the_mean(client: TestClient) -> None:
    react(client, "item-1", 5)
    react(client, "item-2", 1)
    answer = client.get("/v1/users/ann/explanations/item-7").json()
    total = answer["prior"] + sum(part["amount"] for part in answer["contributions"])
    assert answer["mean"] == pytest.approx(total)
    shown = recommend(client, k=1, candidates=["item-7"])["items"][0]
    assert answer["mean"] == pytest.approx(shown["mean"], abs=1e-6)
    assert answer["std"] == pytest.approx(shown["std"], abs=1e-6)
    assert [part["item"] for part in answer["contributions"]] == ["item-1", "item-2"]


def test_beliefs_name_the_best_items_and_less_is_unknown(client: TestClient) -> None:
    before = client.get("/page/users/ann/beliefs", params={"top": 5}).json()
    assert before["taste"]["unknown"] == 1.0
    for number in range(20):
        react(client, f"item-{number}", 5)
    after = client.get("/page/users/ann/beliefs", params={"top": 5}).json()
    assert after["taste"]["unknown"] < 0.5
    means = [item["mean"] for item in after["top"]]
    assert means == sorted(means, reverse=True)
    assert not {item["item"] for item in after["top"]} & {f"item-{number}" for number in range(20)}


def test_the_catalogue_has_pages_and_search(client: TestClient) -> None:
    ranks: list[int] = []
    after: dict[str, str] = {}
    for _ in range(4):
        page = client.get("/v1/items", params={"limit": "60"} | after).json()
        ranks += [item["popularity_rank"] for item in page["items"]]
        after = {"after": page["next"]}
    assert page["total"] == 200
    assert page["next"] is None
    assert ranks == list(range(1, 201))
    found = client.get("/v1/items", params={"query": "TITLE 17"}).json()
    assert "item-17" in [item["item"] for item in found["items"]]
    assert client.get("/v1/items/item-17").json()["categories"] == ["odd", "other"]
    assert client.get("/v1/items/nothing").status_code == 404
    points = client.get("/v1/items", params={"limit": 1000}).json()["items"]
    assert len({(point["x"], point["y"]) for point in points}) == 200, "every item has its own place on the map"


def test_a_policy_of_ones_own_works_over_http_and_claims_no_propensity(client: TestClient, new_policies: None) -> None:
    class Shuffled(Policy):
        """Items in a random order."""

        name, needs_variances = "shuffled", False

        def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
            return rng.random(available.shape)

    answers = [recommend(client, user, k=3, policy="shuffled") for user in ("ann", "bob")]
    assert [answer["policy"] for answer in answers] == [{"name": "shuffled"}] * 2
    assert [item["item"] for item in answers[0]["items"]] != [item["item"] for item in answers[1]["items"]]
    for answer in answers:
        assert answer["propensity"] == "unknown"
        assert [item["propensity"] for item in answer["items"]] == [None] * 3
    offered = {each["name"]: each for each in client.get("/v1/model").json()["policies"]}
    assert offered["shuffled"]["label"] == "Shuffled"
    assert offered["ucb"]["parameters"] == {"nu": 0.5}
    ask = client.get("/openapi.json").json()["components"]["schemas"]["RecommendationRequest"]["properties"]["policy"]
    assert "shuffled" in ask["anyOf"][0]["enum"]
    refused = client.post("/v1/users/ann/recommendations", json={"policy": "shuffled", "nu": 0.1})
    assert (refused.status_code, refused.json()["message"]) == (
        422,
        "policy shuffled has no parameter nu; it takes none",
    )


def test_explored_answers_carry_exact_propensities_and_the_audit_keeps_them(open_service: OpenService) -> None:
    context = open_service(explore=0.5)
    client = TestClient(create_app(context))
    found = [recommend(client, k=3, reserve=2, fewer=True) for _ in range(40)]
    assert {answer["propensity"] for answer in found} == {"exact"}
    assert all(answer["policy"]["explore"] == 0.5 for answer in found)
    assert {round(item["propensity"], 9) for answer in found for item in answer["items"]} == {0.05, 0.55}
    assert all(0 < item["slot_propensity"] <= item["propensity"] for answer in found for item in answer["items"][:1])
    assert {item["propensity"] for answer in found for item in answer["reserve"]} == {None}
    capped = recommend(client, k=3, rules={"diversity": 0.5})
    assert [item["slot_propensity"] for item in capped["items"]] == [None] * 3
    assert all(item["propensity"] in (0.05, 0.55) for item in capped["items"])
    context.audit.flush()
    told = {answer["recommendation_id"]: answer for answer in found}
    for frame in shown_items(context.store):
        for row in frame.iter_rows(named=True):
            if row["recommendation_id"] in told:
                own = {item["item"]: item for item in told[row["recommendation_id"]]["items"]}[row["item"]]
                assert row["propensity"] == pytest.approx(own["propensity"], abs=1e-6)
                assert row["slot_propensity"] == pytest.approx(own["slot_propensity"], abs=1e-6)


def test_a_share_of_exploration_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"explore is 1\.5; expected a number from 0 to 1"):
        ServiceSettings(explore=1.5)


def test_thompson_answers_carry_estimated_propensities(client: TestClient, context: ServiceContext) -> None:
    answer = recommend(client, k=3, policy="thompson")
    assert answer["propensity"] == "estimated"
    assert all(0 < item["propensity"] <= 1 for item in answer["items"])
    assert all(0 < item.get("propensity_error", 0.1) < 1 for item in answer["items"])
    assert recommend(client, k=3)["propensity"] == "exact"
    context.audit.flush()
    rows = context.store.database.read(
        lambda connection: connection.exec_driver_sql(
            "SELECT recommendation_id, propensity, items FROM recommendations"
        ).all()
    )
    logged = {row[0]: (row[1], json.loads(row[2])) for row in rows}
    kind, items = logged[answer["recommendation_id"]]
    assert kind == "estimated"
    assert [item["item"] for item in items] == [item["item"] for item in answer["items"]]
    assert {"mean", "std", "score", "propensity", "mean_rank"} <= set(items[0])


def test_a_small_request_for_large_answers_adds_little_to_the_audit(open_service: OpenService) -> None:
    """Three requests of 8 kB added 61 MB; what is kept of an answer is bounded, and expires by default."""
    context = open_service(audit_queue=10_000)
    body = {"users": [f"u{number}" for number in range(200)], "k": 100, "policy": "thompson"}
    answer = TestClient(create_app(context)).post("/v1/recommendations", json=body)
    assert answer.status_code == 200
    context.audit.flush()
    rows = context.store.database.rows(sa.select(recommendations.c["items"], recommendations.c.size))
    assert len(rows) == 200
    assert {size for _, size in rows} == {100}
    assert {len(json.loads(items)) for items, _ in rows} == {20}
    assert max(len(items) for items, _ in rows) < 5_000
    assert context.settings.audit_days == 90


def test_the_model_describes_itself(client: TestClient) -> None:
    info = client.get("/v1/model").json()
    assert (info["items"], info["dim"], info["reward"]["threshold"]) == (200, 8, 4.0)
    assert info["metadata"] == {"dataset": "toy"}


def test_no_answer_about_a_user_grows_with_the_history_without_end(client: TestClient, context: ServiceContext) -> None:
    events = [NewEvent(f"e{n}", f"item-{n % 150}", 1.0 + n % 5) for n in range(LISTED + 500)]
    context.store.append("ann", events, context.current_model.served.model_id)
    paths = [path for path, methods in client.get("/openapi.json").json()["paths"].items() if "get" in methods]
    paths += [route.path for route in page_api_routes(context).routes if isinstance(route, APIRoute)]  # undocumented
    asked = [path.format(user="ann", item="item-199") for path in paths if "{user}" in path]
    assert len(asked) == 4  # a new route is looked at here too
    for path in asked:
        answer = client.get(path)
        assert answer.status_code == 200, answer.text
        assert max(lengths(answer.json())) <= LISTED
    for path in ("/v1/users/ann", "/v1/users/ann/explanations/item-199"):
        assert max(lengths(client.get(path, params={"limit": 7}).json())) <= 8  # eight dimensions
        assert client.get(path, params={"limit": 10_001}).status_code == 422


def lengths(found: Any) -> list[int]:
    """Lengths of all lists in an answer."""
    if isinstance(found, dict):
        return [0, *(length for each in found.values() for length in lengths(each))]
    return [len(found), *(n for each in found for n in lengths(each))] if isinstance(found, list) else [0]
