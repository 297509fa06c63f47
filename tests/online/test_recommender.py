"""Items that come and go while users are met."""

from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import igcf
from igcf.errors import ConfigError, DataError, ModelError, UnknownItemError
from igcf.model import Term
from igcf.model.new_items import evidence_arrays
from igcf.model.usage import Usage
from igcf.online.new_items.trials import MEMORY, Account
from igcf.training.content import fit_content
from tests.model.test_adding import genre_model
from tests.toys import ensemble_model

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


def test_a_belief_follows_the_item_that_it_came_from() -> None:
    recommender = igcf.Recommender(genre_model(), exposure=NEVER)
    recommender.add_items([COMEDY])
    session, other = recommender.session(), recommender.session([("i0", 5.0)])
    session.observe("funny", 5.0)
    before, of_other = session.belief, other.belief
    for _ in range(5):
        recommender.session().observe("funny", 1.0)
    assert (session.belief.mean != before.mean).any()
    np.testing.assert_allclose(session.belief.mean, recommender.session([("funny", 5.0)]).belief.mean, atol=1e-9)
    np.testing.assert_array_equal(other.belief.mean, of_other.mean)


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
    assert recommender._live.trials.counts.max() <= EAGER.most


def test_without_a_share_nothing_is_tried() -> None:
    recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=igcf.Exposure(share=0.0, known=0, fit=-10.0))
    recommender.add_items([COMEDY])
    recommender.session().recommend(5)
    assert recommender.new_items is not None
    assert not recommender._live.trials.counts.any()


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
    assert recommender._live.trials.counts.sum() < 0.05 * n_shown


def test_what_is_given_up_counts_for_more_in_a_cautious_account() -> None:
    plain, cautious = Account(0.01), Account(0.01, caution=1.5)
    for account in (plain, cautious):
        account.begin(100, expected_of_known=100.0, given_up=0.0)
        assert account.balance == pytest.approx(1.0)
    assert [sum(account.pay(0.4) for _ in range(5)) for account in (plain, deepcopy(cautious))] == [2, 1]
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
    session = recommender.session()
    session.contributes = False
    assert session.recommend(1)[0].item_id != "funny"
    session.observe("funny", 5.0)
    session.undo()
    session.observe("funny", 5.0)
    assert recommender.new_items is not None
    assert recommender.new_items.n_reactions.tolist() == [0]
    assert not recommender._live.trials.counts.any()
    assert recommender.session().recommend(2)[1].item_id == "funny"


def mean_of(recommender: igcf.Recommender, item_id: str) -> float:
    return recommender.session().recommend(1, candidates=[item_id])[0].mean


def test_learning_about_new_items_leaves_users_with_a_logged_record_alone() -> None:
    recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=NEVER)
    recommender.add_items([COMEDY, HORROR])
    logged = [(f"i{row}", 5.0) for row in range(0, 40, 2)]
    before = recommender.session(logged=logged).belief
    for number in range(60):
        recommender.session(user=number).observe("funny", 5.0)
    after = recommender.session(logged=logged).belief
    np.testing.assert_array_equal(before.mean, after.mean)
    np.testing.assert_array_equal(before.cov, after.cov)


def test_what_was_learned_about_new_items_is_saved_with_the_model(tmp_path: Path) -> None:
    recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=NEVER)
    recommender.add_items([COMEDY, HORROR])
    for number in range(30):
        recommender.session(user=number).observe("funny", 5.0)
    recommender.model.save(tmp_path / "m")
    again = igcf.Recommender(igcf.Model.load(tmp_path / "m"), igcf.Greedy(), exposure=NEVER)
    for one in (recommender, again):
        one.session(user="one more").observe("funny", 5.0)
    assert mean_of(again, "funny") == pytest.approx(mean_of(recommender, "funny"), abs=1e-6)
    assert again.new_items is not None
    assert again.new_items.n_reactions.tolist() == [31, 0]


def test_item_vectors_follow_new_items() -> None:
    recommender = igcf.Recommender(genre_model(), exposure=NEVER)
    recommender.add_items([COMEDY])
    before = recommender.model.item_vectors.copy()
    recommender.session().observe("funny", 5.0)
    after = recommender.model.item_vectors
    np.testing.assert_array_equal(before[:-1], after[:-1])
    assert (before[-1] != after[-1]).any()


def test_a_snapshot_has_as_many_rows_as_its_catalogue() -> None:
    """Every state that a session could see while items are added is consistent: there is only one assignment."""
    recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=NEVER)
    seen = []
    live = recommender._live
    original = type(live)._with_items

    def watched(self: Any, items: Any) -> Any:
        seen.append(recommender.session().recommend(1))  # a session in the middle of a change
        return original(self, items)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(live), "_with_items", watched)
        recommender.add_items([COMEDY])
    assert len(seen) == 1
    assert len(recommender.model.catalogue) == recommender.model.n_items == 121


def test_failures_never_raise_a_new_item() -> None:
    recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=NEVER)
    recommender.add_items([COMEDY])
    means = [mean_of(recommender, "funny")]
    for number in range(30):
        recommender.session([("i0", 5.0), ("i1", 1.0)], user=number).observe("funny", 1.0)
        means.append(mean_of(recommender, "funny"))
    assert (np.diff(means) <= 1e-7).all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("objective", ["hit", "liking"])
def test_failures_never_raise_a_new_item_above_what_the_successes_alone_say(objective: Any, seed: int) -> None:
    model = ensemble_model(60, seed=seed)
    terms = model.terms if objective == "hit" else [Term(0.05, (0,)), Term(0.05, (2, 3)), Term(0.9, (3,))]
    categories = [("comedy",) if row % 2 else ("horror",) for row in range(60)]
    model = model.changed(categories=categories, terms=terms, usage=Usage(objective))
    model, likers = model.changed(content=fit_content(model)), {3, 8, 9}

    def means(users: Iterable[int]) -> list[float]:
        recommender, found = igcf.Recommender(model, igcf.Greedy(), exposure=NEVER), []
        recommender.add_items([COMEDY])
        for user in users:
            past = [(f"item-{user * 7 % 60}", 5.0 if user % 2 else 1.0)]
            recommender.session(past, user=user).observe("funny", 5.0 if user in likers else 1.0)
            found.append(mean_of(recommender, "funny"))
        return found

    alone = means(sorted(likers))
    everybody = means([*sorted(likers), *(user for user in range(25) if user not in likers)])
    assert everybody[:3] == pytest.approx(alone, abs=1e-6)
    assert max(everybody[2:]) <= alone[-1] + 1e-6


def test_one_user_is_one_voice_and_those_who_count_are_drawn_fairly() -> None:
    past = [(f"i{row}", 5.0) for row in range(10)]

    def reached(order: list[int]) -> float:
        exposure = igcf.Exposure(share=0.0, settled=20)
        recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=exposure)
        recommender.add_items([COMEDY])
        for number in order:
            recommender.session(past, user=number).observe("funny", 5.0 if number < 25 else 1.0)
        return mean_of(recommender, "funny")

    first, last = reached([*range(60)]), reached([*reversed(range(60))])
    assert first == pytest.approx(last, abs=1e-6)
    recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=NEVER)
    recommender.add_items([COMEDY])
    loud = recommender.session(past, user="loud")
    loud.observe("funny", 5.0)
    once = mean_of(recommender, "funny")
    for _ in range(20):
        loud.observe("funny", 5.0)
    assert mean_of(recommender, "funny") == pytest.approx(once, abs=0.02)


def test_what_is_kept_of_a_new_item_does_not_grow_with_its_reactions() -> None:
    def kept(n_users: int) -> int:
        recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=igcf.Exposure(share=0.0, settled=20))
        recommender.add_items([COMEDY])
        for number in range(n_users):
            recommender.session([("i0", 5.0)], user=number).observe("funny", 5.0)
        return sum(array.nbytes for array in evidence_arrays(recommender.model.evidence).values())

    assert kept(80) <= 1.2 * kept(40)
    assert kept(10) - kept(9) < 1_000  # no covariance per reaction


def test_a_user_without_a_history_weighs_less() -> None:
    def after(past: list[tuple[str, float]]) -> float:
        recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=NEVER)
        recommender.add_items([COMEDY])
        evidence = recommender._live.contribution(120, recommender.session(past).belief, 5.0, len(past))
        return evidence.weight

    assert after([]) == pytest.approx(0.25)
    assert after([(f"i{row}", 5.0) for row in range(10)]) == 1.0


def test_a_settled_item_keeps_no_single_reactions() -> None:
    exposure = igcf.Exposure(share=0.0, settled=3)
    recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=exposure)
    recommender.add_items([COMEDY])
    for number in range(200):
        recommender.session(user=number).observe("funny", 5.0)
    assert recommender.new_items is not None
    [evidence] = recommender.new_items.evidence
    assert evidence.settled is not None
    assert not evidence.contributions
    before = mean_of(recommender, "funny")
    recommender.session(user="late").observe("funny", 1.0)
    assert mean_of(recommender, "funny") == before


def test_several_sessions_at_once_and_similar_items() -> None:
    recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=NEVER)
    sessions = [recommender.session([("i0", 5.0)]), recommender.session()]
    answers = recommender.recommend(sessions, 3)
    assert [[pick.item_id for pick in one] for one in answers] == [
        [pick.item_id for pick in session.recommend(3)] for session in sessions
    ]
    found = recommender.similar_items("i0", 5)
    assert len(found) == 5
    assert "i0" not in [each.item_id for each in found]
    assert [each.similarity for each in found] == sorted((each.similarity for each in found), reverse=True)
    with pytest.raises(ConfigError, match="expected sessions"):
        recommender.recommend(["alice"], 1)  # type: ignore[list-item]


def test_retired_items_come_back() -> None:
    recommender = igcf.Recommender(genre_model(), igcf.Greedy(), exposure=NEVER)
    best = recommender.session().recommend()[0].item_id
    recommender.retire_items([best])
    assert recommender.session().recommend()[0].item_id != best
    recommender.restore_items([best])
    assert recommender.session().recommend()[0].item_id == best


def test_a_session_is_saved_as_evidence(tmp_path: Path) -> None:
    recommender = igcf.Recommender(genre_model(), igcf.Greedy())
    session = recommender.session([("i0", 5.0)], logged=[("i3", 4.0), ("i4", 1.0)], user="alice")
    session.observe("i5", None)
    session.observe("i3", 1.0)
    session.save(tmp_path / "alice.json")
    again = recommender.load_session(tmp_path / "alice.json")
    assert again.history == session.history == [("i0", 5.0), ("i5", None), ("i3", 1.0)]
    assert again.logged == session.logged == [("i4", 1.0)]
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(DataError, match="not a saved session"):
        recommender.load_session(tmp_path / "other.json")


def test_a_saved_session_keeps_the_weight_of_a_record_whose_reactions_were_replaced(tmp_path: Path) -> None:
    recommender = igcf.Recommender(ensemble_model(), igcf.Greedy())
    session = recommender.session([("item-1", 1.0)], logged=[("item-1", 5.0), ("item-2", 4.0), ("item-3", 5.0)])
    session.save(tmp_path / "ann.json")
    again = recommender.load_session(tmp_path / "ann.json")
    assert again.logged == session.logged == [("item-2", 4.0), ("item-3", 5.0)]
    np.testing.assert_array_equal(again.moments(), session.moments())


def test_a_new_reaction_replaces_the_one_before_and_undo_brings_it_back() -> None:
    recommender = igcf.Recommender(genre_model(), igcf.Greedy())
    session = recommender.session(logged=[("i3", 4.0), ("i4", 1.0)])
    for item_id, value in (("i0", 5.0), ("i1", 2.0), ("i0", 1.0)):
        session.observe(item_id, value)
    same = recommender.session([("i1", 2.0), ("i0", 1.0)], logged=[("i3", 4.0), ("i4", 1.0)])
    np.testing.assert_allclose(session.belief.mean, same.belief.mean, atol=1e-9)
    assert session.undo() == "i0"
    assert session.history == [("i0", 5.0), ("i1", 2.0)]
    assert len(session.explain("i0").contributions) == 2


def test_a_negative_reserve_is_refused_and_the_mask_is_a_copy() -> None:
    session = igcf.Recommender(genre_model(), igcf.Greedy()).session()
    with pytest.raises(ConfigError, match="spare must be"):
        session.recommend(3, spare=-2)
    best = session.recommend()[0].item_id
    session.available()[:] = False
    assert session.recommend()[0].item_id == best
