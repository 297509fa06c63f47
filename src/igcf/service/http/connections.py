"""Limits of connections: how many, and for how long they may be silent, slow to ask or slow to listen.

uvicorn waits for the head of a request, and for a client that does not take its answer, without end. Neither the
application nor a middleware sees such a connection, so the limits are in the protocol.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from igcf.service.settings import ServiceSettings

_REFUSAL = b'{"error": "OverloadedError", "message": "too many connections; try again"}'
TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_REFUSAL), _REFUSAL)
)
MOST_CHUNKS = 1_000
"""Chunks of a body that may be of any size."""
CHUNK = 64
"""Bytes that each further chunk must have, on average."""


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

    _is_open = False
    _request_timer: asyncio.TimerHandle | None = None
    _answer_timer: asyncio.TimerHandle | None = None

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
        """Stop the timers."""
        super().connection_lost(exc)
        self._stop_request_timer()
        self._stop_answer_timer()
        self._leave()

    def data_received(self, data: bytes) -> None:
        """Pass on what has arrived."""
        if self._is_open:
            cycle = self.cycle
            super().data_received(data)
            if self.cycle is not cycle:  # the head is complete
                self._stop_request_timer()
            self._watch()

    def on_response_complete(self) -> None:
        """Go on to the next request."""
        super().on_response_complete()
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP; just close where the answer to what came before it has begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        """Begin to wait for a client that does not take its answer."""
        super().pause_writing()
        self._give_up_answer_later()

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        self._stop_answer_timer()

    def _leave(self) -> None:
        """Count the connection no more."""
        self._unused.pop(self, None)
        self.connections.discard(self)
        self._is_open = False

    def _watch(self) -> None:
        """Run the timer while a part of a request is owed that nobody else waits for."""
        if not self._is_open:
            return
        if self.cycle is None or self.cycle.response_complete:
            self._unused.setdefault(self)
        else:
            self._unused.pop(self, None)
        theirs, ours = self.conn.their_state, self.conn.our_state
        owes_head = theirs is h11.IDLE and (self.cycle is None or bool(self.conn.trailing_data[0]))
        owes_rest = theirs is h11.SEND_BODY and ours in (h11.DONE, h11.MUST_CLOSE)
        if not (owes_head or owes_rest):
            self._stop_request_timer()
        elif self._request_timer is None:
            self._request_timer = self.loop.call_later(self._settings.header_timeout_s, self._give_up_request)

    def _stop_request_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _stop_answer_timer(self) -> None:
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None

    def _give_up_request(self) -> None:
        self.transport.close()
        self._give_up_answer_later()  # closing waits until everything is written

    def _give_up_answer_later(self) -> None:
        if self._answer_timer is None:
            self._answer_timer = self.loop.call_later(self._settings.send_timeout_s, self.transport.abort)
