"""A service whose users are in two databases behaves like one with a single database."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.settings import ServiceSettings
from igcf.service.store.spread import Spread
from tests.service.conftest import OpenService
from tests.service.http.test_api import *  # noqa: F403 - the same behaviour
from tests.service.test_items import *  # noqa: F403
from tests.service.test_items import posterior

del globals()["test_answers_to_a_visitor_that_are_not_written_yet_become_the_users_or_are_gone"]  # about one queue


@pytest.fixture
def open_service(tmp_path: Path, model_folder: Path) -> Iterator[OpenService]:
    """Opens services on the same two databases."""
    opened: list[ServiceContext] = []
    stores = (str(tmp_path / "one.db"), str(tmp_path / "two.db"))

    def opener(folder: Path = model_folder, **settings: object) -> ServiceContext:
        context = ServiceContext.open(folder, ServiceSettings(**{"store": stores} | settings))
        opened.append(context)
        return context

    yield opener
    for context in opened:
        context.close()


def test_what_users_of_two_databases_tell_of_a_new_item_is_what_they_tell_in_one(
    open_service: OpenService, content_folder: Path, tmp_path: Path
) -> None:
    two, one = open_service(content_folder), open_service(content_folder, store=str(tmp_path / "alone.db"))
    assert isinstance(two.store, Spread)
    for context in (two, one):
        client = TestClient(create_app(context))
        client.post("/v1/items", json={"items": [{"id": "funny", "categories": ["comedy"]}]})
        for number in range(12):
            reactions = {f"i{2 * number}": 5, "funny": 1 + number % 5}
            for item, value in reactions.items():
                body = {"item": item, "value": value, "event_id": f"{number}-{item}"}
                assert client.post(f"/v1/users/user-{number}/feedback", json=body).status_code == 200
            context.items_from_log.look(context.current_model.served)
        client.delete("/v1/users/user-3/feedback/3-funny")
        client.delete("/v1/users/user-5")
        for number in (6, 7, 8, 9):
            merged = client.post("/v1/users/user-11/merge", json={"from": f"user-{number}"})
            assert merged.json()["moved"] == 2
            context.items_from_log.look(context.current_model.served)
        items = context.current_model.served.recommender.new_items
        assert items is not None
        assert items.n_reactions.tolist() == [10]
    places = {two.store.place(f"user-{number}") for number in range(12)}
    assert len(places) == 2
    fresh = open_service(content_folder)
    fresh.items_from_log.look(fresh.current_model.served)
    for other in (fresh, one):
        np.testing.assert_allclose(posterior(two, "funny"), posterior(other, "funny"), atol=1e-8)
