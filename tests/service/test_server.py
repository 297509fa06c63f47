"""Real processes: many clients on two servers, kill -9, a swap under load, workers, shutdown, the client."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from click.testing import CliRunner

from igcf.errors import IgcfError, UnknownItemError
from igcf.model import Model
from igcf.online import Recommender
from igcf.service.client import AsyncClient, Client
from igcf.service.errors import ForbiddenError, KeyRequiredError, ServiceUnavailableError
from igcf.service.store import Store, in_force
from tests.service.postgres import Cluster
from tests.service.processes import Server, wait_until
from tools.load import main as load

pytestmark = pytest.mark.slow
StartServer = Callable[..., Server]


@pytest.fixture
def start() -> Iterator[StartServer]:
    """Starts servers; all are stopped after the test."""
    started: list[Server] = []

    def starter(*arguments: Any, **options: Any) -> Server:
        started.append(Server(*arguments, **options))
        return started[-1].wait_until_ready()

    yield starter
    for server in started:
        server.stop()


def check_belief_against_log(client: Client, store: Store, user: str, model: Model) -> None:
    """What the service believes is what the library computes from the log."""
    history = [(event.item_id or "", event.value) for event in in_force(store.events(user))]
    expected = Recommender(model).session(history).belief
    found = client.user(user, cov=True).belief
    assert found.cov is not None
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-8)
    np.testing.assert_allclose(found.cov, expected.cov, atol=1e-8)


def test_2000_reactions_of_16_clients_to_two_servers_each_count_once(
    start: StartServer, cluster: Cluster, model_folder: Path
) -> None:
    url = cluster.new_store()
    servers = [start(model_folder, url) for _ in range(2)]
    rng = random.Random(0)
    reactions = [
        {
            "user": "everybody" if n % 2 == 0 else f"user-{n % 37}",
            "item": f"item-{rng.randrange(200)}",
            "value": float(rng.randrange(1, 6)),
            "event_id": f"e{n}",
        }
        for n in range(2000)
    ]
    sent = reactions + rng.sample(reactions, 400)  # duplicates, often at the same time as the first
    rng.shuffle(sent)
    receipts: list[tuple[str, bool]] = []

    def one_client(number: int) -> None:
        with Client(servers[number % 2].url) as client:
            for n, reaction in enumerate(sent[number::16]):
                arguments: dict[str, Any] = dict(reaction)
                receipt = client.feedback(**arguments)
                receipts.append((f"{reaction['user']} {receipt.event_id}", receipt.duplicate))
                if n % 10 == 0:  # the answer was lost: the same again
                    assert client.feedback(**arguments).duplicate

    with ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(one_client, number) for number in range(16)]:
            done.result()

    fresh = [name for name, duplicate in receipts if not duplicate]
    assert len(fresh) == len(set(fresh)) == 2000
    store, model = Store(url), Model.load(model_folder)
    for user in {str(reaction["user"]) for reaction in reactions}:
        events = store.events(user)
        wanted = {reaction["event_id"] for reaction in reactions if reaction["user"] == user}
        assert {event.event_id for event in events} == wanted
        assert [event.revision for event in events] == list(range(1, len(wanted) + 1))
    for server in servers:
        with Client(server.url) as client:
            for user in ("everybody", "user-1", "user-36"):
                check_belief_against_log(client, store, user, model)
    store.close()


def react_until_stopped(port: int, number: int, acknowledged: list[str], stop: threading.Event) -> None:
    """Send reactions, each again until it is acknowledged, through every death of the server."""
    sent = 0
    while not stop.is_set():
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10) as http:
                while not stop.is_set():
                    event_id = f"{number}-{sent}"
                    body = {"item": f"item-{sent % 200}", "value": 5.0, "event_id": event_id}
                    if http.post(f"/v1/users/user-{number}/feedback", json=body).status_code == 200:
                        acknowledged.append(f"user-{number} {event_id}")
                        sent += 1
        except httpx.TransportError:
            time.sleep(0.02)


def test_no_acknowledged_reaction_is_lost_when_the_server_is_killed_ten_times(
    start: StartServer, store_url: str, model_folder: Path
) -> None:
    server = start(model_folder, store_url)
    acknowledged: list[str] = []
    stop = threading.Event()
    with ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(react_until_stopped, server.port, n, acknowledged, stop) for n in range(4)]
        for _ in range(10):
            before, deadline = len(acknowledged), time.monotonic() + 30
            while len(acknowledged) < before + 10 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert len(acknowledged) > before
            server.kill()
            server = start(model_folder, store_url, port=server.port)
        stop.set()
        for client in clients:
            client.result()
    store = Store(store_url)
    kept = {f"user-{n} {event.event_id}" for n in range(4) for event in store.events(f"user-{n}")}
    assert set(acknowledged) <= kept
    assert len(acknowledged) == len(set(acknowledged))
    with Client(server.url) as asker:
        for n in range(4):
            check_belief_against_log(asker, store, f"user-{n}", Model.load(model_folder))
    store.close()


def ask_until_stopped(
    url: str, number: int, priors: dict[str, dict[str, float]], stop: threading.Event, met: list[str]
) -> None:
    """Every answer must be whole: its five numbers belong to the model that signs it. Notes the models met."""
    n = 0
    with httpx.Client(base_url=url, timeout=20) as http:
        while not stop.is_set():
            n += 1
            answer = http.post(f"/v1/users/new-{number}-{n}/recommendations", json={"k": 5})
            assert answer.status_code == 200, answer.text
            found = answer.json()
            met.append(found["model"])
            known = priors[found["model"]]
            assert all(abs(known[item["item"]] - item["mean"]) < 1e-4 for item in found["items"]), answer.text
            reply = http.post(f"/v1/users/known-{number}/feedback", json={"item": f"item-{n % 180}", "value": 4.0})
            assert reply.status_code == 200, reply.text


def test_a_swap_under_load_fails_no_request_and_mixes_no_models(
    start: StartServer, store_url: str, model_folder: Path, second_folder: Path
) -> None:
    server = start(model_folder, store_url, "--workers", "2")
    priors: dict[str, dict[str, float]] = {}
    stop = threading.Event()
    with Client(server.url) as client, ThreadPoolExecutor(4) as pool:
        for folder in (second_folder, model_folder):
            model = Model.load(folder)
            means = (model.item_vectors @ model.prior_mean).tolist()
            priors[client.load_model(str(folder)).model] = dict(zip(model.item_ids, means, strict=True))
        met: list[list[str]] = [[] for _ in range(4)]
        askers = [pool.submit(ask_until_stopped, server.url, n, priors, stop, met[n]) for n in range(4)]

        def is_answered_by(model: str) -> bool:
            """Whether all workers have followed: the last answers to everybody are of this model."""
            return all(len(each) >= 10 and set(each[-10:]) == {model} for each in met)

        for turn in range(5):
            model_id = client.load_model(str((second_folder, model_folder)[turn % 2])).model
            deadline = time.monotonic() + 60
            while not is_answered_by(model_id):
                assert not any(asker.done() for asker in askers), "an asker met an error"
                assert time.monotonic() < deadline, "the swap never reached everybody"
                time.sleep(0.01)
        stop.set()
        for asker in askers:
            asker.result()
        assert {model_id for each in met for model_id in each} == set(priors)
        store = Store(store_url)
        for n in range(4):
            check_belief_against_log(client, store, f"known-{n}", Model.load(second_folder))
        store.close()


def test_a_model_that_cannot_be_loaded_is_refused_and_the_old_one_stays(
    start: StartServer, tmp_path: Path, model_folder: Path, second_folder: Path
) -> None:
    server = start(model_folder, str(tmp_path / "s.db"), "--models", str(tmp_path))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "meta.json").write_text("{}")
    with Client(server.url) as client:
        before = client.model().model
        for folder in (tmp_path / "nothing", tmp_path / "broken", second_folder):
            with pytest.raises(IgcfError):
                client.load_model(str(folder))
        assert client.model().model == before
        assert client.recommend("ann").model == before


def test_workers_share_metrics_and_a_dead_one_is_replaced(
    start: StartServer, tmp_path: Path, model_folder: Path
) -> None:
    server = start(model_folder, str(tmp_path / "s.db"), "--workers", "2")
    first = server.workers()
    assert len(first) == 2
    with Client(server.url, pauses_s=[0.2] * 20) as client:
        for n in range(10):
            client.feedback("ann", f"item-{n}", 5.0)
        counted = 'igcf_feedback_total{kind="satisfied"} 10.0'
        wait_until(lambda: counted in httpx.get(f"{server.url}/metrics").text, "the counts were not shared")
        time.sleep(1.0)  # both have written theirs
        os.kill(first[0], signal.SIGKILL)
        for n in range(10, 20):
            client.feedback("ann", f"item-{n}", 5.0)
        deadline = time.monotonic() + 20
        while len(set(server.workers()) - set(first)) < 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(server.workers()) == 2
        assert client.user("ann").revision == 20
        counted = 'igcf_feedback_total{kind="satisfied"} 20.0'
        wait_until(lambda: counted in httpx.get(f"{server.url}/metrics").text, "counts of a dead worker are lost")


def test_workers_end_when_their_supervisor_is_killed(tmp_path: Path, model_folder: Path) -> None:
    server = Server(model_folder, str(tmp_path / "s.db"), "--workers", "2").wait_until_ready()
    workers = server.workers()
    server.process.kill()
    server.stop()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


def test_a_stopped_server_finishes_its_requests_and_writes_its_audit_log(
    tmp_path: Path, store_url: str, model_folder: Path
) -> None:
    server = Server(model_folder, store_url).wait_until_ready()
    answers: list[str] = []

    def ask() -> None:
        with httpx.Client(base_url=server.url, timeout=20) as http:
            try:
                while True:
                    answers.append(http.post("/v1/users/ann/recommendations").json()["recommendation_id"])
            except httpx.TransportError:
                return

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    while len(answers) < 20:
        time.sleep(0.01)
    errors = server.stop()
    for thread in threads:
        thread.join()
    store = Store(store_url)
    rows = store.database.read(
        lambda connection: connection.exec_driver_sql("SELECT recommendation_id FROM recommendations").all()
    )
    assert set(answers) <= {row[0] for row in rows}
    store.close()
    lines = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    assert all({"time", "level", "message"} <= set(line) for line in lines)
    assert "Traceback" not in errors


def test_the_client_speaks_all_of_it(start: StartServer, tmp_path: Path, model_folder: Path) -> None:
    server = start(model_folder, str(tmp_path / "s.db"))
    user = "Zoë %2F 1"
    with Client(server.url) as client:
        answer = client.recommend(user, 3, exclude=["item-1"], policy="thompson")
        assert answer.user == user
        assert len(answer.items) == 3
        receipt = client.feedback(user, answer.items[0].item, 5, recommendation_id=answer.recommendation_id)
        batch = client.feedback_batch(
            [{"user": user, "item": "item-1", "kind": "shown"}, {"user": user, "item": "nothing", "value": 1}]
        )
        assert (batch.stored, batch.failed) == (1, 1)
        assert client.explain(user, "item-5").contributions[0].item == answer.items[0].item
        assert client.user(user).history[0].event_id == receipt.event_id
        assert client.undo(user, receipt.event_id).revision == 3
        assert client.items("title 17").total >= 1
        with pytest.raises(UnknownItemError, match="not in this model"):
            client.feedback(user, "nothing", 5)
        assert client.forget(user).deleted == 3
        assert client.user(user).known is False

    async def the_same() -> None:
        async with AsyncClient(server.url) as client:
            answers = await asyncio.gather(*(client.recommend(f"user-{n}", 2) for n in range(20)))
            assert len({answer.recommendation_id for answer in answers}) == 20
            receipt = await client.feedback("ann", "item-1", 4)
            assert (await client.user("ann")).revision == 1
            assert (await client.feedback_batch([{"user": "ann", "item": "item-2", "value": 1}])).stored == 1
            assert (await client.explain("ann", "item-3")).revision == 2
            assert (await client.undo("ann", receipt.event_id)).revision == 3
            assert (await client.items()).total == (await client.model()).items
            assert (await client.forget("ann")).deleted == 3
            assert (await client.load_model(str(model_folder))).generation == 1
            with pytest.raises(UnknownItemError):
                await client.explain("ann", "nothing")

    asyncio.run(the_same())
    server.stop()
    with Client(server.url, pauses_s=[0.01]) as client, pytest.raises(ServiceUnavailableError, match="did not answer"):
        client.model()


def test_the_client_sends_its_key(start: StartServer, tmp_path: Path, model_folder: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("server client-key-0123456789\nadmin admin-key-0123456789\n")
    server = start(model_folder, str(tmp_path / "s.db"), "--api-key-file", str(keys))
    with Client(server.url) as client, pytest.raises(KeyRequiredError):
        client.model()
    with Client(server.url, api_key="client-key-0123456789") as client:
        client.model()
        with pytest.raises(ForbiddenError):
            client.load_model(str(model_folder))
    with Client(server.url, api_key="admin-key-0123456789") as client:
        assert client.load_model(str(model_folder)).generation == 1


def test_the_server_process_never_loads_torch(tmp_path: Path, model_folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from igcf.service.http.application import create_app\n"
        "from igcf.service.context import ServiceContext; from igcf.service.settings import ServiceSettings\n"
        "import igcf.service.server, igcf.cli.serve\n"
        f"settings = ServiceSettings(store={str(tmp_path / 's.db')!r})\n"
        f"context = ServiceContext.open(Path({str(model_folder)!r}), settings)\n"
        "create_app(context); context.close(); sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_load_benchmark_ends_by_itself_and_fails_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.load.TURN_S", 0.3)
    monkeypatch.setattr("tools.load.SETTLE_S", 0.1)
    sizes = [
        "--seconds",
        "0.3",
        "--users",
        "20",
        "--connections",
        "8",
        "--memory-requests",
        "200",
        "--memory-users",
        "30",
    ]
    result = CliRunner().invoke(load, sizes)
    assert result.exit_code == 0, result.output
    phases, goals = result.stdout.split("\n\n")[:2]
    rows = [line.split("|") for line in phases.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 8
    assert all(row[3].strip() == "0" for row in rows)
    assert goals.count("\n| ") == 6
    assert "after 200 requests" in result.stdout
