"""Exploration with known propensities: a share of the slots is drawn among the best items that are left.

A slot shows the best item that is left with probability 1 - share, and otherwise one of the `AMONG` best that are left,
each with the same probability. How likely a choice was follows from the rank of the item among those that are left.
"""

from math import isfinite, nan
from typing import NamedTuple

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.errors import ConfigError
from igcf.online.backend.types import MakeRng

AMONG = 10  # number of best remaining items among which an explored slot is drawn


def checked_share(explore: float) -> float:
    """Refuse a share outside 0 to 1."""
    is_number = isinstance(explore, int | float) and not isinstance(explore, bool)
    if not (is_number and isfinite(explore) and 0 <= explore <= 1):
        raise ConfigError(f"explore is {explore!r}; expected a number from 0 to 1, such as 0.05")
    return float(explore)


class Explorer:
    """Fills the slots of one answer and notes how likely each choice was."""

    def __init__(self, share: float, slots: int, make_rng: MakeRng) -> None:
        self.share, self.slots, self._make_rng = share, slots, make_rng
        self.propensities: list[float] = []  # probability of each choice, given those above it
        self.ranks: list[int] | None = None
        """Rank of each choice among all items by the policy; None: rules changed the order on the way."""

    def fixed(self) -> None:
        """Note a choice that is not drawn."""
        self.propensities.append(1.0)

    def place(self, n_left: int) -> int:
        """Choose among so many items that are left, in their order, for the next slot: the place of one of them."""
        if len(self.propensities) >= self.slots:  # the reserve is not shown
            return 0
        n, rng = min(AMONG, n_left), self._make_rng()
        place = int(rng.integers(n)) if rng.random() < self.share else 0
        self.propensities.append(self.share / n + (1 - self.share) * (place == 0))
        return place

    def places(self, n_found: int, k: int) -> list[int]:
        """Choose `k` of so many items in order of score: their places."""
        left = list(range(n_found))
        found = [left.pop(self.place(len(left))) for _ in range(k)]
        self.ranks = [1 + place for place in found[: self.slots]]
        return found


class Odds(NamedTuple):
    """How likely each item of an answer was in its slot; NaN: not known."""

    propensities: list[float]  # given the items above it
    errors: list[float]
    """Standard error as an estimate of the policy's own probability, where that was sampled; 0: it is exact."""
    slots: list[float]  # whatever stood above it

    @classmethod
    def unknown(cls, k: int) -> "Odds":
        """Return an unknown propensity."""
        return cls([nan] * k, [nan] * k, [nan] * k)

    @classmethod
    def of_ranks(cls, ranks: IntArray, n_available: int, share: float) -> "Odds":
        """Return the odds of choices from their ranks by the policy, (draws, k), one of which was made.

        They are exact given these draws. The error is that of taking them for the odds under infinitely many draws: the
        standard deviation of a share with a flat prior, of those draws that had the same items above.
        """
        k = ranks.shape[1]
        earlier = np.tril(np.ones((k, k), dtype=np.bool_), -1)
        before = ((ranks[:, None, :] < ranks[:, :, None]) & earlier).sum(axis=2)
        own = _choice_chance(ranks - before, np.minimum(AMONG, n_available - np.arange(k)), share)  # (draws, k)
        joint = own.cumprod(axis=1)
        above = np.concatenate([np.ones((len(ranks), 1)), joint[:, :-1]], axis=1)
        chance = joint.sum(axis=0) / above.sum(axis=0)
        n = above.sum(axis=0) ** 2 / np.square(above).sum(axis=0)
        likely = (n * chance + 1) / (n + 2)
        error = np.sqrt(likely * (1 - likely) / (n + 3)) if len(ranks) > 1 else np.zeros(k)
        return cls(chance.tolist(), error.tolist(), slot_chances(ranks, n_available, share).mean(axis=0).tolist())

    @classmethod
    def certain(cls, k: int) -> "Odds":
        """Return that nothing is drawn."""
        return cls([1.0] * k, [0.0] * k, [1.0] * k)

    def with_reserve(self, k: int) -> "Odds":
        """Return the odds of `k` items, the last ones are not shown."""
        return Odds(*(column + [nan] * (k - len(column)) for column in self))


def slot_chances(ranks: IntArray, n_available: int, share: float) -> FloatArray:
    """Return the probability that the item of each rank is in its slot, whatever stands above it, (draws, slots).

    Of the slots above only the number of better items in them matters, a Markov chain from slot to slot.
    """
    k = ranks.shape[1]
    if share == 0:
        return np.asarray(ranks == np.arange(1, k + 1), dtype=np.float64)
    result = np.empty(ranks.shape)
    taken = np.arange(k + 1)
    chain = np.zeros((*ranks.shape, k + 1))  # of not being shown yet, with so many better items shown
    chain[:, :, 0] = 1.0
    rank = np.maximum(ranks[:, :, None] - taken, 1)
    for slot in range(k):
        n = min(AMONG, n_available - slot)
        own = _choice_chance(rank, n, share)
        result[:, slot] = (chain[:, slot] * own[:, slot]).sum(axis=1)
        better = np.where(rank > 1, 1 - share + share * np.minimum(rank - 1, n) / n, 0.0)
        rises = chain * better
        chain = chain * (1 - own - better)
        chain[:, :, 1:] += rises[:, :, :-1]
    return result


def _choice_chance(rank: IntArray, n: IntArray | int, share: float) -> FloatArray:
    """Probability that a slot shows the item of some rank among those left, the `n` best of them."""
    return np.asarray(np.where(rank <= n, share / n, 0.0) + (1 - share) * (rank == 1))
