"""Several servers on one store, users in memory, beliefs rebuilt from the log."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from igcf.model import Model
from igcf.online import Belief, Recommender
from igcf.service.context import ServiceContext
from igcf.service.errors import STORE_AWAY
from igcf.service.http.application import create_app
from igcf.service.models.requests import Feedback, RecommendationRequest
from igcf.service.models.responses import ExplanationResponse, RecommendationResponse
from igcf.service.serving.group_commit import Reaction
from igcf.service.serving.model_swap import follow, load_and_announce
from igcf.service.serving.reacting import checked_event, forget, retract, store_together
from igcf.service.serving.recommending import recommend
from igcf.service.serving.users import explanation, user_state
from igcf.service.settings import ServiceSettings
from tests.service.conftest import OpenService, react
from tests.service.postgres import Cluster
from tests.toys import ensemble_model


def tell(context: ServiceContext, user: str, item: str, value: float | None = 5.0, event_id: str | None = None) -> None:
    """Tell of a reaction; without a value, that the item was shown and drew none."""
    kind = "shown" if value is None else None
    react(context, user, Feedback(item=item, value=value, kind=kind, event_id=event_id))


def ask(context: ServiceContext, user: str, **wishes: Any) -> RecommendationResponse:
    return recommend(context, user, RecommendationRequest(**wishes))


def shown(context: ServiceContext, user: str) -> list[tuple[str, float]]:
    return [(item.item, item.mean) for item in ask(context, user, k=5).items]


def belief_of(context: ServiceContext, user: str) -> Belief:
    found = user_state(context.store, context.current_model.served, user, with_cov=True).belief
    return Belief(np.array(found.mean), np.array(found.cov))


def explained(context: ServiceContext, user: str, item: str) -> ExplanationResponse:
    return explanation(context.users, context.current_model.served, user, item)


def test_two_servers_see_each_others_reactions(open_service: OpenService) -> None:
    one, two = open_service(), open_service()
    for number in range(30):
        tell((one, two)[number % 2], "ann", f"item-{number}", float(number % 5 + 1))
        assert ask(one, "ann", k=1).revision == ask(two, "ann", k=1).revision == number + 1
        first, second = shown(one, "ann"), shown(two, "ann")
        assert [item for item, _ in first] == [item for item, _ in second]
        np.testing.assert_allclose([mean for _, mean in first], [mean for _, mean in second], atol=1e-6)


def test_an_undo_on_one_server_reaches_the_other(open_service: OpenService) -> None:
    one, two = open_service(), open_service()
    tell(one, "ann", "item-1")
    before = shown(two, "ann")
    tell(one, "ann", "item-2", 1.0, event_id="e")
    shown(two, "ann")
    retract(one, "ann", "e")
    np.testing.assert_allclose([mean for _, mean in shown(two, "ann")], [mean for _, mean in before], atol=1e-6)


def test_a_user_forgotten_on_one_server_is_new_on_the_other(open_service: OpenService) -> None:
    one, two = open_service(), open_service()
    newcomer = shown(two, "ann")
    for number in range(3):
        tell(one, "ann", f"item-{number}")
    assert shown(two, "ann") != newcomer
    forget(one, "ann")
    assert len(one.users) == 0
    two.users.forget_hashed(set(two.store.deletions()))
    assert len(two.users) == 0
    assert shown(two, "ann") == newcomer
    for number in range(3):
        tell(one, "ann", f"item-{number}", 1.0)  # as many as before: the revision is the same, the person is not
    expected = Recommender(two.current_model.served.model).session([(f"item-{number}", 1.0) for number in range(3)])
    assert [item for item, _ in shown(two, "ann")] == [pick.item_id for pick in expected.recommend(5)]


def test_memory_is_bounded_by_users_and_by_size(open_service: OpenService) -> None:
    context = open_service(hot_users=3)
    for number in range(8):
        tell(context, f"user-{number}", "item-1")
        ask(context, f"user-{number}", k=1)
    assert len(context.users) == 3
    ask(context, "nobody ever seen", k=1)
    assert len(context.users) == 3
    assert ask(context, "user-0", k=1).revision == 1  # comes back from the store
    small = open_service(hot_megabytes=1)
    most = 1_000_000 // small.current_model.served.bytes_per_user()
    for number in range(8):
        ask(small, f"user-{number}", k=1)
    assert len(small.users) == min(8, most)


def test_users_keep_their_history_through_a_new_model(open_service: OpenService, second_folder: Path) -> None:
    one, two = open_service(), open_service()
    for number in (1, 5, 190):  # the second model knows 180 items only
        tell(one, "ann", f"item-{number}")
    old = shown(two, "ann")
    loaded = load_and_announce(one, str(second_folder))
    assert ask(two, "ann", k=5).model != loaded.model
    assert follow(two) is True
    assert follow(two) is False
    expected = Recommender(Model.load(second_folder)).session([("item-1", 5.0), ("item-5", 5.0)])
    for context in (one, two):
        answer = ask(context, "ann", k=5)
        assert answer.model == loaded.model
        assert answer.revision == 3
        assert [item.item for item in answer.items] == [pick.item_id for pick in expected.recommend(5)]
    assert shown(one, "ann") != old
    state = user_state(one.store, one.current_model.served, "ann", with_cov=True)
    assert [past.item for past in state.history] == ["item-1", "item-5", "item-190"]
    np.testing.assert_allclose(belief_of(one, "ann").cov, expected.belief.cov, atol=1e-10)
    tell(two, "ann", "item-9", 1.0)
    expected.observe("item-9", 1.0)
    np.testing.assert_allclose(belief_of(one, "ann").cov, expected.belief.cov, atol=1e-10)


def test_a_long_history_is_served_and_explained(open_service: OpenService) -> None:
    context = open_service()
    served = context.current_model.served
    reactions = [Feedback(item=f"item-{n % 150}", value=float(n % 5 + 1), event_id=f"e{n}") for n in range(900)]
    events = [checked_event(context.place("ann"), reaction) for reaction in reactions]
    store_together(context, [Reaction(served, "ann", event) for event in events])
    other = open_service()
    expected = Recommender(served.model).session([(reaction.item, reaction.value) for reaction in reactions[-150:]])
    assert ask(other, "ann", k=1).revision == 900
    np.testing.assert_allclose(belief_of(other, "ann").cov, expected.belief.cov, atol=1e-8)
    found = explained(other, "ann", "item-160")
    assert found.rest == 0.0
    assert found.mean == pytest.approx(found.prior + sum(part.amount for part in found.contributions))
    largest = explanation(other.users, served, "ann", "item-160", limit=10)
    assert len(largest.contributions) == 10
    least = min(abs(part.amount) for part in largest.contributions)
    assert sum(abs(part.amount) > least for part in found.contributions) <= 9
    listed = sum(part.amount for part in largest.contributions)
    assert largest.mean == pytest.approx(largest.prior + listed + largest.rest)
    state = user_state(other.store, served, "ann", with_cov=False, limit=10)
    assert state.reactions == 150  # the latest to each item
    assert [past.event_id for past in state.history] == [f"e{n}" for n in range(890, 900)]
    assert user_state(other.store, served, "ann", with_cov=False, limit=0).history == []


def test_a_model_of_several_experts_is_served_as_the_library_plays_it(
    open_service: OpenService, tmp_path: Path
) -> None:
    ensemble_model().save(tmp_path / "ensemble")
    one, two = open_service(tmp_path / "ensemble"), open_service(tmp_path / "ensemble")
    session = Recommender(one.current_model.served.model).session()
    for number, value in enumerate([5.0, None, 1.0, 4.0, None, 2.0, 5.0, 5.0]):
        item = session.recommend(1)[0].item_id
        assert ask((one, two)[number % 2], "ann", k=1).items[0].item == item
        tell((two, one)[number % 2], "ann", item, value)
        session.observe(item, value)
    for context in (one, two):
        belief = belief_of(context, "ann")
        np.testing.assert_allclose(belief.cov, session.belief.cov, atol=1e-9)
        np.testing.assert_allclose(belief.mean, session.belief.mean, atol=1e-9)
        found = explained(context, "ann", "item-7")
        total = found.prior + sum(part.amount for part in found.contributions)
        assert found.mean == pytest.approx(total)
        assert ask(context, "ann", k=3, policy="thompson").propensity == "estimated"


def test_forgetting_is_the_librarys(open_service: OpenService) -> None:
    context = open_service(forgetting=0.9)
    session = Recommender(context.current_model.served.model, forgetting=0.9).session()
    for number in range(5):
        tell(context, "ann", f"item-{number}", float(number + 1))
        session.observe(f"item-{number}", float(number + 1))
    np.testing.assert_allclose(belief_of(context, "ann").cov, session.belief.cov, atol=1e-9)
    assert [item for item, _ in shown(context, "ann")] == [pick.item_id for pick in session.recommend(5)]


@pytest.mark.slow
def test_the_service_survives_a_restart_of_its_database(model_folder: Path) -> None:
    cluster = Cluster()
    context = ServiceContext.open(model_folder, ServiceSettings(store=cluster.new_store()))
    client = TestClient(create_app(context))
    tell(context, "ann", "item-1")
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
    context.close()
    cluster.close()
