"""`known-users`: people who are not in the training data, most of whose successes are given and the rest hidden."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from igcf.arrays import BoolArray, FloatArray, IntArray
from igcf.data import ColdStart, Interactions
from igcf.errors import ConfigError, DataError

N_RANKED = 100
"""Number of items that are ranked for each user; what lies below counts as not found."""
NDCG_AT = (10, 100)
RECALL_AT = (20, 50)
N_USERS = 600
"""Number of test users, where a fifth of the users is as many."""
MIN_REACTIONS = 5
"""Least number of reactions of a test or validation user."""
FIT_ROUNDS = 40
"""Rounds of the sessions by which a model that validates interactively chooses its settings."""
LEAST_USERS = 5
VALIDATION_DRAWS = 3
"""Number of times that other successes of the same validation users are hidden, so that settings are not chosen by
the luck of one draw."""
COMPARED = (("ndcg", 100), ("recall", 20))
"""Metrics, with the length of the list, that methods are compared by."""


def n_ranked(data: Interactions) -> int:
    """Return how many items are ranked: 100, or what is left to the most active user of a small catalogue."""
    left = data.n_items - int(np.bincount(data.user_idx, minlength=1).max())
    if left < min(NDCG_AT):
        raise DataError(
            f"a user of {data.name} reacted to all but {left} of {data.n_items} items; ranking needs {min(NDCG_AT)}"
        )
    return min(N_RANKED, left)


def cutoffs(n_items: int) -> tuple[int, ...]:
    """Return the lengths at which a list of `n_items` is judged by any metric."""
    return tuple(sorted({min(at, n_items) for at in (*NDCG_AT, *RECALL_AT)}))


class Hidden(NamedTuple):
    """Users with two parts of what they did; both have the same users in the same rows."""

    given: Interactions
    hidden: Interactions


def random_users(
    data: Interactions, *, n_test: int, n_validation: int, min_reactions: int, rng: np.random.Generator
) -> ColdStart:
    """Draw test and validation users among those with enough reactions, at most a fifth each; train on all others."""
    activity = np.bincount(data.user_idx, minlength=data.n_users)
    order = rng.permutation(np.flatnonzero(activity >= min_reactions))
    if len(order) < LEAST_USERS:
        raise DataError(
            f"{data.name} has {len(order)} users with at least {min_reactions} reactions; this protocol needs "
            f"{LEAST_USERS}; lower --min-reactions"
        )
    n_test, n_validation = (min(n, len(order) // 5) for n in (n_test, n_validation))
    test, validation = np.sort(order[:n_test]), np.sort(order[n_test : n_test + n_validation])
    train = np.setdiff1d(np.flatnonzero(activity), np.r_[test, validation])
    return ColdStart(data.only_users(train), data.only_users(validation), data.only_users(test))


def hide_share(log: Interactions, share: float, satisfied: float, *, rng: np.random.Generator) -> Hidden:
    """Hide a share of each user's successes, at least one; the other reactions of any kind are given.

    Users with fewer than two successes are left out: with one, nothing that satisfied them would be given.
    """
    if not 0 < share < 1:
        raise ConfigError(f"the share of hidden successes must lie between 0 and 1, got {share}")
    happy = np.flatnonzero(log.values >= satisfied)
    happy = happy[np.lexsort((rng.random(len(happy)), log.user_idx[happy]))]  # by user, in random order within each
    counts = np.bincount(log.user_idx[happy], minlength=log.n_users)
    place = np.arange(len(happy)) - (np.cumsum(counts) - counts)[log.user_idx[happy]]
    n_hidden = np.maximum(1, np.rint(share * counts)).astype(np.int64)
    n_hidden = np.minimum(n_hidden, counts - 1)
    is_hidden = np.zeros(len(log), dtype=np.bool_)
    is_hidden[happy[place < n_hidden[log.user_idx[happy]]]] = True
    users = np.flatnonzero(counts >= 2)
    if not len(users):
        raise DataError(f"no user of {log.name} has two reactions of at least {satisfied:g}; lower --satisfied")
    return Hidden(log.subset(~is_hidden).only_users(users), log.subset(is_hidden).only_users(users))


def stacked(parts: list[Hidden]) -> Hidden:
    """Return several draws as one, each user once per draw."""
    return Hidden(_stacked([each.given for each in parts]), _stacked([each.hidden for each in parts]))


def _stacked(logs: list[Interactions]) -> Interactions:
    starts = np.cumsum([0, *(log.n_users for log in logs[:-1])])
    times = [log.timestamps for log in logs if log.timestamps is not None]
    return replace(
        logs[0],
        user_ids=tuple(f"{user_id}/{draw}" for draw, log in enumerate(logs) for user_id in log.user_ids),
        user_idx=np.concatenate([log.user_idx + start for log, start in zip(logs, starts, strict=True)]).astype(
            np.int32
        ),
        item_idx=np.concatenate([log.item_idx for log in logs]),
        values=np.concatenate([log.values for log in logs]),
        timestamps=np.concatenate(times) if times else None,
    )


def ranking_curves(found: BoolArray, n_hidden: IntArray) -> dict[str, FloatArray]:
    """Return nDCG@k and Recall@k of each user for every k, from whether the item at each rank was hidden.

    Args:
        found: (users, ranks).
        n_hidden: number of hidden items of each user; at least 1.

    Returns:
        `ndcg`: binary gains over those of the best possible list of k items; `recall`: found among the first k over
        min(k, hidden), so that 1 can be reached at every k. Both (users, ranks).
    """
    ranks = np.arange(1, found.shape[1] + 1)
    discount = 1.0 / np.log2(1.0 + ranks)
    reachable = np.minimum(ranks, n_hidden[:, None])
    ideal = np.cumsum(discount)[reachable - 1]
    return {
        "ndcg": np.cumsum(found * discount, axis=1) / ideal,
        "recall": np.cumsum(found, axis=1) / reachable,
    }


def reciprocal_ranks(found: BoolArray) -> FloatArray:
    """Return 1 / rank of each user's first hidden item, 0 where the list holds none."""
    return np.where(found.any(axis=1), 1.0 / (1.0 + found.argmax(axis=1)), 0.0)


def compared_pairs(labels: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each of our models with every other method."""
    for ours in labels:
        if ours.startswith("igcf"):
            yield from ((ours, other) for other in labels if not other.startswith("igcf"))
