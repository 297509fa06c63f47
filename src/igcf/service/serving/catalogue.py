"""Answers about items and the model: the catalogue in pages, one item, its neighbours, and changes."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from igcf.arrays import FloatArray
from igcf.errors import ConfigError, RuleError
from igcf.item import Item, nearest, parse_fields, parse_items
from igcf.model.attribute_prior import AttributePrior
from igcf.online.policies import POLICIES, Policy
from igcf.service.context import ServiceContext
from igcf.service.errors import RequestError
from igcf.service.models import item_responses as answers
from igcf.service.models.requests import ItemBatch
from igcf.service.models.responses import AttributeInfo, ModelInfo, PolicyInfo, RewardInfo
from igcf.service.serving.recommending import resolve_policy
from igcf.service.serving.served_model import CurrentModel, ServedModel
from igcf.service.settings import ServiceSettings
from igcf.service.store.figures import liked_lately

DAY_S = 86_400.0
RECENT_DAYS, EARLIER_DAYS = 7.0, 28.0
EVIDENCE = 5.0  # reactions that an item is supposed to have had both times: few reactions make no trend
KEPT_S = 60.0  # how long the counts of a trend are kept before they are read anew
LIMITS = ("max_k", "max_nu", "max_list", "max_batch", "max_body", "max_items")


def model_info(current_model: CurrentModel, settings: ServiceSettings) -> ModelInfo:
    """Answer `GET /v1/model`."""
    served = current_model.served
    reward, metadata = served.model.reward, served.model.metadata
    return ModelInfo(
        model=served.model_id,
        items=served.model.n_items,
        dim=served.model.dim,
        reward=RewardInfo(
            **vars(reward),
            implicit=reward.is_implicit,
            typical=metadata.get("success", {}).get("typical", []),
            unit=(metadata.get("reading", {}).get("columns") or {}).get("value"),
        ),
        satisfied=served.satisfied,
        kinds=served.model.kinds,
        objective=served.model.objective,
        policy=resolve_policy(settings, served.policy, settings.explore, None, None)[0],
        policies=[_described(kind) for kind in POLICIES.values()],
        forgetting=settings.forgetting,
        limits={name: getattr(settings, name) for name in LIMITS},
        attributes=_attributes(served.model.attribute_prior),
        context=_attributes(served.model.context_effect),
        metadata=metadata,
        generation=current_model.generation,
    )


def _attributes(prior: AttributePrior | None) -> list[AttributeInfo]:
    if prior is None:
        return []
    found = []
    for each in prior.encoder.attributes:
        values = list(each.levels) if each.kind == "category" else []
        found.append(AttributeInfo(name=each.name, kind=each.kind, values=values, gain=prior.worth[each.name].gain))
    return found


def _described(kind: type[Policy]) -> PolicyInfo:
    text = (kind.__doc__ or "").partition("\n")[0]
    parameters = {each.name: each.default for each in kind.parameters()}
    return PolicyInfo(name=kind.name, label=kind.label, description=text, parameters=parameters)


Sort = Literal["popular", "trending"]


@dataclass(frozen=True)
class PageAsk:
    """Which items, in which order, from where on."""

    query: str = ""
    category: str | None = None
    tag: str | None = None
    status: answers.ItemStatus | None = None
    sort: Sort = "popular"
    after: str | None = None  # last item of the page before
    limit: int = 50


def catalogue_page(context: ServiceContext, ask: PageAsk) -> answers.CataloguePage:
    """Answer `GET /v1/items`."""
    served = context.current_model.served
    if ask.status == "waiting":
        waiting = context.items.waiting()
        start = _start([item.id for item in waiting], ask.after)
        end = start + ask.limit
        return _page(served, [_waiting(context, item) for item in waiting[start:end]], len(waiting), end)
    trend = trends(context, served) if ask.sort == "trending" else {}
    rows = served.popular_rows.tolist()
    if ask.sort == "trending":
        rows = sorted((row for row in rows if row in trend), key=lambda row: -trend[row])
    columns = {"category": served.catalogue.categories, "tag": served.catalogue.attributes.tags}
    for what, name in (("category", ask.category), ("tag", ask.tag)):
        if name is not None:
            column = columns[what] or ()
            known = {each for names in column for each in names}
            if name not in known:
                raise RuleError(f"no item has the {what} {name[:80]!r}{nearest(name, sorted(known))}")
            rows = [row for row in rows if name in column[row]]
    if ask.query:
        words_asked, texts = ask.query.casefold().split(), served.search_texts()
        rows = [row for row in rows if all(word in texts[row] for word in words_asked)]
    if ask.status is not None or ask.sort == "trending":
        wanted = ask.status or "active"
        rows = [row for row in rows if item_status(context, served, served.catalogue.item(row)) == wanted]
    after = None if ask.after is None else served.model.item_row(ask.after)
    if after is not None and ask.sort == "popular":  # also where the item itself is no longer in the list
        start = sum(served.popularity[row] <= served.popularity[after] for row in rows)
    else:
        start = _start(rows, after)
    end = start + ask.limit
    page = [_item(context, served, row, trend=trend.get(row)) for row in rows[start:end]]
    return _page(served, page, len(rows), end)


def trends(context: ServiceContext, served: ServedModel) -> dict[int, float]:
    """Return by row how many satisfied reactions items had in the last 7 days against the 28 days before.

    It is (recent + 5) / (earlier / 4 + 5) for every item with a recent one: 1 is as ever, 2 is twice as much.
    """
    database, threshold = context.store.database, served.model.reward.threshold
    counts = served.catalogue.computed(
        ("trends", int(time.time() / KEPT_S)),
        lambda: liked_lately(database, threshold, RECENT_DAYS * DAY_S, EARLIER_DAYS * DAY_S),
    )
    return {
        row: (recent + EVIDENCE) / (earlier * RECENT_DAYS / EARLIER_DAYS + EVIDENCE)
        for item_id, (recent, earlier) in counts.items()
        if recent and (row := served.model.known_row(item_id)) is not None
    }


def _start(keys: Sequence[object], after: object) -> int:
    """Find where the page after an entry begins."""
    if after is None:
        return 0
    if after not in keys:
        raise RequestError("after: the item is no longer in this list; begin again without it")
    return keys.index(after) + 1


def _page(served: ServedModel, items: list[answers.CatalogueItem], total: int, end: int) -> answers.CataloguePage:
    following = items[-1].item if items and end < total else None
    return answers.CataloguePage(model=served.model_id, total=total, next=following, items=items)


def catalogue_item(context: ServiceContext, item_id: str) -> answers.CatalogueItem:
    """Answer `GET /v1/items/{item}`."""
    served = context.current_model.served
    row, stored = served.model.known_row(item_id), context.items.stored(item_id)
    if row is None and stored is not None:
        return _waiting(context, stored.described())
    return _item(context, served, served.model.item_row(item_id))


def similar_items(context: ServiceContext, item_id: str, limit: int) -> answers.SimilarItems:
    """Answer `GET /v1/items/{item}/similar`: available items by their correlation over the population."""
    served = context.current_model.served
    row = served.model.item_row(item_id)
    likeness, available = similarities(served, row), served.available()
    order = np.argsort(-likeness, kind="stable")
    is_open = (order != row) & (True if available is None else available[order])
    items = [_item(context, served, each, similarity=float(likeness[each])) for each in order[is_open][:limit].tolist()]
    return answers.SimilarItems(model=served.model_id, item=item_id, items=items)


def similarities(served: ServedModel, row: int) -> FloatArray:
    """Return how much the same people like each item and the one at `row`, -1 to 1, (items,)."""
    vectors, cov = served.model.item_vectors, served.model.prior_cov.astype(np.float32)
    covariances = vectors @ (cov @ vectors[row])
    spread = served.catalogue.computed("spread", lambda: np.sqrt(np.einsum("nd,nd->n", vectors @ cov, vectors)))
    scale = np.maximum(spread * spread[row], 1e-12)
    return np.clip(np.asarray(covariances / scale, dtype=np.float64), -1.0, 1.0)


def add_items(context: ServiceContext, batch: ItemBatch) -> answers.ItemsStored:
    """Answer `POST /v1/items`: all of a batch or nothing."""
    if len(batch.items) > context.settings.max_items:
        raise ConfigError(f"the batch has {len(batch.items)} items; this server allows {context.settings.max_items}")
    receipt = context.items.store.put(parse_items(batch.items), batch.event_id, is_known=context.items.is_trained)
    context.items.look()
    return receipt


def change_item(context: ServiceContext, item_id: str, fields: Mapping[str, Any]) -> answers.ItemChanged:
    """Answer `PATCH /v1/items/{item}`."""
    if not fields:
        raise ConfigError("the change names no field; expected for instance {'hidden': true}")
    parsed = parse_fields(fields, f"item {item_id[:80]!r}")
    revision = context.items.store.patch(item_id, parsed, is_known=context.items.is_known)
    context.items.look()
    return answers.ItemChanged(revision=revision, item=catalogue_item(context, item_id))


def retire_item(context: ServiceContext, item_id: str) -> answers.ItemRetired:
    """Answer `DELETE /v1/items/{item}`."""
    revision, n_retired = context.items.store.retire([item_id], is_known=context.items.is_known)
    context.items.look()
    return answers.ItemRetired(item=item_id, revision=revision, duplicate=n_retired == 0)


def item_status(context: ServiceContext, served: ServedModel, item: Item) -> answers.ItemStatus:
    """Tell whether an item may be shown now, and why not."""
    stored, now = context.items.stored(item.id), served.recommender.clock()
    if stored is not None and stored.is_retired:
        return "retired"
    if item.hidden:
        return "hidden"
    if item.available_from is not None and item.available_from > now:
        return "scheduled"
    return "expired" if item.available_until is not None and item.available_until <= now else "active"


def _item(context: ServiceContext, served: ServedModel, row: int, **optional: float | None) -> answers.CatalogueItem:
    item, state = served.catalogue.item(row), new_item_state(served, row)
    (x, y), status = served.map_points[row].tolist(), item_status(context, served, item)
    known: dict[str, Any] = {name: value for name, value in optional.items() if value is not None}
    if state is not None:
        known["new"] = state
    rank = int(served.popularity[row])
    return answers.CatalogueItem(item=item.id, status=status, popularity_rank=rank, x=x, y=y, **vars(item), **known)


def new_item_state(served: ServedModel, row: int) -> answers.NewItemState | None:
    """Tell how far an item is known that the model was not trained with; None for any other."""
    items = served.recommender.new_items
    if items is None or row not in items:
        return None
    mean, place, trials = served.model.prior_mean, items.place(row), served.recommender._live.trials.counts
    return answers.NewItemState(
        reactions=int(items.n_reactions[place]),
        trials=int(trials[place]) if place < len(trials) else 0,
        settled=items.is_settled(row),
        expected=float(items.model.expected_of(mean, row)),
        std=float(items.uncertainty_at(mean, np.array([row]))[0]),
    )


def _waiting(context: ServiceContext, item: Item) -> answers.CatalogueItem:
    stored = context.items.stored(item.id)
    status: answers.ItemStatus = "retired" if stored is not None and stored.is_retired else "waiting"
    return answers.CatalogueItem(item=item.id, status=status, popularity_rank=None, x=None, y=None, **vars(item))
