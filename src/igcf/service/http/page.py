"""What only the page and the dashboard need: their files, pictures of items, and routes that are no public API.

The files are kept in memory: a hundred kilobytes, answered without touching the disk or a thread.
"""

import hashlib
import mimetypes
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from igcf.service.context import ServiceContext
from igcf.service.http.serialising import JsonRoute, User, problems
from igcf.service.lanes import in_lane
from igcf.service.models import page_responses, requests
from igcf.service.serving import page
from igcf.service.serving.page import Picture, Pictures

WEB = Path(__file__).parents[1] / "web"
HAS_PICTURES = (b"<html ", b"<html data-pictures ")
"""Marks the page of a server with pictures in its first tag: the first card waits for no request."""
PICTURE_AGE_S = 3600
"""A browser that has seen a picture asks for it again after so long."""


def page_routes(folder: Path = WEB, *, has_pictures: bool = False) -> APIRouter:
    """`/`, `/dashboard`, `/docs` and `/static/...`.

    The browser asks at every load whether a file has changed: a new page is never mixed with parts of an old one.
    """
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    if has_pictures:
        files["index.html"] = files["index.html"].replace(*HAS_PICTURES, 1)
    marks = {name: f'"{hashlib.sha256(content).hexdigest()[:32]}"' for name, content in files.items()}
    router = APIRouter(include_in_schema=False)

    @router.get("/static/{name}")
    async def static(request: Request, name: str) -> Response:
        if name not in files:
            raise HTTPException(404, "Not Found")
        return _marked(request, marks[name], files[name], mimetypes.guess_type(name)[0], "no-cache")

    for path, file in (("/", "index.html"), ("/dashboard", "dashboard.html"), ("/docs", "docs.html")):
        router.add_api_route(path, partial(static, name=file))
    return router


def _marked(request: Request, mark: str, content: bytes, media_type: str | None, cache: str) -> Response:
    """Send a file, or that it is the one that the browser has."""
    headers = {"Cache-Control": cache, "ETag": mark}
    if mark in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media_type)


def picture_routes(context: ServiceContext, pictures: Pictures) -> APIRouter:
    """`/images/{item}`: the picture of an item; an answer without content where it has none.

    Only what an item of the catalogue names is read. As the page's own files, pictures need no key: browsers send none.
    """
    router = APIRouter(include_in_schema=False)

    @router.get("/images/{item}")
    async def image(request: Request, item: str) -> Response:
        served = context.current_model.served
        row = served.model.known_row(item)
        if row is None:
            raise HTTPException(404, "this item is not in the model")
        name = served.catalogue.item(row).image
        found: Picture | None = await in_lane(lambda: pictures.read(name))
        cache = f"max-age={PICTURE_AGE_S}"
        if found is None:
            return Response(status_code=204, headers={"Cache-Control": cache})
        return _marked(request, found.mark, found.content, found.media_type, cache)

    return router


def page_api_routes(context: ServiceContext) -> APIRouter:
    """Build the routes under `/page/`."""
    router = APIRouter(prefix="/page", tags=["page"], route_class=JsonRoute)
    users, current_model = context.users, context.current_model

    @router.get("/users/{user}/choices", responses=problems(404))
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
    def get_start(k: Annotated[int, Query(ge=1, le=48)] = 12) -> page_responses.StartingItems:
        """Items from which a newcomer may name some favourites: well known, and as different as possible."""
        return page.starting_items(context, k)

    @router.get("/users/{user}/beliefs", responses=problems())
    def get_beliefs(
        user: User,
        top: Annotated[int, Query(ge=1, le=1000)] = 10,
        popular: Annotated[int, Query(ge=0, le=1000, description="How many of the population's favourites.")] = 0,
    ) -> page_responses.Beliefs:
        """The items expected to please most, with mean and std, and what was learned in words."""
        return page.beliefs(users, context.place(user).served, user, top=top, popular=popular)

    @router.get("/regions", responses=problems())
    def get_regions() -> page_responses.Regions:
        """Regions of the map of a catalogue without categories."""
        return page.regions(current_model.served)

    @router.get("/stats", responses=problems())
    def get_stats() -> page_responses.Stats:
        """Return the figures of the dashboard."""
        return page.statistics(context)

    return router
