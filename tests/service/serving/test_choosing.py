"""What would be chosen, and where a newcomer may begin."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from igcf.online import Exposure
from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.settings import ServiceSettings
from tests.model.test_adding import genre_model
from tests.web.conftest import film_model
from tests.web.test_page_api import client_of


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with client_of(film_model(), tmp_path) as client:
        yield client


def test_a_foreseen_choice_is_what_comes_after_that_reaction(client: TestClient) -> None:
    card = client.post("/v1/users/ann/recommendations", json={"k": 1}).json()["items"][0]["item"]
    foreseen = client.get("/page/users/ann/choices", params={"item": card, "value": [5, 1, "none"], "k": 3}).json()
    assert [each["value"] for each in foreseen["outcomes"]] == [5.0, 1.0, None]
    client.post("/v1/users/ann/feedback", json={"item": card, "value": 1})
    after = client.post("/v1/users/ann/recommendations", json={"k": 3}).json()["items"]
    assert [each["item"] for each in foreseen["outcomes"][1]["items"]] == [each["item"] for each in after]
    assert foreseen["outcomes"][1]["items"][0]["chance"] == pytest.approx(after[0]["chance"], abs=1e-4)


def test_looking_ahead_changes_nothing(client: TestClient) -> None:
    before = client.get("/v1/users/ann").json()
    client.get("/page/users/ann/choices", params={"item": "i0000", "value": 5})
    client.get("/page/users/ann/choices", params={"k": 5, "policy": "thompson"})
    assert client.get("/v1/users/ann").json() == before
    shown = [line for line in client.get("/metrics").text.splitlines() if line.startswith("igcf_shown_items_total")]
    assert sum(float(line.split()[-1]) for line in shown) == 0


def test_looking_ahead_spends_no_trial_of_a_new_item(tmp_path: Path) -> None:
    genre_model().save(tmp_path / "model")
    context = ServiceContext.open(tmp_path / "model", ServiceSettings(store=str(tmp_path / "store.db")))
    with TestClient(create_app(context)) as client:
        client.post("/v1/items", json={"items": [{"id": "own", "categories": ["comedy"]}]})
        for n in range(3):
            client.post(f"/v1/users/other-{n}/feedback", json={"item": "own", "value": 5})
        for _ in range(Exposure().known):  # not one reaction more than a user needs to be asked to try something
            ask = {"k": 1, "exclude": ["own"]}
            card = client.post("/v1/users/ann/recommendations", json=ask).json()["items"][0]
            value = 5 if card["categories"] == ["comedy"] else 1
            client.post("/v1/users/ann/feedback", json={"item": card["item"], "value": value})
        context.items_from_log.look(context.current_model.served)
        for policy in ("ucb", "greedy"):
            client.get("/page/users/ann/choices", params={"policy": policy})
        client.get("/page/users/ann/choices", params={"item": "i60", "value": 5})
        assert client.get("/v1/items/own").json()["new"]["trials"] == 0
        shown = client.post("/v1/users/ann/recommendations", json={"k": 1}).json()["items"]
        assert [(each["item"], each["new"]) for each in shown] == [("own", True)]
        assert "new" not in card, "only items that the model was not trained with are tried out"
        assert client.get("/v1/items/own").json()["new"]["trials"] == 1


def test_the_policy_of_a_choice_can_be_named(client: TestClient) -> None:
    greedy = client.get("/page/users/ann/choices", params={"k": 5, "policy": "greedy"}).json()
    best = client.get("/page/users/ann/beliefs", params={"top": 5}).json()["top"]
    assert [each["item"] for each in greedy["outcomes"][0]["items"]] == [each["item"] for each in best]
    assert client.get("/page/users/ann/choices", params={"policy": "greedy", "nu": 1}).status_code == 422
    assert client.get("/page/users/ann/choices", params={"item": "nothing", "value": 5}).status_code == 404


def test_a_newcomer_begins_with_well_known_and_different_items(client: TestClient) -> None:
    items = client.get("/page/start", params={"k": 12}).json()["items"]
    assert len({each["item"] for each in items}) == 12
    assert len({each["categories"][0] for each in items}) == 12, "one of each category first"
    popular = {each["item"] for each in client.get("/v1/items", params={"limit": 100}).json()["items"]}
    assert {each["item"] for each in items} <= popular
