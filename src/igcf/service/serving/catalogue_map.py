"""A plane in which the page draws items and beliefs."""

from dataclasses import dataclass

import numpy as np

from igcf.arrays import FloatArray
from igcf.model import Model
from igcf.online import Belief

MAP_RADIUS = 2.0
"""95 % of the items lie within this distance from the middle of the map; the population's ellipse has radius 1."""


@dataclass(frozen=True, eq=False)
class CatalogueMap:
    """A plane in which to draw items and beliefs.

    A user is u = m0 + F w with S0 = F F' and w ~ N(0, I) in the population, so an item's expected reward is
    x . m0 + (F' x) . w. The plane is spanned by the two directions in which the F' x differ most: far to the right
    are the items that people far to the right like more than others do.
    """

    axes: FloatArray
    """Axes of the plane, shape (d, 2): item coordinates are (x - middle) @ axes."""
    inverse: FloatArray
    """Map from user vectors to the plane, shape (2, d): belief coordinates are inverse @ (u - m0)."""
    points: FloatArray
    """Coordinates of the items, shape (items, 2)."""

    @classmethod
    def from_model(cls, model: Model) -> "CatalogueMap":
        """Compute the map of a model."""
        size, directions = np.linalg.eigh(model.prior_cov)
        live = size > max(size[-1], 0.0) * 1e-12
        frame = directions[:, live] * np.sqrt(size[live])
        unframe = (directions[:, live] / np.sqrt(size[live])).T
        vectors = model.item_vectors.astype(np.float64)
        spread = (vectors - vectors.mean(axis=0)) @ frame
        _, main = np.linalg.eigh(spread.T @ spread)
        plane = np.zeros((frame.shape[1], 2))
        plane[:, : min(2, main.shape[1])] = main[:, ::-1][:, :2]
        points = spread @ plane
        radius = float(np.quantile(np.linalg.norm(points, axis=1), 0.95)) if len(points) else 0.0
        scale = MAP_RADIUS / radius if radius > 0 else 1.0
        return cls(frame @ plane * scale, plane.T @ unframe, points * scale)

    def ellipse(self, belief: Belief, prior_mean: FloatArray) -> tuple[list[float], list[list[float]]]:
        """Compute centre and 2 x 2 covariance of a belief; the population is the unit circle around the origin."""
        mean = self.inverse @ (belief.mean - prior_mean)
        cov = self.inverse @ belief.cov @ self.inverse.T
        return mean.tolist(), cov.tolist()
