"""What an item's vectors are likely to be, given its features: the content prior (docs/maths.md, section New items)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from igcf.arrays import AnyFloatArray, Float32Array, FloatArray
from igcf.errors import ModelError
from igcf.item import Item
from igcf.model.features import Features

PREFIX = "content_"
"""How the names of the arrays of a content prior begin in a model folder."""


@dataclass(frozen=True, eq=False)
class ItemPriors:
    """What is believed of some items before anybody reacted to them, a mixture of Gaussians over classes of items."""

    shares: FloatArray
    """Probability of each class, (items, classes)."""
    means: tuple[AnyFloatArray, ...]
    """Mean of the vector in each class, one array (items, classes, width) per channel."""

    def vectors(self, number: int) -> FloatArray:
        """Return the expected vectors in one channel, (items, width)."""
        return np.asarray(np.einsum("nk,nkw->nw", self.shares, self.means[number]), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class ContentPrior:
    """Ridge regressions from features to vectors, one per channel and class of items, with what they leave open.

    A class holds items that are about as popular: content says little of that, and vectors of popular items are larger
    in every direction, which one Gaussian for all items could not express.
    """

    features: Features
    shares: FloatArray
    """Regression of the classes, (1 + features, classes), the constants first."""
    least_share: FloatArray
    """Smallest probability of each class, whatever the features, (classes,)."""
    coefficients: tuple[Float32Array, ...]
    """Regressions of the vectors, one array (classes, 1 + features, width) per channel, the constants first."""
    covs: tuple[FloatArray, ...]
    """Covariance of the leave-one-out residuals, (classes, width, width) per channel."""
    noise: tuple[FloatArray, ...]
    """Noise variance of a reaction in each class, (classes,) per channel."""
    temperature: float = 1.0
    """Number by which the model divides the evidence of a reaction about a user; that about an item is whole."""

    @property
    def n_classes(self) -> int:
        """Number of classes of items."""
        return len(self.least_share)

    def of(self, items: Sequence[Item]) -> ItemPriors:
        """Return what is believed of some items before the first reaction to them."""
        X = np.column_stack([np.ones(len(items)), self.features.of(items)])
        shares = np.maximum(X @ self.shares, self.least_share)
        shares /= shares.sum(axis=1, keepdims=True)
        small = X.astype(np.float32)
        means = tuple(np.stack([small @ own for own in each], axis=1) for each in self.coefficients)
        return ItemPriors(shares, means)

    def check(self, widths: Sequence[int]) -> None:
        """Refuse parts that do not fit together or the channels of a model, whose vectors have these widths."""
        k, f = self.n_classes, 1 + self.features.n_features
        found = (
            self.shares.shape,
            *(each.shape for part in (self.coefficients, self.covs, self.noise) for each in part),
        )
        wanted = ((f, k), *((k, f, w) for w in widths), *((k, w, w) for w in widths), *((k,) for _ in widths))
        if found != wanted:
            raise ModelError(f"the content prior has arrays of shapes {found}, expected {wanted}")
        numbers: list[AnyFloatArray] = [self.shares, self.least_share, *self.coefficients, *self.covs, *self.noise]
        is_usable = all(np.isfinite(part).all() for part in numbers) and all((each > 0).all() for each in self.noise)
        if not (is_usable and k and (self.least_share > 0).all() and 0 < self.temperature < np.inf):
            raise ModelError("the content prior holds NaN, infinite numbers, or variances that are none; retrain")

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all arrays by the names that they have in a model folder."""
        named: dict[str, npt.NDArray[Any]] = {f"{PREFIX}shares": self.shares, f"{PREFIX}least": self.least_share}
        for number, parts in enumerate(zip(self.coefficients, self.covs, self.noise, strict=True)):
            for name, part in zip(("coefficients", "covs", "noise"), parts, strict=True):
                named[f"{PREFIX}{name}_{number}"] = np.ascontiguousarray(part)
        return named

    def description(self) -> dict[str, Any]:
        """Return what is no array, as plain values."""
        return {"features": asdict(self.features), "temperature": self.temperature}

    @classmethod
    def from_saved(cls, arrays: dict[str, npt.NDArray[Any]], saved: dict[str, Any], n_channels: int) -> "ContentPrior":
        """Build it from what `arrays` and `description` gave."""

        def part(name: str) -> tuple[npt.NDArray[Any], ...]:
            return tuple(arrays[f"{PREFIX}{name}_{number}"] for number in range(n_channels))

        return cls(
            Features.from_dict(saved["features"]),
            arrays[f"{PREFIX}shares"],
            arrays[f"{PREFIX}least"],
            part("coefficients"),
            part("covs"),
            part("noise"),
            float(saved["temperature"]),
        )
