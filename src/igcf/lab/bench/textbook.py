"""The textbook algorithm in float64: invert the precision and compute every variance anew in every round."""

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.model import Model


class TextbookUser:
    """State of one user of a linear model: eq:update_dis and eq:UCB2 as they are printed."""

    def __init__(self, model: Model, *, nu: float = 0.5) -> None:
        self.model, self.nu = model, nu
        self.items = model.item_vectors.astype(np.float64)
        self.precision = np.linalg.inv(model.prior_cov)
        self.information = self.precision @ model.prior_mean
        self.is_seen = np.zeros(model.n_items, dtype=np.bool_)

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of all items."""
        cov = np.linalg.inv(self.precision)
        variances = np.einsum("nd,nd->n", self.items @ cov, self.items)
        return self.items @ (cov @ self.information), np.maximum(variances, 0.0)

    def recommend(self, k: int) -> IntArray:
        """Return the rows of the `k` best items, best first."""
        means, variances = self.moments()
        scores = means + self.nu * np.sqrt(variances)
        scores[self.is_seen] = -np.inf
        best = np.argpartition(scores, len(scores) - k)[-k:]
        return np.asarray(best[np.argsort(-scores[best])])

    def observe(self, row: int, value: float) -> None:
        """Add one reaction."""
        x = self.items[row]
        weight = 1.0 / self.model.item_noise[row]
        self.precision += weight * np.outer(x, x)
        self.information += weight * float(self.model.reward.of(value)) * x
        self.is_seen[row] = True
