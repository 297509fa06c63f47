"""The application, wired from a context; reads no globals, so that a test passes a small one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from igcf.errors import IgcfError
from igcf.service.context import ServiceContext
from igcf.service.errors import BadRequestError, InternalError, NotFoundError, problem
from igcf.service.http.authentication import KeyFile, needed_role, needs_key
from igcf.service.http.guard import NO_ROUTE, Guard, RouteTable, refusal
from igcf.service.http.page import page_api_routes, page_routes, picture_routes
from igcf.service.http.routes import admin_routes, item_routes, many_routes, user_routes
from igcf.service.http.serialising import json_response
from igcf.service.lanes import Lanes, in_lane
from igcf.service.models.responses import Ready
from igcf.service.models.validation_messages import mistake
from igcf.service.serving.model_swap import background, readiness
from igcf.service.serving.page import Pictures
from igcf.version import __version__

KEY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer KEY`"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
KEY_WORDS = {"admin": "Needs an admin key.", "server": "", "page": "A page token of the user is enough."}
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BAD_JSON = "the body is not JSON in UTF-8"
"""What the framework answers 400 to."""


def create_app(context: ServiceContext) -> FastAPI:
    """Build the HTTP API and the page over `context`, which is closed when the application shuts down."""
    settings = context.settings
    keys = KeyFile(Path(settings.api_key_file) if settings.api_key_file else None)

    def read_keys() -> None:
        try:
            keys.refresh()
        finally:
            context.metrics.keys_stale.set(keys.is_stale)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = settings.threads
        threads = background(context, {"cannot read the API keys, the old ones stay": read_keys})
        yield
        for thread in threads:
            await anyio.to_thread.run_sync(thread.close)
        await anyio.to_thread.run_sync(context.close)

    app = FastAPI(
        title="igcf",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
    )
    routers = [user_routes(context), many_routes(context), item_routes(context), page_api_routes(context)]
    routers += [admin_routes(context), page_routes(has_pictures=settings.images is not None)]
    if settings.images is not None:
        routers.append(picture_routes(context, Pictures(settings.images)))
    for router in routers:  # flat: a route of an included router is found in twice the time
        for route in router.routes:
            if isinstance(route, APIRoute):
                route.unique_id = route.name  # a changed path does not change generated clients
                route.include_in_schema &= router.prefix != "/page"
        app.router.routes.extend(router.routes)
    _add_operation_routes(app, context)
    _document_keys(app, has_keys=settings.api_key_file is not None)
    routes, lanes = RouteTable(app.routes), Lanes(settings)
    for lane in lanes.all:
        context.metrics.in_flight.labels(lane.name).set_function(partial(getattr, lane, "in_flight"))
    _add_error_handlers(app, routes)
    app.add_middleware(Guard, settings=settings, keys=keys, metrics=context.metrics, routes=routes, lanes=lanes)
    if settings.cors_origins:  # outside the guard: pages of other origins may read refusals too
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=["authorization", "content-type", "x-api-key", "x-request-id"],
            expose_headers=["x-request-id", "retry-after", "www-authenticate"],
        )
    return app


def _add_operation_routes(app: FastAPI, context: ServiceContext) -> None:
    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", tags=["operation"])
    async def healthz() -> dict[str, str]:
        """The process is alive."""
        return {"status": "ok"}

    @app.head("/readyz", include_in_schema=False)
    @app.get("/readyz", tags=["operation"], response_model=Ready, responses={503: {"model": Ready}})
    async def readyz() -> Response:
        """The store can be read and written and the newest model is loaded."""
        found = await in_lane(lambda: readiness(context))
        model = context.current_model.served.model_id
        answer = Ready(status="not ready" if found else "ready", model=model, problems=found)
        return json_response(answer, 503 if found else 200)

    @app.get("/metrics", tags=["operation"], response_class=Response)
    async def metrics() -> Response:
        """Counters in the format of Prometheus."""
        return Response(await in_lane(context.metrics.exposition), media_type=METRICS_TYPE)


def _document_keys(app: FastAPI, *, has_keys: bool) -> None:
    """Document the role that each route needs in OpenAPI; keys are optional on a server without any."""
    undocumented = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        document = undocumented()
        document.setdefault("components", {})["securitySchemes"] = KEY_SCHEMES
        alternatives: list[dict[str, list[str]]] = [] if has_keys else [{}]
        alternatives += [{name: []} for name in KEY_SCHEMES]
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                if needs_key(path):
                    words = KEY_WORDS[needed_role(method.upper(), path)]
                    operation["security"] = alternatives
                    operation["description"] = f"{operation.get('description', '').strip()} {words}".strip()
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _add_error_handlers(app: FastAPI, routes: RouteTable) -> None:
    @app.exception_handler(IgcfError)
    async def refuse(_: Request, error: Exception) -> JSONResponse:
        return refusal(error if isinstance(error, IgcfError) else InternalError(str(error)))

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: Exception) -> JSONResponse:
        found = error.errors() if isinstance(error, RequestValidationError) else []
        return JSONResponse(problem(mistake(found) if found else error), 422)

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)  # noqa: S101
        if error.status_code == 400:
            return JSONResponse(problem(BadRequestError(BAD_JSON)), 400)
        try:  # the router names the methods of one route, several may share the path
            routes.find(request.method, request.url.path)
        except IgcfError as found:
            return refusal(found)
        return refusal(NotFoundError(NO_ROUTE if error.detail == "Not Found" else error.detail))  # the router's words
