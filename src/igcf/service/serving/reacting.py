"""Reactions: check them, store them durably, once each, and let the belief follow."""

import itertools
import json
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from igcf.errors import ConfigError, FeedbackError, IgcfError
from igcf.online.attributes import context_shift, encode_attributes
from igcf.service.context import ServiceContext
from igcf.service.errors import EventConflictError, RequestError, UnknownEventError, problem
from igcf.service.models import responses
from igcf.service.models.requests import Feedback, History, LoggedReaction, UserFeedback
from igcf.service.serving.experiments import Place
from igcf.service.serving.group_commit import Joining, Outcome, Reaction, received
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.records import Appended, Event, NewEvent, Receipt, attributes_in, in_force
from igcf.service.store.transfer import logged_event_id

SKIP, SHOWN = "skip", "shown"  # kinds of feedback without a value: not now, and shown without a reaction


async def react_together(context: ServiceContext, user_id: str, reaction: Feedback) -> responses.FeedbackReceipt:
    """Store one reaction, durably, in one transaction with those of others that come at the same time."""
    place = context.place(user_id)
    mine = Reaction(place.served, user_id, checked_event(place, reaction))
    receipt = await context.reactions.store(mine, partial(store_together, context))
    refuse_conflict(receipt)
    return responses.FeedbackReceipt(revision=receipt.revision, duplicate=receipt.duplicate, event_id=receipt.event_id)


def refuse_conflict(receipt: Receipt) -> None:
    """Refuse a reaction with the event id of another one."""
    if (stored := receipt.conflict) is not None:
        said = stored.kind or ("no reaction" if stored.value is None else f"{stored.value:g}")
        said = "skip" if stored.evidence == "skip" else said
        raise EventConflictError(
            f"event {receipt.event_id!r} is stored with another reaction ({stored.item_id!r}: {said}); "
            "send a new reaction under an event_id of its own",
            {"item": stored.item_id, "value": stored.value, "evidence": stored.evidence, "kind": stored.kind},
        )


def add_history(context: ServiceContext, user_id: str, history: History) -> responses.HistoryReceipt:
    """Store logged reactions of one user; the belief follows when the user is next asked for."""
    if (n := len(history.reactions)) > (most := context.settings.max_list):
        raise ConfigError(f"the history has {n} reactions; this server allows {most} at a time")
    served = context.place(user_id).served
    events = [logged_event(served, user_id, reaction) for reaction in history.reactions]
    appended = context.store.append(user_id, events, served.model_id)
    context.metrics.feedback.labels("logged").inc(len(appended.fresh))
    conflicts = [receipt.event_id for receipt in appended.receipts if receipt.conflict is not None]
    return responses.HistoryReceipt(
        user=user_id,
        revision=appended.version[1],
        stored=len(appended.fresh),
        duplicates=len(events) - len(appended.fresh) - len(conflicts),
        conflicts=conflicts,
        unknown_items=sum(served.model.known_row(event.item_id or "") is None for event in appended.fresh),
    )


def logged_event(served: ServedModel, user_id: str, reaction: LoggedReaction) -> NewEvent:
    """Check a logged reaction; an item that the model does not know is kept for a model that does."""
    value = reaction_value(served, reaction)
    event_id = reaction.event_id or logged_event_id(user_id, reaction.item, value, reaction.time)
    return NewEvent(event_id, reaction.item, value, evidence="logged", kind=reaction.kind, time=reaction.time)


def react_batch(context: ServiceContext, entries: Sequence[UserFeedback | RequestError]) -> responses.BatchReceipt:
    """Store reactions of many users in one transaction; an error takes the place of a receipt."""
    if len(entries) > context.settings.max_batch:
        raise ConfigError(f"the batch has {len(entries)} reactions; this server allows {context.settings.max_batch}")
    checked: list[Reaction] = []
    results: list[responses.BatchEntry | None] = []
    for entry in entries:
        try:
            if isinstance(entry, RequestError):
                raise entry
            place = context.place(entry.user)
            checked.append(Reaction(place.served, entry.user, checked_event(place, entry)))
            results.append(None)
        except IgcfError as error:
            results.append(_failed(error))
    found = iter(store_together(context, checked))
    entered = [_entry(next(found)) if result is None else result for result in results]
    duplicates = sum(entry.duplicate is True for entry in entered)
    failed = sum(entry.error is not None for entry in entered)
    stored = len(entered) - duplicates - failed
    return responses.BatchReceipt(stored=stored, duplicates=duplicates, failed=failed, results=entered)


def _entry(outcome: Outcome | None) -> responses.BatchEntry:
    try:
        receipt = received(outcome)
        refuse_conflict(receipt)
    except IgcfError as error:
        return _failed(error)
    return responses.BatchEntry(receipt.revision, receipt.duplicate, receipt.event_id)


def _failed(error: IgcfError) -> responses.BatchEntry:
    told = problem(error)
    return responses.BatchEntry(error=told["error"], message=told["message"])


def checked_event(place: Place, reaction: Feedback) -> NewEvent:
    """Check a reaction against what its user is served, before anything is stored."""
    served = place.served
    if not place.knows_elsewhere(reaction.item):  # else it was shown before the user came into this arm, or elsewhere
        served.model.item_row(reaction.item)
    kind, value, details = reaction.kind, reaction.value, None
    evidence: responses.EvidenceKind = "skip" if kind == SKIP else "shown"
    if reaction.context and kind != SKIP:
        context_shift(served.model, place.own_part("context_effect", reaction.context))
        details = json.dumps(reaction.context, sort_keys=True, allow_nan=False)
    if kind not in (SKIP, SHOWN):
        value = reaction_value(served, reaction)
    elif value is not None:
        raise FeedbackError(f"kind {kind!r} has no value, got {value!r}; leave the value out")
    else:
        kind = None
    given = (reaction.item, value, reaction.recommendation_id, evidence, kind, reaction.time)
    return NewEvent(reaction.event_id or uuid.uuid4().hex, *given, model=served.model_id, details=details)


def reaction_value(served: ServedModel, reaction: Feedback | LoggedReaction) -> float:
    """Find the value of a reaction: given, named by its kind, or, where every reaction counts alike, that of any."""
    reward = served.model.reward
    if reaction.value is None and reaction.kind is None and not reward.is_implicit:
        raise FeedbackError(
            f"the reaction to item {reaction.item!r} has no value; pass a number from {reward.low:g} to "
            f"{reward.high:g}, or the kind 'shown' for shown without a reaction"
        )
    return served.model.reaction_value(... if reaction.value is None else reaction.value, reaction.kind)


def store_together(
    context: ServiceContext, reactions: Sequence[Reaction], *, waits: bool = True, joining: Joining | None = None
) -> list[Outcome | None]:
    """Store checked reactions in one transaction, with those that join them; what became of each.

    The log is all that is written. Sessions in memory are notified of commits and learn from them at the next request.
    Without `waits`, None stands for reactions of users whom another server is changing at that moment.
    """
    if not reactions:
        return []
    together: list[Reaction] = []
    additions: dict[str, list[NewEvent]] = {}

    def add(more: Sequence[Reaction]) -> None:
        for reaction in more:
            together.append(reaction)
            additions.setdefault(reaction.user_id, []).append(reaction.event)

    add(reactions)
    begun = None if joining is None else lambda: add(joining())
    found = context.store.append_all(additions, reactions[0].served.model_id, waits=waits, begun=begun)
    served = {reaction.user_id: reaction.served for reaction in together}
    receipts: dict[str, Iterator[Outcome]] = {}
    for user_id, each in found.items():
        if isinstance(each, Appended):
            context.users.publish(served[user_id], user_id, each)
            _count(context, served[user_id], each)
        receipts[user_id] = iter(each.receipts) if isinstance(each, Appended) else itertools.repeat(each)
    return [next(receipts[each.user_id]) if each.user_id in receipts else None for each in together]


def _count(context: ServiceContext, served: ServedModel, appended: Appended) -> None:
    for kind, count in Counter(_metric_kind(served, event) for event in appended.fresh).items():
        context.metrics.feedback.labels(kind).inc(count)
    if known := len(appended.receipts) - len(appended.fresh):
        context.metrics.duplicates.inc(known)


def _metric_kind(served: ServedModel, event: Event) -> str:
    if event.evidence == "skip":
        return "skip"
    if event.value is None:
        return "none"
    return "satisfied" if event.value >= served.model.reward.threshold else "unsatisfied"


def set_attributes(context: ServiceContext, user_id: str, attributes: dict[str, Any]) -> responses.AttributesReceipt:
    """Replace what is known of a user beside reactions; the same again changes nothing."""
    place = context.place(user_id)
    encoded = encode_attributes(place.served.model, place.own_part("attribute_prior", attributes))
    known = {name: value for name, value in attributes.items() if value is not None}
    stored = attributes_in(in_force(context.store.events(user_id)))
    revision = context.store.version(user_id)[1]
    if known != stored:
        details = json.dumps(known, sort_keys=True, allow_nan=False)
        event = NewEvent(uuid.uuid4().hex, None, None, evidence="attributes", details=details)
        revision = context.store.append(user_id, [event], place.served.model_id).version[1]
    ignored = [] if encoded is None else list(encoded.ignored)
    return responses.AttributesReceipt(user=user_id, revision=revision, attributes=known, ignored=ignored)


def retract(context: ServiceContext, user_id: str, event_id: str) -> int:
    """Take one reaction back, once however often it is asked for; the log keeps both rows, the belief what is left."""
    revision = context.store.retract(user_id, event_id, context.place(user_id).served.model_id)
    if revision is None:
        raise UnknownEventError(
            f"event {event_id!r} is not among this user's reactions; `GET /v1/users/USER` lists them"
        )
    return revision


def forget(context: ServiceContext, user_id: str) -> int:
    """Delete everything about a user, in the store, in the audit and its queue, and in memory."""
    context.users.forget(user_id)
    context.audit.flush()
    deleted = context.store.forget(user_id)
    context.audit.follow()
    context.users.forget(user_id)
    return deleted


def merge(context: ServiceContext, user_id: str, visitor: str) -> responses.MergeReceipt:
    """Answer `POST /v1/users/{user}/merge`."""
    if visitor == user_id:
        raise ConfigError(f"user {user_id!r} cannot be merged into itself; name the visitor in 'from'")
    context.audit.flush()
    merged = context.store.merge(visitor, user_id, context.place(user_id).served.model_id)
    context.users.forget(visitor)
    return merged
