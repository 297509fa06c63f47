"""The files of the page, kept in memory: a hundred kilobytes, answered without touching the disk or a thread."""

import hashlib
import mimetypes
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

WEB = Path(__file__).parents[1] / "web"


def page_routes(folder: Path = WEB) -> APIRouter:
    """`/`, `/dashboard`, `/docs` and `/static/...`.

    The browser asks at every load whether a file has changed: a new page is never mixed with parts of an old one.
    """
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
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
