"""A small typed client, sync and async; a retried reaction is counted once, because it carries an event id."""

import asyncio
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel

import igcf.errors
import igcf.service.errors
from igcf.errors import IgcfError
from igcf.service.errors import OverloadedError, ServiceUnavailableError
from igcf.service.http import responses
from igcf.service.http.requests import PolicyName

Answer = TypeVar("Answer", bound=BaseModel)
TIMEOUT_S = 30.0
PAUSES_S = (0.1, 0.3, 1.0, 2.0)
"""Waits before the next try when the service cannot be reached or is overloaded."""


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """One request and the type of its answer."""

    method: str
    path: str
    answer: type[Answer]
    body: dict[str, Any] | None = None
    params: dict[str, Any] | None = None


def recommend_call(user: str, k: int, options: dict[str, Any]) -> Call[responses.Recommended]:
    """Ask for `k` items; options left at None are not sent."""
    body = {"k": k} | {name: value for name, value in options.items() if value is not None}
    return Call("POST", f"/v1/users/{_part(user)}/recommendations", responses.Recommended, body)


def feedback_call(
    user: str, item: str, value: float | None, options: dict[str, str | None]
) -> Call[responses.FeedbackReceipt]:
    """Report one reaction, under a new event id where none is given; one with a `kind` has no value."""
    said = {"item": item} if options.get("kind") is not None else {"item": item, "value": value}
    body = _reaction(said | options)
    return Call("POST", f"/v1/users/{_part(user)}/feedback", responses.FeedbackReceipt, body)


def batch_call(reactions: Iterable[dict[str, Any]]) -> Call[responses.BatchReceipt]:
    """Report many reactions, each with user, item and value."""
    return Call("POST", "/v1/feedback", responses.BatchReceipt, {"feedback": [_reaction(each) for each in reactions]})


def history_call(user: str, reactions: Iterable[dict[str, Any]]) -> Call[responses.HistoryReceipt]:
    """Report what a user did elsewhere, each reaction with item and value."""
    return Call(
        "POST", f"/v1/users/{_part(user)}/history", responses.HistoryReceipt, {"reactions": [*map(dict, reactions)]}
    )


def undo_call(user: str, event_id: str) -> Call[responses.Retracted]:
    """Take a reaction back."""
    return Call("DELETE", f"/v1/users/{_part(user)}/feedback/{_part(event_id)}", responses.Retracted)


def user_call(user: str, *, cov: bool = False) -> Call[responses.UserState]:
    """Read a user."""
    return Call("GET", f"/v1/users/{_part(user)}", responses.UserState, params={"cov": cov})


def forget_call(user: str) -> Call[responses.Forgotten]:
    """Delete a user."""
    return Call("DELETE", f"/v1/users/{_part(user)}", responses.Forgotten)


def explain_call(user: str, item: str) -> Call[responses.Explained]:
    """Ask why."""
    return Call("GET", f"/v1/users/{_part(user)}/explanations/{_part(item)}", responses.Explained)


def items_call(query: str, offset: int, limit: int) -> Call[responses.CataloguePage]:
    """Read the catalogue."""
    return Call("GET", "/v1/items", responses.CataloguePage, params={"query": query, "offset": offset, "limit": limit})


MODEL_CALL = Call("GET", "/v1/model", responses.ModelInfo)


def load_model_call(folder: str) -> Call[responses.ModelLoaded]:
    """Serve another model."""
    return Call("POST", "/v1/model", responses.ModelLoaded, {"folder": folder})


class Client:
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

    def recommend(
        self,
        user: str,
        k: int = 5,
        *,
        exclude: Sequence[str] | None = None,
        candidates: Sequence[str] | None = None,
        policy: PolicyName | None = None,
        nu: float | None = None,
    ) -> responses.Recommended:
        """The `k` best items that this user has not reacted to."""
        options = {"exclude": exclude, "candidates": candidates, "policy": policy, "nu": nu}
        return self.send(recommend_call(user, k, options))

    def feedback(
        self,
        user: str,
        item: str,
        value: float | None = None,
        *,
        kind: str | None = None,
        event_id: str | None = None,
        recommendation_id: str | None = None,
    ) -> responses.FeedbackReceipt:
        """Report a reaction, by its value or its kind; neither: the item was shown and drew none."""
        options = {"kind": kind, "event_id": event_id, "recommendation_id": recommendation_id}
        return self.send(feedback_call(user, item, value, options))

    def skip(self, user: str, item: str, *, event_id: str | None = None) -> responses.FeedbackReceipt:
        """Put an item aside: not now, which says nothing about the user's taste."""
        return self.send(feedback_call(user, item, None, {"kind": "skip", "event_id": event_id}))

    def history(self, user: str, reactions: Iterable[dict[str, Any]]) -> responses.HistoryReceipt:
        """Report what a user did elsewhere: dictionaries with item, value and perhaps time, kind, event_id."""
        return self.send(history_call(user, reactions))

    def feedback_batch(self, reactions: Iterable[dict[str, Any]]) -> responses.BatchReceipt:
        """Report many reactions: dictionaries with user, item, value and perhaps event_id, recommendation_id."""
        return self.send(batch_call(reactions))

    def undo(self, user: str, event_id: str) -> responses.Retracted:
        """Take a reaction back."""
        return self.send(undo_call(user, event_id))

    def user(self, user: str, *, cov: bool = False) -> responses.UserState:
        """History and belief."""
        return self.send(user_call(user, cov=cov))

    def forget(self, user: str) -> responses.Forgotten:
        """Delete everything about a user."""
        return self.send(forget_call(user))

    def explain(self, user: str, item: str) -> responses.Explained:
        """Where an expected reward comes from."""
        return self.send(explain_call(user, item))

    def items(self, query: str = "", *, offset: int = 0, limit: int = 50) -> responses.CataloguePage:
        """A page of the catalogue."""
        return self.send(items_call(query, offset, limit))

    def model(self) -> responses.ModelInfo:
        """What is served."""
        return self.send(MODEL_CALL)

    def load_model(self, folder: str) -> responses.ModelLoaded:
        """Serve another model (admin)."""
        return self.send(load_model_call(folder))


class AsyncClient:
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

    async def recommend(
        self,
        user: str,
        k: int = 5,
        *,
        exclude: Sequence[str] | None = None,
        candidates: Sequence[str] | None = None,
        policy: PolicyName | None = None,
        nu: float | None = None,
    ) -> responses.Recommended:
        """The `k` best items that this user has not reacted to."""
        options = {"exclude": exclude, "candidates": candidates, "policy": policy, "nu": nu}
        return await self.send(recommend_call(user, k, options))

    async def feedback(
        self,
        user: str,
        item: str,
        value: float | None = None,
        *,
        kind: str | None = None,
        event_id: str | None = None,
        recommendation_id: str | None = None,
    ) -> responses.FeedbackReceipt:
        """Report a reaction, by its value or its kind; neither: the item was shown and drew none."""
        options = {"kind": kind, "event_id": event_id, "recommendation_id": recommendation_id}
        return await self.send(feedback_call(user, item, value, options))

    async def skip(self, user: str, item: str, *, event_id: str | None = None) -> responses.FeedbackReceipt:
        """Put an item aside: not now, which says nothing about the user's taste."""
        return await self.send(feedback_call(user, item, None, {"kind": "skip", "event_id": event_id}))

    async def history(self, user: str, reactions: Iterable[dict[str, Any]]) -> responses.HistoryReceipt:
        """Report what a user did elsewhere: dictionaries with item, value and perhaps time, kind, event_id."""
        return await self.send(history_call(user, reactions))

    async def feedback_batch(self, reactions: Iterable[dict[str, Any]]) -> responses.BatchReceipt:
        """Report many reactions."""
        return await self.send(batch_call(reactions))

    async def undo(self, user: str, event_id: str) -> responses.Retracted:
        """Take a reaction back."""
        return await self.send(undo_call(user, event_id))

    async def user(self, user: str, *, cov: bool = False) -> responses.UserState:
        """History and belief."""
        return await self.send(user_call(user, cov=cov))

    async def forget(self, user: str) -> responses.Forgotten:
        """Delete everything about a user."""
        return await self.send(forget_call(user))

    async def explain(self, user: str, item: str) -> responses.Explained:
        """Where an expected reward comes from."""
        return await self.send(explain_call(user, item))

    async def items(self, query: str = "", *, offset: int = 0, limit: int = 50) -> responses.CataloguePage:
        """A page of the catalogue."""
        return await self.send(items_call(query, offset, limit))

    async def model(self) -> responses.ModelInfo:
        """What is served."""
        return await self.send(MODEL_CALL)

    async def load_model(self, folder: str) -> responses.ModelLoaded:
        """Serve another model (admin)."""
        return await self.send(load_model_call(folder))


def _part(text: str) -> str:
    return quote(text, safe="")


def _headers(api_key: str | None) -> dict[str, str]:
    return {} if api_key is None else {"Authorization": f"Bearer {api_key}"}


def _reaction(reaction: dict[str, Any]) -> dict[str, Any]:
    filled = {name: value for name, value in reaction.items() if value is not None or name == "value"}
    return {"event_id": uuid.uuid4().hex} | filled


def _answer(call: Call[Answer], reply: httpx.Response) -> Answer:
    if reply.is_success:
        return call.answer.model_validate_json(reply.content)
    try:
        found = reply.json()
        name, message = str(found["error"]), str(found["message"])
    except (ValueError, KeyError, TypeError):
        name, message = "", f"the service answered {reply.status_code} to {call.method} {call.path}"
    kind = getattr(igcf.service.errors, name, getattr(igcf.errors, name, None))
    if reply.status_code == 503:
        raise OverloadedError(message)
    raise kind(message) if isinstance(kind, type) and issubclass(kind, IgcfError) else IgcfError(message)


def _unreachable(error: Exception) -> IgcfError:
    return error if isinstance(error, IgcfError) else ServiceUnavailableError(f"the service did not answer: {error}")
