"""Interactive collaborative filtering (Zhao et al., 2013): a factorisation and a Bayesian linear user on top of it."""

import numpy as np

from igcf.lab.baselines.pmf import factorise
from igcf.lab.baselines.task import Settings, Task
from igcf.model import Model
from igcf.online import Greedy, ModelLearner, Thompson, Ucb


def fit_icf(task: Task, settings: Settings, rng: np.random.Generator) -> Model:
    """Build a model from the item vectors of a factorisation, with prior N(0, I / penalty) and noise variance 1."""
    train, reward = task.train, task.reward_of(settings["reward"])
    factors = factorise(
        train.matrix(reward.of(train.values)),
        dim=settings["dim"],
        penalty=settings["penalty"],
        rounds=settings["rounds"],
        estimate=settings["estimate"],
        rng=rng,
    )
    dim = factors.items.shape[1]
    return Model(
        item_vectors=factors.items,
        item_variances=factors.item_variances,
        item_ids=train.item_ids,
        prior_mean=np.zeros(dim),
        prior_cov=np.eye(dim) / settings["penalty"],
        noise_var=1.0,
        reward=reward,
    )


def play_mf(model: Model, settings: Settings) -> ModelLearner:
    """Play greedily; the first item is a tie of all items, which is broken at random."""
    return ModelLearner(model, Greedy(), forgetting=settings["forgetting"])


def play_ucb(model: Model, settings: Settings) -> ModelLearner:
    """Play upper confidence bounds; `nu` 0 is greedy."""
    return ModelLearner(model, Ucb(settings["nu"]), forgetting=settings["forgetting"])


def play_thompson(model: Model, settings: Settings) -> ModelLearner:
    """Play Thompson sampling of the user and, with `sample_items`, of the items by their variances."""
    return ModelLearner(model, Thompson(settings["sample_items"]), forgetting=settings["forgetting"])
