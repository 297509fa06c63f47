"""Routes that change nothing and that the page needs: where to begin, and what would be chosen."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from igcf.service.context import ServiceContext
from igcf.service.http.paths import User, problems
from igcf.service.http.serialising import as_json
from igcf.service.models import page_responses, requests
from igcf.service.serving import choosing


def page_api_routes(context: ServiceContext) -> APIRouter:
    """Build the routes."""
    router = APIRouter(prefix="/v1")

    @router.get("/users/{user}/choices", responses=problems(404), tags=["users"])
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
        """What would be chosen now, or after a reaction not given yet; nothing is learned, logged or shown."""
        values = [None if each == "none" else each for each in value]
        return choosing.choices(context, user, k=k, policy=policy, nu=nu, item=item, values=values)

    @router.get("/start", responses=problems(), tags=["catalogue"])
    @as_json
    def get_start(k: Annotated[int, Query(ge=1, le=48)] = 12) -> page_responses.StartingItems:
        """Items from which a newcomer may name some favourites: well known, and as different as possible."""
        return choosing.starting_items(context, k)

    return router
