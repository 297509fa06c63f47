"""What is told of items that a user reacted to, where learning itself is bound only to the order of the classes.

Under the objective `hit` any reaction raises how much a user is believed to see, and under rewards that are values a
failure may still be more than was expected. The belief keeps that; of the very item it is told, in expectation and
chance, that a failure did not raise it and that a missing reaction left at least what the worst one would have left.
Another item with the same vector is not bound: this is weaker than monotone learning.
"""

import numpy as np

from igcf.arrays import FloatArray
from igcf.online.belief import Belief
from igcf.online.chance import ChanceScale
from igcf.online.learning import learned, prior_belief
from igcf.online.monotone import worst_value

Bound = tuple[FloatArray, FloatArray]
"""Smallest and largest expectation and chance, arrays of two numbers."""
FREE: Bound = (np.full(2, -np.inf), np.full(2, np.inf))


class OwnBounds:
    """The bounds of all items of a history; follows it as it grows."""

    def __init__(self, scale: ChanceScale, forgetting: float, start: Belief | None = None) -> None:
        self._scale, self._model, self._forgetting = scale, scale.model, forgetting
        self._belief, self._n_followed = start or prior_belief(self._model), 0
        self._bounds: dict[int, Bound] = {}

    def of(self, rows: list[int], values: list[float]) -> dict[int, Bound]:
        """Return the bounds of the items of a history, of which a part may have been followed already."""
        reward = self._model.reward
        for row, value in zip(rows[self._n_followed :], values[self._n_followed :], strict=True):
            belief = self._belief.decayed(prior_belief(self._model), self._forgetting)
            before = np.clip(self._outcome(self._belief, row), *self._bounds.get(row, FREE))
            if value != value:  # no reaction
                worst = self._outcome(learned(belief, self._model, row, worst_value(self._model)), row)
                self._bounds[row] = np.minimum(worst, before), FREE[1]
            elif value < reward.threshold:
                self._bounds[row] = FREE[0], before
            else:
                self._bounds[row] = FREE
            self._belief = learned(belief, self._model, row, value)
        self._n_followed = len(rows)
        return self._bounds

    def _outcome(self, belief: Belief, row: int) -> FloatArray:
        """Expectation and chance of one item."""
        mean, rows = self._model.expected_of(belief.mean, row), np.array([row])
        _, std = belief.moments(self._model.item_vectors[rows])
        return np.array([mean, self._scale.of_belief(belief, rows, np.array([mean]), std).chance[0]])
