"""Reactions: store them durably, once each, and let the belief follow."""

import math
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from igcf.errors import ConfigError, IgcfError
from igcf.online import Belief
from igcf.service.beliefs import decode_belief, drifted, encode_belief, learned_with_surprise
from igcf.service.catalogue import Served
from igcf.service.errors import RequestError, UnknownEventError, problem
from igcf.service.parts import Parts
from igcf.service.schemas import UserFeedback
from igcf.service.sessions import load_session
from igcf.service.store import NewEvent, UserChange, UserRow


@dataclass(frozen=True)
class Receipt:
    """What became of one reaction."""

    revision: int
    duplicate: bool
    event_id: str


def new_event(served: Served, item_id: str, value: object, event_id: str | None, answer_id: str | None) -> NewEvent:
    """Check a reaction against the model in service, before anything is stored."""
    served.model.item_row(item_id)
    number = served.model.reward.checked(value)
    return NewEvent(event_id or uuid.uuid4().hex, item_id, None if math.isnan(number) else number, answer_id)


def react(parts: Parts, served: Served, user_id: str, events: Sequence[NewEvent]) -> list[Receipt]:
    """Store the reactions of one user in one transaction; they are durable when this returns."""

    def work(change: UserChange) -> tuple[list[Receipt], list[NewEvent]]:
        known = change.known([event.event_id for event in events])
        belief, drift = _belief(served, change), change.user.drift
        receipts, fresh = [], []
        for event in events:
            is_known = event.event_id in known
            if not is_known:
                known.add(event.event_id)
                fresh.append(event)
                change.append(event, model=served.model_id)
                row = served.model.item_row(event.item_id)
                belief, surprise = learned_with_surprise(
                    served.model,
                    _decayed(served, belief),
                    row,
                    math.nan if event.value is None else event.value,
                )
                drift = drifted(drift, surprise)
            receipts.append(Receipt(change.revision, is_known, event.event_id))
        if fresh:
            change.save(served.model_id, encode_belief(belief), drift)
        state.append(change.user)
        return receipts, fresh

    state: list[UserRow] = []
    receipts, fresh = parts.store.change(user_id, work)
    parts.sessions.learned(served, state[-1], [(event.item_id, event.value) for event in fresh])
    for event in fresh:
        satisfied = event.value is not None and event.value >= served.model.reward.threshold
        kind = "none" if event.value is None else "satisfied" if satisfied else "unsatisfied"
        parts.metrics.feedback.labels(kind).inc()
    parts.metrics.duplicates.inc(len(events) - len(fresh))
    return receipts


def react_batch(parts: Parts, entries: Sequence[UserFeedback | RequestError]) -> dict[str, Any]:
    """Store reactions of many users, one transaction for each of them; what fails is told in its place."""
    if len(entries) > parts.settings.max_batch:
        raise ConfigError(f"the batch has {len(entries)} reactions; this server allows {parts.settings.max_batch}")
    served = parts.slot.current
    results: list[dict[str, Any]] = [{} for _ in entries]
    by_user: dict[str, list[tuple[int, NewEvent]]] = defaultdict(list)
    for place, entry in enumerate(entries):
        try:
            if isinstance(entry, RequestError):
                raise entry
            event = new_event(served, entry.item, entry.value, entry.event_id, entry.recommendation_id)
            by_user[entry.user].append((place, event))
        except IgcfError as error:
            results[place] = problem(error)
    for user_id, placed in by_user.items():
        try:
            receipts = react(parts, served, user_id, [event for _, event in placed])
            found: list[dict[str, Any]] = [vars(receipt) for receipt in receipts]
        except IgcfError as error:
            found = [dict(problem(error))] * len(placed)
        for (place, _), result in zip(placed, found, strict=True):
            results[place] = result
    duplicates = sum(bool(result.get("duplicate")) for result in results)
    failed = sum("error" in result for result in results)
    stored = len(results) - duplicates - failed
    return {"stored": stored, "duplicates": duplicates, "failed": failed, "results": results}


def retract(parts: Parts, user_id: str, event_id: str) -> int:
    """Take one reaction back; the log keeps both rows, the belief is computed from what is left."""
    served = parts.slot.current

    def work(change: UserChange) -> int | None:
        if change.retract(event_id, model=served.model_id):
            change.save(None, None, change.user.drift)
            return change.revision
        return None

    revision = parts.store.change(user_id, work)
    if revision is None:
        raise UnknownEventError(f"event {event_id!r} is not among this user's reactions, or was taken back before")
    return revision


def forget(parts: Parts, user_id: str) -> int:
    """Delete everything about a user, in the store, in the queue and in memory."""
    parts.sessions.forget(user_id)
    parts.audit.flush()
    deleted = parts.store.forget(user_id)
    parts.sessions.forget(user_id)
    return deleted


def _belief(served: Served, change: UserChange) -> Belief:
    """The belief before the change: cached, or computed from the log when the cache is of another model."""
    user = change.user
    if user.revision == 0:
        return Belief(served.model.prior_mean, served.model.prior_cov)
    if user.belief is not None and user.belief_model == served.model_id:
        cached = decode_belief(user.belief, served.model.dim)
        if cached is not None:
            return cached
    return load_session(served, UserRow(user.user_id), change.events()).belief


def _decayed(served: Served, belief: Belief) -> Belief:
    return belief.decayed(Belief(served.model.prior_mean, served.model.prior_cov), served.recommender.forgetting)
