"""Promotions and rollbacks under load: two servers on one PostgreSQL, one of them killed in between."""

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from igcf.model import Model
from igcf.model.files import model_id
from igcf.online import Recommender
from igcf.service.store.store import Store
from tests.service.postgres import Cluster
from tests.service.processes import Server, wait_until

pytestmark = pytest.mark.slow
N_CLIENTS, ROUNDS, PAUSE_S = 4, 3, 1.0


class Load:
    """Clients that react and ask, each on any server; a call that fails is sent again to the other one."""

    def __init__(self, urls: list[str]) -> None:
        self.urls, self.is_over = urls, threading.Event()
        self.acknowledged: list[tuple[str, str]] = []
        self.answers: list[dict[str, Any]] = []
        self.threads = [threading.Thread(target=self.run, args=(number,)) for number in range(N_CLIENTS)]
        for thread in self.threads:
            thread.start()

    def run(self, number: int) -> None:
        rng, n = random.Random(number), 0
        with httpx.Client(timeout=10) as client:
            while not self.is_over.is_set() and n < 20_000:
                n += 1
                user, event = f"user-{number}-{rng.randrange(5)}", f"e{number}-{n}"
                reaction = {
                    "item": f"item-{rng.randrange(100)}",
                    "value": float(rng.randrange(1, 6)),
                    "event_id": event,
                }
                if self.sent(client, rng, f"/v1/users/{user}/feedback", reaction) is not None:
                    self.acknowledged.append((user, event))
                answer = self.sent(client, rng, f"/v1/users/visitor-{number}/recommendations", {"k": 5})
                if answer is not None:
                    self.answers.append(answer)

    def sent(self, client: httpx.Client, rng: random.Random, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        for url in rng.sample(self.urls, 2):
            try:
                answer = client.post(url + path, json=body)
            except httpx.TransportError:
                continue
            if answer.status_code == 200:
                found: dict[str, Any] = answer.json()
                return found
            assert answer.status_code == 503, answer.text
        return None

    def end(self) -> None:
        self.is_over.set()
        for thread in self.threads:
            thread.join()


@pytest.fixture
def servers(cluster: Cluster, model_folder: Path) -> Iterator[tuple[str, list[Server]]]:
    store = cluster.new_store()
    found = [Server(model_folder, store).wait_until_ready() for _ in range(2)]
    yield store, found
    for server in found:
        server.stop()


def test_no_answer_mixes_models_and_nothing_is_lost_while_a_server_is_killed_between_rollbacks(
    servers: tuple[str, list[Server]], model_folder: Path, second_folder: Path
) -> None:
    url, running = servers
    models = {model_id(folder): Model.load(folder) for folder in (model_folder, second_folder)}
    means = {name: Recommender(model).session().moments()[0] for name, model in models.items()}
    load = Load([server.url for server in running])

    def wait_for(folder: Path) -> None:
        for server in running:
            wait_until(lambda: serves(server) == model_id(folder), f"{server.url} does not serve {folder}")  # noqa: B023

    took_s = []
    for number in range(ROUNDS):
        one, two = running
        httpx.post(f"{one.url}/v1/model", json={"folder": str(second_folder)}, timeout=30).raise_for_status()
        wait_for(second_folder)
        time.sleep(PAUSE_S)
        asked = time.perf_counter()
        back = httpx.post(f"{two.url}/v1/model/rollback", timeout=30).raise_for_status().json()
        assert back["model"] == model_id(model_folder)
        if number == 1:  # it may be following at this very moment
            one.kill()
            running[0] = Server(model_folder, url, port=one.port).wait_until_ready()
        wait_for(model_folder)
        if number != 1:
            took_s.append(time.perf_counter() - asked)
        time.sleep(PAUSE_S)
    load.end()

    assert {answer["model"] for answer in load.answers} == set(models)
    for answer in load.answers:
        rows = models[answer["model"]].item_rows(each["item"] for each in answer["items"])
        np.testing.assert_allclose([each["mean"] for each in answer["items"]], means[answer["model"]][rows], atol=1e-5)
    store = Store(url)
    stored = [(user.user, event.event_id) for user in store.list_users() for event in store.events(user.user)]
    store.close()
    assert len(stored) == len(set(stored))
    assert set(load.acknowledged) <= set(stored)
    assert len(load.acknowledged) > 50
    print(f"{len(load.answers):,} answers of two models, {len(load.acknowledged):,} reactions acknowledged")
    print("seconds from a rollback until both servers serve:", ", ".join(f"{each:.2f}" for each in took_s))


def serves(server: Server) -> str:
    """Ask a server for its model."""
    return str(httpx.get(f"{server.url}/v1/model", timeout=30).json()["model"])
