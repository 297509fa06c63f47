"""What was shown and drew nothing counts as ignored later, once, until a reaction comes."""

import time

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from igcf.errors import ConfigError
from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.serving.model_swap import learn_ignored
from igcf.service.settings import ServiceSettings
from igcf.service.store import audit
from igcf.service.store.audit import count_ignored
from igcf.service.store.log import read_events
from igcf.service.store.records import Event
from tests.service.conftest import OpenService


def shown(client: TestClient, user: str, k: int = 3) -> list[str]:
    answer = client.post(f"/v1/users/{user}/recommendations", json={"k": k}).json()
    return [each["item"] for each in answer["items"]]


def history(client: TestClient, user: str) -> dict[str, float | None]:
    return {each["item"]: each["value"] for each in client.get(f"/v1/users/{user}").json()["history"]}


def later(context: ServiceContext, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Count what is ignored, as if so much time had passed."""
    context.audit.flush()
    with monkeypatch.context() as patch:
        now = time.time() + seconds
        patch.setattr("igcf.service.serving.model_swap.time.time", lambda: now)
        learn_ignored(context)


def test_an_ignored_item_counts_after_the_time_and_not_before(
    open_service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = open_service(no_reaction_after="30m")
    client = TestClient(create_app(context))
    items = shown(client, "ann")
    client.post("/v1/users/ann/feedback", json={"item": items[0], "value": 5.0})
    later(context, monkeypatch, 1_700)
    assert history(client, "ann") == {items[0]: 5.0}
    later(context, monkeypatch, 1_801)
    assert history(client, "ann") == {items[0]: 5.0, items[1]: None, items[2]: None}
    assert not set(items) & set(shown(client, "ann", 20))


def test_a_late_reaction_takes_the_place_of_the_ignored_item(
    open_service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = open_service(no_reaction_after="1s")
    client = TestClient(create_app(context))
    items = shown(client, "ann")
    later(context, monkeypatch, 2)
    ignored = client.get("/v1/users/ann", params={"cov": True}).json()["belief"]
    client.post("/v1/users/ann/feedback", json={"item": items[1], "value": 5.0, "event_id": "late"})
    assert history(client, "ann") == {items[0]: None, items[1]: 5.0, items[2]: None}
    later(context, monkeypatch, 60)
    assert history(client, "ann")[items[1]] == 5.0
    client.delete("/v1/users/ann/feedback/late")
    assert client.get("/v1/users/ann", params={"cov": True}).json()["belief"] == ignored


def test_two_servers_count_an_answer_once_and_one_that_was_killed_in_between_changes_nothing(
    open_service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = open_service(no_reaction_after="1s"), open_service(no_reaction_after="1s")
    clients = [TestClient(create_app(each)) for each in (one, two)]
    items = shown(clients[0], "ann")
    one.audit.flush()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(audit, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            count_ignored(one.store.database, time.time() + 2)
    for context in (one, two, one):
        later(context, monkeypatch, 2)
    for client in clients:
        state = client.get("/v1/users/ann").json()
        assert (state["revision"], [each["item"] for each in state["history"]]) == (3, items)


def test_skips_undone_reactions_and_deleted_users_are_left_alone(
    open_service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = open_service(no_reaction_after="1s")
    client = TestClient(create_app(context))
    items = shown(client, "ann")
    client.post("/v1/users/ann/feedback", json={"item": items[0], "kind": "skip"})
    client.post("/v1/users/ann/feedback", json={"item": items[1], "value": 5.0, "event_id": "undone"})
    client.delete("/v1/users/ann/feedback/undone")
    shown(client, "bob")
    context.audit.flush()
    client.delete("/v1/users/bob")
    later(context, monkeypatch, 2)
    assert history(client, "ann") == {items[0]: None, items[2]: None}  # the skip itself is listed too
    assert client.get("/v1/users/bob").json()["known"] is False


def test_without_the_setting_nothing_is_counted(open_service: OpenService, monkeypatch: pytest.MonkeyPatch) -> None:
    context = open_service()
    client = TestClient(create_app(context))
    shown(client, "ann")
    later(context, monkeypatch, 1e9)
    assert history(client, "ann") == {}


@pytest.mark.parametrize("text", ["30", "0m", "half an hour", "91d"])
def test_a_time_that_is_none_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^no_reaction_after"):
        ServiceSettings(no_reaction_after=text)


def test_the_log_of_a_user_is_read_once_however_many_answers_are_due(
    open_service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, read = open_service(no_reaction_after="1s"), list[str]()
    client = TestClient(create_app(context))
    items = {item for _ in range(5) for item in shown(client, "ann")}

    def noted(connection: sa.Connection, user_id: str) -> list[Event]:
        read.append(user_id)
        return read_events(connection, user_id)

    monkeypatch.setattr(audit, "read_events", noted)
    later(context, monkeypatch, 2)
    assert read == ["ann"]
    assert history(client, "ann") == dict.fromkeys(items)
