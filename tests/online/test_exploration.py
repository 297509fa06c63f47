"""Exploration: what is drawn, and that its propensities are the probabilities with which it is."""

from collections import Counter
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

import igcf
from igcf.errors import ConfigError
from igcf.experiments.off_policy import evaluate
from igcf.online.candidates import CandidateLog, LoggedAnswer
from igcf.online.exploration import AMONG, Odds, slot_chances
from tests.model.test_adding import genre_model
from tests.toys import ensemble_model, random_model, two_channel_model

N = 4_000
RULES = [
    None,
    {"filter": {"none": ["a"]}},
    {"boost": {"a": 0.3}},
    {"caps": {"a": 1}},
    {"pinned": ["item-3"], "caps": {"*": 2}},
    {"diversity": 0.5},
]


def model_with_categories(n_items: int = 14) -> igcf.Model:
    return two_channel_model(n_items, 3).changed(categories=[("a",) if row % 3 else ("b",) for row in range(n_items)])


def answers(session: igcf.Session, k: int, **asked: object) -> list[list[igcf.online.Recommendation]]:
    return [session.recommend(k, **asked) for _ in range(N)]  # type: ignore[arg-type]


def assert_frequencies(counts: Counter[Any], chances: dict[Any, float], n: int) -> None:
    """Every count lies within 4.5 standard deviations of what its probability says."""
    for each, count in counts.items():
        p = chances[each]
        assert abs(count - n * p) <= 4.5 * np.sqrt(n * p * (1 - p)) + 1e-9, (each, count, n * p)


@pytest.mark.parametrize("share", [-0.1, 1.01, np.nan, np.inf, "0.1", True])
def test_a_share_out_of_range_is_refused_in_one_sentence(share: float) -> None:
    with pytest.raises(ConfigError, match=r"explore is .*; expected a number from 0 to 1"):
        igcf.Recommender(random_model(), explore=share)
    with pytest.raises(ConfigError, match="explore is"):
        igcf.Recommender(random_model()).session().recommend(explore=share)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("policy", [igcf.Ucb(0.5), igcf.Greedy(), igcf.Thompson()])
def test_no_exploration_changes_nothing(rules: dict[str, object] | None, policy: igcf.online.Policy) -> None:
    parsed = None if rules is None else igcf.Rules.parse(rules)
    one, other = (igcf.Recommender(model_with_categories(), policy, explore=share) for share in (0.0, 0.5))
    without, turned_off = one.session(), other.session()
    for _ in range(5):
        asked, same = without.recommend(3, rules=parsed), turned_off.recommend(3, rules=parsed, explore=0.0)
        assert [pick[:9] for pick in asked] == [pick[:9] for pick in same]
        is_sampled = policy.propensity == "sampled"
        assert [pick.propensity for pick in asked] == pytest.approx([np.nan if is_sampled else 1.0] * 3, nan_ok=True)


@pytest.mark.parametrize("rules", RULES)
def test_slates_come_as_often_as_their_propensities_say(rules: dict[str, object] | None) -> None:
    parsed = None if rules is None else igcf.Rules.parse(rules)
    session = igcf.Recommender(model_with_categories(), igcf.Ucb(0.5), explore=0.4).session()
    slates, joint = Counter[Any](), {}
    for picks in answers(session, 2, rules=parsed):
        slate = tuple(pick.item_id for pick in picks)
        slates[slate] += 1
        joint[slate] = float(np.prod([pick.propensity for pick in picks]))
        assert len(set(slate)) == 2
    assert len(slates) >= 10
    assert_frequencies(slates, joint, N)
    assert sum(joint.values()) == pytest.approx(1.0, abs=0.05)  # what never came is rare


def test_items_stand_in_a_slot_as_often_as_the_slot_propensity_says() -> None:
    session = igcf.Recommender(model_with_categories(), explore=0.5).session()
    found, chances = Counter[Any](), {}
    for picks in answers(session, 3):
        for pick in picks:
            found[pick.item_id, pick.rank] += 1
            chances[pick.item_id, pick.rank] = pick.slot_propensity
    assert_frequencies(found, chances, N)


@pytest.mark.parametrize("n_items", [3, 6, 13])
def test_slot_chances_are_sums_over_all_slates(n_items: int) -> None:
    share, k = 0.3, 3
    expected = np.zeros((n_items, k))
    for slate in permutations(range(1, n_items + 1), k):
        left, p = list(range(1, n_items + 1)), 1.0
        for rank in slate:
            n, place = min(AMONG, len(left)), left.index(rank)
            p *= share / n * (place < n) + (1 - share) * (place == 0)
            left.remove(rank)
        if p:
            assert np.prod(Odds.of_ranks(np.array([slate]), n_items, share).propensities) == pytest.approx(p)
        for slot, rank in enumerate(slate):
            expected[rank - 1, slot] += p
    assert expected.sum(axis=0) == pytest.approx(np.ones(k))
    for ranks in product(range(1, n_items + 1), repeat=k):
        found = slot_chances(np.array([ranks]), n_items, share)[0]
        assert found == pytest.approx([expected[rank - 1, slot] for slot, rank in enumerate(ranks)])


@pytest.mark.parametrize(("n_items", "share"), [(60, 0.0), (8, 0.2)])
def test_a_sampled_answer_comes_as_often_as_stated_and_the_chances_add_up_to_one(n_items: int, share: float) -> None:
    session = igcf.Recommender(ensemble_model(n_items, 3), igcf.Thompson(), explore=share).session()
    slates, joint, firsts, slots = Counter[Any](), dict[Any, float](), dict[str, float](), dict[Any, float]()
    found = Counter[Any]()
    for _ in range(N):
        picks = session.recommend(2, draws=50)
        slate = tuple(pick.item_id for pick in picks)
        slates[slate] += 1
        stated = float(np.prod([pick.propensity for pick in picks]))
        assert stated == pytest.approx(joint.setdefault(slate, stated))  # always the same for the same belief
        firsts[slate[0]] = picks[0].propensity
        for pick in picks:
            found[pick.item_id, pick.rank] += 1
            slots[pick.item_id, pick.rank] = pick.slot_propensity
        assert all(0 < pick.propensity_error < 0.3 for pick in picks)
    assert_frequencies(slates, joint, N)
    assert_frequencies(found, slots, N)
    assert sum(firsts.values()) == pytest.approx(1.0, abs=1e-9 if share == 0 else 0.02)  # what never came is rare
    assert sum(joint.values()) == pytest.approx(1.0, abs=0.05)


def test_the_error_of_a_sampled_propensity_is_that_of_so_many_draws() -> None:
    """Over users, what is stated scatters around the probability under infinitely many draws as the error says."""
    recommender = igcf.Recommender(ensemble_model(8, 3), igcf.Thompson())
    n, first, stated = 600, Counter[str](), list[tuple[str, float, float]]()
    for user in range(n):
        session = recommender.session(user=user)
        first[session.recommend()[0].item_id] += 1
        (pick,) = session.recommend(draws=100)
        stated.append((pick.item_id, 1 / pick.propensity, pick.propensity_error))
    assert {item for item, _, _ in stated} <= set(first)
    for item, count in first.most_common(3):
        weights = [weight for own, weight, _ in stated if own == item]
        assert sum(weights) / n == pytest.approx(1.0, abs=5 / np.sqrt(count))  # inverse propensities are unbiased
        z = [(1 / weight - count / n) / error for own, weight, error in stated if own == item]
        assert 0.6 < np.std(z) < 1.6
        assert np.mean(np.abs(z) < 2) > 0.8


def test_a_sampled_log_tells_what_another_policy_would_achieve() -> None:
    """Inverse propensities and the doubly robust estimate hold the true value of the best guess."""
    model, rng = ensemble_model(8, 3), np.random.default_rng(0)
    recommender, candidate = igcf.Recommender(model, igcf.Thompson()), igcf.Recommender(model, igcf.Greedy())
    log, chance = CandidateLog(model, igcf.Greedy()), rng.uniform(0.1, 0.9, size=8)
    for user in range(1_500):
        pick = recommender.session(user=user).recommend(draws=100)[0]
        reward = float(rng.random() < chance[model.item_row(pick.item_id)])
        own = [pick.propensity], [pick.slot_propensity], [reward]
        assert log.add(candidate.session(), LoggedAnswer(str(user), [pick.item_id], *own))
    found = evaluate(log.slates())
    truth = chance[model.item_row(candidate.session().recommend()[0].item_id)]
    assert found.refusal is None
    assert abs(found.diagnostics[0].missing) < 4 * found.diagnostics[0].missing_error
    for each in found.estimates:
        assert abs(each.value - truth) < 1.5 * (each.high - each.value)


def test_propensities_of_sampled_answers_need_draws_and_rules_that_only_filter() -> None:
    session = igcf.Recommender(ensemble_model(8, 3), igcf.Thompson()).session()
    assert np.isnan(session.recommend(2)[0].propensity)
    assert np.isnan(session.recommend(2, draws=50, rules=igcf.Rules.parse({"diversity": 0.5}))[0].propensity)


def test_the_reserve_is_neither_drawn_nor_has_a_propensity() -> None:
    session = igcf.Recommender(model_with_categories(), igcf.Greedy(), explore=1.0).session()
    best = [pick.item_id for pick in session.recommend(14, explore=0.0)]
    for _ in range(20):
        picks = session.recommend(5, spare=3)
        left = [item for item in best if item not in {pick.item_id for pick in picks[:2]}]
        assert [pick.item_id for pick in picks[2:]] == left[:3]
        assert [np.isnan(pick.propensity) for pick in picks] == [False, False, True, True, True]
        assert picks[0].propensity == pytest.approx(1 / AMONG)


def test_exploration_keeps_to_candidates_exclusions_and_what_was_seen() -> None:
    session = igcf.Recommender(model_with_categories(), explore=1.0).session([("item-0", 5.0)])
    candidates = [f"item-{row}" for row in range(6)]
    for _ in range(50):
        picks = session.recommend(4, candidates=candidates, exclude=["item-1"])
        assert {pick.item_id for pick in picks} == {"item-2", "item-3", "item-4", "item-5"}
        assert picks[0].propensity == 0.25
        assert picks[3].propensity == 1.0


def test_caps_hold_whatever_is_drawn_and_leave_as_many_items_as_before() -> None:
    """Items 0 to 3 have both capped labels: drawing two of them uses up what the third slot needs."""
    categories = [("a", "b")] * 4 + [("a",), ("b",), ("c",), ("c",)]
    model = two_channel_model(8, 3).changed(categories=categories)
    session = igcf.Recommender(model, igcf.Greedy(), explore=1.0).session()
    rules = igcf.Rules.parse({"caps": {"a": 1, "b": 1, "c": 1}, "filter": {"none": []}})
    most = max(n for n in (1, 2, 3) if _can(session, n, rules))
    is_known = set()
    for _ in range(200):
        picks = session.recommend(most, rules=rules)
        own = [categories[model.item_row(pick.item_id)] for pick in picks]
        assert max(Counter(name for names in own for name in names).values()) == 1
        is_known.add(bool(np.isfinite(picks[0].propensity)))
    assert True in is_known


def _can(session: igcf.Session, k: int, rules: igcf.Rules) -> bool:
    try:
        return bool(session.recommend(k, rules=rules, explore=0.0))
    except igcf.errors.NoItemsLeftError:
        return False


@pytest.mark.parametrize("capped", [False, True])
def test_a_trial_stands_where_it_would_without_exploration_and_is_certain(capped: bool) -> None:
    exposure = igcf.Exposure(share=1.0, price=1.0, most=1_000, known=0, fit=-10.0, doubt=0.0)
    recommender = igcf.Recommender(genre_model(), igcf.Greedy(), explore=0.5, exposure=exposure)
    recommender.add_items([{"id": "new", "categories": ["horror"]}])
    session = recommender.session([("i0", 5.0)])
    rules = igcf.Rules.parse({"caps": {"horror": 1}}) if capped else None
    others, tried = set(), 0
    for _ in range(100):
        picks = session.recommend(4, rules=rules, spare=1)
        assert len({pick.item_id for pick in picks}) == 4
        horrors = sum(
            "horror" in recommender.catalogue.item(recommender.model.item_row(p.item_id)).categories for p in picks
        )
        assert horrors <= (1 if capped else 4)
        if picks[2].item_id == "new" and picks[2].propensity == 1.0:
            tried += 1
            others.add(picks[0].item_id)
            assert all(0 < pick.propensity < 1 for pick in picks[:2])
    assert tried > 50
    assert len(others) > 5
