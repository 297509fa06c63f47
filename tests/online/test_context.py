"""The context of a request moves one answer; a reaction made in a context is learned net of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import igcf
from igcf.errors import AttributesError
from igcf.model import Model
from igcf.online import Recommender
from igcf.online.belief import Belief
from igcf.online.engine import ScoringEngine
from tests.toys import attributed, contextual, ensemble_model, random_model, two_channel_model

MODELS = [contextual(attributed(make())) for make in (two_channel_model, ensemble_model, random_model)]
PHONE: dict[str, Any] = {"device": "phone", "time": "2026-11-18T21:00:00+13:00"}
ANN = {"gender": "f"}


def value_of(model: Model) -> float:
    return 5.0 if model.reward.low == 1.0 else 0.5


def shift_of(model: Model, context: dict[str, Any]) -> Any:
    effect = model.context_effect
    assert effect is not None
    return effect.weights @ effect.encoder.encode(context).numbers


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("n_reactions", [0, 3, 12])
def test_a_context_moves_one_answer_and_nothing_else(model: Model, n_reactions: int) -> None:
    recommender = igcf.Recommender(model, igcf.Ucb(0.5))
    session = recommender.session(attributes=ANN)
    for n in range(n_reactions):
        session.observe(f"item-{n}", value_of(model))
    before, belief, plain = session.moments(), session.belief, session.recommend(5)
    picks = session.recommend(5, context=PHONE)
    assert picks != plain
    after = session.moments()
    np.testing.assert_array_equal(before[0], after[0])
    np.testing.assert_array_equal(before[1], after[1])
    np.testing.assert_array_equal(belief.mean, session.belief.mean)
    for pick in picks:
        row = model.item_row(pick.item_id)
        assert pick.mean == pytest.approx(model.expected_of(belief.mean + shift_of(model, PHONE), row), abs=1e-4)
    assert session.recommend(5, context={}) == session.recommend(5, context={"device": "watch"}) == plain


@pytest.mark.parametrize("model", MODELS)
def test_a_reaction_is_learned_net_of_its_context(model: Model) -> None:
    session, c = igcf.Recommender(model).session(attributes=ANN), shift_of(model, PHONE)
    start = session.belief
    session.observe("item-3", value_of(model), context=PHONE)
    other = igcf.Recommender(model).session(attributes=ANN)
    other._follow()
    other._engine.set_belief(Belief(start.mean + c, start.cov))
    other._engine.observe_one(3, value_of(model))
    other._release()
    np.testing.assert_allclose(session.belief.mean, other.belief.mean - c, atol=1e-9)
    np.testing.assert_allclose(session.belief.cov, other.belief.cov, atol=1e-9)


def test_for_a_linear_model_that_is_a_reward_less_what_the_context_adds() -> None:
    model = MODELS[2]
    session, c = igcf.Recommender(model).session(), shift_of(model, PHONE)
    session.observe("item-3", 0.5, context=PHONE)
    x = model.item_vectors[3].astype(float)
    expected = Belief(model.prior_mean, model.prior_cov).updated(x, 0.5 - x @ c, float(model.item_noise[3]))
    np.testing.assert_allclose(session.belief.mean, expected.mean, atol=1e-9)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("is_logged", [False, True])
def test_evidence_in_contexts_is_computed_again_saved_undone_and_explained(
    model: Model, is_logged: bool, tmp_path: Path
) -> None:
    recommender, value = igcf.Recommender(model), value_of(model)
    logged = [("item-20", value), ("item-21", value)] if is_logged else []
    session = recommender.session(logged=logged, attributes=ANN)
    session.observe("item-1", value, context=PHONE)
    session.observe("item-2", value)
    before = session.belief
    session.observe("item-3", value, context={"device": "desk"})
    session.observe("item-1", value)  # replaces one that was made in a context
    assert session.undo() == "item-1"
    assert session.undo() == "item-3"
    np.testing.assert_allclose(session.belief.mean, before.mean, atol=1e-8)
    session.save(tmp_path / "session.json")
    loaded = recommender.load_session(tmp_path / "session.json")
    np.testing.assert_allclose(loaded.belief.mean, before.mean, atol=1e-8)
    for item_id in ("item-0", "item-1", "item-9"):
        why = loaded.explain(item_id)
        amounts = sum(part.amount for part in (*why.contributions, *why.logged))
        assert abs(why.prior + why.absence + amounts + sum(each.amount for each in why.attributes) - why.mean) < 1e-9
        assert why.mean == pytest.approx(loaded.moments()[0][model.item_row(item_id)], abs=1e-4)


def test_bad_contexts_are_refused_and_nothing_changes() -> None:
    session = igcf.Recommender(MODELS[0]).session()
    belief = session.belief.mean
    for context in ({"season": "winter"}, {"device": {"a": 1}}, {"time": "yesterday"}):
        with pytest.raises(AttributesError, match="context"):
            session.recommend(context=context)
        with pytest.raises(AttributesError, match="context"):
            session.observe("item-1", 5.0, context=context)
    assert session.history == []
    np.testing.assert_array_equal(belief, session.belief.mean)
    with pytest.raises(AttributesError, match="knows no context"):
        igcf.Recommender(random_model()).session().recommend(context=PHONE)


def test_the_effect_is_saved_with_the_model(tmp_path: Path) -> None:
    MODELS[1].save(tmp_path / "model")
    loaded = igcf.Model.load(tmp_path / "model")
    a, b = (igcf.Recommender(each).session().recommend(5, context=PHONE) for each in (MODELS[1], loaded))
    assert a == b


@pytest.mark.parametrize("model", MODELS)
def test_scores_follow_when_they_are_computed_anew_during_a_reaction_in_a_context(model: Model) -> None:
    value = value_of(model)
    session = igcf.Recommender(model).session([("item-1", value)])
    for n in range(2, 16):  # the eighth reaction after a history computes the variances of all items
        session.observe(f"item-{n}", value, context=PHONE)
    expected = model.expected(session.belief.mean)
    np.testing.assert_allclose(session.moments()[0], expected, atol=1e-4)


def test_without_a_context_the_scores_of_an_answer_are_kept_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    model, n_resyncs = random_model(), 0
    resync = ScoringEngine.resync

    def counted(engine: ScoringEngine) -> None:
        nonlocal n_resyncs
        n_resyncs += 1
        resync(engine)

    monkeypatch.setattr(ScoringEngine, "resync", counted)
    session = Recommender(model).session([("item-1", 1.0)], belief=Recommender(model).session().belief)
    for _ in range(3):
        session.recommend(2)
    assert n_resyncs == 1
