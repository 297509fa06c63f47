"""Limits of connections: how many, and for how long they may be silent, slow to ask or slow to listen.

uvicorn waits for the head of a request, and for a client that does not take its answer, without end. Neither the
application nor a middleware sees such a connection, so the limits are in the protocol.
"""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from igcf.service.errors import BadRequestError, OverloadedError, ServiceError, problem, status_of
from igcf.service.settings import ServiceSettings

MOST_CHUNKS = 1_000
"""Chunks of a body that may be of any size."""
CHUNK = 64
"""Bytes that each further chunk must have, on average."""


def last_answer(error: ServiceError) -> bytes:
    """Return a refusal as the bytes after which a connection is closed."""
    status, body = status_of(error), json.dumps(problem(error)).encode()
    headers = {"content-type": "application/json", "connection": "close", "content-length": str(len(body))}
    headers |= {"retry-after": "1"} if status == 503 else {}
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


TOO_MANY = last_answer(OverloadedError("too many connections; try again"))
NOT_HTTP = last_answer(BadRequestError("the request is not HTTP/1.1; check its head and the length of its body"))


class FewChunks(h11.Connection):
    """h11 that refuses bodies of thousands of tiny chunks: reading one costs as much as reading a head."""

    _chunks = _bytes = 0

    def next_event(self) -> Any:
        """Take the next part out of what has arrived."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = self._bytes = 0
        elif isinstance(event, h11.Data) and event.chunk_start:
            self._chunks, self._bytes = self._chunks + 1, self._bytes + len(event.data)
            if self._chunks > MOST_CHUNKS + self._bytes // CHUNK:
                raise h11.RemoteProtocolError("the chunks of the body are too small")
        return event


def limited_protocol(settings: ServiceSettings) -> Callable[..., asyncio.Protocol]:
    """Build the protocol class of a server; its connections count against one another."""
    return partial(LimitedProtocol, settings=settings, unused={})


class LimitedProtocol(H11Protocol):
    """HTTP of uvicorn with a limit of connections and of time for what the application does not wait for itself.

    That is the head of a request, the rest of one that was answered before it had arrived, and an answer that is not
    taken. The application limits the time of a body, uvicorn that of an idle connection.
    """

    _is_open = _is_paused = False
    _timer: asyncio.TimerHandle | None = None
    _patience: float | None = None
    """Seconds that the timer was set to; None: it is off."""

    def __init__(
        self, *args: Any, settings: ServiceSettings, unused: dict["LimitedProtocol", None], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.conn, self._settings = FewChunks(h11.SERVER), settings
        self._unused = unused  # all connections without a request in work, the one used longest ago first

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept or refuse the connection; the one idle for longest is closed to make room."""
        super().connection_made(transport)
        most = self._settings.max_connections
        if len(self.connections) > most:
            for each in self._unused:
                if not each.transport.get_write_buffer_size():
                    each.transport.close()
                    each._leave()
                    break
        self._is_open = len(self.connections) <= most
        if self._is_open:
            self._watch()
        else:
            transport.write(TOO_MANY)
            transport.close()
            self._leave()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        super().connection_lost(exc)
        self._wait_at_most(None)
        self._leave()

    def data_received(self, data: bytes) -> None:
        """Pass on what has arrived."""
        if self._is_open:
            cycle = self.cycle
            super().data_received(data)
            if self.cycle is not cycle:  # the head is complete
                self._wait_at_most(None)
            self._watch()

    def on_response_complete(self) -> None:
        """Go on to the next request."""
        super().on_response_complete()
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP; just close where the answer to what came before it has begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(NOT_HTTP)
        self.transport.close()

    def pause_writing(self) -> None:
        """Begin to wait for a client that does not take its answer."""
        super().pause_writing()
        self._is_paused = True
        self._watch()

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        self._is_paused = False
        self._watch()

    def _leave(self) -> None:
        """Count the connection no more."""
        self._is_open = False
        self.connections.discard(self)
        self._unused.pop(self, None)

    def _watch(self) -> None:
        """Limit the time in which the client must go on, where nobody else does."""
        if not self._is_open:
            return
        if self.cycle is None or self.cycle.response_complete:
            self._unused.setdefault(self)
        else:
            self._unused.pop(self, None)
        theirs, ours = self.conn.their_state, self.conn.our_state
        owes_head = theirs is h11.IDLE and (self.cycle is None or bool(self.conn.trailing_data[0]))
        owes_rest = theirs is h11.SEND_BODY and ours in (h11.DONE, h11.MUST_CLOSE)
        if self._is_paused:
            self._wait_at_most(self._settings.send_timeout_s)
        else:
            self._wait_at_most(self._settings.header_timeout_s if owes_head or owes_rest else None)

    def _wait_at_most(self, seconds: float | None) -> None:
        """Set the timer that drops the connection; it runs on where it is set to the same time already."""
        if seconds == self._patience:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._patience = seconds
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)
