"""The prior of those who are met: beliefs about validation users, after meeting them as new users will be met."""

import numpy as np

from igcf.arrays import Float32Array
from igcf.model import Model
from igcf.online import Greedy, ModelLearner, replay
from igcf.online.replay import BLOCK


def prior_from_users(model: Model, truth: Float32Array, rounds: int) -> Model:
    """The same model with the prior of those who are met: mean and variances of the beliefs about these.

    One step of EM, over as many of them as are met in lock-step; both levels begin almost unknown so that it can find
    them. The users of a log are not always those who will be met: most are less active, and a log may be a sample.
    """
    learner = ModelLearner(model, Greedy())
    replay(learner, truth[:BLOCK], rounds=min(rounds, model.n_items), rng=np.random.default_rng(0))
    means, covs = learner.engine.belief_means, learner.engine.belief_covs
    variances = means.var(axis=0) + np.einsum("uii->i", covs) / len(covs)
    return model.with_prior(means.mean(axis=0), np.diag(variances))
