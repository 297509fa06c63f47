"""Reactions: check them, store them durably, once each, and let the belief follow."""

import math
import uuid
from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from igcf.errors import ConfigError, IgcfError
from igcf.service.context import ServiceContext
from igcf.service.errors import RequestError, UnknownEventError, problem
from igcf.service.http.requests import Feedback, UserFeedback
from igcf.service.http.responses import BatchEntry, BatchReceipt, FeedbackReceipt
from igcf.service.serving.learning import learn
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.records import NewEvent, Receipt


def react(context: ServiceContext, user_id: str, reaction: Feedback) -> FeedbackReceipt:
    """Store one reaction and learn from it; it is durable when this returns."""
    served = context.current_model.served
    return FeedbackReceipt(**vars(store_reactions(context, served, user_id, [checked_event(served, reaction)])[0]))


def react_batch(context: ServiceContext, entries: Sequence[UserFeedback | RequestError]) -> BatchReceipt:
    """Store reactions of many users, one transaction for each of them; what fails is told in its place."""
    if len(entries) > context.settings.max_batch:
        raise ConfigError(f"the batch has {len(entries)} reactions; this server allows {context.settings.max_batch}")
    served = context.current_model.served
    results: list[BatchEntry] = [BatchEntry()] * len(entries)
    by_user: dict[str, list[tuple[int, NewEvent]]] = defaultdict(list)
    for place, entry in enumerate(entries):
        try:
            if isinstance(entry, RequestError):
                raise entry
            by_user[entry.user].append((place, checked_event(served, entry)))
        except IgcfError as error:
            results[place] = _failed(error)
    for user_id, placed in by_user.items():
        try:
            receipts = store_reactions(context, served, user_id, [event for _, event in placed])
            found = [BatchEntry(**vars(receipt)) for receipt in receipts]
        except IgcfError as error:
            found = [_failed(error)] * len(placed)
        for (place, _), result in zip(placed, found, strict=True):
            results[place] = result
    duplicates = sum(result.duplicate is True for result in results)
    failed = sum(result.error is not None for result in results)
    stored = len(results) - duplicates - failed
    return BatchReceipt(stored=stored, duplicates=duplicates, failed=failed, results=results)


def _failed(error: IgcfError) -> BatchEntry:
    told = problem(error)
    return BatchEntry(error=told["error"], message=told["message"])


def checked_event(served: ServedModel, reaction: Feedback) -> NewEvent:
    """Check a reaction against the model in service, before anything is stored."""
    served.model.item_row(reaction.item)
    number = served.model.reward.checked(reaction.value)
    value = None if math.isnan(number) else number
    return NewEvent(reaction.event_id or uuid.uuid4().hex, reaction.item, value, reaction.recommendation_id)


def store_reactions(
    context: ServiceContext, served: ServedModel, user_id: str, events: Sequence[NewEvent]
) -> list[Receipt]:
    """Store checked reactions of one user in one transaction; memory then holds the belief that was stored."""
    with context.users.hold(served, user_id) as held:
        appended = context.store.append(user_id, events, partial(learn, served, held))
        held.commit(appended)
    for event in appended.fresh:
        satisfied = event.value is not None and event.value >= served.model.reward.threshold
        kind = "none" if event.value is None else "satisfied" if satisfied else "unsatisfied"
        context.metrics.feedback.labels(kind).inc()
    context.metrics.duplicates.inc(len(events) - len(appended.fresh))
    return appended.receipts


def retract(context: ServiceContext, user_id: str, event_id: str) -> int:
    """Take one reaction back; the log keeps both rows, the belief is computed from what is left."""
    revision = context.store.retract(user_id, event_id, context.current_model.served.model_id)
    if revision is None:
        raise UnknownEventError(f"event {event_id!r} is not among this user's reactions, or was taken back before")
    return revision


def forget(context: ServiceContext, user_id: str) -> int:
    """Delete everything about a user, in the store, in the queue and in memory."""
    context.users.forget(user_id)
    context.audit.flush()
    deleted = context.store.forget(user_id)
    context.users.forget(user_id)
    return deleted
