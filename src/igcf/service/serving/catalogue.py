"""Answers about the items and the model in service."""

from igcf.service.http.responses import CatalogueItem, CataloguePage, ModelInfo, RewardInfo
from igcf.service.serving.current_model import CurrentModel
from igcf.service.serving.recommending import resolve_policy
from igcf.service.serving.served_model import ServedModel
from igcf.service.settings import ServiceSettings

LIMITS = ("max_k", "max_nu", "max_list", "max_batch", "max_body")


def catalogue_page(served: ServedModel, query: str, offset: int, limit: int) -> CataloguePage:
    """Answer `GET /v1/items`."""
    rows = served.popular_rows.tolist()
    if query:
        words = query.casefold().split()
        rows = [row for row in rows if all(word in served.search_texts[row] for word in words)]
    items = [_item(served, row) for row in rows[offset : offset + limit]]
    return CataloguePage(model=served.model_id, total=len(rows), offset=offset, items=items)


def catalogue_item(served: ServedModel, item_id: str) -> CatalogueItem:
    """Answer `GET /v1/items/{item}`."""
    return _item(served, served.model.item_row(item_id))


def model_info(current_model: CurrentModel, settings: ServiceSettings) -> ModelInfo:
    """Answer `GET /v1/model`."""
    served = current_model.served
    reward = served.model.reward
    return ModelInfo(
        model=served.model_id,
        items=served.model.n_items,
        dim=served.model.dim,
        reward=RewardInfo(
            kind=reward.kind,
            threshold=reward.threshold,
            low=reward.low,
            high=reward.high,
            implicit=reward.is_implicit,
        ),
        satisfied=served.satisfied,
        kinds=served.model.kinds,
        objective=served.model.objective,
        policy=resolve_policy(settings, served.policy, None, None)[0],
        forgetting=settings.forgetting,
        limits={name: getattr(settings, name) for name in LIMITS},
        metadata=served.model.metadata,
        generation=current_model.generation,
    )


def _item(served: ServedModel, row: int) -> CatalogueItem:
    x, y = served.map.points[row].tolist()
    return CatalogueItem(
        item=served.model.item_ids[row],
        title=served.title(row),
        categories=served.categories(row),
        popularity_rank=int(served.popularity[row]),
        x=x,
        y=y,
    )
