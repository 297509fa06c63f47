from typing import Any

import numpy as np
import pytest

from igcf.errors import ConfigError, FeedbackError, IgcfError, NoItemsLeftError, UnknownItemError
from igcf.model import Model
from igcf.online import Greedy, Recommender, Session, Thompson, Ucb
from tests.toys import ensemble_model, random_model, two_channel_model

HISTORY = [("item-3", 5.0), ("item-9", None), ("item-4", 2.0), ("item-11", 4.0)]


def played(recommender: Recommender) -> Session:
    session = recommender.session()
    for item_id, value in HISTORY:
        session.observe(item_id, value)
    return session


def assert_same_state(one: Session, other: Session, atol: float = 2e-6) -> None:
    np.testing.assert_allclose(one.belief.mean, other.belief.mean, atol=atol)
    np.testing.assert_allclose(one.belief.cov, other.belief.cov, atol=atol)
    np.testing.assert_allclose(one.moments(), other.moments(), atol=atol)


@pytest.mark.parametrize("forgetting", [1.0, 0.9])
@pytest.mark.parametrize("model", [two_channel_model(), ensemble_model()])
def test_a_warm_start_equals_replaying_the_history(model: Model, forgetting: float) -> None:
    recommender = Recommender(model, forgetting=forgetting)
    warm, replayed = recommender.session(HISTORY), played(recommender)
    assert_same_state(warm, replayed)
    assert warm.history == replayed.history == HISTORY


@pytest.mark.parametrize("forgetting", [1.0, 0.9])
@pytest.mark.parametrize("model", [two_channel_model(), ensemble_model()])
def test_an_explanation_sums_to_the_mean(model: Model, forgetting: float) -> None:
    session = played(Recommender(model, forgetting=forgetting))
    for row, item_id in enumerate(session.model.item_ids):
        explanation = session.explain(item_id)
        total = explanation.prior + sum(each.amount for each in explanation.contributions)
        assert total == pytest.approx(explanation.mean, abs=1e-12)
        assert explanation.mean == pytest.approx(session.moments()[0][row], abs=1e-5)
        assert [(each.item_id, each.value) for each in explanation.contributions] == HISTORY


def test_the_explanation_of_a_new_user_is_the_population() -> None:
    session = Recommender(random_model()).session()
    explanation = session.explain("item-0")
    assert explanation.contributions == ()
    assert explanation.mean == explanation.prior


def test_recommendations_are_ranked_unseen_and_carry_mean_and_std() -> None:
    session = played(Recommender(two_channel_model(), Ucb(nu=0.5)))
    picks = session.recommend(k=5)
    assert [pick.rank for pick in picks] == [1, 2, 3, 4, 5]
    assert sorted((pick.score for pick in picks), reverse=True) == [pick.score for pick in picks]
    assert not {pick.item_id for pick in picks} & {item_id for item_id, _ in HISTORY}
    for pick in picks:
        assert pick.score == pytest.approx(pick.mean + 0.5 * pick.std)


def test_exclusions_and_candidates_are_kept_to() -> None:
    session = Recommender(random_model()).session()
    everyone = [pick.item_id for pick in session.recommend(k=40)]
    assert session.recommend(exclude=everyone[:3])[0].item_id == everyone[3]
    assert session.recommend(exclude=["never heard of", everyone[0]])[0].item_id == everyone[1]
    picks = session.recommend(k=2, candidates=everyone[5:8], exclude=everyone[5:6])
    assert [pick.item_id for pick in picks] == everyone[6:8]


def test_a_policy_can_be_chosen_for_one_call() -> None:
    session = Recommender(random_model(), Ucb(nu=100.0)).session()
    greedy = session.recommend(policy=Greedy())[0]
    assert greedy.score == greedy.mean
    assert session.recommend()[0].score > greedy.score


def test_sessions_of_one_seed_repeat_and_differ_among_each_other() -> None:
    def draws() -> list[list[str]]:
        recommender = Recommender(random_model(), Thompson(), seed=3)
        return [[pick.item_id for pick in recommender.session().recommend(k=10)] for _ in range(2)]

    first, second = draws(), draws()
    assert first == second
    assert first[0] != first[1]


@pytest.mark.parametrize(
    ("item_id", "value", "error", "message"),
    [
        ("nothing", 1.0, UnknownItemError, "item 'nothing' is not in this model"),
        ("item-1", float("nan"), FeedbackError, "value nan is outside the scale of the log, -5 to 5"),
        ("item-1", float("inf"), FeedbackError, "value inf is outside the scale of the log, -5 to 5"),
        ("item-1", 1e9, FeedbackError, "pass a value from -5 to 5"),
        ("item-1", 10**400, FeedbackError, "value inf is outside the scale of the log, -5 to 5"),
        ("item-1", "five", FeedbackError, "value 'five' is a str"),
        ("item-1", True, FeedbackError, "value True is a bool"),
    ],
)
def test_a_bad_reaction_is_refused_and_changes_nothing(
    item_id: str, value: object, error: type[IgcfError], message: str
) -> None:
    session = Recommender(random_model()).session([("item-0", 1.0)])
    untouched = Recommender(random_model()).session([("item-0", 1.0)])
    with pytest.raises(error, match=message):
        session.observe(item_id, value)  # type: ignore[arg-type]
    assert_same_state(session, untouched, atol=0)
    assert session.history == [("item-0", 1.0)]
    assert "item-1" in {pick.item_id for pick in session.recommend(k=39)}


def test_more_than_what_is_left_is_refused() -> None:
    session = Recommender(random_model(n_items=3)).session([("item-0", 1.0)])
    with pytest.raises(NoItemsLeftError, match="asked for 3 items, 2 of 3 are left"):
        session.recommend(k=3)
    assert len(session.recommend(k=2)) == 2


def test_a_user_who_has_seen_everything_is_told_so() -> None:
    session = Recommender(random_model(n_items=2)).session([("item-0", 1.0), ("item-1", 0.0)])
    with pytest.raises(NoItemsLeftError, match="asked for 1 item, 0 of 2 are left"):
        session.recommend()


@pytest.mark.parametrize("k", [0, -1, 1.5, True])
def test_a_k_that_is_no_count_is_refused(k: object) -> None:
    with pytest.raises(ConfigError, match="k must be a whole number of at least 1"):
        Recommender(random_model()).session().recommend(k=k)  # type: ignore[arg-type]


@pytest.mark.parametrize("forgetting", [0.0, 1.1, float("nan")])
def test_a_bad_forgetting_factor_is_refused(forgetting: float) -> None:
    with pytest.raises(ConfigError, match="forgetting must be in"):
        Recommender(random_model(), forgetting=forgetting)


def test_forgetting_lets_a_changed_taste_win_sooner() -> None:
    ids, vectors = [f"a{number}" for number in range(40)], np.tile([1.0, 0.0], (40, 1))
    model = Model(item_vectors=vectors, item_ids=ids, prior_mean=[0, 0], prior_cov=np.eye(2), noise_var=0.5)
    beliefs = {}
    for forgetting in (1.0, 0.9):
        session = Recommender(model, forgetting=forgetting).session()
        for number, value in enumerate([1.0] * 30 + [0.0] * 10):
            session.observe(f"a{number}", value)
        beliefs[forgetting] = session.belief.mean[0]
    assert beliefs[0.9] < 0.5 < beliefs[1.0]


@pytest.mark.parametrize("argument", ["history", "logged"])
@pytest.mark.parametrize("given", [["a"], {"a": 1.0}, [("a", 1.0, 2.0)]])
def test_reactions_that_are_no_pairs_are_refused(argument: str, given: Any) -> None:
    with pytest.raises(ConfigError, match=rf"{argument} takes \(item_id, value\) pairs, got "):
        Recommender(random_model()).session(**{argument: given})
