"""`igcf`: the best configuration that the project knows, and what it is without each of its parts."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from igcf.config import ExpertsConfig
from igcf.errors import ConfigError
from igcf.lab.baselines.factors import LoggedModelLearner
from igcf.lab.baselines.task import Settings, Task
from igcf.model import Channel, Model, Term
from igcf.model.usage import Usage
from igcf.online import Greedy, Ucb
from igcf.online.policies import own_policy
from igcf.training import pretrain

OF_THE_TASK = ("satisfied", "validate_rounds", "holdout", "seed")
"""Settings of the experts that follow from the experiment."""
OF_THE_PROTOCOL: dict[str, Any] = {"objective": "hit", "calibrated": False, "known_users": False}
"""Settings of the experts that differ from the project's defaults: the protocols count hits of new users."""
FIT: dict[str, Any] = {
    field.name: field.default for field in fields(ExpertsConfig) if field.name not in {*OF_THE_TASK, *OF_THE_PROTOCOL}
}
"""Settings of the experts that a method may change, with the project's defaults."""
DEFAULTS: dict[str, Any] = {
    **FIT,
    **OF_THE_PROTOCOL,
    "experts": "both",
    "exposure": True,
    "tempered": True,
    "meta": True,
    "nu": 0.0,
    "forgetting": 1.0,
    "attributes": False,
}
VARIANTS: dict[str, Settings] = {
    "- meta": {"meta": False},
    "- likelihood temperature": {"tempered": False},
    "- grades": {"grades": False},
    "- refit with validation users": {"refit": False},
    "- logistic expert": {"experts": "linear"},
    "- linear expert": {"experts": "logistic"},
    "- logistic expert & exposure": {"experts": "linear", "exposure": False},
    "+ exploration (nu = 0.3)": {"nu": 0.3},
}


def fit_igcf(task: Task, settings: Settings, rng: np.random.Generator) -> Model:
    """Pretrain with the project's defaults; what is None is chosen on the validation users."""
    return pretrain(
        task.train,
        validation=task.whole_validation(),
        method="experts",
        satisfied=task.satisfied,
        validate_rounds=task.rounds * task.slate,
        seed=int(rng.integers(2**31)) if task.seed is None else task.seed,
        progress=False,
        **{name: settings[name] for name in (*FIT, *OF_THE_PROTOCOL)} | {"refit": settings["refit"] and task.may_refit},
    )


def play_igcf(model: Model, settings: Settings) -> LoggedModelLearner:
    """Play the model with equal weights of its experts, without some of its parts, or as trained."""
    if settings["experts"] == "as trained":
        policy = own_policy(model.policy)
        return LoggedModelLearner(model, policy, forgetting=settings["forgetting"])
    channels: Sequence[Channel] = model.channels
    if not settings["tempered"]:
        temperature = float(model.metadata["chosen"]["likelihood_temperature"])
        channels = [replace(channel, noise_var=channel.noise_var / temperature) for channel in channels]
    used, terms = _parts(settings, channels)
    first = min(channel.start for channel in used)
    part = slice(first, max(channel.start + channel.vectors.shape[1] for channel in used))
    mean, cov = model.prior_mean[part], model.prior_cov[part, part]
    played = Model(
        channels=[replace(channel, start=channel.start - first) for channel in used],
        terms=terms,
        item_ids=model.item_ids,
        prior_mean=mean if settings["meta"] else np.zeros_like(mean),
        prior_cov=cov if settings["meta"] else np.eye(len(mean)),
        reward=model.reward,
        metadata=model.metadata,
        low_pass=model.low_pass,
        appeared=model.appeared,
        attribute_prior=model.attribute_prior if len(mean) == model.dim and settings["meta"] else None,
        usage=Usage(record_temperature=model.usage.record_temperature),
    )
    return LoggedModelLearner(
        played, Ucb(settings["nu"]) if settings["nu"] else Greedy(), forgetting=settings["forgetting"]
    )


def _parts(settings: Settings, channels: Sequence[Channel]) -> tuple[list[Channel], list[Term]]:
    """Return the channels that are observed, and the terms of the expected reward.

    Success is the linear expert's first channel; exposure and, given it, success are the logistic expert's first two.
    """
    linear = [channel for channel in channels if channel.link == "identity"]
    logistic = [channel for channel in channels if channel.link == "logit"]
    if not settings["exposure"]:
        linear = [channel for channel in linear if channel.reward.kind != "exposed"]
    if settings["experts"] == "linear" or not logistic:
        return linear, [Term(1.0, (0,))]
    if settings["experts"] == "logistic":
        return logistic, [Term(1.0, (0, 1))]
    if settings["experts"] != "both":
        raise ConfigError(f"experts must be both, linear, logistic or as trained, got {settings['experts']!r}")
    start = len(linear)
    return [*linear, *logistic], [Term(0.5, (0,)), Term(0.5, (start, start + 1))]
