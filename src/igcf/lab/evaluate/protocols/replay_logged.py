"""Users with a logged history in lock-step: what is logged is never shown, and the learner may be told of it."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from igcf.arrays import Float32Array, IntArray
from igcf.data import Interactions
from igcf.lab.baselines.history import Logged
from igcf.lab.evaluate.protocols.base import Session
from igcf.online import Learner, Shown

BLOCK = 256
"""Users in lock-step at a time."""


class KnowingLearner(Learner, Protocol):
    """Learner that can start from what a log holds of its users."""

    def know(self, logged: Sequence[Logged]) -> None:
        """Take over the logged reactions of all users, after `begin` and before the first choice."""
        ...


def logged_by_user(log: Interactions) -> list[Logged]:
    """Return the reactions of each user."""
    order = np.argsort(log.user_idx, kind="stable")
    cuts = np.searchsorted(log.user_idx[order], np.arange(log.n_users + 1))
    parts = [order[start:end] for start, end in pairwise(cuts)]
    return [Logged(log.item_idx[part], log.values[part]) for part in parts]


def replay_logged(
    learner: KnowingLearner,
    truth: Float32Array,
    logged: Sequence[Logged],
    session: Session,
    *,
    is_told: bool,
    rng: np.random.Generator,
) -> Shown:
    """Let `learner` meet users whose reactions are known, without the items that are logged.

    Args:
        learner: recommends and learns.
        truth: (users, items) values, NaN where the user has no reaction.
        logged: reactions of each user before the first round.
        session: rounds, and items per round; all of them are observed.
        is_told: whether the learner is told what is logged.
        rng: random numbers of draws and ties.
    """
    n_users, n_items = truth.shape
    rows = np.empty((n_users, session.rounds, session.slate), dtype=np.int32)
    values = np.empty(rows.shape, dtype=np.float32)
    for start in range(0, n_users, BLOCK):
        users = np.arange(start, min(start + BLOCK, n_users))
        available = np.ones((len(users), n_items), dtype=np.bool_)
        for place, user in enumerate(users):
            available[place, logged[user].rows] = False
        learner.begin(len(users), rng=rng)
        if is_told:
            learner.know([logged[user] for user in users])
        for t in range(session.rounds):
            chosen = learner.select(available, session.slate)
            seen = truth[users[:, None], chosen]
            np.put_along_axis(available, chosen, False, axis=1)
            if t + 1 < session.rounds:
                learner.observe(chosen, seen)
            rows[users, t], values[users, t] = chosen, seen
    return Shown(rows, values)


def rank_logged(
    learner: KnowingLearner, logged: Sequence[Logged], n_items: int, k: int, *, rng: np.random.Generator
) -> IntArray:
    """Return the k best items of each user among those that are not logged, shape (users, k)."""
    found = np.empty((len(logged), k), dtype=np.int32)
    for start in range(0, len(logged), BLOCK):
        part = logged[start : start + BLOCK]
        available = np.ones((len(part), n_items), dtype=np.bool_)
        for place, each in enumerate(part):
            available[place, each.rows] = False
        learner.begin(len(part), rng=rng)
        learner.know(part)
        found[start : start + len(part)] = learner.select(available, k)
    return found
