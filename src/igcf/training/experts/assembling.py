"""Both experts as one model: channels, terms and prior (docs/maths.md, section Experts)."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from igcf.arrays import FloatArray
from igcf.data.interactions import Interactions
from igcf.model import Channel, Model, Reward, Term
from igcf.training.experts.linear import LinearExpert
from igcf.training.experts.logistic import LogisticExpert

RESIDUAL_FLOOR = 0.02
"""Added to a column's residual variance: nothing is observed more exactly than this."""
OTHER_NOISE = 3.0
"""Factor on the noise of an exposure, or of more than a success: they are weaker signs of taste than a success."""
ACTIVITY_VARIANCE = 3.0
"""Prior variance of the factor by which a user has more successes than the population."""
LOGIT_ACTIVITY_VARIANCE = 1.0
"""Prior variance of the constant that a user adds to the logit of every exposure."""


@dataclass(frozen=True, eq=False)
class Experts:
    """Fitted experts of one log, with the thresholds of the gradings that they learned beside success."""

    linear: LinearExpert
    logistic: LogisticExpert | None
    """None for a catalogue that is too large for it."""
    above: tuple[float, ...] = ()
    """Thresholds above that of success."""
    below: tuple[float, ...] = ()
    """Thresholds below that of success; the linear expert does not use them."""


def ensemble_model(
    data: Interactions,
    reward: Reward,
    experts: Experts,
    likelihood_temperature: float,
    *,
    activity_variance: float = ACTIVITY_VARIANCE,
    metadata: dict[str, Any] | None = None,
) -> Model:
    """Build the model whose score is (linear expectation + P(seen) * P(liked | seen)) / 2.

    Each expert has a block of the user's vector. The further gradings are learned from, and not scored. How much a
    user sees and likes of everything is a dimension of its own: the linear expert's constant, with prior variance
    `activity_variance`, and a 1 in the logistic expert; with 0 both are known.
    """
    linear, logistic, n = experts.linear, experts.logistic, data.n_items
    factors = np.column_stack([linear.means, linear.loadings]).astype(np.float32)
    noise = likelihood_temperature * (linear.residuals + RESIDUAL_FLOOR)
    observed = [reward, replace(reward, kind="exposed"), *(replace(reward, threshold=grade) for grade in experts.above)]
    channels = []
    for number, kind in enumerate(observed):
        rows = slice(number * n, (number + 1) * n)
        channels.append(Channel(factors[rows], noise[rows] * (OTHER_NOISE if number else 1.0), kind))
    means, variances = [_constant_first(linear.loadings.shape[1])], [np.ones(factors.shape[1])]
    variances[0][0] = activity_variance
    terms = [Term(1.0, (0,))]
    if logistic is not None:
        first, start, flat = len(channels), factors.shape[1], np.full(n, likelihood_temperature)
        grades = (reward.threshold, *experts.above, *experts.below)
        liked = [replace(reward, kind="liked", threshold=grade) for grade in grades]
        for vectors, kind in zip(logistic.vectors, [replace(reward, kind="exposed"), *liked], strict=True):
            is_seen = np.full(n, 1.0 if kind.kind == "exposed" else 0.0)
            parts = np.column_stack([vectors[:, -1], is_seen, vectors[:, :-1]]).astype(np.float32)
            channels.append(Channel(parts, flat, kind, "logit", start))
        width = logistic.vectors.shape[2] + 1
        means.append(_constant_first(width - 1))
        variances.append(np.r_[0.0, LOGIT_ACTIVITY_VARIANCE if activity_variance else 0.0, np.ones(width - 2)])
        terms = [Term(0.5, (0,)), Term(0.5, (first, first + 1))]
    return Model(
        channels=channels,
        terms=terms,
        item_ids=data.item_ids,
        titles=data.titles,
        categories=data.categories,
        prior_mean=np.concatenate(means),
        prior_cov=np.diag(np.concatenate(variances)),
        reward=reward,
        metadata=metadata,
        appeared=data.first_appearances(),
    )


def _constant_first(dim: int) -> FloatArray:
    """Return the mean user's vector: a constant 1, then zeros."""
    return np.asarray(np.eye(1, dim + 1)[0])
