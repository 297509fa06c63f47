from functools import cache

import numpy as np
import pytest

from igcf.config import ExpertsConfig
from igcf.errors import ConfigError
from igcf.lab.baselines import method_named
from igcf.lab.baselines.igcf import FIT, OF_THE_PROTOCOL
from igcf.model import Model, Term
from igcf.online import ModelLearner
from tests.lab.baselines.worlds import task

METHOD = method_named("igcf")


@cache
def fitted() -> Model:
    settings = METHOD.settings({"linear_dim": 3, "logistic_dim": 3, "likelihood_temperature": 2.0})
    model: Model = METHOD.fit(task(), settings, np.random.default_rng(0))
    return model


def played(**changes: object) -> Model:
    learner = METHOD.play(fitted(), METHOD.settings(changes))
    assert isinstance(learner, ModelLearner)
    return learner.model


def test_without_changes_the_model_is_played_as_it_was_learned() -> None:
    assert played().terms == fitted().terms
    assert len(played().channels) == len(fitted().channels) == 7  # three of the linear expert, four of the logistic


def test_each_expert_can_stand_alone() -> None:
    assert played(experts="linear").terms == (Term(1.0, (0,)),)
    assert len(played(experts="linear", exposure=False).channels) == 2
    assert {channel.link for channel in played(experts="logistic").channels} == {"logit"}
    with pytest.raises(ConfigError, match="experts must be both, linear, logistic or as trained, got 'none'"):
        played(experts="none")


def test_the_average_stays_one_without_the_exposures_of_the_linear_expert() -> None:
    assert played(exposure=False).terms == (Term(0.5, (0,)), Term(0.5, (2, 3)))


def test_without_likelihood_temperature_every_reaction_has_its_full_weight() -> None:
    for careful, plain in zip(played().channels, played(tempered=False).channels, strict=True):
        np.testing.assert_allclose(plain.noise_var, careful.noise_var / 2.0)


def test_the_defaults_are_those_of_the_experts() -> None:
    settings = METHOD.settings()
    assert {name: settings[name] for name in FIT} == FIT
    # the protocols count hits of new users: nobody is told a chance, and nobody has a record
    assert ExpertsConfig(**FIT, **OF_THE_PROTOCOL) == ExpertsConfig(
        objective="hit", calibrated=False, known_users=False
    )


def test_without_meta_nothing_is_known_about_the_population() -> None:
    assert not played(meta=False).prior_mean.any()
    assert fitted().prior_mean.any()
