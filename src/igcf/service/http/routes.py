"""The routes under `/v1/`: parse, call one function, answer."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query

from igcf.service.context import ServiceContext
from igcf.service.experiment_report import report_experiment
from igcf.service.http.serialising import DirectRoute, EventId, ItemPath, JsonRoute, User, problems
from igcf.service.models import experiments, item_responses, requests, responses
from igcf.service.serving import catalogue, reacting
from igcf.service.serving.catalogue import model_info
from igcf.service.serving.experiment_changes import change_experiment, experiment_states
from igcf.service.serving.model_swap import load_and_announce, roll_back
from igcf.service.serving.recommending import recommend_quickly, recommend_to_many
from igcf.service.serving.users import LISTED, explanation, user_state

Label = Annotated[str | None, Query(max_length=200)]
CHANGES = {name: schema for name, schema in requests.ITEM["properties"].items() if name != "id"}


def user_routes(context: ServiceContext) -> APIRouter:
    """Build the routes of users: recommendations, feedback and stored data."""
    router = APIRouter(prefix="/v1", tags=["users"], route_class=DirectRoute)
    store, users = context.store, context.users

    @router.post("/users/{user}/recommendations", responses=problems(404, 409))
    async def post_recommendations(
        user: User, ask: Annotated[requests.RecommendationRequest, Body(default_factory=requests.RecommendationRequest)]
    ) -> responses.RecommendationResponse:
        """Recommend the `k` best items that the user has not reacted to; an unknown user is treated as new."""
        return await recommend_quickly(context, user, ask)

    @router.post("/users/{user}/feedback", responses=problems(404, 409))
    async def post_feedback(user: User, reaction: requests.Feedback) -> responses.FeedbackReceipt:
        """Store one reaction and learn from it. Durable once answered; idempotent by `event_id`."""
        return await reacting.react_together(context, user, reaction)

    @router.post("/users/{user}/history", responses=problems())
    def post_history(user: User, history: requests.History) -> responses.HistoryReceipt:
        """Import past interactions. Items missing from the record count as weak negatives. Idempotent by `event_id`."""
        return reacting.add_history(context, user, history)

    @router.post("/feedback", responses=problems(), response_model_exclude_none=True)
    def post_feedback_batch(batch: requests.FeedbackBatch | requests.FeedbackList) -> responses.BatchReceipt:
        """Store many reactions; an entry that fails is reported in its place and does not stop the others."""
        return reacting.react_batch(context, batch.feedback if isinstance(batch, requests.FeedbackBatch) else batch)

    @router.delete("/users/{user}/feedback/{event_id}", responses=problems(404))
    def delete_feedback(user: User, event_id: EventId) -> responses.UndoResponse:
        """Undo one reaction: the belief becomes what it would be without it. Idempotent."""
        return responses.UndoResponse(revision=reacting.retract(context, user, event_id))

    @router.get("/users/{user}", responses=problems())
    def get_user(
        user: User,
        cov: Annotated[bool, Query(description="Add the full covariance.")] = False,
        limit: Annotated[int, Query(ge=0, le=10_000, description="How many of the latest reactions.")] = LISTED,
    ) -> responses.UserState:
        """Return the history and the belief of a user."""
        return user_state(store, context.place(user).served, user, with_cov=cov, limit=limit)

    @router.put("/users/{user}/attributes", responses=problems())
    def put_attributes(user: User, ask: requests.AttributesRequest) -> responses.AttributesReceipt:
        """Replace the attributes of a user; the model takes them into account before the first reaction."""
        return reacting.set_attributes(context, user, ask.attributes)

    @router.delete("/users/{user}", responses=problems())
    def delete_user(user: User) -> responses.DeletionResponse:
        """Delete everything stored about a user."""
        return responses.DeletionResponse(user=user, deleted=reacting.forget(context, user))

    @router.get("/users/{user}/explanations/{item}", responses=problems(404))
    def get_explanation(
        user: User,
        item: ItemPath,
        limit: Annotated[int, Query(ge=0, le=10_000, description="How many reactions, largest first.")] = LISTED,
    ) -> responses.ExplanationResponse:
        """Explain the expected reward of an item: the population's part, plus that of each past reaction."""
        return explanation(users, context.place(user).served, user, item, limit=limit)

    return router


def many_routes(context: ServiceContext) -> APIRouter:
    """Build the routes that concern several users."""
    router, store = APIRouter(prefix="/v1", tags=["users"], route_class=JsonRoute), context.store

    @router.post("/recommendations", responses=problems())
    def post_many(ask: requests.BatchRequest) -> responses.BatchResponse:
        """Recommend to up to 1,000 users; an error for one user takes the place of their answer."""
        return recommend_to_many(context, ask)

    @router.post("/users/{user}/merge", responses=problems(409))
    def post_merge(user: User, ask: requests.MergeRequest) -> responses.MergeReceipt:
        """Merge an anonymous visitor into this user; each of the visitor's reactions counts once."""
        return reacting.merge(context, user, ask.visitor)

    @router.get("/users", responses=problems())
    def get_users(
        after: Annotated[requests.PathId | None, Query(description="`next` of the page before.")] = None,
        limit: Annotated[int, Query(ge=1, le=10_000)] = LISTED,
    ) -> responses.UserPage:
        """List all users in pages, ordered by id."""
        found = store.list_users(after or "", limit)
        return responses.UserPage(users=found, next=found[-1].user if len(found) == limit else None)

    return router


def admin_routes(context: ServiceContext) -> APIRouter:
    """Build the routes that need the admin key."""
    router = APIRouter(prefix="/v1", tags=["admin"], route_class=JsonRoute)

    @router.post("/model", responses=problems(409))
    def post_model(ask: requests.ModelRequest) -> responses.ModelLoaded:
        """Serve another model, here and on all servers of this store; users keep their history."""
        return load_and_announce(context, ask.folder, force=ask.force)

    @router.get("/experiments", responses=problems())
    def get_experiments() -> experiments.ExperimentList:
        """List the experiments of this store, the latest first."""
        return experiments.ExperimentList(experiments=experiment_states(context.store.database))

    @router.post("/experiments", responses=problems(404, 409))
    def post_experiments(ask: experiments.ExperimentRequest) -> experiments.ExperimentList:
        """Start an experiment on all servers, change its shares, stop it, or promote an arm and stop it."""
        return change_experiment(context, ask)

    @router.get("/experiments/{name}", responses=problems(404))
    def get_experiment_report(
        name: requests.PathId,
        value: Annotated[tuple[str, ...], Query(max_length=8, description="Numbers of the items to compare.")] = (),
    ) -> experiments.ExperimentReport:
        """Report on an experiment, by user; its intervals are valid however often one looks."""
        return report_experiment(context.store, name, value)

    @router.post("/model/rollback", responses=problems(409))
    def post_rollback() -> responses.ModelLoaded:
        """Serve the previous model again, here and on all servers of this store; users keep their reactions."""
        return roll_back(context)

    return router


def item_routes(context: ServiceContext) -> APIRouter:
    """Build the routes of the items and of the model."""
    router = APIRouter(prefix="/v1", tags=["catalogue"], route_class=JsonRoute)

    @router.get("/items", responses=problems(404))
    def get_items(
        query: Annotated[str, Query(max_length=200, description="Words that id or title must contain.")] = "",
        category: Label = None,
        tag: Label = None,
        status: item_responses.ItemStatus | None = None,
        sort: catalogue.Sort = "popular",
        after: Annotated[requests.Id | None, Query(description="`next` of the page before.")] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    ) -> item_responses.CataloguePage:
        """List the catalogue in pages, the most popular items or those with a rising trend first."""
        return catalogue.catalogue_page(context, catalogue.PageAsk(query, category, tag, status, sort, after, limit))

    @router.post("/items", responses=problems(409))
    def post_items(batch: requests.ItemBatch) -> item_responses.ItemsStored:
        """Add or update items, all of a batch or none. Durable once answered."""
        return catalogue.add_items(context, batch)

    @router.get("/items/{item}/similar", responses=problems(404))
    def get_similar(item: ItemPath, limit: Annotated[int, Query(ge=1, le=100)] = 10) -> item_responses.SimilarItems:
        """List the items that the same people like, most similar first."""
        return catalogue.similar_items(context, item, limit)

    @router.get("/items/{item}/feedback", responses=problems())
    def get_item_feedback(
        item: ItemPath,
        after: Annotated[requests.PathId | None, Query(description="`next` of the page before.")] = None,
        limit: Annotated[int, Query(ge=1, le=10_000)] = LISTED,
    ) -> responses.ItemFeedbackPage:
        """List all users' current reactions to one item in pages, ordered by user."""
        found = context.store.item_feedback(item, after or "", limit)
        following = found[-1].user if len(found) == limit else None
        return responses.ItemFeedbackPage(item=item, reactions=found, next=following)

    @router.get("/items/{item}", responses=problems(404))
    def get_item(item: ItemPath) -> item_responses.CatalogueItem:
        """Return one item."""
        return catalogue.catalogue_item(context, item)

    @router.patch("/items/{item}", responses=problems(404))
    def patch_item(
        item: ItemPath,
        fields: Annotated[
            dict[str, Any], Body(json_schema_extra={"properties": CHANGES, "additionalProperties": False})
        ],
    ) -> item_responses.ItemChanged:
        """Change some fields of an item; null clears a field."""
        return catalogue.change_item(context, item, fields)

    @router.delete("/items/{item}", responses=problems(404))
    def delete_item(item: ItemPath) -> item_responses.ItemRetired:
        """Retire an item: recommendations leave it out. `POST /v1/items` restores it."""
        return catalogue.retire_item(context, item)

    @router.get("/model", responses=problems())
    def get_model() -> responses.ModelInfo:
        """Describe the model in service."""
        return model_info(context.current_model, context.settings)

    return router
