"""The routes of items and of the model: parse, call one function, answer."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query

from igcf.service.context import ServiceContext
from igcf.service.http.paths import ItemPath, problems
from igcf.service.http.serialising import as_json
from igcf.service.models import item_responses, requests, responses
from igcf.service.serving import catalogue
from igcf.service.serving.catalogue import model_info
from igcf.service.serving.reading import LISTED, item_feedback

Label = Annotated[str | None, Query(max_length=200)]
CHANGES = {name: schema for name, schema in requests.ITEM["properties"].items() if name != "id"}


def item_routes(context: ServiceContext) -> APIRouter:
    """Build the routes of the items and of the model."""
    router = APIRouter(prefix="/v1", tags=["catalogue"])

    @router.get("/items", responses=problems(404))
    @as_json
    def get_items(
        query: Annotated[str, Query(max_length=200, description="Words that id or title must contain.")] = "",
        category: Label = None,
        tag: Label = None,
        status: item_responses.ItemStatus | None = None,
        sort: catalogue.Sort = "popular",
        after: Annotated[requests.Id | None, Query(description="`next` of the page before.")] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    ) -> item_responses.CataloguePage:
        """The catalogue in pages: the population's favourites first, or what is liked more than it used to be."""
        return catalogue.catalogue_page(context, catalogue.PageAsk(query, category, tag, status, sort, after, limit))

    @router.post("/items", responses=problems(409))
    @as_json
    def post_items(batch: requests.ItemBatch) -> item_responses.ItemsStored:
        """Add items, or describe them anew: all of a batch or nothing; durable when answered."""
        return catalogue.add_items(context, batch)

    @router.get("/items/{item}/similar", responses=problems(404))
    @as_json
    def get_similar(item: ItemPath, limit: Annotated[int, Query(ge=1, le=100)] = 10) -> item_responses.SimilarItems:
        """The items that the same people like."""
        return catalogue.similar_items(context, item, limit)

    @router.get("/items/{item}/feedback", responses=problems())
    @as_json
    def get_item_feedback(
        item: ItemPath,
        after: Annotated[requests.PathId | None, Query(description="`next` of the page before.")] = None,
        limit: Annotated[int, Query(ge=1, le=10_000)] = LISTED,
    ) -> responses.ItemFeedbackPage:
        """The reactions of all users to one item that are in force, in pages, ordered by user."""
        return item_feedback(context.store, item, after, limit)

    @router.get("/items/{item}", responses=problems(404))
    @as_json
    def get_item(item: ItemPath) -> item_responses.CatalogueItem:
        """One item."""
        return catalogue.catalogue_item(context, item)

    @router.patch("/items/{item}", responses=problems(404))
    @as_json
    def patch_item(
        item: ItemPath,
        fields: Annotated[
            dict[str, Any], Body(json_schema_extra={"properties": CHANGES, "additionalProperties": False})
        ],
    ) -> item_responses.ItemChanged:
        """Change some fields of an item; null takes one back."""
        return catalogue.change_item(context, item, fields)

    @router.delete("/items/{item}", responses=problems(404))
    @as_json
    def delete_item(item: ItemPath) -> item_responses.ItemRetired:
        """Retire an item: it is in no answer any more; `POST /v1/items` brings it back."""
        return catalogue.retire_item(context, item)

    @router.get("/model", responses=problems())
    @as_json
    def get_model() -> responses.ModelInfo:
        """What is served."""
        return model_info(context.current_model, context.settings)

    return router
