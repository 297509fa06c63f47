"""A user's own prior, from the user's attributes, in place of the population's (docs/maths.md, Who and when)."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from igcf.arrays import FloatArray
from igcf.encoding import Encoded
from igcf.errors import AttributesError
from igcf.model import Model
from igcf.model.attribute_prior import principal_directions
from igcf.online.answers import AttributeContribution
from igcf.online.backend.types import Arrays
from igcf.online.engine import ScoringEngine
from igcf.online.evidence import record_channels
from igcf.online.explaining import expected_along
from igcf.online.learning import channels_of, monotone_learning
from igcf.online.state import remembered

MOST_COVARIANCES = 64  # number of sets of known attributes with a cached covariance
MOST_SHIFTS = 4_096  # number of contexts with a cached shift
MOST_NUMBERS = 20_000_000  # variances of items that are kept for all sets of known attributes together


def encode_attributes(model: Model, given: Mapping[str, Any] | None) -> Encoded | None:
    """Return a user's attributes as numbers, or refuse them; None: nothing that the model understands is known."""
    if not given:
        return None
    if model.attribute_prior is None:
        raise AttributesError("this model knows no attributes; train it with a table of users (igcf pretrain --users)")
    return model.attribute_prior.encoder.encode(given)


def context_shift(model: Model, context: Mapping[str, Any] | None) -> FloatArray | None:
    """Return how far the context of a request moves the user's vector, (d,), or refuse it; None: not at all."""
    if not context:
        return None
    if model.context_effect is None:
        raise AttributesError("this model knows no context; train it with columns of the log (igcf pretrain --context)")
    effect = model.context_effect

    def compute() -> FloatArray | None:
        encoded = effect.encoder.encode(context)
        return effect.shift(encoded) if encoded.known else None

    try:
        key = (*context.items(), *map(type, context.values()))  # the same contexts come again and again
        return remembered(model, "context shifts", key, MOST_SHIFTS, compute)
    except (TypeError, AttributeError):  # lists, or what is refused
        return compute()


def personal_model(model: Model, attributes: Encoded | None) -> Model:
    """Return the model with a user's own prior; items and all sums over them are shared with `model`."""
    prior = model.attribute_prior
    if attributes is None or not attributes.known or prior is None:
        return model
    mean, cov = model.prior_mean + prior.shift(attributes), _covariance(model, attributes.known)
    own = model._copied(prior_mean=mean, prior_cov=cov, population=model)
    shared = {"monotone learning": monotone_learning, "channels": channels_of, "record channels": record_channels}
    for key, compute in shared.items():
        own.computed(key, lambda compute=compute: compute(model))  # type: ignore[misc]
    if len(model.added):
        own.__dict__["trained"] = personal_model(model.trained, attributes)
    return own


def prior_variances(engine: ScoringEngine, model: Model, known: tuple[int, ...]) -> Arrays:
    """Return the variances of all items for users of whom these attributes are known, before the first reaction.

    `model` has the prior of such a user. They are kept for a few sets of attributes.
    """
    most = MOST_NUMBERS / max(len(model.scored) * model.n_items, 1)
    variances = partial(engine._z_variances_of, model.prior_cov)
    return remembered(engine.model, "attribute variances", known, most, variances)


def _covariance(model: Model, known: tuple[int, ...]) -> FloatArray:
    """The prior covariance of users of whom these attributes are known."""
    prior = model.attribute_prior
    assert prior is not None  # noqa: S101
    spans = [span for span, _ in model.blocks]
    directions = model.computed("principal directions", lambda: principal_directions(model.prior_cov, spans))
    covariance = partial(prior.covariance, model.prior_cov, directions, known)
    return remembered(model, "attribute covariances", known, MOST_COVARIANCES, covariance)


def attribute_contributions(
    model: Model, attributes: Encoded | None, given: Mapping[str, Any], row: int
) -> tuple[AttributeContribution, ...]:
    """Return what each known attribute adds to the expected reward that an item has in the population.

    The attributes are added in the order of the encoder; for a linear model the order does not matter.
    """
    prior = model.attribute_prior
    if prior is None or attributes is None or not attributes.known:
        return ()
    path = model.prior_mean + np.vstack([np.zeros(model.dim), np.cumsum(prior.shifts(attributes), axis=0)])
    amounts = np.diff(expected_along(model, path, row)).tolist()
    names = [prior.encoder.names[place] for place in attributes.known]
    return tuple(AttributeContribution(name, given[name], amount) for name, amount in zip(names, amounts, strict=True))
