"""Prior re-estimated on validation users: from the beliefs about them after playing them as new users."""

import numpy as np

from igcf.arrays import Float32Array
from igcf.model import Model
from igcf.model.usage import HIT
from igcf.online import Greedy, ModelLearner, replay
from igcf.online.replay import BLOCK
from igcf.training.experts.assembling import ranked_by


def prior_from_users(model: Model, truth: Float32Array, rounds: int) -> Model:
    """Return the model with the mean and variances of the beliefs about validation users as its prior.

    This is one step of EM, over as many of them as are played in lock-step. It begins with a wide prior on the activity
    offsets so that it can find them. The users of a log are not always like new users: most are less active, and a log
    may be a sample. Users are played by hit and everything is available, whatever the objective: that also tells how
    much they see.
    """
    learner = ModelLearner(ranked_by(model, HIT), Greedy())
    replay(learner, truth[:BLOCK], rounds=min(rounds, model.n_items), rng=np.random.default_rng(0))
    means, covs = learner.engine.belief_means, learner.engine.belief_covs
    variances = means.var(axis=0) + np.einsum("uii->i", covs) / len(covs)
    return model.with_prior(means.mean(axis=0), np.diag(variances))
