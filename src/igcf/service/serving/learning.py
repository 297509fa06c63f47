"""From stored reactions to a session."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from igcf.errors import AttributesError, FeedbackError
from igcf.model import Model
from igcf.model.attribute_prior import AttributePrior
from igcf.online import Belief, Session, prior_belief
from igcf.online.answers import Reaction
from igcf.online.attributes import context_shift, encode_attributes, personal_model
from igcf.online.learning import belief_from_history
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.records import (
    Event,
    attributes_in,
    in_force,
)
from igcf.service.store.transfer import time_unit

Aside = dict[str, tuple[int, float]]
"""Items that a user skipped, and the revision and time at which they did."""


def belief_after(
    model: Model,
    forgetting: float,
    reactions: Sequence[Reaction],
    belief: Belief | None = None,
    contexts: Mapping[str, Mapping[str, Any]] | None = None,
) -> Belief:
    """Learn reactions, from the prior or a later belief, without scoring any item: as a session one by one."""
    if not reactions:
        return prior_belief(model) if belief is None else belief
    rows = model.item_rows([item_id for item_id, _ in reactions])
    values = model.reward.checked_all([value for _, value in reactions])
    moved = {model.item_row(item_id): context_shift(model, context) for item_id, context in (contexts or {}).items()}
    shifts = {row: shift for row, shift in moved.items() if shift is not None}
    return belief_from_history(model, rows, values, forgetting, belief, shifts)


def load_user(served: ServedModel, events: Sequence[Event]) -> Session:
    """Open the session of a user from the log."""
    rows = in_force(events)
    logged, shown = logged_reactions(served.model, rows), usable(served.model, rows)
    attributes = known_attributes(served.model, attributes_in(rows))
    contexts = contexts_of(served.model, rows)
    more: dict[str, Any] = {"attributes": attributes, "contexts": contexts, "rng": np.random.default_rng()}
    if logged:  # their evidence is more than a belief
        until = end_of_record(served.model, rows)
        return served.recommender.session(shown, logged=logged, until=until, **more)
    model = own_model(served.model, attributes)
    belief = belief_after(model, served.recommender.forgetting, shown, None, contexts)
    return served.recommender.session(shown, belief=belief, **more)


def known_attributes(model: Model, given: Mapping[str, Any]) -> dict[str, Any]:
    """Select the stored attributes that a model understands; they may have been given to another one."""
    return _understood(model.attribute_prior, given)


def contexts_of(model: Model, events: Iterable[Event]) -> dict[str, dict[str, Any]]:
    """Select the contexts of reactions to known items, by item, as far as a model understands them."""
    found = {
        event.item_id: _understood(model.context_effect, json.loads(event.details))
        for event in events
        if event.evidence == "shown" and event.details is not None and event.item_id in model.row_of
    }
    return {item_id: context for item_id, context in found.items() if item_id is not None and context}


def _understood(prior: AttributePrior | None, given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if prior is None:
        return found
    for name, value in given.items():
        with suppress(AttributesError):
            prior.encoder.encode({name: value})
            found[name] = value
    return found


def own_model(model: Model, attributes: Mapping[str, Any]) -> Model:
    """Return the model with the prior of a user with these attributes."""
    return personal_model(model, encode_attributes(model, attributes))


def usable(model: Model, events: Iterable[Event]) -> list[Reaction]:
    """Select the reactions to shown items that this model can learn from; a log may name items of older models."""
    return [
        (event.item_id, event.value)
        for event in events
        if event.evidence == "shown" and event.item_id is not None and _can_learn(model, event)
    ]


def logged_reactions(model: Model, events: Iterable[Event]) -> list[tuple[str, float]]:
    """Select the logged reactions in force that this model can learn from."""
    return [
        (event.item_id, event.value)
        for event in events
        if event.evidence == "logged" and event.item_id is not None and event.value is not None
        if _can_learn(model, event)
    ]


def end_of_record(model: Model, events: Iterable[Event]) -> int | None:
    """Find the time at which the logged record ends, in the units in which the model knows when items appeared."""
    if model.appeared is None:
        return None
    unit = time_unit(int(model.appeared.max(initial=0)))
    times = [event.time for event in events if event.evidence == "logged" and event.time is not None]
    return math.ceil(unit * max(times)) if times else None


def skipped(events: Iterable[Event]) -> Aside:
    """Select the items that a user skipped, with the revision and time of the last skip."""
    return {
        event.item_id: (event.revision, event.arrived)
        for event in events
        if event.evidence == "skip" and event.item_id is not None
    }


def _can_learn(model: Model, event: Event) -> bool:
    return model.known_row(event.item_id or "") is not None and _fits(model, event.value)


def _fits(model: Model, value: float | None) -> bool:
    try:
        model.reward.checked(value)
    except FeedbackError:
        return False
    return True
