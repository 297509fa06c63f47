"""Candidates from an index of the items."""

import logging
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import igcf
from igcf.attributes import Attributes
from igcf.errors import ConfigError, ModelError, NoItemsLeftError
from igcf.lab.bench.worlds import random_experts, random_low_pass, random_model, random_vectors
from igcf.model import Model
from igcf.online import InfoUcb, Policy, ScoringEngine
from igcf.online import index as lists
from igcf.online.index import IndexedEngine, build_lists
from igcf.online.selection import is_searchable
from tests.model.test_adding import genre_model

N_ITEMS = 600
LABELS = ("red", "green", "blue")


def described(model: Model, rng: np.random.Generator) -> Model:
    """Give items tags, and hide some or let them become available later."""
    model.attributes = Attributes(
        model.n_items,
        tags=tuple((LABELS[number],) for number in rng.integers(3, size=model.n_items)),
        hidden=rng.random(model.n_items) < 0.2,
        available_from=np.where(rng.random(model.n_items) < 0.2, 1e12, -np.inf),
    )
    return model


MODELS = {
    "linear": described(random_model(random_vectors(N_ITEMS, 8)), np.random.default_rng(0)),
    "experts": described(random_experts(N_ITEMS, 6, 5), np.random.default_rng(1)),
}
INDEXES = {name: build_lists(model) for name, model in MODELS.items()}
POLICIES: tuple[Policy, ...] = (igcf.Ucb(0.5), igcf.Ucb(0.0), igcf.Greedy(), igcf.Thompson(), InfoUcb())


@pytest.fixture(autouse=True)
def _small_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask few lists and score few candidates, so that a small world is searched as a large one is."""
    for name, value in {"LISTS_ASKED": 2, "CANDIDATES": 8, "FEW": 0.0}.items():
        monkeypatch.setattr(lists, name, value)


def opened(name: str, policy: Policy, past: list[tuple[str, float]], **options: Any) -> igcf.Session:
    options.setdefault("index", INDEXES[name])
    return igcf.Recommender(MODELS[name], policy, seed=3, **options).session(past)


pasts = st.lists(st.tuples(st.integers(0, N_ITEMS - 1).map(str), st.sampled_from([1.0, 3.0, 5.0])), max_size=12)


@given(
    name=st.sampled_from(sorted(MODELS)),
    policy=st.sampled_from(POLICIES),
    past=pasts,
    exclude=st.sets(st.integers(0, N_ITEMS - 1).map(str), max_size=80),
    rules=st.sampled_from([
        None, {"filter": {"none": ["red"]}}, {"filter": {"all": ["blue"]}}, {"boost": {"green": 0.2}},
        {"caps": {"green": 1}}, {"filter": {"none": ["blue"]}, "diversity": 0.5}, {"pinned": ["7", "8"]},
    ]),
    k=st.integers(1, 15),
)  # fmt: skip
@settings(max_examples=120, deadline=None)
def test_no_answer_breaks_a_rule(
    name: str, policy: Policy, past: list[tuple[str, float]], exclude: set[str], rules: Any, k: int
) -> None:
    session = opened(name, policy, past)
    asked = None if rules is None else igcf.Rules.parse(rules)
    picks = [pick.item_id for pick in session.recommend(k, exclude=exclude, rules=asked)]
    assert len(set(picks)) == len(picks) == k
    attributes = MODELS[name].attributes
    assert attributes is not None
    assert attributes.hidden is not None
    assert attributes.available_from is not None
    assert attributes.tags is not None
    assert not set(picks) & (exclude | {item_id for item_id, _ in past})
    rows = [int(item_id) for item_id in picks]
    assert not attributes.hidden[rows].any()
    assert (attributes.available_from[rows] < 1e12).all()
    labels = [attributes.tags[row][0] for row in rows]
    if rules is not None and "filter" in rules:
        assert not set(labels) & set(rules["filter"].get("none", ()))
        assert set(labels) <= set(rules["filter"].get("all", LABELS))
    if rules is not None and "caps" in rules:
        assert labels.count("green") <= 1


@given(name=st.sampled_from(sorted(MODELS)), policy=st.sampled_from(POLICIES), past=pasts, k=st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_asking_for_all_items_is_the_exact_answer(
    name: str, policy: Policy, past: list[tuple[str, float]], k: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lists, "LISTS_ASKED", N_ITEMS)
        found = opened(name, policy, past).recommend(k)
    session = opened(name, policy, past, index="exact")
    exact = session.recommend(k)
    np.testing.assert_allclose([pick.score for pick in found], [pick.score for pick in exact], rtol=1e-3, atol=1e-5)
    of_item = {pick.item_id: pick for pick in exact}
    last = exact[-1].score
    means = session.moments()[0][session.available()[0]]
    for own in found:  # equal up to rounding: such items may change places
        other = of_item.get(own.item_id)
        assert other is not None or own.score == pytest.approx(last, rel=1e-3, abs=1e-5)
        if other is not None:
            np.testing.assert_allclose(own[1:4] + own[6:], other[1:4] + other[6:], rtol=1e-3, atol=1e-5)
        ranks = [1 + np.count_nonzero(means > own.mean + margin) for margin in (1e-5, -1e-5)]
        assert ranks[0] <= own.mean_rank <= ranks[1]


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("policy", [igcf.Ucb(0.5), igcf.Greedy(), igcf.Thompson()], ids=str)
def test_few_lists_find_most_of_the_best_items(name: str, policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "LISTS_ASKED", 24)
    monkeypatch.setattr(lists, "CANDIDATES", 60)
    shares = []
    for user in range(10):
        rng = np.random.default_rng(user)
        past = [(str(row), float(rng.integers(1, 6))) for row in rng.permutation(N_ITEMS)[:20]]
        best = {pick.item_id for pick in opened(name, policy, past, index="exact").recommend(10)}
        found = {pick.item_id for pick in opened(name, policy, past).recommend(10)}
        shares.append(len(best & found) / 10)
    assert np.mean(shares) >= 0.8


def test_the_belief_is_that_of_the_exact_engine() -> None:
    one, other = (
        opened("experts", igcf.Ucb(0.5), [("3", 5.0)], index=index) for index in (INDEXES["experts"], "exact")
    )
    for item_id, value in (("5", 5.0), ("9", None), ("11", 1.0)):
        one.observe(item_id, value)
        other.observe(item_id, value)
    one.undo()
    other.undo()
    np.testing.assert_allclose(one.belief.mean, other.belief.mean, atol=1e-12)
    np.testing.assert_allclose(one.moments(), other.moments(), atol=1e-5)
    np.testing.assert_allclose(one.chances(), other.chances(), atol=1e-5)
    assert one.explain("4").mean == pytest.approx(other.explain("4").mean, abs=1e-12)


def index_of(recommender: igcf.Recommender) -> ScoringEngine:
    return recommender._live.current().engine


def test_a_session_keeps_nothing_per_item() -> None:
    session = opened("experts", igcf.Ucb(0.5), [("3", 5.0)])
    for _ in range(3):
        session.observe(session.recommend(3)[0].item_id, 5.0)
    session.moments()
    engine, shared = session._engine, vars(index_of(session._recommender))
    assert isinstance(engine, IndexedEngine)
    parts = {**vars(engine), **vars(engine._state), **vars(session)}
    own = {name: value for name, value in parts.items() if value is not shared.get(name)}
    sizes = {name: value.size for name, value in own.items() if isinstance(value, np.ndarray)}
    assert sizes == {"belief_means": 11, "belief_covs": 121}


def test_sessions_do_not_share_what_they_have_seen() -> None:
    recommender = igcf.Recommender(MODELS["linear"], igcf.Greedy(), index=INDEXES["linear"])
    one, other = recommender.session(), recommender.session()
    best = one.recommend()[0].item_id
    one.observe(best, 1.0)
    before = other.available()
    assert best not in {pick.item_id for pick in one.recommend(20)}
    assert best == other.recommend()[0].item_id
    np.testing.assert_array_equal(before, other.available())
    assert before.sum() == one.available().sum() + 1


def test_a_user_without_items_left_is_told_so() -> None:
    with pytest.raises(NoItemsLeftError, match="asked for 1 item"):
        opened("linear", igcf.Greedy(), []).recommend(1, exclude=[str(row) for row in range(N_ITEMS)])


def test_a_logged_record_with_a_low_pass_filter_is_scored_in_full() -> None:
    model = random_experts(N_ITEMS, 6, 5).changed(low_pass=random_low_pass(N_ITEMS, 5))
    logged = [(str(row), 5.0) for row in range(0, 60, 3)]
    found, exact = (
        igcf.Recommender(model, igcf.Ucb(0.5), index=index).session(logged=logged).recommend(10)
        for index in (build_lists(model), "exact")
    )
    assert [pick.item_id for pick in found] == [pick.item_id for pick in exact]


class TestNewItems:
    def recommender(self) -> igcf.Recommender:
        model = genre_model()
        return igcf.Recommender(model, igcf.Greedy(), exposure=igcf.Exposure(share=0.0), index=build_lists(model))

    def test_a_new_item_can_be_answered_at_once(self) -> None:
        recommender = self.recommender()
        session = recommender.session()
        session.observe("i0", 5.0)
        session.recommend()
        recommender.add_items([{"id": "funny", "categories": ["comedy"]}])
        for _ in range(60):
            recommender.session().observe("funny", 5.0)  # everybody likes it
        assert "funny" in {pick.item_id for pick in session.recommend(20)}

    def test_a_new_item_may_be_tried(self) -> None:
        model = genre_model()
        eager = igcf.Exposure(share=0.5, price=1.0, most=4, known=0, fit=-10.0, doubt=0.0)
        recommender = igcf.Recommender(model, igcf.Greedy(), exposure=eager, index=build_lists(model))
        recommender.add_items([{"id": "funny", "categories": ["comedy"]}])
        shown = [pick.item_id for _ in range(6) for pick in recommender.session().recommend(4)]
        assert "funny" in shown

    def test_a_retired_item_is_in_no_answer(self) -> None:
        recommender = self.recommender()
        session = recommender.session()
        best = session.recommend()[0].item_id
        recommender.retire_items([best])
        assert best not in {pick.item_id for pick in session.recommend(20)}


def test_the_index_of_another_model_is_refused() -> None:
    with pytest.raises(ModelError, match=r"the index is of items and widths .*, the model has \(600, \[8\]\)"):
        igcf.Recommender(MODELS["linear"], index=INDEXES["experts"])


class TestChoice:
    def test_small_catalogues_are_scored_exactly(self) -> None:
        assert not isinstance(index_of(igcf.Recommender(MODELS["linear"], index="auto")), IndexedEngine)

    def test_large_ones_get_an_index(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lists, "INDEX_FROM", N_ITEMS)
        assert isinstance(index_of(igcf.Recommender(MODELS["linear"], index="auto")), IndexedEngine)

    def test_an_unknown_one_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="index must be one of auto, exact, lists"):
            igcf.Recommender(MODELS["linear"], index="annoy")  # type: ignore[arg-type]

    def test_every_item_is_in_one_list(self) -> None:
        found = build_lists(MODELS["linear"])
        assert sorted(found.rows.tolist()) == list(range(N_ITEMS))
        assert 0.8 < found.n_lists / (4 * np.sqrt(N_ITEMS)) < 1.2
        np.testing.assert_array_equal(found.rows, build_lists(MODELS["linear"]).rows)

    def test_policies_that_it_can_answer(self) -> None:
        assert [is_searchable(policy) for policy in POLICIES] == [True, True, True, True, False]
        assert not is_searchable(igcf.Ucb(0.5, item_uncertainty=True))

    def test_a_policy_that_it_cannot_answer_is_named(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING, "igcf.index"):
            igcf.Recommender(MODELS["linear"], igcf.Ucb(0.5), index=INDEXES["linear"])
            assert caplog.messages == []
            igcf.Recommender(MODELS["linear"], InfoUcb(), index=INDEXES["linear"])
        assert caplog.messages == ["InfoUcb(delta=0.05) scores all 600 items: an index cannot be asked for it"]
