"""Objective, policy and calibration that training decides on validation users."""

from dataclasses import replace

import numpy as np
import pytest

from igcf.config import ExpertsConfig
from igcf.data import Interactions, synthetic_catalogue
from igcf.data.splits import ColdStart, observed_split
from igcf.errors import ConfigError
from igcf.lab.evaluate import evaluate, setup_for
from igcf.lab.evaluate.protocols.observed import calibration_error
from igcf.lab.evaluate.tables import results_tables
from igcf.model import Model
from igcf.model.usage import Calibration
from igcf.online import Greedy, ModelLearner
from igcf.training import pretrain
from igcf.training.calibrating import Played, chance_of, fit_calibration, play_observed, successes
from igcf.training.experts import fit_experts

SMALL = ExpertsConfig(
    satisfied=4.0,
    iterations=4,
    logistic_dim=6,
    linear_dim=6,
    likelihood_temperature=1.0,
    objective="liking",
)


@pytest.fixture(scope="module")
def split() -> ColdStart:
    log = synthetic_catalogue(n_users=700, n_items=150, seed=2)
    return observed_split(log, min_reactions=30, n_test=80, n_validation=80, rng=np.random.default_rng(0))


@pytest.fixture(scope="module")
def model(split: ColdStart) -> Model:
    return fit_experts(split.train, SMALL, validation=split.validation)


def test_a_trained_model_says_how_it_is_used(model: Model) -> None:
    assert model.objective == "liking"
    assert model.policy.name == "ucb"
    assert model.policy.nu in (0.0, 0.1, 0.3)
    assert model.calibration != Calibration()
    assert model.usage.is_ordered


def test_calibrated_chances_come_true_for_users_it_has_not_seen(model: Model, split: ColdStart) -> None:
    played = play_observed(ModelLearner(model, Greedy()), split.test.dense(), 15)
    found = chance_of(played, model.calibration)
    assert calibration_error(found, played.is_success) < 0.08
    assert calibration_error(found, played.is_success) < calibration_error(
        chance_of(played, Calibration(0.3, -1.0, 1.0)), played.is_success
    )


def contrary_log(n_users: int = 400, n_items: int = 80) -> Interactions:
    """Half of the items are seen by most and liked by few, the others the other way round; two tastes."""
    rng = np.random.default_rng(0)
    is_famous, taste = np.arange(n_items) < n_items // 2, rng.integers(2, size=n_users)
    chance = np.where(is_famous, 0.35, 0.6) + np.where(taste[:, None] == np.arange(n_items) % 2, 0.25, -0.25)
    users, items = np.nonzero(rng.random((n_users, n_items)) < np.where(is_famous, 0.8, 0.3))
    stars = np.where(rng.random(len(users)) < chance[users, items], 5.0, 2.0)
    return Interactions.from_arrays(users.astype(str), items.astype(str), stars)


def test_liking_satisfies_more_than_hit_where_every_item_gets_its_reaction() -> None:
    """Ten rounds: `hit` shows what is seen and liked most often, and that are items which few like."""
    parts = observed_split(contrary_log(), min_reactions=30, n_test=80, n_validation=80, rng=np.random.default_rng(0))
    settings = (SMALL, replace(SMALL, objective="hit", calibrated=False))
    by_liking, by_hit = (fit_experts(parts.train, each, validation=parts.validation) for each in settings)
    truth = parts.test.dense()
    liking, hit = (successes(each, truth, 10, 0.0, is_observed=True).mean() for each in (by_liking, by_hit))
    assert by_hit.usage.objective == "hit"
    assert not by_hit.usage.is_ordered
    assert liking > hit + 1.0


def test_a_calibration_is_found_again_from_reactions_that_follow_it() -> None:
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=(400, 40)), rng.random((400, 40))
    played = Played(mean, variance, np.zeros(mean.shape, dtype=bool), (), np.zeros(mean.shape, dtype=int))
    truth = chance_of(played, Calibration(1.4, -0.5, 1.0))
    found = fit_calibration(replace(played, is_success=rng.random(truth.shape) < truth))
    assert found.slope == pytest.approx(1.4, abs=0.1)
    assert found.shift == pytest.approx(-0.5, abs=0.1)


def test_an_objective_has_a_name() -> None:
    for wrong in (0.5, "luck"):
        with pytest.raises(ConfigError, match="objective must be one of hit, liking"):
            ExpertsConfig(objective=wrong)  # type: ignore[arg-type]


def test_where_every_reaction_is_a_success_the_objective_is_hit() -> None:
    log = synthetic_catalogue(n_users=80, n_items=40)
    log = replace(log, values=np.ones_like(log.values))
    found = pretrain(log, replace(SMALL, satisfied=1.0), progress=False)
    assert found.objective == "hit"


@pytest.mark.slow
def test_observed_compares_all_methods_on_the_same_users() -> None:
    log = synthetic_catalogue(n_users=300, n_items=120, seed=3)
    results = evaluate(log, setup_for(log, "observed", rounds=12), ("random", "share", "liked-factors", "igcf"))
    precision = {row.method: row.figures["precision"]["12"] for row in results.rows}
    assert precision["igcf"] > precision["random"] + 1.0
    assert precision["share"] > precision["random"] + 0.5
    assert results.rows[-1].outcome.details["chance"]["ece"] < 0.12
    assert {"share", "liked-factors"} & {each.reference for each in results.comparisons}
    assert [line[0] for line in results_tables(results)[-1].rows] == ["igcf-hit", "igcf"]
