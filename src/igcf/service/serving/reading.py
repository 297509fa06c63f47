"""Answers about one user that change nothing: state, beliefs, explanations."""

import math
from typing import Literal

import numpy as np

from igcf.online.answers import Contribution, Reaction
from igcf.service.models.page_responses import Beliefs, BelievedItem, PopularItem
from igcf.service.models.responses import (
    AttributePart,
    BeliefSummary,
    ContributionPart,
    ExplanationResponse,
    ItemFeedbackPage,
    PastReaction,
    Scores,
    UserPage,
    UserState,
)
from igcf.service.serving.learning import load_user
from igcf.service.serving.served_model import ServedModel
from igcf.service.serving.taste import taste_of
from igcf.service.serving.users import UsersInMemory
from igcf.service.store.records import attributes_in, in_force
from igcf.service.store.store import Store

LISTED = 1_000
"""Reactions that an answer lists unless it is asked for more."""


def user_state(store: Store, served: ServedModel, user_id: str, *, with_cov: bool, limit: int = LISTED) -> UserState:
    """Answer `GET /v1/users/{user}`, with the latest `limit` reactions."""
    user = store.user(user_id)
    events = store.events(user_id, until=user.revision)
    belief = load_user(served, events).belief
    rows = in_force(events)
    past = [event for event in rows if event.evidence != "attributes"]
    return UserState(
        user=user_id,
        known=user.revision > 0,
        model=served.model_id,
        revision=user.revision,
        reactions=len(past),
        history=[
            PastReaction(
                event_id=event.event_id or "",
                item=event.item_id or "",
                value=event.value,
                evidence=event.evidence,
                kind=event.kind,
                time=event.time,
                title=served.title_of(event.item_id or ""),
            )
            for event in past[max(0, len(past) - limit) :]
        ],
        attributes=attributes_in(rows),
        belief=BeliefSummary(
            mean=belief.mean.tolist(),
            std=np.sqrt(np.maximum(np.diag(belief.cov), 0.0)).tolist(),
            trace=float(np.trace(belief.cov)),
            prior_trace=float(np.trace(served.model.prior_cov)),
            cov=belief.cov.tolist() if with_cov else None,
        ),
    )


def beliefs(
    users: UsersInMemory, served: ServedModel, user_id: str, *, top: int, with_seen: bool, popular: int = 0
) -> Beliefs:
    """Answer `GET /page/users/{user}/beliefs`."""
    with users.open(served, user_id) as user:
        revision = user.revision
        means, stds = user.session.moments()
        chances = user.session.chances()
        belief = user.session.belief
        reactions: list[Reaction] = [*user.session.logged, *user.session.history]
    seen = {item_id for item_id, _ in reactions}
    hits = [(item_id, value is not None and value >= served.model.reward.threshold) for item_id, value in reactions]
    rows_hit = [(served.model.item_row(item_id), is_hit) for item_id, is_hit in hits]
    available = served.available()
    order = np.argsort(-means, kind="stable")
    if available is not None:  # what cannot be shown is not put before anybody
        order = order[available[order]]
    order = order[: top + (0 if with_seen else len(seen))]
    rows = [row for row in order.tolist() if with_seen or served.model.item_ids[row] not in seen][:top]
    return Beliefs(
        user=user_id,
        model=served.model_id,
        revision=revision,
        top=[
            BelievedItem(
                **served.named(row),
                mean=float(means[row]),
                std=float(stds[row]),
                chance=float(chances.chance[row]),
                low=float(chances.low[row]),
                high=float(chances.high[row]),
                seen=served.model.item_ids[row] in seen,
            )
            for row in rows
        ],
        popular=[
            PopularItem(
                item=served.model.item_ids[row],
                title=served.title(row),
                chance=float(chances.chance[row]),
                seen=served.model.item_ids[row] in seen,
            )
            for row in served.popular_rows[:popular].tolist()
        ],
        taste=taste_of(served.model, belief, rows_hit),
    )


def explanation(
    users: UsersInMemory, served: ServedModel, user_id: str, item_id: str, *, limit: int = LISTED
) -> ExplanationResponse:
    """Answer `GET /v1/users/{user}/explanations/{item}`, with the `limit` reactions that matter most."""
    served.model.item_row(item_id)
    with users.open(served, user_id) as user:
        revision, found = user.revision, user.session.explain(item_id)
    parts: list[tuple[Contribution, Literal["shown", "logged"]]] = [
        *((part, "logged") for part in found.logged),
        *((part, "shown") for part in found.contributions),
    ]
    largest = sorted(range(len(parts)), key=lambda place: -abs(parts[place][0].amount))
    listed, others = sorted(largest[:limit]), largest[limit:]
    return ExplanationResponse(
        user=user_id,
        item=item_id,
        model=served.model_id,
        revision=revision,
        title=served.title_of(item_id),
        prior=found.prior,
        **{name: getattr(found, name) for name in Scores.model_fields},
        attributes=[AttributePart(**vars(part)) for part in found.attributes],
        contributions=[_part(served, *parts[place]) for place in listed],
        rest=math.fsum(parts[place][0].amount for place in others),
        absence=found.absence,
    )


def _part(served: ServedModel, part: Contribution, evidence: Literal["shown", "logged"]) -> ContributionPart:
    return ContributionPart(
        item=part.item_id,
        value=part.value,
        evidence=evidence,
        amount=part.amount,
        title=served.title_of(part.item_id),
    )


def user_page(store: Store, after: str | None, limit: int) -> UserPage:
    """Answer `GET /v1/users`."""
    found = store.list_users(after or "", limit)
    return UserPage(users=found, next=found[-1].user if len(found) == limit else None)


def item_feedback(store: Store, item_id: str, after: str | None, limit: int) -> ItemFeedbackPage:
    """Answer `GET /v1/items/{item}/feedback`."""
    found = store.item_feedback(item_id, after or "", limit)
    return ItemFeedbackPage(item=item_id, reactions=found, next=found[-1].user if len(found) == limit else None)
