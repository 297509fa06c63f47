"""What a user's vector is likely to be, given the user's attributes (docs/maths.md, section Who and when)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from igcf.arrays import FloatArray
from igcf.encoding import Encoded, Encoder
from igcf.errors import ModelError

PREFIX, CONTEXT_PREFIX = "attributes_", "context_"
"""How the names of the arrays of an attribute prior, and of a context effect, begin in a model folder."""
LEAST_VARIANCE = 0.3
"""Smallest part of the population's variance that stays unexplained, whatever the attributes."""


@dataclass(frozen=True)
class Worth:
    """What one attribute is worth."""

    penalty: float | None
    """Ridge penalty of its weights; None: it is not used, it predicts nothing."""
    gain: float
    """What it adds to the log-likelihood of a held-out user's vector, in nats per user, beside the other ones."""
    error: float
    """Standard error of the gain."""


class Played(NamedTuple):
    """Training users who were played as new ones, under weights that were learned without them."""

    users: int
    rounds: int
    without: float
    """Successes of a user without attributes."""
    gain: float
    """What attributes add to them, with the share of the weights that is used."""
    error: float
    """Standard error of the gain."""


@dataclass(frozen=True, eq=False)
class AttributePrior:
    """Ridge regression of users' vectors on their attributes: the prior of a user is N(m0 + share W f, S_f).

    As a model's `context_effect` it moves the vector by W f for one request, f the features of the request.
    """

    encoder: Encoder
    weights: FloatArray
    """W, shape (d, columns)."""
    errors: FloatArray
    """Standard deviation of each weight, shape (d, columns)."""
    spread: FloatArray
    """Covariance of the attributes' numbers over the training users, shape (columns, columns)."""
    worth: Mapping[str, Worth]
    """What each attribute of the table was worth, also those that are not used."""
    share: float = 1.0
    """Share of W that moves the prior: what played users did best with."""
    played: Played | None = None
    """How they did; None: nobody was played."""

    def shift(self, attributes: Encoded) -> FloatArray:
        """Return how far the attributes move the prior mean, shape (d,)."""
        return self.share * (self.weights @ attributes.numbers)

    def shifts(self, attributes: Encoded) -> FloatArray:
        """Return what each known attribute adds to the prior mean, shape (known, d)."""
        own = [self.encoder.spans[place] for place in attributes.known]
        parts = [self.share * self.weights[:, span] @ attributes.numbers[span] for span in own]
        return np.array(parts).reshape(len(own), len(self.weights))

    def covariance(self, cov: FloatArray, directions: FloatArray, known: Sequence[int]) -> FloatArray:
        """Return S_f: the population's covariance without what the known attributes explain in each direction.

        It contains the uncertainty of W: W is shrunk, so that what W explains is less than what the true one would.
        """
        columns = np.concatenate([np.r_[self.encoder.spans[place]] for place in known])
        weights = self.share * directions.T @ self.weights[:, columns]
        explained = np.einsum("kp,pq,kq->k", weights, self.spread[np.ix_(columns, columns)], weights)
        variances = np.maximum(np.einsum("ik,ij,jk->k", directions, cov, directions), 0.0)
        left = np.maximum(variances - explained, LEAST_VARIANCE * variances)
        return np.asarray((directions * left) @ directions.T)

    def check(self, dim: int) -> None:
        """Refuse parts that do not fit together or a model of this dimension."""
        p, parts = self.encoder.n_columns, (self.weights, self.errors, self.spread)
        found, wanted = tuple(each.shape for each in parts), ((dim, p), (dim, p), (p, p))
        if found != wanted:
            raise ModelError(f"the attribute prior has arrays of shapes {found}, expected {wanted}")
        if not all(np.isfinite(each).all() for each in parts):
            raise ModelError("the attribute prior holds NaN or infinite numbers; retrain")

    def arrays(self, prefix: str = PREFIX) -> dict[str, npt.NDArray[Any]]:
        """Return all arrays by the names that they have in a model folder."""
        return {f"{prefix}{name}": getattr(self, name) for name in ("weights", "errors", "spread")}

    def description(self) -> dict[str, Any]:
        """Return the parts that are not arrays, as plain values."""
        worth = {name: [each.penalty, each.gain, each.error] for name, each in self.worth.items()}
        return {"encoder": self.encoder.as_dict(), "worth": worth, "share": self.share, "played": self.played}

    @classmethod
    def from_saved(
        cls, arrays: Mapping[str, npt.NDArray[Any]], saved: Mapping[str, Any], prefix: str = PREFIX
    ) -> "AttributePrior":
        """Build it from what `arrays` and `description` gave."""
        weights, errors, spread = (arrays[f"{prefix}{name}"] for name in ("weights", "errors", "spread"))
        worth = {str(name): Worth(*each) for name, each in saved["worth"].items()}
        played = Played(*saved["played"]) if saved.get("played") else None
        encoder, share = Encoder.from_dict(saved["encoder"]), float(saved.get("share", 1.0))
        return cls(encoder, weights, errors, spread, worth, share, played)


def principal_directions(cov: FloatArray, blocks: Sequence[slice]) -> FloatArray:
    """Return the principal directions of a covariance as columns, block by block; the axes where it is diagonal."""
    if np.array_equal(cov, np.diag(np.diagonal(cov))):
        return np.eye(len(cov))
    result = np.zeros_like(cov)
    for span in blocks:
        result[span, span] = np.linalg.eigh(cov[span, span])[1]
    return result
