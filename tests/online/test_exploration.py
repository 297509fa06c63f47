"""Exploration: what is drawn, and that its propensities are the probabilities with which it is."""

from collections import Counter
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

import igcf
from igcf.errors import ConfigError
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


def test_thompson_propensities_are_estimated_with_an_error() -> None:
    """The estimate of each slate, and its error, against how often it comes."""
    session = igcf.Recommender(ensemble_model(8, 3), igcf.Thompson(), explore=0.2).session()
    n, slates, joint = 3_000, Counter[Any](), dict[Any, list[float]]()
    first = Counter[Any]()
    for _ in range(n):
        picks = session.recommend(2, draws=200)
        slate = tuple(pick.item_id for pick in picks)
        slates[slate] += 1
        first[slate[0]] += 1
        joint.setdefault(slate, []).append(float(np.prod([pick.propensity for pick in picks])))
        assert all(0 < pick.propensity <= 1 and 0 <= pick.propensity_error < 0.6 for pick in picks)
        if slate[0] == slates.most_common(1)[0][0][0]:
            own = picks[0]
    for slate, count in slates.most_common(10):
        assert np.mean(joint[slate]) == pytest.approx(count / n, abs=0.03)
    truth = first[own.item_id] / n
    assert abs(own.propensity - truth) < 4 * own.propensity_error + 0.03
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
