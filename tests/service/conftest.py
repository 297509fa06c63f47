"""Real stores, a small real model, and an application over both."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from igcf.model import Model, Reward
from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.models.requests import Feedback
from igcf.service.serving.group_commit import Reaction, received
from igcf.service.serving.reacting import checked_event, refuse_conflict, store_together
from igcf.service.settings import ServiceSettings
from igcf.service.store.records import Receipt
from tests.service.postgres import Cluster


def small_model(n_items: int = 200, dim: int = 8, *, seed: int = 0) -> Model:
    """Random vectors, stars as values, titles that contain HTML."""
    rng = np.random.default_rng(seed)
    return Model(
        item_vectors=rng.normal(size=(n_items, dim)) / np.sqrt(dim),
        prior_mean=rng.normal(size=dim) * 0.3,
        prior_cov=np.diag(rng.uniform(0.5, 1.5, dim)),
        noise_var=0.2,
        item_ids=[f"item-{i}" for i in range(n_items)],
        titles=[f"Title <b>{i}</b>" for i in range(n_items)],
        categories=[["even"] if i % 2 == 0 else ["odd", "other"] for i in range(n_items)],
        reward=Reward("satisfied", threshold=4.0, low=1.0, high=5.0),
        metadata={"dataset": "toy"},
    )


def react(context: ServiceContext, user_id: str, reaction: Feedback) -> Receipt:
    """Store one reaction without an event loop."""
    place = context.place(user_id)
    (outcome,) = store_together(context, [Reaction(place.served, user_id, checked_event(place, reaction))])
    receipt = received(outcome)
    refuse_conflict(receipt)
    return receipt


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "first"
    small_model().save(folder)
    return folder


@pytest.fixture(scope="session")
def second_folder(model_folder: Path) -> Path:
    folder = model_folder.parent / "second"
    small_model(180, 6, seed=1).save(folder)
    return folder


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    cluster: Cluster = request.getfixturevalue("cluster")
    return cluster.new_store()


OpenService = Callable[..., ServiceContext]


@pytest.fixture
def open_service(store_url: str, model_folder: Path) -> Iterator[OpenService]:
    """Opens services on the same store; all are closed after the test."""
    opened: list[ServiceContext] = []

    def opener(folder: Path = model_folder, **settings: object) -> ServiceContext:
        context = ServiceContext.open(folder, ServiceSettings(store=store_url, **settings))
        opened.append(context)
        return context

    yield opener
    for context in opened:
        context.close()


@pytest.fixture
def context(open_service: OpenService) -> ServiceContext:
    return open_service()


@pytest.fixture
def client(context: ServiceContext) -> TestClient:
    return TestClient(create_app(context))
