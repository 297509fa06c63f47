"""From stored reactions to a belief: loading a session, bringing it up to date, and checking a saved one."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from igcf.errors import AttributesError, FeedbackError
from igcf.model import Model
from igcf.model.attribute_prior import AttributePrior
from igcf.online import Belief, Session, prior_belief
from igcf.online.answers import Reaction
from igcf.online.attributes import context_shift, encode_attributes, personal_model
from igcf.online.learning import belief_from_history
from igcf.progress import Report, silent
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.database import Connection
from igcf.service.store.log import read_events
from igcf.service.store.maintenance import Problem, saved_beliefs
from igcf.service.store.records import (
    Event,
    SavedBelief,
    UserRow,
    attributes_in,
    decode_belief,
    encode_belief,
    in_force,
)
from igcf.service.store.transfer import time_unit

Aside = dict[str, tuple[int, float]]
"""Items that a user skipped, and the revision and time at which they did."""
TOLERANCE = 1e-8
"""Largest difference between a saved belief and one computed from the log, relative to entries above 1."""


@dataclass(frozen=True)
class Loaded:
    """What is known of a user, computed from the store."""

    session: Session
    saved: int
    """Revision of the saved belief that was used; 0 where none was."""
    is_complete: bool = True
    """Whether the belief may be saved: see `knows_items`."""


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


def load_user(served: ServedModel, user: UserRow, events: Sequence[Event]) -> Loaded:
    """Open the session of a user: from the saved belief where there is one that will do, and the log after it.

    A saved belief will do if it is of this model and nothing after it in the log changes what was in force before it.
    """
    rows = in_force(events)
    logged, shown = logged_reactions(served.model, rows), usable(served.model, rows)
    attributes = known_attributes(served.model, attributes_in(rows))
    contexts = contexts_of(served.model, rows)
    more: dict[str, Any] = {"attributes": attributes, "contexts": contexts, "rng": np.random.default_rng()}
    if logged:  # their evidence is more than a belief
        until = end_of_record(served.model, rows)
        return Loaded(served.recommender.session(shown, logged=logged, until=until, **more), 0)
    start, saved = _saved_state(served, user, events)
    later = [row for row in rows if row.revision > saved]
    model = own_model(served.model, attributes)
    belief = belief_after(model, served.recommender.forgetting, usable(served.model, later), start, contexts)
    return Loaded(served.recommender.session(shown, belief=belief, **more), saved, knows_items(served, later))


def knows_items(served: ServedModel, events: Iterable[Event]) -> bool:
    """Whether all reactions are to items that the model was trained on, so that the belief may be saved.

    The vector of a new item moves with every reaction to it, and a belief with it. An item that is unknown here may be
    known to another server already. No item joins a model without a content prior: all servers ignore the others.
    """
    model = served.model
    if model.content is None:
        return True
    shown = (event.item_id for event in events if event.evidence == "shown" and event.item_id is not None)
    rows = [model.known_row(item_id) for item_id in shown]
    return all(row is not None and row < model.n_trained for row in rows)


def saved_form(served: ServedModel, session: Session, revision: int) -> SavedBelief | None:
    """Write a belief as it is kept beside the log; None where there are logged reactions: they are more than that."""
    if session.logged:
        return None
    return SavedBelief(served.model_id, revision, encode_belief(session.belief))


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


def _saved_state(served: ServedModel, user: UserRow, events: Sequence[Event]) -> tuple[Belief | None, int]:
    """Find the belief to start from and its revision; None, the prior, where none will do."""
    saved = user.saved
    if saved is None or saved.model != served.model_id or saved.revision > user.revision:
        return None, 0
    if any(row.evidence == "attributes" and row.revision > saved.revision for row in events):
        return None, 0
    belief = decode_belief(saved.content, served.model.dim)
    before = in_force(row for row in events if row.revision <= saved.revision)
    is_same = before == [row for row in in_force(events) if row.revision <= saved.revision]
    return (belief, saved.revision) if belief is not None and is_same else (None, 0)


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


def belief_problems(connection: Connection, served: ServedModel, report: Report = silent) -> Iterator[Problem]:
    """Find the saved beliefs that differ from one that is computed from the log; those of other models are not used."""
    for user_id, revision, content in saved_beliefs(connection, served.model_id, report):
        saved = decode_belief(content, served.model.dim)
        if saved is None:
            yield Problem("beliefs", repr(user_id), "the belief cannot be read", user_id)
            continue
        rows = in_force(read_events(connection, user_id, 0, revision))
        model = own_model(served.model, known_attributes(served.model, attributes_in(rows)))
        contexts = contexts_of(served.model, rows)
        computed = belief_after(model, served.recommender.forgetting, usable(served.model, rows), None, contexts)
        pairs = ((saved.mean, computed.mean), (saved.cov, computed.cov))
        difference = max(float(np.max(np.abs(a - b) / np.maximum(1.0, np.abs(b)))) for a, b in pairs)
        if not difference <= TOLERANCE:
            what = f"the belief differs from the log by {difference:.2g}, more than {TOLERANCE:g}"
            yield Problem("beliefs", repr(user_id), what, user_id)
