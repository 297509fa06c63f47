"""The routes that concern several users at once."""

from fastapi import APIRouter

from igcf.service.context import ServiceContext
from igcf.service.http.paths import User, problems
from igcf.service.http.serialising import as_json
from igcf.service.models import requests, responses
from igcf.service.serving import many


def many_routes(context: ServiceContext) -> APIRouter:
    """Build the routes of recommendations for many users and of merging two."""
    router = APIRouter(prefix="/v1", tags=["users"])

    @router.post("/recommendations", responses=problems())
    @as_json
    def post_many(ask: requests.BatchRequest) -> responses.BatchResponse:
        """Recommendations for at most 1,000 users; what fails for one of them is told in their place."""
        return many.recommend_to_many(context, ask)

    @router.post("/users/{user}/merge", responses=problems(409))
    @as_json
    def post_merge(user: User, ask: requests.MergeRequest) -> responses.MergeReceipt:
        """An anonymous visitor becomes this user: the visitor's reactions count here, once."""
        return many.merge(context, user, ask.visitor)

    return router
