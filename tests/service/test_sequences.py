"""Sequences of calls that random ones may miss, with the servers and the simple model of the stateful test."""

from collections.abc import Iterator

import pytest

from tests.service.test_stateful import NEW, Service


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    service.begin()
    yield service
    service.teardown()


def react(service: Service, user: str, item: str, event: str, value: float = 5.0, kind: str | None = None) -> None:
    service.react(0, user, item, event, value, kind, None)
    service.the_service_knows_what_was_acknowledged()


def test_a_user_who_came_back_is_deleted_again(service: Service) -> None:
    for _ in range(2):
        service.set_attributes(0, "ann", {"gender": "f"})
        react(service, "ann", "item-1", "e1")
        service.delete(1, 0)
        service.the_service_knows_what_was_acknowledged()


def test_a_merge_keeps_skips_and_the_users_own_attributes(service: Service) -> None:
    react(service, "ann", "item-1", "e1", 1.0)
    react(service, "visitor", "item-2", "e1", kind="skip")
    react(service, "visitor", "item-3", "e2")
    service.merge(1, "ann", {"gender": "f"}, {"gender": "x", "country": "de"})
    service.the_service_knows_what_was_acknowledged()
    assert [each.evidence for each in service.user("ann").in_force()] == ["shown", "skip", "shown"]
    assert service.user("ann").attributes == {"gender": "f", "country": "de"}
    service.undo(0, [each.event for each in service.user("ann").log].index("visitor-e2"))
    service.the_service_knows_what_was_acknowledged()


def test_the_later_reaction_counts_although_the_clock_was_set_back(service: Service) -> None:
    react(service, "ann", "item-1", "e1", 1.0)
    service.the_clock_is_set_back(600)
    react(service, "ann", "item-1", "e2", 5.0)
    assert [each.value for each in service.user("ann").in_force()] == [5.0]


def test_an_item_that_was_reacted_to_and_taken_back_is_not_ignored(service: Service) -> None:
    answer = service.clients[0].post("/v1/users/ann/recommendations", json={"k": 1}).json()
    service.now += 1.0
    service.react(0, "ann", answer["items"][0]["item"], "e1", 5.0, None, None)
    service.undo(0, 0)
    service.an_hour_passes(1)
    service.the_service_knows_what_was_acknowledged()


def test_what_is_known_of_a_new_item_survives_a_swap_and_a_restart(service: Service) -> None:
    service.describe(0, NEW, "one", hidden=False)
    for number, user in enumerate(("ann", "bob")):
        react(service, user, "item-1", "e1")
        react(service, user, NEW, "e2", 1.0 + 4.0 * number)
    service.swap(0)
    service.the_service_knows_what_was_acknowledged()
    before = service.clients[0].get(f"/v1/items/{NEW}").json()["new"]
    service.restart()
    service.the_service_knows_what_was_acknowledged()
    assert service.clients[0].get(f"/v1/items/{NEW}").json()["new"]["expected"] == pytest.approx(before["expected"])
    service.swap(1)
    service.the_service_knows_what_was_acknowledged()
