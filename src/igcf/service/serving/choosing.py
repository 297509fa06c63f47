"""What would be chosen, without showing it: by another policy, or after a reaction that has not been given yet."""

from collections.abc import Sequence

import numpy as np

from igcf.errors import NoItemsLeftError
from igcf.online import Policy, Session
from igcf.online.evidence import LoggedBelief
from igcf.service.context import ServiceContext
from igcf.service.models.page_responses import Choice, Choices, Outcome, StartingItem, StartingItems
from igcf.service.models.requests import PolicyName
from igcf.service.serving.recommending import resolve_policy
from igcf.service.serving.served_model import ServedModel
from igcf.service.serving.starting import starting_rows


def choices(
    context: ServiceContext,
    user_id: str,
    *,
    k: int,
    policy: PolicyName | None,
    nu: float | None,
    item: str | None,
    values: Sequence[float | None],
) -> Choices:
    """Answer `GET /v1/users/{user}/choices`; nothing is learned, logged or counted as shown."""
    served = context.current_model.served
    used, chooser = resolve_policy(context.settings, served.policy, policy, nu)
    outcomes: list[Outcome] = []
    with context.users.open(served, user_id) as user:
        revision, aside = user.revision, user.aside
        if item is None:
            outcomes.append(
                Outcome(value=None, items=_chosen(served, _copied(served, user.session), chooser, k, aside))
            )
        else:
            served.model.item_row(item)
            for value in values:
                after = _copied(served, user.session)
                after.observe(item, value)
                outcomes.append(Outcome(value=value, items=_chosen(served, after, chooser, k, aside)))
    return Choices(user=user_id, model=served.model_id, revision=revision, policy=used, item=item, outcomes=outcomes)


def starting_items(context: ServiceContext, k: int) -> StartingItems:
    """Answer `GET /v1/start`."""
    served = context.current_model.served
    items = [
        StartingItem(item=served.model.item_ids[row], title=served.title(row), categories=served.categories(row))
        for row in starting_rows(served, k)
    ]
    return StartingItems(model=served.model_id, items=items)


def _copied(served: ServedModel, session: Session) -> Session:
    """A session of its own that believes the same, for what has not happened."""
    known, rng = LoggedBelief(session.belief, session.offset), np.random.default_rng()
    return served.recommender.session(session.history, logged=session.logged, belief=known, rng=rng).apart()


def _chosen(served: ServedModel, session: Session, policy: Policy, k: int, aside: Sequence[str]) -> list[Choice]:
    """The best items that are left; fewer than `k` at the end of the catalogue."""
    while k:
        try:
            picks = session.recommend(k, aside, None, policy)
            break
        except NoItemsLeftError:
            k //= 2
    else:
        return []
    rows = [served.model.item_row(pick.item_id) for pick in picks]
    return [
        Choice(
            item=pick.item_id,
            title=served.title(row),
            categories=served.categories(row),
            mean=pick.mean,
            std=pick.std,
            chance=pick.chance,
            low=pick.low,
            high=pick.high,
            rank=pick.rank,
            mean_rank=pick.mean_rank,
            reason="please" if pick.mean_rank <= max(1, pick.rank) else "learn",
            popularity_rank=int(served.popularity[row]),
        )
        for pick, row in zip(picks, rows, strict=True)
    ]
