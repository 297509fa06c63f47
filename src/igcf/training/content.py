"""Fit of the content prior: what the vectors of a model's items say of items to come (docs/maths.md, New items)."""

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.model import Model
from igcf.model.content import ContentPrior, Features

CLASS_ENDS = (0.5, 0.75, 0.9, 0.96)  # shares of the items, the least popular first, at which classes end
FEWEST_ITEMS = 25  # smallest number of items of a class; smaller ones are joined with the next lower one
PENALTIES = (3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 1e5)  # ridge penalties that leave-one-out errors decide between
SHRINKAGE = 0.05  # part of the covariance of residuals off the diagonal that is not believed
LEAST_SHARE = 0.2  # smallest probability of a class, as a part of its share of all items


def fit_content(model: Model) -> ContentPrior:
    """Learn the content prior from the items of a trained model."""
    items = [model.catalogue.item(row) for row in range(model.n_items)]
    features = Features.from_items(items)
    X = features.of(items)
    classes = popularity_classes(model.expected(model.prior_mean))
    k = int(classes.max()) + 1
    sizes = np.bincount(classes, minlength=k) / len(classes)
    groups = [_Ridge(X[classes == each]) for each in range(k)]
    temperature = float(model.metadata.get("chosen", {}).get("likelihood_temperature") or 1.0)
    coefficients, covs, noise = [], [], []
    for channel in model.channels:
        own = [group.fit(channel.vectors[classes == each].astype(np.float64)) for each, group in enumerate(groups)]
        coefficients.append(np.stack([coefs for coefs, _ in own]).astype(np.float32))
        covs.append(np.stack([_covariance(residuals) for _, residuals in own]))
        means = [float(channel.noise_var[classes == each].mean()) for each in range(k)]
        noise.append(np.array(means) / temperature)
    shares, _ = _Ridge(X).fit(np.eye(k)[classes])
    return ContentPrior(
        features, shares, LEAST_SHARE * sizes, tuple(coefficients), tuple(covs), tuple(noise), temperature
    )


def popularity_classes(expected: FloatArray) -> IntArray:
    """Return the class of each item by its expected reward in the population, 0 for the least popular."""
    rank = np.argsort(np.argsort(expected, kind="stable"), kind="stable") / len(expected)
    ends = [end for end in CLASS_ENDS if (1.0 - end) * len(expected) >= FEWEST_ITEMS]
    return np.searchsorted(np.array(ends), rank, side="right")


class _Ridge:
    """Ridge regressions on the same centred features, with the penalty chosen by leave-one-out errors."""

    def __init__(self, X: FloatArray) -> None:
        self.centre = X.mean(axis=0)
        self.X = X - self.centre
        self.n = len(X)
        size, self.axes = np.linalg.eigh(self.X.T @ self.X)
        self.size = np.maximum(size, 0.0)
        self.scores = self.X @ self.axes

    def fit(self, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return coefficients (1 + features, outputs), the constants first, and leave-one-out residuals like `Y`."""
        mean = Y.mean(axis=0)
        centred = Y - mean
        scale = np.sqrt((centred**2).mean(axis=0))
        products = self.scores.T @ centred
        best: tuple[float, FloatArray, FloatArray] | None = None
        for penalty in PENALTIES:
            shrunk = 1.0 / (self.size + penalty)
            leverage = (self.scores**2) @ shrunk + 1.0 / self.n
            residuals = (centred - self.scores @ (shrunk[:, None] * products)) / np.maximum(1.0 - leverage, 1e-3)[
                :, None
            ]
            error = float(((residuals / np.where(scale > 0, scale, 1.0)) ** 2).mean())
            if best is None or error < best[0]:
                best = error, shrunk, residuals
        assert best is not None  # noqa: S101
        slopes = self.axes @ (best[1][:, None] * products)
        return np.vstack([mean - self.centre @ slopes, slopes]), best[2]


def _covariance(residuals: FloatArray) -> FloatArray:
    """The covariance of residuals, drawn toward its diagonal so that few items give a proper one."""
    cov = residuals.T @ residuals / len(residuals)
    return np.asarray((1.0 - SHRINKAGE) * cov + SHRINKAGE * np.diag(np.diagonal(cov)))
