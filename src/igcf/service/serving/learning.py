"""From stored reactions to a belief: loading a session, and bringing it up to date."""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from igcf.arrays import FloatArray
from igcf.errors import AttributesError, FeedbackError
from igcf.model import Model
from igcf.online import Belief, Session, learned, prior_belief
from igcf.online.answers import Reaction
from igcf.online.attributes import encode_attributes, personal_model
from igcf.online.learning import belief_from_history
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.importing import time_unit
from igcf.service.store.records import (
    NEUTRAL_DRIFT,
    Event,
    SavedBelief,
    UserRow,
    attributes_in,
    decode_belief,
    encode_belief,
    in_force,
)

Aside = dict[str, tuple[int, float]]
"""Items that a user skipped, and the revision and time at which they did."""
DRIFT_RATE = 0.1
LARGEST_SURPRISE = 100.0
FOLLOWED = 64
"""Reactions from which the drift is computed when a user is loaded: earlier ones weigh 0.9^64, a thousandth."""


@dataclass(frozen=True)
class Loaded:
    """What is known of a user, computed from the store."""

    session: Session
    drift: float
    """Moving average of the user's surprise."""
    saved: int
    """Revision of the saved belief that was used; 0 where none was."""
    is_complete: bool = True
    """Whether the belief may be saved: see `knows_items`."""


class BeliefAlone:
    """A belief that follows reactions without scoring any item: enough for a user who is not in memory."""

    def __init__(self, served: ServedModel, model: Model, belief: Belief | None = None) -> None:
        self._model = model
        self._prior = prior_belief(model)
        self.belief = self._prior if belief is None else belief
        self._forgetting = served.recommender.forgetting

    def learn_all(self, reactions: Sequence[Reaction]) -> None:
        """Learn many reactions at once; equals learning them one by one."""
        if reactions:
            rows = self._model.item_rows([item_id for item_id, _ in reactions])
            values = self._model.reward.checked_all([value for _, value in reactions])
            self.belief = belief_from_history(self._model, rows, values, self._forgetting, self.belief)

    def observe(self, item_id: str, value: float | None) -> None:
        """Learn from one reaction, as `Session.observe` does."""
        before = self.belief.decayed(self._prior, self._forgetting)
        number = math.nan if value is None else value
        self.belief = learned(before, self._model, self._model.item_row(item_id), number)


def load_user(served: ServedModel, user: UserRow, events: Sequence[Event]) -> Loaded:
    """Open the session of a user: from the saved belief where there is one that will do, and the log after it.

    A saved belief will do if it is of this model and nothing after it in the log changes what was in force before it.
    The drift comes from the last reactions, which are learned one by one.
    """
    rows = in_force(events)
    logged = logged_reactions(served.model, rows)
    attributes = known_attributes(served.model, attributes_in(rows))
    model = own_model(served.model, attributes)
    if logged:  # their evidence is more than a belief
        until = end_of_record(served.model, rows)
        shown = usable(served.model, rows)
        rng = np.random.default_rng()
        return Loaded(
            served.recommender.session(shown, logged=logged, until=until, rng=rng, attributes=attributes), user.drift, 0
        )
    start, saved, drift = _saved_state(served, user, events)
    shown = usable(served.model, rows)
    alone = BeliefAlone(served, model, start)
    later = [row for row in rows if row.revision > saved]
    news = usable(served.model, later)
    alone.learn_all(news[:-FOLLOWED])
    drift = follow(served, alone, drift, news[-FOLLOWED:], prior_belief(model))
    rng = np.random.default_rng()
    session = served.recommender.session(shown, belief=alone.belief, rng=rng, attributes=attributes)
    return Loaded(session, drift, saved, knows_items(served, later))


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


def follow(
    served: ServedModel,
    follower: "BeliefAlone | Session",
    drift: float,
    reactions: Iterable[Reaction],
    prior: Belief,
) -> float:
    """Learn reactions one by one; returns the moving average of the surprise after them."""
    for item_id, value in reactions:
        before = follower.belief.decayed(prior, served.recommender.forgetting)
        drift = drift_after(drift, surprise(served.model, before, item_id, value, expected_by(follower)))
        follower.observe(item_id, value)
    return drift


def saved_form(served: ServedModel, session: Session, revision: int, drift: float) -> SavedBelief | None:
    """Write a belief as it is kept beside the log; None where there are logged reactions: they are more than that."""
    if session.logged:
        return None
    return SavedBelief(served.model_id, revision, drift, encode_belief(session.belief))


def known_attributes(model: Model, given: Mapping[str, Any]) -> dict[str, Any]:
    """Select the stored attributes that a model understands; they may have been given to another one."""
    prior, found = model.attribute_prior, {}
    for name, value in given.items() if prior is not None else ():
        with suppress(AttributesError):
            encode_attributes(model, {name: value})
            found[name] = value
    return found


def own_model(model: Model, attributes: Mapping[str, Any]) -> Model:
    """Return the model with the prior of a user with these attributes."""
    return personal_model(model, encode_attributes(model, attributes))


def _saved_state(served: ServedModel, user: UserRow, events: Sequence[Event]) -> tuple[Belief | None, int, float]:
    """Find the belief to start from, its revision and its drift; None, the prior, where none will do."""
    saved = user.saved
    is_usable = saved is not None and saved.model == served.model_id and saved.revision <= user.revision
    if (
        is_usable
        and saved is not None
        and not any(row.evidence == "attributes" and row.revision > saved.revision for row in events)
    ):
        belief = decode_belief(saved.content, served.model.dim)
        before = in_force(row for row in events if row.revision <= saved.revision)
        if belief is not None and before == [row for row in in_force(events) if row.revision <= saved.revision]:
            return belief, saved.revision, saved.drift
    return None, 0, NEUTRAL_DRIFT


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


def expected_by(follower: BeliefAlone | Session) -> FloatArray | None:
    """Return the expected rewards of all items where they are not those of the belief alone."""
    return follower.moments()[0] if isinstance(follower, Session) and follower.logged else None


def surprise(
    model: Model, belief: Belief, item_id: str, value: float | None, expected: FloatArray | None = None
) -> float:
    """Compute (reward - mean)^2 / (std^2 + noise) of a reaction to come; expected to be about 1.

    `expected` are the rewards expected of all items, where they are not those of the belief alone.
    """
    row = model.item_row(item_id)
    mean = model.expected_of(belief.mean, row) if expected is None else float(expected[row])
    _, std = belief.moments(model.item_vectors[row : row + 1])
    reward = float(model.reward.of(math.nan if value is None else value))
    return float((reward - mean) ** 2 / (float(std[0]) ** 2 + float(model.item_noise[row])))


def drift_after(drift: float, surprise: float) -> float:
    """Move the average of the surprise: well above 1 means that the taste is not what the belief says."""
    return (1 - DRIFT_RATE) * drift + DRIFT_RATE * min(surprise, LARGEST_SURPRISE)


def _fits(model: Model, value: float | None) -> bool:
    try:
        model.reward.checked(value)
    except FeedbackError:
        return False
    return True
