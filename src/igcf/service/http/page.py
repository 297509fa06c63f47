"""The files of the page, kept in memory: a hundred kilobytes, answered without touching the disk or a thread.

Pictures of items, where the server has a folder of them, are read when they are asked for.
"""

import hashlib
import mimetypes
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from igcf.service.context import ServiceContext
from igcf.service.lanes import in_lane
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

    def answer(request: Request, name: str) -> Response:
        if name not in files:
            raise HTTPException(404, "Not Found")
        headers = {"Cache-Control": "no-cache", "ETag": marks[name]}
        if marks[name] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(files[name], headers=headers, media_type=mimetypes.guess_type(name)[0])

    @router.get("/static/{name}")
    async def static(request: Request, name: str) -> Response:
        return answer(request, name)

    @router.get("/")
    async def page(request: Request) -> Response:
        return answer(request, "index.html")

    @router.get("/dashboard")
    async def dashboard(request: Request) -> Response:
        return answer(request, "dashboard.html")

    @router.get("/docs")
    async def docs(request: Request) -> Response:
        return answer(request, "docs.html")

    return router


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
        headers = {"Cache-Control": f"max-age={PICTURE_AGE_S}"}
        if found is None:
            return Response(status_code=204, headers=headers)
        headers["ETag"] = found.mark
        if found.mark in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(found.content, headers=headers, media_type=found.media_type)

    return router
