"""Chances of items, skips and taking back: what a session tells and what it does not learn."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from igcf.errors import ConfigError, ModelError
from igcf.model import Model
from igcf.model.usage import Calibration, PolicyChoice, RecordTemperature, SharePrior, Usage
from igcf.online import Exposure, Greedy, Recommender, Session, Ucb
from igcf.online.backend import NumpyBackend, loops
from igcf.online.backend.numpy_items import probability_chances
from igcf.online.backend.types import ItemTerms
from igcf.online.chance import ChanceScale
from igcf.training.content import fit_content
from tests.toys import ensemble_model, random_model, two_channel_model

MODELS = {"value": random_model, "probability": two_channel_model, "liked": ensemble_model}


@pytest.fixture(params=list(MODELS))
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_each_kind_of_model_has_its_form(form: str) -> None:
    assert ChanceScale(MODELS[form]()).form == form


def test_shown_items_have_the_chances_of_the_whole_catalogue(form: str) -> None:
    model = MODELS[form]()
    session = Recommender(model, Ucb(0.5)).session([("item-3", 5.0), ("item-4", 1.0)])
    for _ in range(12):
        told = session.recommend(5)
        chance, low, high = session.chances()
        rows = model.item_rows([pick.item_id for pick in told])
        np.testing.assert_allclose([pick.chance for pick in told], chance[rows], atol=1e-4)
        np.testing.assert_allclose([pick.low for pick in told], low[rows], atol=1e-3)
        np.testing.assert_allclose([pick.high for pick in told], high[rows], atol=1e-3)
        session.observe(told[0].item_id, 4.0)


def test_a_chance_is_the_mean_probability_of_liking() -> None:
    model = ensemble_model()
    session = Recommender(model).session([("item-3", 5.0)])
    belief = session.belief
    channel = model.channels[3]
    draws = np.random.default_rng(0).multivariate_normal(belief.mean, belief.cov, 200_000)[:, channel.span]
    z = draws @ channel.vectors[7]
    chance, low, high = (float(each[7]) for each in session.chances())
    assert chance == pytest.approx((1 / (1 + np.exp(-z))).mean(), abs=0.01)
    assert ((z >= np.log(low / (1 - low))) & (z <= np.log(high / (1 - high)))).mean() == pytest.approx(0.8, abs=0.01)


def test_both_backends_tell_the_same_chances() -> None:
    rng = np.random.default_rng(0)
    z, v = rng.normal(size=20).astype(np.float32), rng.random(20).astype(np.float32)
    args = [3, 1, 19], z, v, 1.2, 0.8, ItemTerms(*rng.random((3, 20)))
    np.testing.assert_allclose(loops.chances_of_logits(*args), NumpyBackend.chances_of_logits(*args), atol=1e-6)


def test_twelve_skips_leave_the_belief_unchanged(form: str) -> None:
    session = Recommender(MODELS[form]()).session([("item-3", 5.0)])
    before = session.belief
    skipped = []
    for _ in range(12):
        skipped.append(session.recommend()[0].item_id)
        session.skip(skipped[-1])
    assert len(set(skipped)) == 12
    assert (session.belief.mean == before.mean).all()
    assert (session.belief.cov == before.cov).all()
    assert session.history == [("item-3", 5.0)]


def test_a_skipped_item_comes_back_after_some_rounds() -> None:
    session = Recommender(random_model(), Greedy(), skip_rounds=3).session()
    best = session.recommend()[0].item_id
    session.skip(best)
    for item in ("item-1", "item-2"):
        assert best not in [pick.item_id for pick in session.recommend(5)]
        session.skip(item) if item == "item-1" else session.observe(item, 1.0)
    assert left(session) == 37
    session.skip("item-5")
    assert left(session) == 37  # the first one is back
    session.undo()
    assert left(session) == 37  # and aside again


def left(session: Session) -> int:
    return int(session.available().sum())


def test_taking_back_restores_what_was(form: str) -> None:
    recommender = Recommender(MODELS[form]())
    session = recommender.session([("item-3", 5.0)])
    session.observe("item-4", 1.0)
    session.skip("item-5")
    assert session.undo() == "item-5"
    assert session.undo() == "item-4"
    np.testing.assert_allclose(session.belief.mean, recommender.session([("item-3", 5.0)]).belief.mean, atol=1e-8)
    assert session.undo() == "item-3"
    assert left(session) == session.model.n_items
    with pytest.raises(ConfigError, match="nothing to take back"):
        session.undo()


def test_a_model_keeps_its_usage_in_its_folder(tmp_path: object) -> None:
    parts = PolicyChoice("ucb", 0.1), Calibration(1.1, 0.2, 0.9)
    usage = Usage("hit", *parts, is_ordered=True, record_temperature=RecordTemperature(4.0, 0.5))
    model = random_model().changed(usage=usage)
    folder = f"{tmp_path}/model"
    model.save(folder)
    assert Model.load(folder).usage == usage
    assert Recommender(Model.load(folder)).policy == Ucb(0.1)


@pytest.mark.parametrize("wrong", [{"slope": 0.0}, {"spread": -1.0}, {"shift": float("nan")}])
def test_a_calibration_that_turns_chances_around_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="calibration"):
        Calibration(**wrong)


def counted_model(reactions: np.ndarray) -> Model:
    """The ensemble with counts of reactions and successes of each item, and a prior that is worth six reactions."""
    model = ensemble_model()
    model.reactions = reactions
    shares = SharePrior(-0.2, 0.0, 6.0, 1.0 / (1.0 + np.exp(0.2)), 6.0)
    return model.changed(usage=replace(model.usage, calibration=Calibration(shares=shares)))


def test_intervals_of_items_that_differ_in_their_reactions_alone_narrow_with_them() -> None:
    times = np.arange(ensemble_model().n_items)
    model = counted_model(np.stack([5 * times, 3 * times], axis=1))
    alike = [replace(each, vectors=np.tile(each.vectors[3], (model.n_items, 1))) for each in model.channels]
    session = Recommender(model.changed(channels=alike)).session()
    chance, low, high = session.chances()
    assert (low <= chance).all()
    assert (chance <= high).all()
    assert (np.diff(np.log(high / (1 - high)) - np.log(low / (1 - low))) < 0).all()
    assert (np.diff(session.moments()[1]) < 0).all()


def test_a_new_item_s_chance_follows_its_reactions_and_never_rises_with_a_failure() -> None:
    n = ensemble_model().n_items
    model = counted_model(np.full((n, 2), [20, 10])).changed(titles=[f"Film {row}" for row in range(n)])
    recommender = Recommender(model.changed(content=fit_content(model)), exposure=Exposure(share=0.0))
    recommender.add_items([{"id": "new"}])
    someone, told = recommender.session(), []
    for number in range(30):
        told.append([float(each[-1]) for each in someone.chances()])
        recommender.session(user=number).observe("new", 5.0 if number < 10 else 1.0)
    chance, low, high = np.array(told).T
    assert (np.diff(chance)[:10] > 0).all()
    assert (np.diff(chance)[10:] < 0).all()
    assert (high - low)[29] < 0.8 * (high - low)[0]


def test_for_a_new_user_the_chance_is_the_share_expected_of_the_item() -> None:
    reactions = np.array([[number, number // 3] for number in range(ensemble_model().n_items)])
    chance, low, high = Recommender(counted_model(reactions)).session().chances()
    mean = 1.0 / (1.0 + np.exp(0.2))
    expected = (6.0 * mean + reactions[:, 1]) / (6.0 + reactions[:, 0])
    np.testing.assert_allclose(chance, expected, atol=1e-4)
    logit = np.log(expected / (1 - expected))
    alone = 1.2815 / np.sqrt((7.0 + reactions[:, 0]) * expected * (1 - expected))
    assert (np.log(high / (1 - high)) >= logit + alone - 1e-3).all()
    assert (np.log(low / (1 - low)) <= logit - alone + 1e-3).all()


def test_counts_of_reactions_change_no_ranking() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 50, ensemble_model().n_items)
    plain, counted = ensemble_model(), counted_model(np.stack([counts, counts // 2], axis=1))
    ids = [
        [pick.item_id for pick in Recommender(model, Ucb(nu)).session([("item-3", 5.0)]).recommend(10)]
        for model in (plain, counted)
        for nu in (0.0, 0.5)
    ]
    assert ids[:2] == ids[2:]


def test_a_tiny_expected_probability_has_no_interval_from_0_to_100_percent() -> None:
    chance, low, high = probability_chances(np.array([0.01, 0.3]), np.array([0.02, 0.1]), 1.0, 0.0, 1.0)
    assert (low <= chance).all()
    assert (high >= chance).all()
    assert high[0] < 0.1
    assert 0.1 < low[1] < high[1] < 0.5
