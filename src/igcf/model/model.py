"""The artifact: what pretraining learned and everything that the online phase needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from igcf.arrays import AnyFloatArray, Float32Array, FloatArray
from igcf.errors import ModelError, UnknownItemError
from igcf.model.reward import Reward

UNIT_REWARD = Reward("raw", threshold=0.5, low=0.0, high=1.0)


@dataclass(frozen=True, eq=False)
class Channel:
    """One number that every reaction reveals: reward ~ N(vectors[item] . user, noise_var[item])."""

    vectors: Float32Array
    """(items, d)"""
    noise_var: FloatArray
    """(items,)"""
    reward: Reward


class Model:
    """Item vectors, the population of users, and how values become rewards; immutable by convention.

    The first channel is the one that recommendations are scored by; `evidence` holds further channels that a reaction
    also reveals (for instance whether there was a reaction at all).
    """

    def __init__(
        self,
        *,
        item_vectors: npt.ArrayLike,
        item_ids: Sequence[str],
        prior_mean: npt.ArrayLike,
        prior_cov: npt.ArrayLike,
        noise_var: float | npt.ArrayLike,
        item_variances: npt.ArrayLike | None = None,
        reward: Reward = UNIT_REWARD,
        evidence: Sequence[Channel] = (),
        titles: Sequence[str] | None = None,
        categories: Sequence[Sequence[str]] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Check that all parts fit together; a number as `noise_var` holds for every item."""
        self.item_vectors: Float32Array = np.ascontiguousarray(item_vectors, dtype=np.float32)
        self.item_ids = tuple(str(item_id) for item_id in item_ids)
        self.prior_mean: FloatArray = np.array(prior_mean, dtype=np.float64)
        self.prior_cov: FloatArray = np.array(prior_cov, dtype=np.float64)
        self.noise_var: float | FloatArray = (
            float(noise_var) if np.ndim(noise_var) == 0 else np.array(noise_var, dtype=np.float64)  # type: ignore[arg-type]
        )
        self.item_variances: Float32Array = (
            np.zeros_like(self.item_vectors)
            if item_variances is None
            else np.ascontiguousarray(item_variances, dtype=np.float32)
        )
        self.reward = reward
        self.evidence = tuple(evidence)
        self.titles = None if titles is None else tuple(titles)
        self.categories = None if categories is None else tuple(tuple(each) for each in categories)
        self.metadata: dict[str, Any] = dict(metadata or {})
        _check(self)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    @property
    def dim(self) -> int:
        """Size d of the vectors."""
        return int(self.item_vectors.shape[1])

    @cached_property
    def item_noise(self) -> FloatArray:
        """The noise variance of each item, (items,)."""
        return np.broadcast_to(np.asarray(self.noise_var, dtype=np.float64), (self.n_items,))

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """What a reaction reveals, the scored channel first."""
        return (Channel(self.item_vectors, self.item_noise, self.reward), *self.evidence)

    @cached_property
    def _row(self) -> dict[str, int]:
        return {item_id: row for row, item_id in enumerate(self.item_ids)}

    def known_row(self, item_id: str) -> int | None:
        """The row of an item, or None."""
        return self._row.get(item_id)

    def item_row(self, item_id: str) -> int:
        """The row of an item, or a clear refusal."""
        row = self.known_row(item_id)
        if row is None:
            raise UnknownItemError(
                f"item {item_id!r} is not in this model ({self.n_items} items, for instance {self.item_ids[0]!r})"
            )
        return row

    def title(self, item_id: str) -> str:
        """The title of an item, or its id where there is none."""
        return self.titles[self.item_row(item_id)] if self.titles else item_id

    def observations(
        self, rows: npt.NDArray[np.integer], values: npt.ArrayLike
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What reactions reveal: vectors (n, c, d), rewards (n, c), noise variances (n, c), for c channels."""
        vectors = np.stack([channel.vectors[rows] for channel in self.channels], axis=-2).astype(np.float64)
        rewards = np.stack([channel.reward.of(values) for channel in self.channels], axis=-1)
        noise = np.stack([channel.noise_var[rows] for channel in self.channels], axis=-1)
        return vectors, rewards, noise

    def save(self, folder: str | Path) -> None:
        """Write the model folder; it must not exist yet, and a failure leaves nothing behind."""
        from igcf.model.files import save_model

        save_model(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> "Model":
        """Read a model folder; nothing in it is executed, and anything damaged or foreign is refused."""
        from igcf.model.files import load_model

        return load_model(Path(folder))

    def __repr__(self) -> str:
        return f"Model({self.n_items} items, dim {self.dim}, reward {self.reward.kind})"


def _check(model: Model) -> None:
    _check_shapes(model)
    _check_numbers(model)


def _check_shapes(model: Model) -> None:
    if model.item_vectors.ndim != 2 or 0 in model.item_vectors.shape:
        raise ModelError(f"item_vectors has shape {model.item_vectors.shape}; expected (items, dim), both at least 1")
    n, d = model.item_vectors.shape
    expected: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
        "item_ids": ((len(model.item_ids),), (n,)),
        "item_variances": (model.item_variances.shape, (n, d)),
        "prior_mean": (model.prior_mean.shape, (d,)),
        "prior_cov": (model.prior_cov.shape, (d, d)),
        "noise_var": (np.shape(model.noise_var) or (n,), (n,)),
        "titles": ((n if model.titles is None else len(model.titles),), (n,)),
        "categories": ((n if model.categories is None else len(model.categories),), (n,)),
    }
    for number, channel in enumerate(model.evidence, start=1):
        expected[f"evidence channel {number}"] = (channel.vectors.shape, (n, d))
        expected[f"noise of evidence channel {number}"] = (channel.noise_var.shape, (n,))
    for name, (found, wanted) in expected.items():
        if found != wanted:
            raise ModelError(f"{name} has shape {found}, expected {wanted} to fit item_vectors {(n, d)}")
    if len(set(model.item_ids)) != n:
        raise ModelError(f"item_ids has {n - len(set(model.item_ids))} duplicates; every item needs an id of its own")


def _check_numbers(model: Model) -> None:
    numbers: list[AnyFloatArray] = [model.item_variances, model.prior_mean, model.prior_cov]
    numbers += [part for channel in model.channels for part in (channel.vectors, channel.noise_var)]
    if not all(np.isfinite(part).all() for part in numbers):
        raise ModelError("the model holds NaN or infinite numbers; pretraining may have diverged")
    if not all((channel.noise_var > 0).all() for channel in model.channels):
        raise ModelError("noise_var must be positive for every item")
    if (model.item_variances < 0).any():
        raise ModelError("item_variances must not be negative")
    scale = max(float(np.abs(model.prior_cov).max()), 1e-300)
    if np.abs(model.prior_cov - model.prior_cov.T).max() > 1e-8 * scale:
        raise ModelError("prior_cov is not symmetric")
    if np.linalg.eigvalsh(model.prior_cov)[0] < -1e-8 * scale:
        raise ModelError("prior_cov has negative eigenvalues; a covariance has none")
