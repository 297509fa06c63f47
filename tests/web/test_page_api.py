"""What the page asks of the HTTP API beyond what other programs need."""

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from igcf.model import Model
from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.serving.served_model import ServedModel
from igcf.service.settings import ServiceSettings
from tests.toys import random_model, two_channel_model


def client_of(model: Model, folder: Path) -> TestClient:
    model.save(folder / "model")
    settings = ServiceSettings(store=str(folder / "store.db"))
    return TestClient(create_app(ServiceContext.open(ServedModel.from_folder(folder / "model", settings), settings)))


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with client_of(two_channel_model(), tmp_path) as client:
        yield client


def test_the_reserve_is_what_would_come_next(client: TestClient) -> None:
    ask = "/v1/users/ann/recommendations"
    more = client.post(ask, json={"k": 5}).json()["items"]
    answer = client.post(ask, json={"k": 2, "reserve": 3}).json()
    assert [card["item"] for card in answer["items"] + answer["reserve"]] == [card["item"] for card in more]
    assert [card["propensity"] for card in answer["reserve"]] == [None] * 3
    greedy = client.post(ask, json={"k": 2, "reserve": 3, "policy": "greedy"}).json()["reserve"]
    assert {card["reason"] for card in greedy} == {"please"}, "the mean alone put them there"


def test_the_reserve_ends_with_the_catalogue(client: TestClient) -> None:
    answer = client.post("/v1/users/ann/recommendations", json={"k": 25, "reserve": 20}).json()
    assert (len(answer["items"]), len(answer["reserve"])) == (25, 5)
    assert client.post("/v1/users/ann/recommendations", json={"k": 31, "reserve": 2}).status_code == 409


@pytest.mark.parametrize("reserve", [-1, 21, 1.5, "2", None])
def test_a_bad_reserve_is_refused(client: TestClient, reserve: object) -> None:
    assert client.post("/v1/users/ann/recommendations", json={"reserve": reserve}).status_code == 422


def test_the_reserve_is_not_counted_as_shown(client: TestClient) -> None:
    client.post("/v1/users/ann/recommendations", json={"k": 1, "reserve": 5})
    shown = [line for line in client.get("/metrics").text.splitlines() if line.startswith("igcf_shown_items_total")]
    assert sum(float(line.split()[-1]) for line in shown) == 1


def test_popular_items_come_in_the_population_s_order_with_a_chance(client: TestClient) -> None:
    order = [item["item"] for item in client.get("/v1/items", params={"limit": 7}).json()["items"]]
    client.post("/v1/users/ann/feedback", json={"item": order[2], "value": 5})
    popular = client.get("/page/users/ann/beliefs", params={"popular": 7}).json()["popular"]
    assert [each["item"] for each in popular] == order
    assert all(0 <= each["chance"] <= 1 for each in popular)
    assert client.get("/page/users/ann/beliefs").json()["popular"] == []


def test_the_chance_of_a_raw_value_is_the_tail_above_the_threshold(tmp_path: Path) -> None:
    model = random_model()
    model.reward = dataclasses.replace(model.reward, threshold=0.7)
    with client_of(model, tmp_path) as client:
        first = client.get("/page/users/ann/beliefs", params={"popular": 1}).json()["popular"][0]
    x = model.item_vectors[model.item_row(first["item"])].astype(np.float64)
    spread = math.sqrt(x @ model.prior_cov @ x + 0.3)
    expected = 0.5 * math.erfc((0.7 - x @ model.prior_mean) / spread / math.sqrt(2))
    assert first["chance"] == pytest.approx(expected, rel=1e-5)


def test_the_files_of_the_page_are_asked_for_again_and_need_no_key(client: TestClient) -> None:
    for path in ("/", "/dashboard", "/static/app.js", "/static/igcf.css", "/static/mark.svg"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-cache"
        assert client.get(path, headers={"If-None-Match": answer.headers["etag"]}).status_code in (200, 304)
    assert client.get("/static/app.js").headers["content-type"].startswith("text/javascript")
    assert client.get("/static/../app.py").status_code == 404
    assert client.get("/static/%2e%2e/app.py").status_code == 404
