"""Prior re-estimated on validation users: from the beliefs about them after playing them as new users."""

import numpy as np

from igcf.arrays import Float32Array, FloatArray, IntArray
from igcf.model import Model
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
    return _Played(model, truth[:BLOCK], rounds).prior_of(np.arange(min(len(truth), BLOCK)))


def is_prior_from_users_better(model: Model, truth: Float32Array, rounds: int) -> bool:
    """Tell whether validation users do better with a prior from others of them than with that of the model.

    Each half of them is played with the prior that the other half gives. What counts is the share of successes so far,
    mean over all rounds: a prior matters most in the first ones.
    """
    truth = truth[:BLOCK]
    if len(truth) < 2:
        return False
    played = _Played(model, truth, rounds)
    halves = (np.arange(0, len(truth), 2), np.arange(1, len(truth), 2))
    with_prior = np.empty(len(truth))
    for half, others in (halves, halves[::-1]):
        with_prior[half] = _Played(played.prior_of(others), truth[half], rounds).scores
    return bool(with_prior.mean() > played.scores.mean())


class _Played:
    """Users who were played by a model: how they did, and what is believed about them in the end."""

    def __init__(self, model: Model, truth: Float32Array, rounds: int) -> None:
        self.model = model
        learner = ModelLearner(ranked_by(model, "hit"), Greedy())
        shown = replay(learner, truth, rounds=min(rounds, model.n_items), rng=np.random.default_rng(0))
        self._means, self._covs = learner.engine.belief_means, learner.engine.belief_covs
        successes = model.reward.is_satisfied(shown.values)[:, :, 0].cumsum(axis=1)
        self.scores: FloatArray = np.asarray(np.mean(successes / np.arange(1, successes.shape[1] + 1), axis=1))
        """Share of successes so far, mean over the rounds, of each user."""

    def prior_of(self, users: IntArray) -> Model:
        """Return the model with the mean and variances of the beliefs about some of the users as its prior."""
        means, covs = self._means[users], self._covs[users]
        variances = means.var(axis=0) + np.einsum("uii->i", covs) / len(covs)
        return self.model.with_prior(means.mean(axis=0), np.diag(variances))
