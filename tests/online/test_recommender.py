"""Items that come and go while users are met."""

from typing import Any

import numpy as np
import pytest

import igcf
from igcf.errors import ConfigError, DataError, ModelError, UnknownItemError
from igcf.online.exposure import MEMORY, Account
from tests.model.test_adding import genre_model

COMEDY = {"id": "funny", "categories": ["comedy"]}
HORROR = {"id": "scary", "categories": ["horror"]}
EAGER = igcf.Exposure(share=0.5, price=1.0, most=4, known=0, fit=-10.0, doubt=0.0)
NEVER = igcf.Exposure(share=0.0)


def test_an_open_session_meets_items_that_are_added() -> None:
    recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=NEVER)
    session = recommender.session()
    session.observe("i0", 5.0)
    before = session.belief
    recommender.add_items([COMEDY, HORROR])
    found = session.recommend(2, candidates=["funny", "scary"])
    assert [pick.item_id for pick in found] == ["funny", "scary"]
    np.testing.assert_array_equal(session.belief.mean, before.mean)
    assert len(session.moments()[0]) == 122


def test_what_one_user_reacts_to_a_new_item_moves_it_for_all() -> None:
    recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=NEVER)
    recommender.add_items([COMEDY])
    watcher = recommender.session()
    before = watcher.recommend(1, candidates=["funny"])[0]
    for _ in range(15):
        recommender.session().observe("funny", 5.0)
    after = watcher.recommend(1, candidates=["funny"])[0]
    assert after.mean > before.mean
    assert recommender.session().recommend(1, candidates=["funny"])[0].mean == pytest.approx(after.mean, rel=1e-5)


@pytest.mark.parametrize("n_reactions", [0, 3])
@pytest.mark.parametrize("policy", [igcf.Greedy(), igcf.Ucb(0.5)])
def test_a_session_that_follows_equals_one_that_is_opened_later(n_reactions: int, policy: igcf.Ucb) -> None:
    recommender = igcf.Recommender(genre_model(), policy, exposure=NEVER)
    recommender.add_items([COMEDY, HORROR])
    early, past = recommender.session(), [("i0", 5.0), ("i1", 1.0), ("i7", 4.0)][:n_reactions]
    for item_id, value in past:
        early.observe(item_id, value)
    early.recommend()
    for number in range(6):
        recommender.session().observe("funny" if number % 2 else "scary", 5.0)
    late = recommender.session(history=past)
    for one, other in zip(early.moments(), late.moments(), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)


def test_undo_takes_the_item_back_to_where_it_was() -> None:
    recommender = igcf.Recommender(genre_model(), exposure=NEVER)
    recommender.add_items([COMEDY])
    session = recommender.session()
    session.observe("funny", 5.0)
    assert recommender.new_items is not None
    before = recommender.new_items.model.item_vectors[-1].copy()
    other = recommender.session()
    other.observe("funny", 1.0)
    assert (recommender.new_items.model.item_vectors[-1] != before).any()
    other.undo()
    np.testing.assert_array_equal(recommender.new_items.model.item_vectors[-1], before)


def test_a_user_who_is_met_again_does_not_count_twice() -> None:
    recommender = igcf.Recommender(genre_model(), exposure=NEVER)
    recommender.add_items([COMEDY])
    for _ in range(3):
        recommender.session(user="alice").observe("funny", 5.0)
    assert recommender.new_items is not None
    assert recommender.new_items.n_reactions.tolist() == [1]


def test_what_is_known_of_new_items_stays_when_more_are_added() -> None:
    recommender = igcf.Recommender(genre_model(), exposure=NEVER)
    recommender.add_items([COMEDY])
    recommender.session().observe("funny", 5.0)
    assert recommender.new_items is not None
    before = recommender.new_items.model.item_vectors[-1].copy()
    recommender.add_items([HORROR])
    np.testing.assert_array_equal(recommender.new_items.model.item_vectors[-2], before)
    assert recommender.new_items.n_reactions.tolist() == [1, 0]


def test_a_user_belief_stays_when_the_item_it_came_from_moves() -> None:
    recommender = igcf.Recommender(genre_model(), exposure=NEVER)
    recommender.add_items([COMEDY])
    session = recommender.session()
    session.observe("funny", 5.0)
    before = session.belief
    for _ in range(5):
        recommender.session().observe("funny", 1.0)
    session.recommend()
    np.testing.assert_array_equal(session.belief.mean, before.mean)


def test_new_items_are_tried_within_their_budget() -> None:
    recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=EAGER)
    recommender.add_items([COMEDY, HORROR])
    shown: list[str] = []
    for _ in range(4):
        session = recommender.session()
        for _ in range(6):
            pick = session.recommend()[0]
            shown.append(pick.item_id)
            session.observe(pick.item_id, 1.0)
    n_tried = sum(each in ("funny", "scary") for each in shown)
    assert 0 < n_tried <= 0.5 * len(shown)
    assert recommender.new_items is not None
    assert recommender.new_items.trials.max() <= EAGER.most


def test_without_a_share_nothing_is_tried() -> None:
    recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=igcf.Exposure(share=0.0, known=0, fit=-10.0))
    recommender.add_items([COMEDY])
    recommender.session().recommend(5)
    assert recommender.new_items is not None
    assert not recommender.new_items.trials.any()


def test_trials_that_bring_nothing_end_when_the_price_is_paid() -> None:
    """The balance holds 1 % of what the others promise; every trial that fails takes what was given up for it."""
    exposure = igcf.Exposure(share=1.0, price=0.01, most=1_000, known=0, fit=-10.0, doubt=0.0)
    recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=exposure)
    recommender.add_items([COMEDY, HORROR])
    session, n_shown = recommender.session(), 60
    for _ in range(n_shown):
        pick = session.recommend(1)[0]
        session.observe(pick.item_id, 1.0 if pick.item_id in ("funny", "scary") else 5.0)
    assert recommender.new_items is not None
    assert recommender.new_items.trials.sum() < 0.05 * n_shown


def test_what_is_given_up_counts_for_more_in_a_cautious_account() -> None:
    plain, cautious = Account(0.01), Account(0.01, caution=1.5)
    for account in (plain, cautious, cautious.copy()):
        account.begin(100, expected_of_known=100.0, given_up=0.0)
        assert account.balance == pytest.approx(1.0)
    assert [sum(account.pay(0.4) for _ in range(5)) for account in (plain, cautious.copy())] == [2, 1]
    cautious.begin(100, expected_of_known=100.0, given_up=2.0)
    assert cautious.balance == pytest.approx(1.0 - 100 / MEMORY + 1.0 - 1.5 * 2.0)


def test_a_new_item_is_less_certain_than_the_others() -> None:
    recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=NEVER)
    recommender.add_items([COMEDY])
    pick = recommender.session().recommend(1, candidates=["funny"])[0]
    engine_std = float(recommender.session().moments()[1][120])
    assert pick.std > engine_std


def test_retired_items_are_in_no_answer() -> None:
    recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=EAGER)
    recommender.add_items([COMEDY])
    session = recommender.session()
    recommender.retire_items(["funny", "i3"])
    shown = {pick.item_id for pick in session.recommend(119)}
    assert not shown & {"funny", "i3"}
    recommender.add_items([HORROR])
    assert not {pick.item_id for pick in session.recommend(120)} & {"funny", "i3"}
    with pytest.raises(UnknownItemError, match="nothing"):
        recommender.retire_items(["nothing"])


def test_a_bad_batch_adds_nothing() -> None:
    recommender = igcf.Recommender(genre_model())
    batches: list[list[dict[str, Any]]] = [
        [COMEDY, {"id": "i0"}],
        [COMEDY, COMEDY],
        [COMEDY, {"id": "x", "numbers": {"year": float("inf")}}],
    ]
    for bad in batches:
        with pytest.raises((ModelError, DataError)):
            recommender.add_items(bad)
    assert recommender.model.n_items == 120
    assert recommender.new_items is None


def test_exposure_refuses_nonsense() -> None:
    with pytest.raises(ConfigError, match="share"):
        igcf.Exposure(share=1.5)
    with pytest.raises(ConfigError, match="negative"):
        igcf.Exposure(known=-1)
    with pytest.raises(ConfigError, match="caution"):
        igcf.Exposure(caution=0.0)


def test_policies_may_count_what_is_unknown_of_new_items() -> None:
    """Optimism adds it to the score of a new item, and to that of no other."""

    def scores(policy: igcf.Ucb, item_id: str) -> float:
        recommender = igcf.Recommender(genre_model(), policy, exposure=NEVER)
        recommender.add_items([COMEDY])
        return recommender.session().recommend(1, candidates=[item_id])[0].score

    for item_id, grows in (("funny", True), ("i0", False)):
        plain, counted = (scores(igcf.Ucb(1.0, item_uncertainty=each), item_id) for each in (False, True))
        assert (counted > plain + 1e-3) == grows


def test_a_user_who_is_not_known_or_does_not_fit_is_asked_to_try_nothing() -> None:
    exposure = igcf.Exposure(share=1.0, price=1.0, known=4, fit=0.5, doubt=0.0)
    for liked, n_known, is_asked in ((0, 4, True), (0, 3, False), (1, 4, False)):
        recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=exposure)
        recommender.add_items([COMEDY])
        session = recommender.session()
        for number in range(n_known):
            session.observe(f"i{2 * number + liked}", 5.0)
        assert (session.recommend(1)[0].item_id == "funny") == is_asked, (liked, n_known)


def test_answers_under_rules_try_new_items_and_keep_the_rules() -> None:
    def shown(rules: dict[str, Any]) -> list[str]:
        recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=EAGER)
        recommender.add_items([COMEDY])
        return [pick.item_id for pick in recommender.session().recommend(2, rules=igcf.Rules.parse(rules))]

    assert shown({"boost": {"horror": 5.0}})[-1] == "funny"
    assert shown({"pinned": ["i5"]}) == ["i5", "funny"]
    assert shown({"diversity": 1.0})[-1] == "funny"
    assert shown({"caps": {"*": 1}, "pinned": ["i1"]}) == ["i1", "funny"]
    assert "funny" not in shown({"caps": {"*": 1}, "pinned": ["i0"]}), "a comedy is there already"
    assert shown({"pinned": ["i0", "i1"]}) == ["i0", "i1"]
    assert "funny" not in shown({"filter": {"none": ["comedy"]}})


def test_a_trial_comes_before_the_items_that_are_kept_in_reserve() -> None:
    recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=EAGER)
    recommender.add_items([COMEDY])
    plain = recommender.session().recommend(5, candidates=[f"i{n}" for n in range(120)])
    shown = recommender.session().recommend(5, spare=3)
    assert [pick.item_id for pick in shown][1] == "funny"
    assert [pick.item_id for pick in shown][2:] == [pick.item_id for pick in plain][2:]
    assert [pick.rank for pick in shown] == [1, 2, 3, 4, 5]


def test_a_session_apart_neither_teaches_nor_tries() -> None:
    recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=EAGER)
    recommender.add_items([COMEDY])
    session = recommender.session().apart()
    assert session.recommend(1)[0].item_id != "funny"
    session.observe("funny", 5.0)
    session.undo()
    session.observe("funny", 5.0)
    assert recommender.new_items is not None
    assert recommender.new_items.n_reactions.tolist() == recommender.new_items.trials.tolist() == [0]
    assert recommender.session().recommend(2)[1].item_id == "funny"
