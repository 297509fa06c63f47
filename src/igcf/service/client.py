"""A small typed client, sync and async; a retried reaction is counted once, because it carries an event id."""

import asyncio
import time
from collections.abc import Sequence
from types import TracebackType

import httpx
from pydantic import ValidationError

import igcf.errors
import igcf.service.errors
from igcf.errors import IgcfError
from igcf.service.client_calls import Answer, Call, Calls
from igcf.service.errors import OverloadedError, ServiceUnavailableError

TIMEOUT_S = 30.0
PAUSES_S = (0.1, 0.3, 1.0, 2.0)  # waits before the next try when the service cannot be reached or is overloaded
BUSY = frozenset({408, 429, 502, 503, 504})
"""Statuses of a service that is overloaded, or of a proxy that cannot reach it: the request is worth another try."""


class Client(Calls):
    """`with Client("http://127.0.0.1:8000") as client: client.recommend("ann", k=5)`.

    Errors of the service are raised as the exceptions that the library raises.
    """

    def __init__(self, url: str, *, api_key: str | None = None, pauses_s: Sequence[float] = PAUSES_S) -> None:
        self._http = httpx.Client(base_url=url, headers=_headers(api_key), timeout=TIMEOUT_S)
        self._pauses = pauses_s

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, call: Call[Answer]) -> Answer:
        """Send a call, again where the service was away or overloaded."""
        for pause in (*self._pauses, None):
            try:
                return _answer(call, self._http.request(call.method, call.path, json=call.body, params=call.params))
            except (httpx.TransportError, OverloadedError) as error:
                if pause is None:
                    raise _unreachable(error) from error
                time.sleep(pause)
        raise AssertionError("unreachable")


class AsyncClient(Calls):
    """The same as `Client`, to be awaited."""

    def __init__(self, url: str, *, api_key: str | None = None, pauses_s: Sequence[float] = PAUSES_S) -> None:
        self._http = httpx.AsyncClient(base_url=url, headers=_headers(api_key), timeout=TIMEOUT_S)
        self._pauses = pauses_s

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, call: Call[Answer]) -> Answer:
        """Send a call, again where the service was away or overloaded."""
        for pause in (*self._pauses, None):
            try:
                reply = await self._http.request(call.method, call.path, json=call.body, params=call.params)
                return _answer(call, reply)
            except (httpx.TransportError, OverloadedError) as error:
                if pause is None:
                    raise _unreachable(error) from error
                await asyncio.sleep(pause)
        raise AssertionError("unreachable")


def _headers(api_key: str | None) -> dict[str, str]:
    return {} if api_key is None else {"Authorization": f"Bearer {api_key}"}


def _answer(call: Call[Answer], reply: httpx.Response) -> Answer:
    if reply.is_success:
        try:
            return call.answer.model_validate_json(reply.content)
        except ValidationError as error:
            raise ServiceUnavailableError(
                f"{reply.url} answered {call.method} with something else than {call.answer.__name__}; "
                "is igcf served there?"
            ) from error
    try:
        found = reply.json()
        name, message = str(found["error"]), str(found["message"])
    except (ValueError, KeyError, TypeError):
        name, message = "", f"the service answered {reply.status_code} to {call.method} {call.path}"
    kind = getattr(igcf.service.errors, name, getattr(igcf.errors, name, None))
    if reply.status_code in BUSY:
        raise OverloadedError(message)
    raise kind(message) if isinstance(kind, type) and issubclass(kind, IgcfError) else IgcfError(message)


def _unreachable(error: Exception) -> IgcfError:
    return error if isinstance(error, IgcfError) else ServiceUnavailableError(f"the service did not answer: {error}")
