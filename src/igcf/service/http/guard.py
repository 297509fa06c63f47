"""The door of the service: request ids, limits, keys, security headers, logs and counters around every request."""

import asyncio
import logging
import re
import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from os import urandom
from urllib.parse import parse_qsl, unquote_to_bytes, urlsplit

from fastapi.routing import APIRoute
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from igcf.errors import IgcfError
from igcf.item import nearest
from igcf.service.errors import (
    BadRequestError,
    BodyTimeoutError,
    BodyTooLargeError,
    ForbiddenError,
    InternalError,
    MethodNotAllowedError,
    NotFoundError,
    OverloadedError,
    RequestCancelledError,
    RequestError,
    TimeBudgetError,
    UnsupportedMediaTypeError,
    problem,
    status_of,
)
from igcf.service.http.authentication import KeyFile, needs_key
from igcf.service.http.logs import request_id
from igcf.service.lanes import ALWAYS_OPEN, Budget, Lanes, budget_of_request, lane_of_request
from igcf.service.metrics import Metrics
from igcf.service.models.requests import SLASH
from igcf.service.settings import ServiceSettings

log = logging.getLogger("igcf.service")

SAFE = ("GET", "HEAD", "OPTIONS")
JSON_TYPE = re.compile(r"application/([\w.+-]+\+)?json\s*(;|$)", re.IGNORECASE)
NOT_JSON = "the body is not declared as JSON; send the header 'Content-Type: application/json'"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
SAFE_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
CSP = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
SECURITY_HEADERS = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)

NO_ROUTE = "no route of this server; /docs lists them all"
"""Message for an unknown address."""
NOT_KEPT = (b"cache-control", b"no-store")
"""Responses about users and items are never cached."""
CLOSING = (400, 408, 413)
"""Refusals after which the connection is closed: where the next request would begin is not certain."""


class RouteTable:
    """The routes of an application; several may share a path."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._routes = [route for route in routes if isinstance(route, Route)]

    def find(self, method: str, path: str) -> Route | None:
        """Return the route of a request, or refuse it; None: another path, without the last slash, is meant."""
        for route in self._routes:
            if method in (route.methods or ()) and route.path_regex.match(path):
                return route
        paths = {path, path.rstrip("/")}
        found = [route.methods or () for route in self._routes if any(map(route.path_regex.match, paths))]
        if method in (allowed := {each for methods in found for each in methods}):
            return None
        raise MethodNotAllowedError(allowed) if allowed else NotFoundError(NO_ROUTE)


class Guard:
    """ASGI middleware: everything that is the same for all routes."""

    def __init__(
        self, app: ASGIApp, settings: ServiceSettings, keys: KeyFile, metrics: Metrics, routes: RouteTable, lanes: Lanes
    ) -> None:
        self.app, self.settings, self.keys, self.metrics = app, settings, keys, metrics
        self.routes, self.lanes = routes, lanes
        self._counters = lru_cache(maxsize=None)(metrics.of_request)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through, or refuse it in one sentence."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        scope = _with_slashes_kept(scope)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}
        sent_id = headers.get("x-request-id", "")
        this_id = sent_id if SAFE_REQUEST_ID.fullmatch(sent_id) else urandom(16).hex()
        token = request_id.set(this_id)
        status = 0

        async def reply(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                extra = [(b"x-request-id", this_id.encode()), *SECURITY_HEADERS]
                if needs_key(scope["path"]):
                    extra.append(NOT_KEPT)
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        try:
            has_body = self._check(scope, headers)
            limit = self.settings.max_body
            if scope["path"] == "/v1/items":
                limit = max(limit, self.settings.max_items_body)
            whole = await self._whole_body(headers, receive, limit) if has_body else receive
            await self._admit(scope, whole, reply)  # after the body, so that slow ones hold no thread
        except IgcfError as error:
            if isinstance(error, RequestCancelledError | TimeBudgetError):
                self.metrics.cancelled.inc()
            await refusal(error)(scope, receive, reply)
        except Exception:
            log.exception("request failed")
            if status:  # the answer had begun; the connection cannot be saved
                raise
            failed = InternalError(f"internal error; see the server log for request ID {this_id}")
            await refusal(failed)(scope, receive, reply)
        finally:
            self._record(scope, status, time.perf_counter() - started)
            request_id.reset(token)

    def _check(self, scope: Scope, headers: Mapping[str, str]) -> bool:
        """Refuse what can be refused before the body is read; returns whether there is one."""
        path, method = scope["path"], scope["method"]
        has_encoding = "transfer-encoding" in headers
        if has_encoding and "content-length" in headers:
            raise BadRequestError("a request has either Content-Length or Transfer-Encoding, not both")
        self._check_host(headers)
        if method not in SAFE:
            self._check_origin(headers)
        if b"%" in scope.get("raw_path", b""):
            try:
                unquote_to_bytes(scope["raw_path"]).decode("utf-8")
            except UnicodeDecodeError as error:
                raise BadRequestError("the path is not UTF-8; percent-encode the bytes of UTF-8") from error
        if method != "OPTIONS" and needs_key(path):
            self.keys.keys.check(headers, method, path)
            if scope.get("query_string"):
                self._check_query(method, path, scope["query_string"])
        has_body = has_encoding or headers.get("content-length", "0") != "0"
        if has_body:
            self._check_body(method, path, headers)
        return has_body

    def _check_body(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        self.routes.find(method, path)  # refuses an unknown one; without a body, the router does
        if not JSON_TYPE.match(headers.get("content-type", "")):
            raise UnsupportedMediaTypeError(NOT_JSON)
        if (coding := headers.get("content-encoding", "identity").lower()) != "identity":
            raise UnsupportedMediaTypeError(f"the body is compressed ({coding[:20]}); send it without Content-Encoding")

    def _check_origin(self, headers: Mapping[str, str]) -> None:
        """Refuse writes that a page of another site makes in the name of its visitor."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "")
        if origin in self.settings.cors_origins or site == "same-origin":
            return
        is_foreign = origin is not None and urlsplit(origin).netloc != headers.get("host", "")
        if is_foreign or site in ("cross-site", "same-site"):
            raise ForbiddenError(
                f"a page of {(origin or 'another site')[:80]} may not write here; allow it with --cors-origin"
            )

    def _check_query(self, method: str, path: str, query: bytes) -> None:
        """Refuse parameters that the route does not know: they would be ignored, which nobody wants."""
        route = self.routes.find(method, path)
        known = [field.alias for field in route.dependant.query_params] if isinstance(route, APIRoute) else []
        for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
            if name not in known and route is not None:
                raise RequestError(f"query: {name[:80]!r} is not a parameter of this route{nearest(name, known)}")

    def _check_host(self, headers: Mapping[str, str]) -> None:
        allowed = self.settings.allowed_hosts
        if not allowed:
            return
        name = re.sub(r":\d*$", "", headers.get("host", "")).strip("[]").lower()
        if name not in allowed:
            raise BadRequestError(f"Host {headers.get('host', '')[:80]!r} is not allowed; add it with --allowed-host")

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count the request as work and do it, or refuse it where there is too much of its kind already."""
        lane = self.lanes.of(scope["method"], scope["path"])
        if lane.in_flight >= lane.max_in_flight:
            self.metrics.refused.inc()
            raise OverloadedError(f"{lane.in_flight} requests of this kind are in progress already; try again")
        token = lane_of_request.set(lane)
        budget_of_request.set(Budget(self.settings.request_timeout_s, receive))
        lane.in_flight += 1
        try:
            await self.app(scope, receive, send)
        finally:
            lane.in_flight -= 1
            lane_of_request.reset(token)

    async def _whole_body(self, headers: Mapping[str, str], receive: Receive, limit: int) -> Receive:
        """Read the body before any work is done: bounded in size, by `limit` bytes, and in time."""
        length = headers.get("content-length")
        too_large = BodyTooLargeError(f"the body is larger than {limit} bytes; send it in parts")
        if length is not None and (not length.isdecimal() or int(length) > limit):
            raise too_large
        chunks: list[bytes] = []
        size, more = 0, True
        try:
            async with asyncio.timeout(self.settings.body_timeout_s):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise BadRequestError("the client closed the connection before the whole body arrived")
                    chunks.append(message.get("body", b""))
                    size += len(chunks[-1])
                    more = message.get("more_body", False)
                    if size > limit:
                        raise too_large
        except TimeoutError as error:
            raise BodyTimeoutError(f"the body did not arrive within {self.settings.body_timeout_s:g} s") from error
        whole: list[Message] = [{"type": "http.request", "body": b"".join(chunks), "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        return replay

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")  # the pattern, so that user ids stay out of it
        method = scope["method"] if scope["method"] in METHODS else "other"  # callers cannot invent label values
        count, latency = self._counters(route, method, status)
        count.inc()
        latency.observe(seconds)
        level = logging.DEBUG if route in ALWAYS_OPEN else logging.INFO
        if log.isEnabledFor(level):
            fields = {"method": method, "route": route, "status": status, "ms": round(seconds * 1e3, 2)}
            log.log(level, "request", extra=fields)


def _with_slashes_kept(scope: Scope) -> Scope:
    """Keep percent-encoded slashes of a path apart from those that separate: they are parts of ids."""
    raw = scope.get("raw_path") or b""
    if b"%2f" not in raw.lower():
        return scope
    return {**scope, "path": unquote_to_bytes(re.sub(rb"%2[fF]", SLASH.encode(), raw)).decode("utf-8", "replace")}


def refusal(error: IgcfError) -> JSONResponse:
    """Return the answer that an error makes."""
    status = status_of(error)
    headers = headers_of(status) | ({"Allow": error.allowed} if isinstance(error, MethodNotAllowedError) else {})
    return JSONResponse(problem(error), status, headers | ({"connection": "close"} if status in CLOSING else {}))


def headers_of(status: int) -> dict[str, str]:
    """What goes with a status."""
    return {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}.get(status, {})
