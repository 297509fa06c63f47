from pathlib import Path

import numpy as np
import pytest

from igcf.errors import FeedbackError, ModelError
from igcf.model import Model, Reward
from igcf.online import Recommender

KINDS = {"view": 1.0, "like": 4.0, "purchase": 5.0, "hide": 1.0}


def model(reward: Reward, kinds: dict[str, float] | None = None) -> Model:
    rng = np.random.default_rng(0)
    return Model(
        item_vectors=rng.standard_normal((6, 3)),
        noise_var=0.5,
        item_ids=[f"i{row}" for row in range(6)],
        prior_mean=np.ones(3),
        prior_cov=np.eye(3),
        reward=reward,
        kinds=kinds,
    )


STARS = Reward("satisfied", threshold=4.0, low=1.0, high=5.0)
IMPLICIT = Reward("satisfied", threshold=1.0, low=1.0, high=1.0)


def test_a_kind_counts_as_its_value_and_is_saved_with_the_model(tmp_path: Path) -> None:
    model(STARS, KINDS).save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    assert loaded.kinds == KINDS
    by_kind, by_value = Recommender(loaded).session(), Recommender(loaded).session()
    by_kind.observe("i1", kind="purchase")
    by_value.observe("i1", 5.0)
    assert by_kind.history == by_value.history == [("i1", 5.0)]
    np.testing.assert_array_equal(by_kind.belief.mean, by_value.belief.mean)


def test_an_unknown_kind_is_refused_with_the_known_ones_and_changes_nothing() -> None:
    session = Recommender(model(STARS, KINDS)).session()
    before = session.belief.mean
    with pytest.raises(FeedbackError, match="kind 'share' is not known; known are 'view', 'like', 'purchase', 'hide'"):
        session.observe("i1", kind="share")
    with pytest.raises(FeedbackError, match="a kind, 'like', and a value, 3"):
        session.observe("i1", 3.0, kind="like")
    with pytest.raises(FeedbackError, match="this model has no kinds"):
        Recommender(model(STARS)).session().observe("i1", kind="like")
    assert session.history == []
    np.testing.assert_array_equal(session.belief.mean, before)


@pytest.mark.parametrize("kinds", [{"like": float("nan")}, {"like": True}, {"skip": 1.0}, {"": 1.0}])
def test_a_table_of_kinds_that_cannot_be_is_refused(kinds: dict[str, float]) -> None:
    with pytest.raises(ModelError):
        model(STARS, kinds)


def test_a_reaction_without_a_value_is_a_success_where_every_reaction_is_one() -> None:
    recommender = Recommender(model(IMPLICIT))
    reacted, shown, against = (recommender.session() for _ in range(3))
    reacted.observe("i1")
    shown.observe("i1", None)
    against.observe("i1", 0.0)
    assert reacted.history == [("i1", 1.0)]
    assert shown.history == [("i1", None)]
    after = [session.moments()[0][1] for session in (reacted, shown, against)]
    assert after[0] > after[1] >= after[2]  # no reaction never counts more against an item than the worst one
    with pytest.raises(FeedbackError, match="has no value; expected a number like those of the log, 1 to 5, or None"):
        Recommender(model(STARS)).session().observe("i1")


def test_a_model_with_another_prior_keeps_its_kinds() -> None:
    own = model(STARS, KINDS)
    assert own.with_prior(own.prior_mean, own.prior_cov).kinds == KINDS
