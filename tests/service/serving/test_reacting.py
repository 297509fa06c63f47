"""The path of a reaction: learned once, and visible when it is committed, not before."""

from typing import Any

import numpy as np
import pytest

from igcf.errors import StoreError
from igcf.online import Recommender
from igcf.service.context import ServiceContext
from igcf.service.http.requests import Feedback, RecommendAsk
from igcf.service.serving.learning import learn
from igcf.service.serving.reacting import checked_event, react
from igcf.service.serving.recommending import recommend
from igcf.service.store.belief_bytes import decode_belief
from tests.service.conftest import OpenService


def tell(context: ServiceContext, item: str, value: float | None = 5.0) -> None:
    react(context, "ann", Feedback(item=item, value=value))


def shown(context: ServiceContext) -> tuple[int, list[tuple[str, float]]]:
    answer = recommend(context, "ann", RecommendAsk(k=5))
    return answer.revision, [(item.item, item.mean) for item in answer.items]


def expected(context: ServiceContext, *history: tuple[str, float | None]) -> list[str]:
    session = Recommender(context.current_model.served.model).session(history)
    return [pick.item_id for pick in session.recommend(5)]


def nothing(*_: Any) -> None:
    raise AssertionError("the belief was computed a second time")


def test_the_belief_in_memory_is_the_one_that_was_stored(
    context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(context, "item-1")
    shown(context)  # from now on in memory
    served = context.current_model.served
    monkeypatch.setattr("igcf.service.serving.learning.learned", nothing)
    monkeypatch.setattr("igcf.service.serving.users.load_session", nothing)
    for number in range(2, 30):
        tell(context, f"item-{number}", float(number % 5 + 1))
        stored = decode_belief(context.store.user("ann").belief or b"", served.model.dim)
        assert stored is not None
        with context.users.open(served, "ann") as user:
            assert user.revision == number
            np.testing.assert_array_equal(user.session.belief.mean, stored.mean)
            np.testing.assert_array_equal(np.triu(user.session.belief.cov), np.triu(stored.cov))


def refuse_writes(context: ServiceContext, *, yes: bool) -> None:
    """Let the last statement of a reaction fail, as a full disk would."""
    if context.store.database.is_postgres:
        make = (
            "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'disk full'; END $$ "
            "LANGUAGE plpgsql; CREATE TRIGGER full_disk BEFORE UPDATE ON users FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
        drop = "DROP TRIGGER full_disk ON users"
    else:
        make = "CREATE TRIGGER full_disk BEFORE UPDATE ON users BEGIN SELECT RAISE(ABORT, 'disk full'); END"
        drop = "DROP TRIGGER full_disk"
    context.store.database.write(lambda connection: connection.exec_driver_sql(make if yes else drop))


def test_what_is_not_committed_is_not_seen(context: ServiceContext) -> None:
    tell(context, "item-1")
    before = shown(context)
    refuse_writes(context, yes=True)
    with pytest.raises(StoreError, match="disk full"):
        tell(context, "item-2", 1.0)
    assert shown(context) == before
    assert [event.item_id for event in context.store.events("ann")] == ["item-1"]
    refuse_writes(context, yes=False)
    tell(context, "item-3", 2.0)
    revision, found = shown(context)
    assert revision == 2
    assert [item for item, _ in found] == expected(context, ("item-1", 5.0), ("item-3", 2.0))


def test_a_transaction_that_is_tried_again_learns_once(context: ServiceContext) -> None:
    tell(context, "item-1")
    shown(context)
    served = context.current_model.served
    event = checked_event(served, Feedback(item="item-2", value=1.0))
    with context.users.hold(served, "ann") as held:
        row = context.store.user("ann")
        first = learn(served, held, row, list, [event])
        assert first.session is not None
        again = learn(served, held, row, list, [event])  # the first attempt was rolled back
        assert again.session is None
        assert first.content is not None
        assert again.content is not None
        np.testing.assert_allclose(np.frombuffer(first.content), np.frombuffer(again.content), atol=1e-12)
        appended = context.store.append("ann", [event], lambda *_: again)
        held.commit(appended)
    revision, found = shown(context)
    assert revision == 2
    assert [item for item, _ in found] == expected(context, ("item-1", 5.0), ("item-2", 1.0))


def test_an_answer_does_not_wait_for_a_reaction_that_is_being_stored(context: ServiceContext) -> None:
    tell(context, "item-1")
    before = shown(context)
    served = context.current_model.served
    with context.users.hold(served, "ann") as held:
        event = checked_event(served, Feedback(item="item-2", value=1.0))
        learned = learn(served, held, context.store.user("ann"), list, [event])
        during = shown(context)
        assert during[0] == 1
        assert [item for item, _ in during[1]] == [item for item, _ in before[1]]
        held.commit(context.store.append("ann", [event], lambda *_: learned))
    assert shown(context)[0] == 2
    assert [item for item, _ in shown(context)[1]] == expected(context, ("item-1", 5.0), ("item-2", 1.0))


def test_a_session_that_is_behind_another_server_is_kept_and_catches_up(open_service: OpenService) -> None:
    one, two = open_service(), open_service()
    tell(one, "item-1")
    shown(one)
    tell(two, "item-2", 1.0)
    tell(one, "item-3", 2.0)  # the session of `one` has not seen item-2
    history = ("item-1", 5.0), ("item-2", 1.0), ("item-3", 2.0)
    for context in (one, two):
        revision, found = shown(context)
        assert revision == 3
        assert [item for item, _ in found] == expected(context, *history)


def test_a_duplicate_leaves_memory_and_store_as_they_were(context: ServiceContext) -> None:
    reaction = Feedback(item="item-1", value=5.0, event_id="e")
    assert react(context, "ann", reaction).duplicate is False
    before = shown(context)
    receipt = react(context, "ann", reaction)
    assert (receipt.duplicate, receipt.revision) == (True, 1)
    assert shown(context) == before
