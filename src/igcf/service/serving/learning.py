"""From stored reactions to a belief: loading a session, and computing the belief that goes with new reactions."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from igcf.arrays import FloatArray
from igcf.errors import FeedbackError
from igcf.model import Model
from igcf.online import Belief, Session, learned, prior_belief
from igcf.online.answers import Reaction
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.belief_bytes import decode_belief, encode_belief
from igcf.service.store.importing import time_unit
from igcf.service.store.records import Appended, Event, NewEvent, StoredBelief, UserRow, Version, in_force

Aside = dict[str, tuple[int, float]]
"""Items that a user skipped, and the revision and time at which they did."""
DRIFT_RATE = 0.1
LARGEST_SURPRISE = 100.0


class HeldSession:
    """The session of a user while reactions are stored; out of memory, so that nobody sees what is not committed."""

    def __init__(self, session: Session | None = None, version: Version = ("", 0), aside: Aside | None = None) -> None:
        self.session = session
        """None where the user is not in memory."""
        self.aside: Aside = {} if aside is None else aside
        """Items that the user skipped."""
        self.version = version
        """Version of the user that the session has reached."""
        self.is_ahead = False
        """Whether the session has learned what the store has not committed."""

    def session_at(self, version: Version) -> Session | None:
        """Hand out the session to learn in, if it is at `version`; only once, since a retry must not learn twice."""
        if self.session is None or self.is_ahead or self.version != version:
            return None
        self.is_ahead = True
        return self.session

    def commit(self, appended: "Appended[LearnedBelief]") -> None:
        """Note that the store has committed; if it was this session that learned, it is current again."""
        if appended.learned is not None and appended.learned.session is not None:
            self.version, self.is_ahead = appended.version, False


@dataclass(frozen=True)
class LearnedBelief(StoredBelief):
    """A belief to be saved, and the session that computed it."""

    session: Session | None
    """The session in memory that has observed the new reactions; None where the user is not in memory."""


def learn(
    served: ServedModel,
    held: HeldSession,
    user: UserRow,
    past: Callable[[], list[Event]],
    fresh: Sequence[NewEvent],
) -> LearnedBelief:
    """Compute the belief after new reactions, once: in the session in memory where that is current, else alone.

    Args:
        served: the model in service.
        held: the user's session, taken out of memory, if it was there.
        user: the user's row before the reactions.
        past: reads the user's log before the reactions.
        fresh: the new reactions, checked against the model.
    """
    if any(
        event.evidence == "logged" for event in fresh
    ):  # it comes before all that was shown: learned at the next load
        return LearnedBelief(served.model_id, None, user.drift, None)
    session = held.session_at((user.born, user.revision))
    follower = session or follower_of(served, user, past)
    prior, drift = prior_belief(served.model), user.drift
    for revision, event in enumerate(fresh, start=user.revision + 1):
        if event.evidence == "skip":
            if session is not None:
                held.aside[event.item_id] = revision, time.time()
            continue
        before = follower.belief.decayed(prior, served.recommender.forgetting)
        drift = drift_after(drift, surprise(served.model, before, event.item_id, event.value, expected_by(follower)))
        follower.observe(event.item_id, event.value)
    content = None if has_logged(follower) else encode_belief(follower.belief)
    return LearnedBelief(served.model_id, content, drift, session)


class BeliefAlone:
    """A belief that follows reactions without scoring any item: enough for a user who is not in memory."""

    def __init__(self, served: ServedModel, belief: Belief) -> None:
        self.belief = belief
        self._model = served.model
        self._prior = prior_belief(served.model)
        self._forgetting = served.recommender.forgetting

    def observe(self, item_id: str, value: float | None) -> None:
        """Learn from one reaction, as `Session.observe` does."""
        before = self.belief.decayed(self._prior, self._forgetting)
        number = math.nan if value is None else value
        self.belief = learned(before, self._model, self._model.item_row(item_id), number)


def follower_of(served: ServedModel, user: UserRow, past: Callable[[], list[Event]]) -> "BeliefAlone | Session":
    """Find what follows new reactions of a user who is not in memory.

    The saved belief does where there is one; it is computed from the log where it is damaged, of another model, or was
    not saved because the user has logged reactions, whose evidence is more than a belief.
    """
    if user.revision == 0:
        return BeliefAlone(served, prior_belief(served.model))
    cached = _saved_belief(served, user)
    if cached is not None:
        return BeliefAlone(served, cached)
    session = load_session(served, UserRow(user.user_id), past())
    return session if has_logged(session) else BeliefAlone(served, session.belief)


def has_logged(follower: "BeliefAlone | Session") -> bool:
    """Whether logged reactions are part of what is believed; such a belief is not saved."""
    return isinstance(follower, Session) and bool(follower.logged)


def load_session(served: ServedModel, user: UserRow, events: Sequence[Event]) -> Session:
    """Open the session of a user: from the saved belief when it belongs to this model, otherwise from the log."""
    events = in_force(events)
    logged = logged_reactions(served.model, events)
    return served.recommender.session(
        usable(served.model, counted_once(events)),
        logged=logged,
        until=end_of_record(served.model, events) if logged else None,
        belief=_saved_belief(served, user),
        rng=np.random.default_rng(),
    )


def usable(model: Model, events: Iterable[Event]) -> list[Reaction]:
    """Select the reactions to shown items that this model can learn from; a log may name items of older models."""
    return [
        (event.item_id, event.value)
        for event in events
        if event.evidence == "shown" and event.item_id is not None and _can_learn(model, event)
    ]


def logged_reactions(model: Model, events: Iterable[Event]) -> list[tuple[str, float]]:
    """Select the logged reactions that this model can learn from: of several to one item, the latest."""
    latest: dict[str, Event] = {}
    for event in events:
        if event.evidence == "logged" and event.item_id is not None and _can_learn(model, event):
            before = latest.get(event.item_id)
            if before is None or event.time >= before.time:
                latest[event.item_id] = event
    return [(item_id, event.value) for item_id, event in latest.items() if event.value is not None]


def counted_once(events: Sequence[Event]) -> list[Event]:
    """Leave out shown reactions that came again in a log that was imported later: they count as logged."""
    imported = {(event.item_id, event.value): event.revision for event in events if event.evidence == "logged"}
    return [
        event
        for event in events
        if event.evidence != "shown" or imported.get((event.item_id, event.value), 0) < event.revision
    ]


def end_of_record(model: Model, events: Iterable[Event]) -> int | None:
    """Find the time at which the logged record ends, in the units in which the model knows when items appeared."""
    if model.appeared is None:
        return None
    unit = time_unit(int(model.appeared.max(initial=0)))
    return math.ceil(unit * max(event.time for event in events if event.evidence == "logged"))


def skipped(events: Iterable[Event]) -> Aside:
    """Select the items that a user skipped, with the revision and time of the last skip."""
    return {
        event.item_id: (event.revision, event.time)
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


def _saved_belief(served: ServedModel, user: UserRow) -> Belief | None:
    if user.belief is None or user.belief_model != served.model_id:
        return None
    return decode_belief(user.belief, served.model.dim)


def _fits(model: Model, value: float | None) -> bool:
    try:
        model.reward.checked(value)
    except FeedbackError:
        return False
    return True
