"""Both experts as one model: channels, terms and prior (docs/maths.md, section Experts)."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.config import Objective
from igcf.data.interactions import Interactions
from igcf.model import Channel, Model, Reward, Term
from igcf.model.usage import Usage
from igcf.training.experts.linear import LinearExpert
from igcf.training.experts.logistic import LogisticExpert

RESIDUAL_FLOOR = 0.02  # added to a column's residual variance: nothing is observed more exactly than this
OTHER_NOISE = 3.0
"""Factor on the noise of an exposure, or of more than a success: they are weaker signs of taste than a success."""
ACTIVITY_VARIANCE = 3.0  # prior variance of the factor by which a user has more successes than the population
LOGIT_ACTIVITY_VARIANCE = 1.0  # prior variance of the constant that a user adds to the logit of every exposure
GENEROSITY_VARIANCE = 1.0
"""Prior variance of the constant that a user adds to the logit of liking, where liking is ranked by."""
LIKING_WEIGHT = 0.9
"""Weight of P(liked | seen) where liking is ranked by; the rest orders items that hardly anybody has seen."""
GRADE_NOISE = 2.0
"""Factor on the noise of every grading, where liking is ranked by: those of one reaction are not independent."""


@dataclass(frozen=True, eq=False)
class Experts:
    """Fitted experts of one log, with the thresholds of the gradings that they learned beside success."""

    linear: LinearExpert
    logistic: LogisticExpert
    above: tuple[float, ...] = ()  # thresholds above that of success
    below: tuple[float, ...] = ()  # thresholds below that of success; the linear expert does not use them
    appeared: IntArray | None = None  # time of the first reaction to each item; None where the log has no times
    reactions: IntArray | None = None  # number of reactions to each item, and of those that satisfied, (items, 2)


def ensemble_model(
    catalogue: Interactions,
    reward: Reward,
    experts: Experts,
    likelihood_temperature: float,
    *,
    objective: Objective = "hit",
    metadata: dict[str, Any] | None = None,
) -> Model:
    """Build the model with the score (1 - w) (linear expectation + P(seen) P(liked | seen)) / 2 + w P(liked | seen).

    w is 0 with the objective `hit` and 0.9 with `liking`.

    Each expert has a block of the user's vector. The further gradings are learned from, and not scored. How much a
    user sees and likes of everything is a dimension of its own: the linear expert's constant, and a 1 in the logistic
    expert. With `liking` so is how much of what they see a user likes, and gradings count less; where liking cannot be
    told apart, the objective is `hit`. Of `catalogue` only the items are read.
    """
    linear, logistic, n = experts.linear, experts.logistic, catalogue.n_items
    if reward.threshold <= reward.low:
        objective = "hit"
    factors = np.column_stack([linear.means, linear.loadings]).astype(np.float32)
    noise = likelihood_temperature * (linear.residuals + RESIDUAL_FLOOR)
    observed = [reward, replace(reward, kind="exposed"), *(replace(reward, threshold=grade) for grade in experts.above)]
    channels = []
    for number, kind in enumerate(observed):
        rows = slice(number * n, (number + 1) * n)
        channels.append(Channel(factors[rows], noise[rows] * (OTHER_NOISE if number else 1.0), kind))
    means, variances = [_constant_first(linear.loadings.shape[1])], [np.ones(factors.shape[1])]
    variances[0][0] = ACTIVITY_VARIANCE
    first, start, flat = len(channels), factors.shape[1], np.full(n, likelihood_temperature)
    grades = (reward.threshold, *experts.above, *experts.below)
    liked = [replace(reward, kind="liked", threshold=grade) for grade in grades]
    for vectors, kind in zip(logistic.vectors, [replace(reward, kind="exposed"), *liked], strict=True):
        is_seen = np.full(n, 1.0 if kind.kind == "exposed" else 0.0)
        columns, own_noise = [vectors[:, -1], is_seen, vectors[:, :-1]], flat
        if objective == "liking":
            columns.append(1.0 - is_seen)
            own_noise = flat if kind.kind == "exposed" else GRADE_NOISE * flat
        channels.append(Channel(np.column_stack(columns).astype(np.float32), own_noise, kind, "logit", start))
    own = [0.0, LOGIT_ACTIVITY_VARIANCE, *np.ones(logistic.vectors.shape[2] - 1)]
    if objective == "liking":
        own.append(GENEROSITY_VARIANCE)
    means.append(_constant_first(len(own) - 1))
    variances.append(np.array(own))
    terms = terms_of(objective, 0, first, first + 1)
    return Model(
        channels=channels,
        terms=terms,
        item_ids=catalogue.item_ids,
        titles=catalogue.titles,
        categories=catalogue.categories,
        attributes=catalogue.attributes,
        prior_mean=np.concatenate(means),
        prior_cov=np.diag(np.concatenate(variances)),
        reward=reward,
        metadata=metadata,
        appeared=experts.appeared,
        reactions=experts.reactions,
        usage=Usage(objective=objective),
    )


def terms_of(objective: Objective, linear: int, seen: int, liked: int) -> list[Term]:
    """Return the terms of the expected reward, from the numbers of three channels."""
    if objective == "hit":
        return [Term(0.5, (linear,)), Term(0.5, (seen, liked))]
    hit = (1.0 - LIKING_WEIGHT) / 2
    return [Term(hit, (linear,)), Term(hit, (seen, liked)), Term(LIKING_WEIGHT, (liked,))]


def _constant_first(dim: int) -> FloatArray:
    """Return the mean user's vector: a constant 1, then zeros."""
    return np.asarray(np.eye(1, dim + 1)[0])
