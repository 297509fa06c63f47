"""Interactive collaborative filtering (Zhao et al., 2013): a factorisation and a Bayesian linear user on top of it."""

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray
from igcf.lab.baselines.pmf import factorise
from igcf.lab.baselines.task import Settings, Task
from igcf.model import Model
from igcf.online import Greedy, ModelLearner, ScoringEngine, Thompson, Ucb


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
    policy = ThompsonOfItems() if settings["sample_items"] else Thompson()
    return ModelLearner(model, policy, forgetting=settings["forgetting"])


class ThompsonOfItems(Thompson):
    """Thompson sampling that also draws every item's vector."""

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        """Return the rewards under one draw of each user and item."""
        draw = self.draw(engine, rng)[:, 0]
        scores = engine.model.expected(draw)
        return scores + np.sqrt(engine.item_uncertainty(draw)) * rng.standard_normal(scores.shape)
