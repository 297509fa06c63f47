"""Routes that only the page and the dashboard need; no part of the public API, and not in its document."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from igcf.service.context import ServiceContext
from igcf.service.http.serialising import User, as_json, problems
from igcf.service.models import page_responses, requests
from igcf.service.serving import page


def page_api_routes(context: ServiceContext) -> APIRouter:
    """Build the routes."""
    router = APIRouter(prefix="/page", tags=["page"])
    users, current_model = context.users, context.current_model

    @router.get("/users/{user}/choices", responses=problems(404))
    @as_json
    def get_choices(
        user: User,
        k: Annotated[int, Query(ge=1, le=20)] = 1,
        policy: Annotated[requests.PolicyName | None, Query(description="Instead of the server's own.")] = None,
        nu: Annotated[float | None, Query(ge=0, description="Exploration of `ucb`.")] = None,
        item: Annotated[requests.Id | None, Query(description="As if this item had drawn a reaction.")] = None,
        value: Annotated[
            tuple[float | Literal["none"], ...], Query(max_length=8, description="Reactions to it; `none`: none.")
        ] = (),
    ) -> page_responses.Choices:
        """What would be chosen now, or after a hypothetical reaction; nothing is logged or counted as shown."""
        values = [None if each == "none" else each for each in value]
        return page.choices(context, user, k=k, policy=policy, nu=nu, item=item, values=values)

    @router.get("/start", responses=problems())
    @as_json
    def get_start(k: Annotated[int, Query(ge=1, le=48)] = 12) -> page_responses.StartingItems:
        """Items from which a newcomer may name some favourites: well known, and as different as possible."""
        return page.starting_items(context, k)

    @router.get("/users/{user}/beliefs", responses=problems())
    @as_json
    def get_beliefs(
        user: User,
        top: Annotated[int, Query(ge=1, le=1000)] = 10,
        popular: Annotated[int, Query(ge=0, le=1000, description="How many of the population's favourites.")] = 0,
    ) -> page_responses.Beliefs:
        """The items expected to please most, with mean and std, and what was learned in words."""
        return page.beliefs(users, context.place(user).served, user, top=top, popular=popular)

    @router.get("/regions", responses=problems())
    @as_json
    def get_regions() -> page_responses.Regions:
        """Regions of the map of a catalogue without categories."""
        return page.regions(current_model.served)

    @router.get("/stats", responses=problems())
    @as_json
    def get_stats() -> page_responses.Stats:
        """Return the figures of the dashboard."""
        return page.statistics(context)

    return router
