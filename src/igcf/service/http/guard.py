"""The door of the service: request ids, limits, keys, security headers, logs and counters around every request."""

import asyncio
import json
import logging
import re
import time
import uuid

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from igcf.errors import IgcfError
from igcf.service.errors import OverloadedError, problem, status_of
from igcf.service.http.authentication import Keys
from igcf.service.http.logs import request_id
from igcf.service.metrics import Metrics
from igcf.service.settings import ServiceSettings

log = logging.getLogger("igcf.service")

ALWAYS_OPEN = ("/healthz", "/readyz", "/metrics")
"""Answered also under full load."""
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
ADMIN_ONLY = (("POST", "/v1/model"), ("GET", "/v1/stats"), ("GET", "/metrics"))
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


class BodyTooLargeError(IgcfError):
    """A body beyond the limit."""


class BodyTimeoutError(IgcfError):
    """A body that did not arrive in time."""


STATUS = {BodyTooLargeError: 413, BodyTimeoutError: 408}


class Guard:
    """ASGI middleware: everything that is the same for all routes."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings, keys: Keys, metrics: Metrics) -> None:
        self.app, self.settings, self.keys, self.metrics = app, settings, keys, metrics
        self.in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through, or refuse it in one sentence."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        headers = Headers(scope=scope)
        sent_id = headers.get("x-request-id", "")
        this_id = sent_id if SAFE_REQUEST_ID.fullmatch(sent_id) else uuid.uuid4().hex
        token = request_id.set(this_id)
        status = 0

        async def tell(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                extra = [(b"x-request-id", this_id.encode()), *SECURITY_HEADERS]
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        self.in_flight += 1
        try:
            self._check(scope, headers)
            await self.app(scope, await self._whole_body(headers, receive), tell)
        except IgcfError as error:
            await _refuse(error, tell)
        except Exception:
            log.exception("request failed")
            if status:  # the answer had begun; the connection cannot be saved
                raise
            await _answer(500, {"error": "InternalError", "message": "the server made a mistake; see its log"}, tell)
        finally:
            self.in_flight -= 1
            self._record(scope, status, time.perf_counter() - started)
            request_id.reset(token)

    def _check(self, scope: Scope, headers: Headers) -> None:
        path, method = scope["path"], scope["method"]
        if self.in_flight > self.settings.max_in_flight and path not in ALWAYS_OPEN:
            self.metrics.refused.inc()
            raise OverloadedError(f"this server works on {self.settings.max_in_flight} requests already; try again")
        if method != "OPTIONS" and (path.startswith("/v1/") or path == "/metrics"):
            self.keys.check(headers, admin=(method, path) in ADMIN_ONLY)

    async def _whole_body(self, headers: Headers, receive: Receive) -> Receive:
        """Read the body before any work is done: bounded in size and in time."""
        limit = self.settings.max_body
        length = headers.get("content-length")
        if length is None and "transfer-encoding" not in headers:
            return receive
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
                        break
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
        self.metrics.requests.labels(route, method, str(status)).inc()
        self.metrics.latency.labels(route, method).observe(seconds)
        level = logging.DEBUG if route in ALWAYS_OPEN else logging.INFO
        if log.isEnabledFor(level):
            fields = {"method": method, "route": route, "status": status, "ms": round(seconds * 1e3, 2)}
            log.log(level, "request", extra=fields)


async def _refuse(error: IgcfError, send: Send) -> None:
    await _answer(STATUS.get(type(error)) or status_of(error), problem(error), send)


async def _answer(status: int, content: dict[str, str], send: Send) -> None:
    body = json.dumps(content).encode()
    headers: list[tuple[bytes, bytes]] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *((name.encode(), value.encode()) for name, value in headers_of(status).items()),
    ]
    if status in (408, 413):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def headers_of(status: int) -> dict[str, str]:
    """What goes with a status."""
    return {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}.get(status, {})
