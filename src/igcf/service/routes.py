"""The routes under `/v1/`: parse, call one function, answer."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query
from fastapi.responses import JSONResponse

from igcf.service import reading
from igcf.service import schemas as s
from igcf.service import schemas_admin as a
from igcf.service.models import load_and_announce
from igcf.service.parts import Parts
from igcf.service.reacting import forget, new_event, react, react_batch, retract
from igcf.service.recommending import recommend_quickly
from igcf.service.stats import stats

User = Annotated[s.PathId, Path(description="Any name for the user, without '/' and control characters.")]
EventId = Annotated[s.PathId, Path()]
ItemPath = Annotated[s.Id, Path(json_schema_extra={"pattern": s.PATTERN})]


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route, for the OpenAPI document."""
    return {status: {"model": s.Problem} for status in (400, 401, 408, 413, 422, 503, *statuses)}


def user_routes(parts: Parts) -> APIRouter:
    """Recommendations, feedback and what is known about a user."""
    router = APIRouter(prefix="/v1", tags=["users"])

    @router.post("/users/{user}/recommendations", response_model=s.Recommended, responses=problems(404, 409))
    async def post_recommendations(
        user: User, ask: Annotated[s.RecommendAsk, Body(default_factory=s.RecommendAsk)]
    ) -> JSONResponse:
        """The `k` best items that this user has not reacted to; an unknown user is a new one."""
        answer = await recommend_quickly(
            parts,
            user,
            k=ask.k,
            exclude=ask.exclude,
            candidates=ask.candidates,
            policy=ask.policy,
            nu=ask.nu,
            reserve=ask.reserve,
        )
        return JSONResponse(answer)

    @router.post("/users/{user}/feedback", response_model=s.FeedbackReceipt, responses=problems(404))
    def post_feedback(user: User, reaction: s.Feedback) -> JSONResponse:
        """Store one reaction and learn from it; durable when answered, and the same `event_id` twice counts once."""
        served = parts.slot.current
        event = new_event(served, reaction.item, reaction.value, reaction.event_id, reaction.recommendation_id)
        return JSONResponse(vars(react(parts, served, user, [event])[0]))

    @router.post("/feedback", response_model=s.BatchReceipt, responses=problems())
    def post_feedback_batch(batch: s.FeedbackBatch | s.FeedbackList) -> JSONResponse:
        """Store many reactions; entries that cannot be stored are reported one by one and do not stop the others."""
        return JSONResponse(react_batch(parts, batch.feedback if isinstance(batch, s.FeedbackBatch) else batch))

    @router.delete("/users/{user}/feedback/{event_id}", response_model=s.Retracted, responses=problems(404))
    def delete_feedback(user: User, event_id: EventId) -> JSONResponse:
        """Take one reaction back: the belief is what it would be without it."""
        return JSONResponse({"revision": retract(parts, user, event_id)})

    @router.get("/users/{user}", response_model=s.UserState, responses=problems())
    def get_user(
        user: User, cov: Annotated[bool, Query(description="Add the full covariance.")] = False
    ) -> JSONResponse:
        """History and belief of a user."""
        return JSONResponse(reading.user_state(parts, user, with_cov=cov))

    @router.delete("/users/{user}", response_model=s.Forgotten, responses=problems())
    def delete_user(user: User) -> JSONResponse:
        """Forget a user completely."""
        return JSONResponse({"user": user, "deleted": forget(parts, user)})

    @router.get("/users/{user}/beliefs", response_model=s.Beliefs, responses=problems())
    def get_beliefs(
        user: User,
        top: Annotated[int, Query(ge=1, le=1000)] = 10,
        seen: Annotated[bool, Query(description="Also items that the user has reacted to.")] = False,
        popular: Annotated[int, Query(ge=0, le=1000, description="How many of the population's favourites.")] = 0,
    ) -> JSONResponse:
        """The items expected to please most, with mean and std, and the belief's ellipse on the map."""
        return JSONResponse(reading.beliefs(parts, user, top=top, with_seen=seen, popular=popular))

    @router.get("/users/{user}/explanations/{item:path}", response_model=s.Explained, responses=problems(404))
    def get_explanation(user: User, item: ItemPath) -> JSONResponse:
        """Where the expected reward of an item comes from: the population plus each past reaction."""
        return JSONResponse(reading.explanation(parts, user, item))

    return router


def catalogue_routes(parts: Parts) -> APIRouter:
    """Items and the model."""
    router = APIRouter(prefix="/v1", tags=["catalogue"])

    @router.get("/items", response_model=a.CataloguePage, responses=problems())
    def get_items(
        query: Annotated[str, Query(max_length=200, description="Words that id or title must contain.")] = "",
        offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    ) -> JSONResponse:
        """The catalogue in pages, the population's favourites first."""
        return JSONResponse(reading.catalogue(parts, query, offset, limit))

    @router.get("/items/{item:path}", response_model=a.CatalogueItem, responses=problems(404))
    def get_item(item: ItemPath) -> JSONResponse:
        """One item."""
        return JSONResponse(reading.catalogue_item(parts, item))

    @router.get("/map", response_model=a.CatalogueMapPoints, responses=problems())
    def get_map() -> JSONResponse:
        """All items in the plane of their two principal directions."""
        return JSONResponse(reading.catalogue_map(parts))

    @router.get("/model", response_model=a.ModelInfo, responses=problems())
    def get_model() -> JSONResponse:
        """What is served."""
        return JSONResponse(reading.model_info(parts))

    return router


def admin_routes(parts: Parts) -> APIRouter:
    """What needs the admin key."""
    router = APIRouter(prefix="/v1", tags=["admin"])

    @router.post("/model", response_model=a.ModelLoaded, responses=problems(403))
    def post_model(ask: a.LoadModel) -> JSONResponse:
        """Serve another model from now on, here and on all servers of this store; users keep their history."""
        return JSONResponse(load_and_announce(parts, ask.folder))

    @router.get("/stats", response_model=a.Stats, responses=problems(403))
    def get_stats() -> JSONResponse:
        """Figures for the dashboard."""
        return JSONResponse(stats(parts))

    return router
