"""Rules about answers: what they say holds in every answer, and what they do not say changes nothing."""

import contextlib
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import igcf
from igcf.errors import ConfigError, NoItemsLeftError, RuleError, UnknownItemError
from igcf.item import Item
from igcf.model import Model
from igcf.model.catalogue import Catalogue
from igcf.online import Greedy, InfoUcb, Policy, Recommendation, Recommender, Session, Thompson, Ucb
from tests.toys import ensemble_model, random_model, two_channel_model
from tools.rule_requests import CATEGORIES, described, may_be_shown, random_rules, violations

POLICIES: list[Policy] = [Ucb(0.5), Ucb(0.0), Greedy(), InfoUcb(), Thompson()]
WORLDS = [described(random_model()), described(ensemble_model(n_items=40))]


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(POLICIES), st.integers(1, 6), st.sampled_from([0, 1]))
def test_no_answer_breaks_a_rule(seed: int, policy: Policy, k: int, world: int) -> None:
    recommender, rng = WORLDS[world], np.random.default_rng(seed)
    rules = random_rules(rng)
    seen = ["item-3", "item-7"] if rng.random() < 0.5 else []
    session = recommender.session([(item, 1.0) for item in seen], rng=np.random.default_rng(0))
    candidates = [f"item-{row}" for row in rng.integers(0, 40, 25)] if rng.random() < 0.3 else None
    try:
        picks = session.recommend(k, ["item-5"], candidates, policy, igcf.Rules.parse(rules))
    except NoItemsLeftError:
        return
    ids = [pick.item_id for pick in picks]
    assert len(ids) == k
    assert not {*seen, "item-5"} & set(ids)
    assert candidates is None or set(ids) <= set(candidates)
    assert violations(rules, [recommender.catalogue.item(recommender.model.item_row(each)) for each in ids]) == []
    assert [pick.rank for pick in picks] == list(range(1, k + 1))


def all_items(k: int = 10, *, rules: dict[str, Any], policy: Policy | None = None) -> tuple[Session, list[str]]:
    session = WORLDS[0].session([("item-1", 1.0)], rng=np.random.default_rng(0))
    picks = session.recommend(k, policy=policy, rules=igcf.Rules.parse(rules))
    return session, [pick.item_id for pick in picks]


@pytest.mark.parametrize("policy", [Ucb(0.5), Greedy(), InfoUcb()])
def test_a_boost_is_added_to_the_score_of_every_item_that_has_the_label(policy: Policy) -> None:
    boost = {"Drama": 0.7, "new": -0.4}
    session, ids = all_items(rules={"boost": boost}, policy=policy)
    left = int(session.available().sum())
    plain = {pick.item_id: pick.score for pick in session.recommend(left, policy=policy)}
    own = {item: WORLDS[0].catalogue.labels_of(WORLDS[0].model.item_row(item)) for item in plain}
    expected = {item: score + sum(boost.get(label, 0.0) for label in own[item]) for item, score in plain.items()}
    assert ids == sorted(expected, key=lambda item: -expected[item])[:10]


LARGER = [described(model) for model in (random_model(300, 6), two_channel_model(333, 3), ensemble_model(301, 4))]


def taken_in_order(rules: igcf.Rules, ranked: list[Recommendation], k: int, catalogue: Catalogue) -> list[str]:
    """Choose under boosts, caps and pinned items from what a session ranks without them, by the words of the rules."""
    boosts, caps = dict(rules.boost), dict(rules.caps)
    labels = {each.item_id: catalogue.labels_of(catalogue.row_of[each.item_id]) for each in ranked}
    worth = {each.item_id: each.score + sum(boosts.get(name, 0) for name in labels[each.item_id]) for each in ranked}
    pinned = [item for item in rules.pinned if item in worth]
    taken: list[str] = []
    for item in dict.fromkeys([*pinned, *sorted(worth, key=lambda item: -worth[item])]):
        own = [*labels[item]]
        most = {name: caps.get(name, caps.get("*", k) if name in CATEGORIES else k) for name in own}
        if len(taken) < k and all(sum(name in labels[other] for other in taken) < most[name] for name in own):
            taken.append(item)
    return taken


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(LARGER), st.sampled_from([1, 5, 10, 40]), st.sampled_from([0, 2, 12]))
def test_an_answer_under_rules_is_what_they_leave_of_the_ranking(seed: int, world: Recommender, k: int, n: int) -> None:
    """At the prior, after a past and after reactions, which are scored in different ways."""
    rng = np.random.default_rng(seed)
    rules = igcf.Rules.parse({name: part for name, part in random_rules(rng).items() if name != "diversity"})
    past = [(f"item-{row}", 1.0) for row in rng.integers(0, 40, n)] if seed % 2 else []
    session = world.session(past, rng=rng)
    for row in rng.integers(0, 40, 0 if past else n):
        session.observe(f"item-{row}", float(rng.integers(1, 3)))
    try:
        found = session.recommend(k, policy=Ucb(0.5), rules=rules)
    except NoItemsLeftError:
        return
    filters = replace(rules, boost=(), caps=(), pinned=())
    left = int(session.available(rules=filters).sum())
    ranked = {each.item_id: each for each in session.recommend(left, policy=Ucb(0.5), rules=filters)}
    assert [each.item_id for each in found] == taken_in_order(rules, [*ranked.values()], k, world.catalogue)
    for each in found:
        other = ranked[each.item_id]
        assert each.mean_rank == other.mean_rank or 0 in dict(rules.caps).values()  # a cap of 0 is a filter
        np.testing.assert_allclose([each.mean, each.std, each.chance], [other.mean, other.std, other.chance], atol=1e-4)


@pytest.mark.parametrize("caps", [{"*": 1}, {"*": 2}, {"Drama": 0, "*": 3}, {"Drama": 1, "new": 1}, {"War": 40}])
@pytest.mark.parametrize("n_reactions", [3, 30])
def test_caps_hold_in_the_order_of_the_scores_however_little_is_known_of_variances(
    caps: dict[str, int], n_reactions: int
) -> None:
    """After a long past the variances that are known beforehand, those of the prior, tell next to nothing."""
    world, rng = described(random_model(1500, 5)), np.random.default_rng(n_reactions)
    for k in (1, 3, 5):
        past = [(f"item-{row}", float(rng.random())) for row in rng.integers(0, 40, n_reactions)]
        session, rules = world.session(past), igcf.Rules.parse({"caps": caps, "pinned": ["item-50", "item-51"]})
        ranked = session.recommend(int(session.available().sum()), policy=Ucb(2.0))
        found = session.recommend(k, policy=Ucb(2.0), rules=rules)
        assert [each.item_id for each in found] == taken_in_order(rules, ranked, k, world.catalogue)


@pytest.mark.parametrize("policy", [Greedy(), Ucb(0.7), InfoUcb(0.7)])
def test_boosts_of_many_amounts_are_added_like_those_of_few(policy: Policy) -> None:
    model = random_model(120, 4)
    items = [Item(model.item_ids[row], tags=(f"t{row % 60}",)) for row in range(120)]
    model = model.with_catalogue(model.catalogue.changed(dict(enumerate(items))))
    boosts = {f"t{n}": 0.02 * n for n in range(60)}
    plain = {each.item_id: each.score for each in Recommender(model, policy).session().recommend(120)}
    wanted = {name: score + boosts[items[model.item_row(name)].tags[0]] for name, score in plain.items()}
    found = Recommender(model, policy).session().recommend(10, rules=igcf.Rules.parse({"boost": boosts}))
    assert [each.item_id for each in found] == sorted(wanted, key=wanted.__getitem__, reverse=True)[:10]
    np.testing.assert_allclose([each.score for each in found], [wanted[each.item_id] for each in found], atol=1e-5)


def test_a_filter_changes_neither_order_nor_numbers_of_what_is_left() -> None:
    session, ids = all_items(4, rules={"filter": {"none": ["War"]}})
    left = session.recommend(int(session.available().sum()))
    is_war = {name for name in WORLDS[0].model.item_ids if "War" in WORLDS[0].catalogue.labels_of(int(name[5:]))}
    assert ids == [pick.item_id for pick in left if pick.item_id not in is_war][:4]


def test_pinned_items_come_first_in_their_order_as_far_as_they_may_be_shown() -> None:
    catalogue = WORLDS[0].catalogue
    shown = [name for name in catalogue.item_ids[2:] if may_be_shown(catalogue.item(int(name[5:])))]
    hidden = next(name for name in catalogue.item_ids if not may_be_shown(catalogue.item(int(name[5:]))))
    _, ids = all_items(5, rules={"pinned": [shown[9], hidden, shown[4], "item-1"]})
    assert ids[:2] == [shown[9], shown[4]]
    assert hidden not in ids
    assert "item-1" not in ids


def test_a_diverse_answer_spreads_over_what_different_people_like() -> None:
    """Items come in three pairs of near twins; without diversity the answer shows both of the best pair."""
    vectors = np.repeat(np.eye(3), 2, axis=0) + 0.01 * np.arange(18).reshape(6, 3)
    model = Model(
        item_vectors=vectors, noise_var=1.0, prior_mean=[3.0, 2.0, 1.0], prior_cov=np.eye(3), item_ids=list("abcdef")
    )
    session = Recommender(model, policy=Greedy()).session()
    assert {pick.item_id for pick in session.recommend(2)} == {"a", "b"}
    diverse = session.recommend(3, rules=igcf.Rules.parse({"diversity": 5}))
    assert sorted("aabbcc"["abcdef".index(pick.item_id)] for pick in diverse) == ["a", "b", "c"]


def test_items_come_and_go_with_the_time_also_in_a_session_that_is_open() -> None:
    now = [0.0]
    model = random_model(3)
    recommender = Recommender(model, clock=lambda: now[0])
    session = recommender.session()
    items = [Item("item-0", available_from=10.0), Item("item-1", available_until=20.0), Item("item-2", hidden=True)]
    recommender.update_items(items)
    shown = {}
    for now[0] in (5.0, 15.0, 25.0):
        left = int(session.available().sum())
        shown[now[0]] = {pick.item_id for pick in session.recommend(left)}
    assert shown == {5.0: {"item-1"}, 15.0: {"item-0", "item-1"}, 25.0: {"item-0"}}
    with pytest.raises(NoItemsLeftError, match="others may be unavailable"):
        session.recommend(1, candidates=["item-2"])
    assert Recommender(model).clock is time.time


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"fliter": {}}, "rules has the unknown name 'fliter'; did you mean 'filter'?"),
        ({"filter": {"some": []}}, "filter has the unknown name 'some'; expected one of 'any', 'all'"),
        ({"filter": {"any": ["drama"]}}, "no item has the category or tag 'drama'; did you mean 'Drama'?"),
        ({"filter": {"none": "War"}}, "filter.none is 'War'; expected a list of names"),
        ({"filter": {"any": []}}, "filter.any is empty"),
        ({"filter": {"min": {"yaer": 1}}}, "no item has the number 'yaer'; did you mean 'year'?"),
        ({"filter": {"max": {"year": float("nan")}}}, "filter.max.year is nan; expected a finite number"),
        ({"boost": {"War": True}}, "boost.War is True; expected a finite number"),
        ({"caps": {"War": 1.5}}, "caps.War is 1.5; expected a whole number"),
        ({"caps": {"War": -1}}, "caps.War is -1; expected a whole number"),
        ({"diversity": 11}, "diversity is 11; expected 0 to 10"),
        ({"diversity": []}, "diversity is []; expected a finite number"),
        ({"diversity": False}, "diversity is False; expected a finite number"),
        ({"filter": []}, "filter is list; expected an object"),
        ({"boost": {"Wat": 1}}, "did you mean 'War'?"),
    ],
)
def test_a_wrong_rule_is_one_sentence_with_what_was_probably_meant(bad: dict[str, Any], told: str) -> None:
    with pytest.raises(RuleError) as caught:
        all_items(1, rules=bad)
    assert told in str(caught.value)


def test_unknown_pinned_items_caps_that_cannot_be_met_and_plain_objects_are_refused() -> None:
    with pytest.raises(UnknownItemError, match="the pinned item 'nothing' is not in the catalogue"):
        all_items(1, rules={"pinned": ["nothing"]})
    with pytest.raises(NoItemsLeftError, match="the caps leave 3 of"):
        all_items(4, rules={"filter": {"any": ["Drama", "Kids", "War"]}, "caps": {"Drama": 1, "Kids": 1, "War": 1}})
    with pytest.raises(ConfigError, match="rules is dict; expected igcf"):
        WORLDS[0].session().recommend(1, rules={"caps": {}})  # type: ignore[arg-type]


def test_rules_of_a_server_and_of_a_request_hold_at_once() -> None:
    server = igcf.Rules.parse({"filter": {"none": ["War"], "min": {"year": 1990}}, "caps": {"Drama": 3}})
    asked = igcf.Rules.parse({"filter": {"any": ["Drama", "Kids"], "min": {"year": 1985}}, "caps": {"Drama": 1}})
    session = WORLDS[0].session()
    picks = session.recommend(2, rules=asked.within(server))
    items = [WORLDS[0].catalogue.item(WORLDS[0].model.item_row(pick.item_id)) for pick in picks]
    both = {"filter": {"any": ["Drama", "Kids"], "none": ["War"], "min": {"year": 1990}}, "caps": {"Drama": 1}}
    assert violations(both, items) == []


def test_a_label_that_the_catalogue_has_lost_fails_a_request_but_not_the_rules_of_a_server() -> None:
    lost = igcf.Rules.parse({"filter": {"none": ["Gone"]}, "boost": {"Gone": 1.0}})
    session = WORLDS[0].session()
    assert len(session.recommend(2, rules=igcf.Rules().within(lost))) == 2
    with pytest.raises(RuleError, match="Gone"):
        session.recommend(2, rules=lost)


COSTLY: list[dict[str, Any]] = [
    {"diversity": 0.5, "caps": {"*": 0}},
    {"diversity": 0.5, "caps": {"*": 1}},
    {"diversity": 2.0},
    {"caps": {"*": 1, "new": 1}},
    {"boost": {"Drama": 0.5}, "caps": {"*": 2}},
    {"pinned": ["item-7", "item-9"], "diversity": 1.0},
]


@pytest.mark.parametrize("k", [1, 10])
@pytest.mark.parametrize("policy", [Greedy(), Ucb(0.5)])
def test_no_rule_costs_more_than_twenty_plain_answers(policy: Policy, k: int) -> None:
    """Processor time of the best of some turns; n x n matrices took thousands of plain answers."""
    world = described(random_model(5_800, 32))
    session = world.session([("item-1", 1.0)], rng=np.random.default_rng(0))

    def seconds(rules: igcf.Rules | None) -> float:
        best = np.inf
        for _ in range(15):
            begun = time.perf_counter()
            with contextlib.suppress(NoItemsLeftError):
                session.recommend(k, policy=policy, rules=rules)
            best = min(best, time.perf_counter() - begun)
        return best

    plain = seconds(None)
    ratios = {str(rules): seconds(igcf.Rules.parse(rules)) / plain for rules in COSTLY}
    assert {name: ratio for name, ratio in ratios.items() if ratio > 20} == {}


def priced() -> Model:
    """Items with a margin, but for the first one."""
    items = [Item(f"item-{row}", numbers={"margin": float(row)} if row else {}) for row in range(20)]
    model = random_model(n_items=20)
    return model.with_catalogue(model.catalogue.changed(dict(enumerate(items))))


def test_a_weight_multiplies_scores_by_the_number_against_its_mean() -> None:
    model = priced()
    session = Recommender(model, Greedy()).session()
    relative = np.array([1.0, *(np.arange(1, 20) / 10)])  # the mean of 1 to 19 is 10; without the number: as the mean
    means = session.moments()[0]
    for strength in (0.0, 0.3, 1.0):
        picks = session.recommend(20, rules=igcf.Rules.parse({"weight": "margin", "strength": strength}))
        expected = means * (1 - strength + strength * relative)
        assert [pick.item_id for pick in picks] == [f"item-{row}" for row in np.argsort(-expected, kind="stable")]
    picks = session.recommend(2, rules=igcf.Rules.parse({"weight": "margin", "strength": 1.0, "diversity": 0.01}))
    assert picks[0].score == pytest.approx(float((means * relative).max()), rel=1e-5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weight": "margn", "strength": 0.3}, "no item has the number 'margn'"),
        ({"weight": "margin"}, "weight and strength belong together"),
        ({"strength": 0.3}, "weight and strength belong together"),
        ({"weight": "margin", "strength": 1.5}, "strength is 1.5; expected 0 to 1"),
        ({"weight": 3, "strength": 0.5}, "expected the name of a number"),
        ({"weight": "loss", "strength": 0.5}, "expected a positive one for a weight"),
    ],
)
def test_a_weight_that_cannot_be_used_says_why(given: dict[str, Any], message: str) -> None:
    model = priced()
    items = {row: replace(model.catalogue.item(row), numbers={"margin": 1.0, "loss": -1.0}) for row in range(20)}
    session = Recommender(model.with_catalogue(model.catalogue.changed(items))).session()
    with pytest.raises(RuleError, match=message):
        session.recommend(rules=igcf.Rules.parse(given))


def test_the_weight_of_a_request_takes_the_place_of_the_servers() -> None:
    server, asked = (igcf.Rules.parse({"weight": "margin", "strength": each}) for each in (0.3, 0.6))
    assert server.together(asked).strength == 0.6
    assert server.together(igcf.Rules()).strength == 0.3
