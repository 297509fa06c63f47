"""Attributes of a user move the prior; without any, nothing changes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import igcf
from igcf.errors import AttributesError
from igcf.model import Model
from igcf.online.learning import learned, prior_belief
from tests.toys import attributed, ensemble_model, random_model, two_channel_model

MODELS = [attributed(two_channel_model()), attributed(ensemble_model()), attributed(random_model())]
ANN: dict[str, Any] = {"gender": "f", "country": ["de", "fr"], "income": 150}
VALUE = 0.5


def value_of(model: Model) -> float:
    return 5.0 if model.reward.high == 5.0 and model.reward.low == 1.0 else VALUE


@pytest.mark.parametrize("model", MODELS)
def test_without_attributes_every_bit_is_as_before(model: Model) -> None:
    before = igcf.Recommender(model.changed(attribute_prior=None))
    for given in (None, {}, {"gender": "unknown"}, {"country": None}):
        now = igcf.Recommender(model)
        a, b = before.session(), now.session(attributes=given)
        for session in (a, b):
            session.observe("item-3", value_of(model))
            session.observe("item-5", None)
        np.testing.assert_array_equal(a.belief.mean, b.belief.mean)
        np.testing.assert_array_equal(a.belief.cov, b.belief.cov)
        rng = np.random.default_rng(0)
        one, two = (r.session([("item-1", value_of(model))], rng=rng, attributes=given if r is now else None)
                    for r in (before, now))  # fmt: skip
        assert one.recommend(5) == two.recommend(5)
        assert one.explain("item-2") == two.explain("item-2")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("logged", [False, True])
def test_attributes_move_the_prior_and_explanations_add_up(model: Model, logged: bool) -> None:
    recommender = igcf.Recommender(model)
    reactions = [("item-7", value_of(model)), ("item-8", value_of(model))]
    session = recommender.session(logged=reactions if logged else (), attributes=ANN)
    session.observe("item-3", value_of(model))
    for item_id in ("item-0", "item-3", "item-9"):
        why = session.explain(item_id)
        assert [part.name for part in why.attributes] == ["gender", "country", "income"]
        assert [part.value for part in why.attributes] == ["f", ["de", "fr"], 150]
        of_attributes = sum(part.amount for part in why.attributes)
        of_reactions = sum(part.amount for part in (*why.contributions, *why.logged))
        assert abs(why.prior + why.absence + of_attributes + of_reactions - why.mean) < 1e-9
        row = model.item_row(item_id)
        assert why.prior == pytest.approx(model.expected_of(model.prior_mean, row), abs=1e-12)
        mean = session.moments()[0][row]
        assert why.mean == pytest.approx(mean, abs=1e-5)


def test_the_posterior_is_that_of_the_joint_gaussian_of_weights_vector_and_rewards() -> None:
    model = MODELS[2]
    session = igcf.Recommender(model).session(attributes=ANN)
    prior = session.belief
    rng, rows, values = np.random.default_rng(0), [3, 4, 5], [1.0, -0.5, 0.3]
    draws = rng.multivariate_normal(prior.mean, prior.cov, size=400_000)
    X = model.item_vectors[rows].astype(float)
    weights = np.exp(-0.5 * ((np.array(values) - draws @ X.T) ** 2).sum(axis=1) / 0.3)
    for row, value in zip(rows, values, strict=True):
        session.observe(model.item_ids[row], value)
    sampled = weights @ draws / weights.sum()
    effective = weights.sum() ** 2 / (weights**2).sum()
    std = np.sqrt(np.diagonal(session.belief.cov) / effective)
    assert (np.abs(sampled - session.belief.mean) < 5 * std).all()


@pytest.mark.parametrize("model", MODELS)
def test_order_of_setting_attributes_and_observing_does_not_matter(model: Model) -> None:
    recommender = igcf.Recommender(model)
    early, late = recommender.session(attributes=ANN), recommender.session()
    for session in (early, late):
        session.observe("item-1", value_of(model))
    late.set_attributes(ANN)
    np.testing.assert_allclose(early.belief.mean, late.belief.mean, atol=1e-9)
    late.set_attributes({})
    plain = recommender.session([("item-1", value_of(model))])
    np.testing.assert_array_equal(plain.belief.mean, late.belief.mean)


def test_evidence_decays_toward_the_users_own_prior() -> None:
    model = MODELS[2]
    session = igcf.Recommender(model, forgetting=0.5).session(attributes=ANN)
    own = session.belief
    session.observe("item-1", 4.0)
    session.observe("item-2", -1.0)
    expected = learned(learned(own, model, 1, 4.0).decayed(own, 0.5), model, 2, -1.0)
    np.testing.assert_allclose(session.belief.mean, expected.mean, atol=1e-9)
    again = igcf.Recommender(model, forgetting=0.5).session([("item-1", 4.0), ("item-2", -1.0)], attributes=ANN)
    np.testing.assert_allclose(again.belief.mean, expected.mean, atol=1e-9)


def test_sessions_are_saved_with_their_attributes(tmp_path: Path) -> None:
    recommender = igcf.Recommender(MODELS[0])
    session = recommender.session([("item-1", 5.0)], attributes=ANN)
    session.save(tmp_path / "ann.json")
    loaded = recommender.load_session(tmp_path / "ann.json")
    assert loaded.attributes == ANN
    np.testing.assert_allclose(loaded.belief.mean, session.belief.mean, atol=1e-12)


def test_the_prior_of_a_model_is_saved_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    model = MODELS[1]
    model.save(tmp_path / "model")
    loaded = igcf.Model.load(tmp_path / "model")
    prior, own = loaded.attribute_prior, model.attribute_prior
    assert prior is not None
    assert own is not None
    assert (prior.encoder, prior.worth) == (own.encoder, own.worth)
    a, b = (igcf.Recommender(each).session(attributes=ANN).belief for each in (model, loaded))
    np.testing.assert_array_equal(a.mean, b.mean)
    with pytest.raises(igcf.errors.ModelError, match="attribute prior"):
        random_model(dim=3).changed(attribute_prior=own)


def test_a_session_at_its_own_prior_is_that_prior() -> None:
    model = MODELS[2]
    prior = model.attribute_prior
    assert prior is not None
    session = igcf.Recommender(model).session(attributes={"gender": "m"})
    np.testing.assert_allclose(session.belief.mean, model.prior_mean + prior.weights[:, :2] @ [-0.4, 0.4], atol=1e-12)
    assert np.trace(session.belief.cov) < np.trace(prior_belief(model).cov)
    assert np.linalg.eigvalsh(session.belief.cov)[0] > 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"height": 3}, "unknown attribute 'height'; this model knows gender, country, income"),
        ({"gender": {"a": 1}}, "attribute 'gender' is"),
        ({"income": float("nan")}, "attribute 'income' is nan"),
        ({"income": "much"}, "attribute 'income' is 'much'; expected a number"),
        ({"country": ["nz"] * 10_000}, "attribute 'country' has 10,000 values; pass at most 100"),
        ({"income": [1, 2]}, "has 2 values; a number has one"),
        ([1], "attributes must be a mapping"),
        ({str(n): 1 for n in range(10_000)}, "10,000 attributes given"),
    ],
)
def test_bad_attributes_are_refused_in_one_sentence(given: Any, message: str) -> None:
    session = igcf.Recommender(MODELS[0]).session(attributes=ANN)
    before = session.belief.mean
    with pytest.raises(AttributesError, match=message) as caught:
        session.set_attributes(given)
    assert "\n" not in str(caught.value)
    assert session.attributes == ANN
    np.testing.assert_array_equal(session.belief.mean, before)


def test_unknown_values_are_ignored_and_reported() -> None:
    session = igcf.Recommender(MODELS[0]).session(attributes={"country": "xx", "gender": "f"})
    assert session.ignored == ("country: 'xx' is unknown or was too rare in training",)
    with pytest.raises(AttributesError, match="knows no attributes"):
        igcf.Recommender(random_model()).session(attributes={"gender": "f"})
