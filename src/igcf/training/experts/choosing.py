"""Choices on validation users, played as new users: the likelihood temperature, and where the prior comes from."""

import numpy as np

from igcf.arrays import Float32Array, FloatArray, IntArray
from igcf.model import Model
from igcf.online import Greedy, ModelLearner, replay
from igcf.training.calibrating import precision, successes, users_to_play
from igcf.training.experts.executor import Executor, Worker, in_threads
from igcf.training.experts.fitting import Fits

TEMPERATURES = (1.0, 2.0, 4.0, 8.0)
"""Candidates, tried in this order until one is worse than the one before; the first is the default."""
LEVEL = 1.645  # standard errors by which another prior must be ahead: the 5 % level of a one-sided test
PIECES = 4
"""Parts of the validation users that are played at the same time; a fixed number, so that cores do not matter."""


class Players:
    """Plays validation users with models on several workers, each playing some of the users."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._held: Float32Array | None = None
        self._results: dict[tuple[Model, int, float, bool], FloatArray] = {}

    def precision(self, model: Model, truth: Float32Array, rounds: int) -> float:
        """Return the mean number of successes (`calibrating.precision`); with liking in the manner of `observed`."""
        if model.objective != "liking":
            return precision(model, truth, rounds, self.successes)
        truth, rounds = users_to_play(truth)
        return float(self.successes(model, truth, rounds, 0.0, is_observed=True).mean()) if rounds else 0.0

    def successes(self, model: Model, truth: Float32Array, rounds: int, nu: float, *, is_observed: bool) -> FloatArray:
        """Return each user's number of successes, as `igcf.training.calibrating.successes` does."""
        executor, key = self._executor, (model, rounds, nu, is_observed)
        if self._held is None or not np.array_equal(self._held, truth, equal_nan=True):
            self._held, self._results = truth, {}
            executor.call(hold_truth, each=[(share,) for share in np.array_split(truth, executor.size)])
        if key not in self._results:
            self._results[key] = np.concatenate(executor.call(play, *key))
        return self._results[key]


def hold_truth(worker: Worker, truth: Float32Array) -> None:
    """Let a worker hold the reactions of some validation users."""
    worker.truth = truth


def play(worker: Worker, model: Model, rounds: int, nu: float, is_observed: bool) -> FloatArray:
    """Return the number of successes of each of a worker's validation users."""
    truth = worker.truth
    assert truth is not None, "call hold_truth before"  # noqa: S101
    pieces = [piece for piece in np.array_split(truth, PIECES) if len(piece)]
    played = in_threads(lambda piece: successes(model, piece, rounds, nu, is_observed=is_observed), pieces)
    return np.concatenate(played) if played else np.zeros(0)


def best_temperature(fits: Fits, truth: Float32Array, players: Players) -> tuple[float, float]:
    """Return the likelihood temperature that is best on validation users, and its precision.

    Args:
        fits: Experts of users other than the validation users.
        truth: Reactions of the validation users, shape (users, items), NaN for unrated items.
        players: Workers that play them.
    """
    fixed = fits.config.likelihood_temperature
    candidates = TEMPERATURES if fixed is None else (fixed,)
    scores = {float(name): float(score) for name, score in (fits.checkpoint.load("scores") or {}).items()}
    best = candidates[0]
    for number, temperature in enumerate(candidates):
        if temperature not in scores:
            model = fits.model(temperature)
            scores[temperature] = players.precision(model, truth, fits.config.validate_rounds)
            fits.checkpoint.save("scores", {str(each): np.array(score) for each, score in scores.items()})
        fits.say("choosing on validation users", number + 1, len(candidates))
        if scores[temperature] > scores[best]:
            best = temperature
        elif number:
            break
    return best, scores[best]


def prior_from_users(model: Model, truth: Float32Array, rounds: int) -> Model:
    """Return the model with the mean and variances of the beliefs about validation users as its prior.

    They are played as new users; this is one step of EM. The users of a log are not always like new users: most are
    less active, and a log may be a sample.
    """
    return _Played(model, truth, rounds).prior_of(np.arange(len(truth)))


def is_prior_from_users_better(model: Model, truth: Float32Array, rounds: int) -> bool:
    """Return whether validation users clearly do better with a prior from others of them than with that of the model.

    Each half of them is played with the prior that the other half gives. What counts is the share of successes so far,
    mean over all rounds: a prior matters most in the first ones.
    """
    if len(truth) < 2:
        return False
    played = _Played(model, truth, rounds)
    halves = (np.arange(0, len(truth), 2), np.arange(1, len(truth), 2))
    with_prior = np.empty(len(truth))
    for half, others in (halves, halves[::-1]):
        with_prior[half] = _Played(played.prior_of(others), truth[half], rounds).shares
    gain = with_prior - played.shares
    return bool(gain.mean() > LEVEL * gain.std(ddof=1) / np.sqrt(len(gain)))


class _Played:
    """Users who were played by a model: their successes, and the beliefs about them after the last round."""

    def __init__(self, model: Model, truth: Float32Array, rounds: int) -> None:
        self.model = model
        learner = ModelLearner(model, Greedy())
        shown = replay(learner, truth, rounds=min(rounds, model.n_items), rng=np.random.default_rng(0))
        self._means, self._covs = learner.engine.belief_means, learner.engine.belief_covs
        successes = model.reward.is_satisfied(shown.values)[:, :, 0].cumsum(axis=1)
        self.shares: FloatArray = np.asarray(np.mean(successes / np.arange(1, successes.shape[1] + 1), axis=1))
        """Share of successes so far, mean over the rounds, of each user."""

    def prior_of(self, users: IntArray) -> Model:
        """Return the model with the mean and variances of the beliefs about some of the users as its prior."""
        means, covs = self._means[users], self._covs[users]
        variances = means.var(axis=0) + np.einsum("uii->i", covs) / len(covs)
        return self.model.with_prior(means.mean(axis=0), np.diag(variances))
