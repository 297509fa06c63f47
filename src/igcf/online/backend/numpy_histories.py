"""Learning a whole history of one user in NumPy (docs/maths.md, sections Online and Monotone learning)."""

from collections.abc import Iterator

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.online.backend.numpy_beliefs import update_belief
from igcf.online.backend.numpy_classes import counted_class
from igcf.online.backend.types import Channels, Classes, Evidence


def read_pairs(
    reactions: list[tuple[str, float | None]], row_of: dict[str, int], largest: float
) -> tuple[IntArray, FloatArray] | None:
    """Return the rows and values of reactions; None where one needs a closer look, which here is as quick for all."""
    return None


def evidence_by_block(
    channels: Channels, rows: IntArray, rewards: FloatArray, weights: FloatArray | None = None
) -> Iterator[tuple[int, Evidence]]:
    """Yield where each block of the user's vector begins, and what some reactions reveal about it, oldest first.

    Args:
        channels: of the model.
        rows: rows of the items, shape (reactions,).
        rewards: shape (reactions, channels); NaN reveals nothing.
        weights: how many times a reaction counts, shape (reactions,); None: once.
    """
    for start in np.unique(channels.starts).tolist():
        own = np.flatnonzero(channels.starts == start)
        x = np.stack([channels.vectors[number][rows] for number in own], axis=1).astype(np.float64)
        noise = np.stack([channels.noise[number][rows] for number in own], axis=1)
        if weights is not None:
            noise /= weights[:, None]
        is_logit = np.broadcast_to(channels.is_logit[own], noise.shape)
        yield start, Evidence(x.reshape(-1, x.shape[2]), rewards[:, own].ravel(), noise.ravel(), is_logit.ravel())


def learn(
    mean: FloatArray,
    cov: FloatArray,
    channels: Channels,
    rows: IntArray,
    rewards: FloatArray,
    weights: FloatArray | None,
) -> None:
    """Update one user's belief, mean (D,) and covariance (D, D), by a history as in `evidence_by_block`, in place."""
    for start, revealed in evidence_by_block(channels, rows, rewards, weights):
        update_belief(mean, cov, start, revealed)


def learn_in_turn(rules: Classes, mean: FloatArray, cov: FloatArray, rows: IntArray, classes: IntArray) -> None:
    """Update one user's belief by a history, in place; a reaction counts as what is known when it comes allows.

    Args:
        rules: what the model can tell apart.
        mean: of the user's vector, shape (D,).
        cov: of the user's vector, shape (D, D).
        rows: rows of the items, oldest reaction first, shape (reactions,).
        classes: the class of each reaction; the number of classes stands for no reaction.
    """
    channels = Channels(*rules[:4])
    for place, (row, number) in enumerate(zip(rows.tolist(), classes.tolist(), strict=True)):
        counted = counted_class(rules, mean, cov, row, number)
        learn(mean, cov, channels, rows[place : place + 1], rules.rewards[counted][None], None)
