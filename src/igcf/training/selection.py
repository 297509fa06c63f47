"""Validation users: who they are, how a model is scored on them, which online settings suit them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from igcf.arrays import Float32Array, IntArray
from igcf.config import PretrainConfig
from igcf.data.interactions import Interactions
from igcf.errors import DataError
from igcf.model import Model
from igcf.online import Greedy, ModelLearner, replay
from igcf.training.graph.population import OnlineSettings

MOST_USERS = 200
FEWEST_USERS = 5
NOISE_FACTORS = (0.25, 0.5, 2.0)
"""Candidates for the noise variance, as multiples of the estimate."""
GAMMA_FACTORS = (0.1, 10.0, 100.0)
"""Candidates for gamma, as multiples of the setting."""


def held_out_users(data: Interactions, share: float) -> IntArray:
    """The most active users, `share` of those who reacted and at most 200; nobody when that is fewer than five."""
    counts = np.bincount(data.user_idx, minlength=data.n_users)
    n = min(int(share * (counts > 0).sum()), MOST_USERS)
    return np.sort(np.argsort(-counts, kind="stable")[: n if n >= FEWEST_USERS else 0])


def validation_table(validation: Interactions, data: Interactions) -> Float32Array:
    """Reactions of the (at most 200 most active) validation users, (users, items), NaN where there is none."""
    if validation.item_ids != data.item_ids:
        raise DataError(
            f"the validation log has {validation.n_items} items, the training log {data.n_items}; "
            "both must have the same items in the same order"
        )
    counts = np.bincount(validation.user_idx, minlength=validation.n_users)
    users = np.sort(np.argsort(-counts, kind="stable")[: min(MOST_USERS, int((counts > 0).sum()))])
    if len(users) == 0:
        raise DataError("the validation log holds no reaction; give at least one user or leave it out")
    return validation.only_users(users).dense()


def interactive_precision(model: Model, truth: Float32Array, rounds: int) -> float:
    """Mean number of successes when every user of `truth` is met as a new user for `rounds` rounds, greedily.

    At most a quarter of the catalogue is shown: once everything has been shown, all models are equal.
    """
    rounds = min(rounds, max(model.n_items // 4, 1))
    shown = replay(ModelLearner(model, Greedy()), truth, rounds=rounds, rng=np.random.default_rng(0))
    return float(model.reward.is_satisfied(shown.values).sum(axis=(1, 2)).mean())


def tuned(
    start: OnlineSettings, score: Callable[[OnlineSettings], float], config: PretrainConfig
) -> tuple[OnlineSettings, float]:
    """The best settings of a small search, one after the other: first the noise variance, then gamma."""
    best, best_score = start, score(start)
    factors = NOISE_FACTORS if config.online_noise_var is None else ()
    for candidate in [replace(start, noise_var=start.noise_var * factor) for factor in factors]:
        best, best_score = _better(best, best_score, candidate, score(candidate))
    for candidate in [replace(best, gamma=(start.gamma or 1e-3) * factor) for factor in GAMMA_FACTORS]:
        best, best_score = _better(best, best_score, candidate, score(candidate))
    return best, best_score


def _better(
    best: OnlineSettings, best_score: float, candidate: OnlineSettings, candidate_score: float
) -> tuple[OnlineSettings, float]:
    return (candidate, candidate_score) if candidate_score > best_score else (best, best_score)
