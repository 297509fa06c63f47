"""A small typed client, sync and async; a retried reaction is counted once, because it carries an event id."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Unpack

import httpx
from pydantic import ValidationError

import igcf.errors
import igcf.service.errors
from igcf.errors import IgcfError
from igcf.service import client_calls as calls
from igcf.service.client_calls import Answer
from igcf.service.errors import OverloadedError, ServiceUnavailableError
from igcf.service.models import item_responses, model_responses, responses

TIMEOUT_S = 30.0
PAUSES_S = (0.1, 0.3, 1.0, 2.0)
"""Waits before the next try when the service cannot be reached or is overloaded."""
BUSY = frozenset({408, 429, 502, 503, 504})
"""Statuses of a service that is overloaded, or of a proxy that cannot reach it: the request is worth another try."""


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

    def send(self, call: calls.Call[Answer]) -> Answer:
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
        self, user: str, k: int = 5, **options: Unpack[calls.RecommendationOptions]
    ) -> responses.RecommendationResponse:
        """The `k` best items that this user has not reacted to."""
        return self.send(calls.recommend_call(user, k, options))

    def feedback(
        self, user: str, item: str, value: float | None = None, **options: Unpack[calls.FeedbackOptions]
    ) -> responses.FeedbackReceipt:
        """Report a reaction, by its value or its kind.

        Neither: a success, where every reaction of the log counts alike. `kind="shown"`: the item drew no reaction.
        """
        return self.send(calls.feedback_call(user, item, value, options))

    def skip(self, user: str, item: str, *, event_id: str | None = None) -> responses.FeedbackReceipt:
        """Put an item aside: not now, which says nothing about the user's taste."""
        return self.send(calls.feedback_call(user, item, None, {"kind": "skip", "event_id": event_id}))

    def history(self, user: str, reactions: Iterable[dict[str, Any]]) -> responses.HistoryReceipt:
        """Report what a user did elsewhere: dictionaries with item, value and perhaps time, kind, event_id."""
        return self.send(calls.history_call(user, reactions))

    def set_attributes(self, user: str, attributes: dict[str, Any]) -> responses.AttributesReceipt:
        """Store what is known of a user beside reactions, by the names that `model()` lists, instead of any before."""
        return self.send(calls.attributes_call(user, attributes))

    def feedback_batch(self, reactions: Iterable[dict[str, Any]]) -> responses.BatchReceipt:
        """Report many reactions: dictionaries with user, item, value and perhaps event_id, recommendation_id."""
        return self.send(calls.batch_call(reactions))

    def undo(self, user: str, event_id: str) -> responses.UndoResponse:
        """Take a reaction back."""
        return self.send(calls.undo_call(user, event_id))

    def user(self, user: str, *, cov: bool = False, limit: int | None = None) -> responses.UserState:
        """History, as many of the latest reactions as `limit` says, and belief."""
        return self.send(calls.user_call(user, cov=cov, limit=limit))

    def users(self, *, after: str | None = None, limit: int = 1_000) -> responses.UserPage:
        """A page of the users; `after` is the `next` of the page before."""
        return self.send(calls.users_call(after, limit))

    def item_feedback(self, item: str, *, after: str | None = None, limit: int = 1_000) -> responses.ItemFeedbackPage:
        """A page of the reactions of all users to one item."""
        return self.send(calls.item_feedback_call(item, after, limit))

    def forget(self, user: str) -> responses.DeletionResponse:
        """Delete everything about a user."""
        return self.send(calls.forget_call(user))

    def explain(self, user: str, item: str, *, limit: int | None = None) -> responses.ExplanationResponse:
        """Where an expected reward comes from; `limit` is how many reactions are named, those that matter most."""
        return self.send(calls.explain_call(user, item, limit=limit))

    def items(self, query: str = "", *, after: str | None = None, limit: int = 50) -> item_responses.CataloguePage:
        """A page of the catalogue."""
        return self.send(calls.items_call(query, after, limit))

    def model(self) -> model_responses.ModelInfo:
        """What is served."""
        return self.send(calls.MODEL_CALL)

    def load_model(self, folder: str, *, force: bool = False) -> model_responses.ModelLoaded:
        """Serve another model (admin); `force`: also one of another catalogue."""
        return self.send(calls.load_model_call(folder, force=force))

    def recommend_many(
        self, users: Sequence[str], k: int = 5, *, rules: dict[str, Any] | None = None
    ) -> responses.BatchResponse:
        """The `k` best items for each of at most 1,000 users."""
        return self.send(calls.many_call(users, k, {"rules": rules}))

    def merge(self, user: str, visitor: str) -> responses.MergeReceipt:
        """Let an anonymous visitor become a user: the visitor's reactions count as the user's, once."""
        return self.send(calls.merge_call(user, visitor))

    def add_items(self, items: Iterable[dict[str, Any]], *, event_id: str | None = None) -> item_responses.ItemsStored:
        """Add items, or describe them anew: all of them or none."""
        return self.send(calls.add_items_call(items, event_id))

    def change_item(self, item: str, **fields: Any) -> item_responses.ItemChanged:
        """Change fields of an item, such as `title=` or `hidden=`."""
        return self.send(calls.change_item_call(item, fields))

    def retire_item(self, item: str) -> item_responses.ItemRetired:
        """Retire an item."""
        return self.send(calls.retire_item_call(item))

    def similar(self, item: str, *, limit: int = 10) -> item_responses.SimilarItems:
        """The items that the same people like."""
        return self.send(calls.similar_call(item, limit))


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

    async def send(self, call: calls.Call[Answer]) -> Answer:
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
        self, user: str, k: int = 5, **options: Unpack[calls.RecommendationOptions]
    ) -> responses.RecommendationResponse:
        """The `k` best items that this user has not reacted to."""
        return await self.send(calls.recommend_call(user, k, options))

    async def feedback(
        self, user: str, item: str, value: float | None = None, **options: Unpack[calls.FeedbackOptions]
    ) -> responses.FeedbackReceipt:
        """Report a reaction, by its value or its kind.

        Neither: a success, where every reaction of the log counts alike. `kind="shown"`: the item drew no reaction.
        """
        return await self.send(calls.feedback_call(user, item, value, options))

    async def skip(self, user: str, item: str, *, event_id: str | None = None) -> responses.FeedbackReceipt:
        """Put an item aside: not now, which says nothing about the user's taste."""
        return await self.send(calls.feedback_call(user, item, None, {"kind": "skip", "event_id": event_id}))

    async def history(self, user: str, reactions: Iterable[dict[str, Any]]) -> responses.HistoryReceipt:
        """Report what a user did elsewhere: dictionaries with item, value and perhaps time, kind, event_id."""
        return await self.send(calls.history_call(user, reactions))

    async def set_attributes(self, user: str, attributes: dict[str, Any]) -> responses.AttributesReceipt:
        """Store what is known of a user beside reactions, by the names that `model()` lists, instead of any before."""
        return await self.send(calls.attributes_call(user, attributes))

    async def feedback_batch(self, reactions: Iterable[dict[str, Any]]) -> responses.BatchReceipt:
        """Report many reactions."""
        return await self.send(calls.batch_call(reactions))

    async def undo(self, user: str, event_id: str) -> responses.UndoResponse:
        """Take a reaction back."""
        return await self.send(calls.undo_call(user, event_id))

    async def user(self, user: str, *, cov: bool = False, limit: int | None = None) -> responses.UserState:
        """History, as many of the latest reactions as `limit` says, and belief."""
        return await self.send(calls.user_call(user, cov=cov, limit=limit))

    async def users(self, *, after: str | None = None, limit: int = 1_000) -> responses.UserPage:
        """A page of the users; `after` is the `next` of the page before."""
        return await self.send(calls.users_call(after, limit))

    async def item_feedback(
        self, item: str, *, after: str | None = None, limit: int = 1_000
    ) -> responses.ItemFeedbackPage:
        """A page of the reactions of all users to one item."""
        return await self.send(calls.item_feedback_call(item, after, limit))

    async def forget(self, user: str) -> responses.DeletionResponse:
        """Delete everything about a user."""
        return await self.send(calls.forget_call(user))

    async def explain(self, user: str, item: str, *, limit: int | None = None) -> responses.ExplanationResponse:
        """Where an expected reward comes from; `limit` is how many reactions are named, those that matter most."""
        return await self.send(calls.explain_call(user, item, limit=limit))

    async def items(
        self, query: str = "", *, after: str | None = None, limit: int = 50
    ) -> item_responses.CataloguePage:
        """A page of the catalogue."""
        return await self.send(calls.items_call(query, after, limit))

    async def model(self) -> model_responses.ModelInfo:
        """What is served."""
        return await self.send(calls.MODEL_CALL)

    async def load_model(self, folder: str, *, force: bool = False) -> model_responses.ModelLoaded:
        """Serve another model (admin); `force`: also one of another catalogue."""
        return await self.send(calls.load_model_call(folder, force=force))

    async def recommend_many(
        self, users: Sequence[str], k: int = 5, *, rules: dict[str, Any] | None = None
    ) -> responses.BatchResponse:
        """The `k` best items for each of at most 1,000 users."""
        return await self.send(calls.many_call(users, k, {"rules": rules}))

    async def merge(self, user: str, visitor: str) -> responses.MergeReceipt:
        """Let an anonymous visitor become a user: the visitor's reactions count as the user's, once."""
        return await self.send(calls.merge_call(user, visitor))

    async def add_items(
        self, items: Iterable[dict[str, Any]], *, event_id: str | None = None
    ) -> item_responses.ItemsStored:
        """Add items, or describe them anew: all of them or none."""
        return await self.send(calls.add_items_call(items, event_id))

    async def change_item(self, item: str, **fields: Any) -> item_responses.ItemChanged:
        """Change fields of an item, such as `title=` or `hidden=`."""
        return await self.send(calls.change_item_call(item, fields))

    async def retire_item(self, item: str) -> item_responses.ItemRetired:
        """Retire an item."""
        return await self.send(calls.retire_item_call(item))

    async def similar(self, item: str, *, limit: int = 10) -> item_responses.SimilarItems:
        """The items that the same people like."""
        return await self.send(calls.similar_call(item, limit))


def _headers(api_key: str | None) -> dict[str, str]:
    return {} if api_key is None else {"Authorization": f"Bearer {api_key}"}


def _answer(call: calls.Call[Answer], reply: httpx.Response) -> Answer:
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
