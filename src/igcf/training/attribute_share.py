"""How much of the attributes' weights is used: training users play as new ones, under weights learned without them.

The likelihood of vectors, by which weights and penalties are fitted, takes records for draws from the model; those of
people are not, and the whole of W may go too far. What counts is what a recommender is used for: successes.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.data.interactions import Interactions
from igcf.model import Model
from igcf.model.attribute_prior import AttributePrior, Played
from igcf.online import Greedy, ModelLearner, replay
from igcf.online.policies import own_policy
from igcf.training.experts.executor import in_threads

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
UNDECIDED = 0.5  # share where too few users can be played
ROUNDS = 20
MOST_USERS = 1_000
FEWEST_USERS = 100
LEAST_REACTIONS = (20, 8, 2)  # numbers of reactions that played users have, the first that enough of them reach
MOST_NUMBERS = 20_000_000  # largest table of played users and items


class Fit(NamedTuple):
    """Weights of attributes, from everybody and without some of the users."""

    prior: AttributePrior
    folds: IntArray  # fold of each user, shape (n,)
    held_out: tuple[AttributePrior, ...]  # weights without the users of each fold; none where no attribute is used


def with_best_share(model: Model, data: Interactions, rows: IntArray, fit: Fit, *, seed: int = 0) -> AttributePrior:
    """Return the weights with the share of them under which held-out users have the largest shares of successes.

    `rows` are the users of `fit`. What counts is the share of successes so far, mean over the rounds, as for the prior:
    it matters most in the first ones. A share of 0 leaves all attributes out.
    """
    if not fit.held_out:
        return fit.prior
    counts = np.bincount(data.user_idx, minlength=data.n_users)[rows]
    able = next((own for least in LEAST_REACTIONS if len(own := np.flatnonzero(counts >= least)) >= FEWEST_USERS), None)
    most = min(MOST_USERS, MOST_NUMBERS // data.n_items)
    if able is None or most < FEWEST_USERS:
        return replace(fit.prior, share=UNDECIDED)
    chosen = np.sort(np.random.default_rng(seed).permutation(able)[:most])
    parts = [chosen[fit.folds[chosen] == fold] for fold in range(len(fit.held_out))]
    curves = [_curves(model, data.only_users(rows[part]), own) for part, own in zip(parts, fit.held_out, strict=True)]
    of_shares = np.concatenate(curves, axis=1)
    rounds = of_shares.shape[2]
    best = smooth_best((of_shares / np.arange(1, rounds + 1)).mean(axis=(1, 2)))
    gains = of_shares[best, :, -1] - of_shares[0, :, -1]
    error = float(gains.std() / np.sqrt(len(gains)))
    played = Played(len(gains), rounds, float(of_shares[0, :, -1].mean()), float(gains.mean()), error)
    return replace(fit.prior if best else _unused(fit.prior), share=SHARES[best], played=played)


def smooth_best(scores: FloatArray) -> int:
    """Return which of the shares is best by the parabola through what they gain: neighbours differ by chance."""
    powers = np.array(SHARES)[:, None] ** (1, 2)
    parabola = np.linalg.lstsq(powers, scores - scores[0], rcond=None)[0]
    best = int(np.argmax(powers @ parabola))
    return best if scores[best] > scores[0] else 0


def _curves(model: Model, data: Interactions, prior: AttributePrior) -> FloatArray:
    """Play users with each share; return how many successes each had up to each round, (shares, users, rounds)."""
    truth, table = data.dense(), data.users
    assert table is not None  # noqa: S101
    settings = model.metadata.get("settings", {})
    policy = own_policy(model.policy) if settings.get("calibrated", True) else Greedy()  # nobody chose one
    is_observed = model.objective == "liking" or settings.get("missing") == "ignore"
    available = ~np.isnan(truth) if is_observed and model.reward.threshold > model.reward.low else None
    n_open = model.n_items // 4 if available is None else int(available.sum(axis=1).min(initial=model.n_items)) // 2
    given = [table.given(user_id) for user_id in data.user_ids]

    def play(share: float) -> FloatArray:
        learner = ModelLearner(model.changed(attribute_prior=replace(prior, share=share)), policy)
        shown = replay(
            learner,
            truth,
            rounds=max(min(ROUNDS, n_open), 1),
            rng=np.random.default_rng(0),
            available=available,
            begun=lambda users: learner.set_attributes([given[user] for user in users.tolist()]),
        )
        return model.reward.is_satisfied(shown.values)[:, :, 0].cumsum(axis=1)

    return np.asarray(in_threads(play, SHARES), dtype=np.float64)


def _unused(prior: AttributePrior) -> AttributePrior:
    """Leave all attributes out."""
    worth = {name: replace(each, penalty=None) for name, each in prior.worth.items()}
    none = np.zeros((len(prior.weights), 0))
    return AttributePrior(prior.encoder.without([*prior.worth]), none, none, np.zeros((0, 0)), worth)
