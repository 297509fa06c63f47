"""The path of a reaction: counted once, and visible when it is committed, not before."""

from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.online import Recommender
from igcf.service.context import ServiceContext
from igcf.service.models.requests import Feedback, RecommendationRequest
from igcf.service.serving.recommending import recommend
from igcf.service.store import log as log_module
from tests.service.conftest import OpenService, react


def tell(context: ServiceContext, item: str, value: float | None = 5.0) -> None:
    react(context, "ann", Feedback(item=item, value=value))


def shown(context: ServiceContext) -> tuple[int, list[tuple[str, float]]]:
    answer = recommend(context, "ann", RecommendationRequest(k=5))
    return answer.revision, [(item.item, item.mean) for item in answer.items]


def expected(context: ServiceContext, *history: tuple[str, float | None]) -> list[str]:
    session = Recommender(context.current_model.served.model).session(history)
    return [pick.item_id for pick in session.recommend(5)]


def nothing(*_: Any) -> None:
    raise AssertionError("the user was read from the store again")


def test_a_session_in_memory_hears_of_what_is_committed_and_needs_no_store(
    context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(context, "item-1")
    shown(context)  # from now on in memory
    served = context.current_model.served
    fresh = Recommender(served.model).session([("item-1", 5.0)])
    monkeypatch.setattr("igcf.service.serving.users.load_user", nothing)
    monkeypatch.setattr(context.store, "events", nothing)
    for number in range(2, 30):
        tell(context, f"item-{number}", float(number % 5 + 1))
        fresh.observe(f"item-{number}", float(number % 5 + 1))
        if number % 5 == 0:  # several may be learned at a time
            with context.users.open(served, "ann") as user:
                assert user.revision == number
                np.testing.assert_allclose(user.session.belief.mean, fresh.belief.mean, atol=1e-12)
                np.testing.assert_allclose(user.session.belief.cov, fresh.belief.cov, atol=1e-12)


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


def test_a_transaction_that_is_tried_again_counts_once(
    context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(context, "item-1")
    shown(context)
    real, calls = log_module.append, []

    def once_in_vain(*args: Any, **options: Any) -> Any:
        found = real(*args, **options)
        calls.append(args)
        if len(calls) == 1:
            raise sa.exc.IntegrityError("another server was faster", None, Exception())
        return found

    monkeypatch.setattr("igcf.service.store.log.append", once_in_vain)
    tell(context, "item-2", 1.0)
    assert len(calls) == 2
    revision, found = shown(context)
    assert revision == 2
    assert [item for item, _ in found] == expected(context, ("item-1", 5.0), ("item-2", 1.0))


def test_an_answer_while_a_reaction_is_stored_knows_nothing_of_it(
    context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(context, "item-1")
    before = shown(context)
    real, during = log_module.append, []

    def slowly(*args: Any, **options: Any) -> Any:
        found = real(*args, **options)
        during.append(shown(context))  # neither waits for the commit nor foresees it
        return found

    monkeypatch.setattr("igcf.service.store.log.append", slowly)
    tell(context, "item-2", 1.0)
    assert during == [before]
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
