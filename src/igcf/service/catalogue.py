"""What is served: a model with its map, its popularity order and its catalogue, computed once when it is loaded."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.model import Model
from igcf.model.files import load_model, model_id
from igcf.online import Belief, Policy, Recommender
from igcf.service.settings import ServiceSettings

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
    """(d, 2): item coordinates are (x - middle) @ axes"""
    inverse: FloatArray
    """(2, d): belief coordinates are inverse @ (u - m0)"""
    points: FloatArray
    """(items, 2)"""

    @classmethod
    def of(cls, model: Model) -> "CatalogueMap":
        """The map of a model."""
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
        """Centre and 2 x 2 covariance of a belief; the population is the unit circle around the origin."""
        mean = self.inverse @ (belief.mean - prior_mean)
        cov = self.inverse @ belief.cov @ self.inverse.T
        return mean.tolist(), cov.tolist()


class Served:
    """One model in service; immutable, so that an answer that took hold of it cannot mix two models."""

    def __init__(self, model: Model, model_id: str, folder: str, policy: Policy, forgetting: float) -> None:
        self.model = model
        self.model_id = model_id
        self.folder = folder
        self.recommender = Recommender(model, policy, forgetting=forgetting)
        self.map = CatalogueMap.of(model)
        expected = model.expected(model.prior_mean)
        self.popular_rows: IntArray = np.argsort(-expected, kind="stable")
        """Rows, the population's favourite first."""
        self.popularity: IntArray = np.empty(model.n_items, dtype=np.int64)
        """Rank of each row in that order, from 1."""
        self.popularity[self.popular_rows] = np.arange(1, model.n_items + 1)

    @classmethod
    def from_folder(cls, folder: Path, settings: ServiceSettings) -> "Served":
        """Load a model folder; a bad one is refused with one sentence."""
        from igcf.online import named_policy

        policy = named_policy(settings.policy, nu=settings.nu)
        return cls(load_model(folder), model_id(folder), str(folder.resolve()), policy, settings.forgetting)

    @cached_property
    def search_texts(self) -> list[str]:
        """What a search looks through, one text per item, in lower case."""
        return [f"{item_id}\n{self.title(row) or ''}".casefold() for row, item_id in enumerate(self.model.item_ids)]

    def title(self, row: int) -> str | None:
        """The title of an item, where it has one."""
        return self.model.titles[row] if self.model.titles else None

    def categories(self, row: int) -> list[str]:
        """The categories of an item."""
        return list(self.model.categories[row]) if self.model.categories else []

    def bytes_per_user(self) -> int:
        """Memory of one session: mean and variance of every item (and of its channels), what was seen, the belief."""
        kept = len(self.model.scored) + (0 if self.model.is_linear else 1)
        return (8 * kept + 1) * self.model.n_items + 8 * self.model.dim * (self.model.dim + 1) + 2_000
