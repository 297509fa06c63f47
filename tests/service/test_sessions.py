"""Several servers on one store, users in memory, beliefs rebuilt from the log."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from igcf.model import Model
from igcf.online import Recommender
from igcf.service.app import create_app
from igcf.service.errors import STORE_AWAY
from igcf.service.models import drop_forgotten, follow, load_and_announce
from igcf.service.parts import Parts, open_parts
from igcf.service.reacting import forget, new_event, react, retract
from igcf.service.reading import beliefs, explanation, user_state
from igcf.service.recommending import recommend
from igcf.service.schema import users
from igcf.service.settings import ServiceSettings
from tests.service.conftest import OpenParts
from tests.service.postgres import Cluster
from tests.toys import ensemble_model


def tell(parts: Parts, user: str, item: str, value: float | None = 5.0, event_id: str | None = None) -> None:
    served = parts.slot.current
    react(parts, served, user, [new_event(served, item, value, event_id, None)])


def shown(parts: Parts, user: str, **ask: Any) -> list[tuple[str, float]]:
    return [(item["item"], item["mean"]) for item in recommend(parts, user, k=5, **ask)["items"]]


def test_two_servers_see_each_others_reactions(open_service: OpenParts) -> None:
    one, two = open_service(), open_service()
    for number in range(30):
        tell((one, two)[number % 2], "ann", f"item-{number}", float(number % 5 + 1))
        assert recommend(one, "ann", k=1)["revision"] == recommend(two, "ann", k=1)["revision"] == number + 1
        first, second = shown(one, "ann"), shown(two, "ann")
        assert [item for item, _ in first] == [item for item, _ in second]
        np.testing.assert_allclose([mean for _, mean in first], [mean for _, mean in second], atol=1e-6)


def test_an_undo_on_one_server_reaches_the_other(open_service: OpenParts) -> None:
    one, two = open_service(), open_service()
    tell(one, "ann", "item-1")
    before = shown(two, "ann")
    tell(one, "ann", "item-2", 1.0, event_id="e")
    shown(two, "ann")
    retract(one, "ann", "e")
    np.testing.assert_allclose([mean for _, mean in shown(two, "ann")], [mean for _, mean in before], atol=1e-6)


def test_a_user_forgotten_on_one_server_is_new_on_the_other(open_service: OpenParts) -> None:
    one, two = open_service(), open_service()
    newcomer = shown(two, "ann")
    for number in range(3):
        tell(one, "ann", f"item-{number}")
    assert shown(two, "ann") != newcomer
    forget(one, "ann")
    assert len(one.sessions) == 0
    drop_forgotten(two)
    assert len(two.sessions) == 0
    assert shown(two, "ann") == newcomer
    for number in range(3):
        tell(one, "ann", f"item-{number}", 1.0)  # as many as before: the revision is the same, the person is not
    expected = Recommender(two.slot.current.model).session([(f"item-{number}", 1.0) for number in range(3)])
    assert [item for item, _ in shown(two, "ann")] == [pick.item_id for pick in expected.recommend(5)]


def test_memory_is_bounded_by_users_and_by_size(open_service: OpenParts) -> None:
    parts = open_service(hot_users=3)
    for number in range(8):
        tell(parts, f"user-{number}", "item-1")
        recommend(parts, f"user-{number}", k=1)
    assert len(parts.sessions) == 3
    recommend(parts, "nobody ever seen", k=1)
    assert len(parts.sessions) == 3
    assert recommend(parts, "user-0", k=1)["revision"] == 1  # comes back from the store
    small = open_service(hot_megabytes=1)
    most = 1_000_000 // small.slot.current.bytes_per_user()
    for number in range(8):
        recommend(small, f"user-{number}", k=1)
    assert len(small.sessions) == min(8, most)


@pytest.mark.parametrize("damage", [None, b"", b"x" * 17, np.full(44, np.nan).tobytes()])
def test_a_missing_or_damaged_belief_is_rebuilt_from_the_log(open_service: OpenParts, damage: bytes | None) -> None:
    parts = open_service()
    for number in range(6):
        tell(parts, "ann", f"item-{number}", float(number % 5 + 1))
    good = user_state(parts, "ann", with_cov=True)["belief"]
    query = sa.update(users).values(belief=damage)
    parts.store.database.write(lambda connection: connection.execute(query))
    other = open_service()
    rebuilt = user_state(other, "ann", with_cov=True)["belief"]
    np.testing.assert_allclose(rebuilt["cov"], good["cov"], atol=1e-10)
    np.testing.assert_allclose(rebuilt["mean"], good["mean"], atol=1e-10)
    tell(other, "ann", "item-7")  # and the next reaction mends the cache
    expected = Recommender(other.slot.current.model).session(
        [(f"item-{number}", float(number % 5 + 1)) for number in range(6)] + [("item-7", 5.0)]
    )
    np.testing.assert_allclose(
        user_state(other, "ann", with_cov=True)["belief"]["cov"], expected.belief.cov, atol=1e-10
    )


def test_users_keep_their_history_through_a_new_model(open_service: OpenParts, second_folder: Path) -> None:
    one, two = open_service(), open_service()
    for number in (1, 5, 190):  # the second model knows 180 items only
        tell(one, "ann", f"item-{number}")
    old = shown(two, "ann")
    loaded = load_and_announce(one, str(second_folder))
    assert recommend(two, "ann", k=5)["model"] != loaded["model"]
    assert follow(two) is True
    assert follow(two) is False
    expected = Recommender(Model.load(second_folder)).session([("item-1", 5.0), ("item-5", 5.0)])
    for parts in (one, two):
        answer = recommend(parts, "ann", k=5)
        assert answer["model"] == loaded["model"]
        assert answer["revision"] == 3
        assert [item["item"] for item in answer["items"]] == [pick.item_id for pick in expected.recommend(5)]
    assert shown(one, "ann") != old
    state = user_state(one, "ann", with_cov=True)
    assert [past["item"] for past in state["history"]] == ["item-1", "item-5", "item-190"]
    np.testing.assert_allclose(state["belief"]["cov"], expected.belief.cov, atol=1e-10)
    tell(two, "ann", "item-9", 1.0)
    expected.observe("item-9", 1.0)
    np.testing.assert_allclose(user_state(one, "ann", with_cov=True)["belief"]["cov"], expected.belief.cov, atol=1e-10)


def test_a_long_history_is_served_and_explained(open_service: OpenParts) -> None:
    parts = open_service()
    served = parts.slot.current
    events = [new_event(served, f"item-{n % 150}", float(n % 5 + 1), f"e{n}", None) for n in range(900)]
    react(parts, served, "ann", events)
    other = open_service()
    expected = Recommender(served.model).session([(event.item_id, event.value) for event in events])
    assert recommend(other, "ann", k=1)["revision"] == 900
    np.testing.assert_allclose(user_state(other, "ann", with_cov=True)["belief"]["cov"], expected.belief.cov, atol=1e-8)
    found = explanation(other, "ann", "item-160")
    assert found["mean"] == pytest.approx(found["prior"] + sum(part["amount"] for part in found["contributions"]))


def test_a_model_of_several_experts_is_served_as_the_library_plays_it(open_service: OpenParts, tmp_path: Path) -> None:
    ensemble_model().save(tmp_path / "ensemble")
    one, two = open_service(tmp_path / "ensemble"), open_service(tmp_path / "ensemble")
    session = Recommender(one.slot.current.model).session()
    for number, value in enumerate([5.0, None, 1.0, 4.0, None, 2.0, 5.0, 5.0]):
        item = session.recommend(1)[0].item_id
        assert recommend((one, two)[number % 2], "ann", k=1)["items"][0]["item"] == item
        tell((two, one)[number % 2], "ann", item, value)
        session.observe(item, value)
    for parts in (one, two):
        belief = user_state(parts, "ann", with_cov=True)["belief"]
        np.testing.assert_allclose(belief["cov"], session.belief.cov, atol=1e-9)
        np.testing.assert_allclose(belief["mean"], session.belief.mean, atol=1e-9)
        found = explanation(parts, "ann", "item-7")
        total = found["prior"] + sum(part["amount"] for part in found["contributions"])
        assert found["mean"] == pytest.approx(total)
        assert recommend(parts, "ann", k=3, policy="thompson")["propensity"] == "estimated"


def test_forgetting_is_the_librarys(open_service: OpenParts) -> None:
    parts = open_service(forgetting=0.9)
    session = Recommender(parts.slot.current.model, forgetting=0.9).session()
    for number in range(5):
        tell(parts, "ann", f"item-{number}", float(number + 1))
        session.observe(f"item-{number}", float(number + 1))
    np.testing.assert_allclose(user_state(parts, "ann", with_cov=True)["belief"]["cov"], session.belief.cov, atol=1e-9)
    assert [item for item, _ in shown(parts, "ann")] == [pick.item_id for pick in session.recommend(5)]


def test_drift_grows_when_the_taste_turns(open_service: OpenParts) -> None:
    parts = open_service()
    model = parts.slot.current.model
    rows = np.random.default_rng(3).permutation(model.n_items)[:115]
    taste = model.item_vectors @ np.random.default_rng(4).normal(size=model.dim)
    for turn, row in enumerate(rows):
        pleases = taste[row] > 0
        tell(parts, "steady", model.item_ids[row], 5.0 if pleases else 1.0)
        tell(parts, "turned", model.item_ids[row], 5.0 if pleases == (turn < 100) else 1.0)
    drift = {user: beliefs(parts, user, top=1, with_seen=False)["drift"] for user in ("steady", "turned")}
    assert drift["turned"] > 1.5 * drift["steady"]


@pytest.mark.slow
def test_the_service_survives_a_restart_of_its_database(model_folder: Path) -> None:
    cluster = Cluster()
    parts = open_parts(model_folder, ServiceSettings(store=cluster.new_store()))
    client = TestClient(create_app(parts))
    tell(parts, "ann", "item-1")
    client.post("/v1/users/ann/recommendations")
    cluster.stop()
    answer = client.post("/v1/users/ann/feedback", json={"item": "item-2", "value": 5})
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.json() == {"error": "StoreError", "message": STORE_AWAY}
    assert client.get("/readyz").status_code == 503
    assert client.get("/healthz").status_code == 200
    cluster.start()
    assert client.get("/readyz").status_code == 200
    assert client.post("/v1/users/ann/feedback", json={"item": "item-2", "value": 5}).json()["revision"] == 2
    assert client.post("/v1/users/ann/recommendations").json()["revision"] == 2
    parts.close()
    cluster.close()
