"""The requests of the clients, and the types of their answers."""

import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypedDict, TypeVar, Unpack, overload
from urllib.parse import quote

from pydantic import BaseModel

from igcf.service.errors import RequestError
from igcf.service.models import item_responses, responses
from igcf.service.models.requests import PolicyName

if TYPE_CHECKING:
    from igcf.service.client import AsyncClient, Client

P = ParamSpec("P")
Answer = TypeVar("Answer", bound=BaseModel)


class RecommendationOptions(TypedDict, total=False):
    """What a request for recommendations may say beside `k`; see `RecommendationRequest`."""

    fewer: bool
    exclude: Sequence[str] | None
    candidates: Sequence[str] | None
    reserve: int
    policy: PolicyName | None
    nu: float | None
    rules: dict[str, Any] | None
    attributes: dict[str, Any] | None
    context: dict[str, Any] | None


class FeedbackOptions(TypedDict, total=False):
    """What a reaction may say beside its value; see `Feedback`."""

    kind: str | None
    time: float | None
    event_id: str | None
    recommendation_id: str | None
    context: dict[str, Any] | None


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """One request and the type of its answer."""

    method: str
    path: str
    answer: type[Answer]
    body: dict[str, Any] | None = None
    params: dict[str, Any] | None = None


class Method(Generic[P, Answer]):
    """A call as a method of both clients; that of the asynchronous one is to be awaited."""

    def __init__(self, call: Callable[Concatenate[Any, P], Call[Answer]]) -> None:
        self._call, self.__doc__ = call, call.__doc__

    @overload
    def __get__(self, client: "Client", owner: object) -> Callable[P, Answer]: ...
    @overload
    def __get__(self, client: "AsyncClient", owner: object) -> Callable[P, Awaitable[Answer]]: ...
    @overload
    def __get__(self, client: None, owner: object) -> Callable[Concatenate[Any, P], Call[Answer]]: ...
    def __get__(self, client: "Client | AsyncClient | None", owner: object) -> Callable[..., Any]:
        if client is None:
            return self._call

        @wraps(self._call)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.send(self._call(client, *args, **kwargs))

        return method


class Calls:
    """What both clients can ask for."""

    @Method
    def recommend(
        self, user: str, k: int = 5, **options: Unpack[RecommendationOptions]
    ) -> Call[responses.RecommendationResponse]:
        """Return the `k` best items that this user has not reacted to."""
        body = {"k": k} | {name: value for name, value in options.items() if value is not None}
        return Call("POST", f"/v1/users/{_part(user)}/recommendations", responses.RecommendationResponse, body)

    @Method
    def feedback(
        self, user: str, item: str, value: float | None = None, **options: Unpack[FeedbackOptions]
    ) -> Call[responses.FeedbackReceipt]:
        """Report a reaction: its value in the units of the log, or its `kind` ("shown": no reaction, "skip": not now).

        Args:
            user: id of the user.
            item: id of the item.
            value: in the units of the log; leave it out with `kind`, or if every reaction of the log counts alike.
            **options: the fields of `FeedbackOptions`.
        """
        body = _reaction({"item": item, "value": value, **options})
        return Call("POST", f"/v1/users/{_part(user)}/feedback", responses.FeedbackReceipt, body)

    @Method
    def skip(self, user: str, item: str, *, event_id: str | None = None) -> Call[responses.FeedbackReceipt]:
        """Put an item aside: not now, which says nothing about the user's taste."""
        body = _reaction({"item": item, "kind": "skip", "event_id": event_id})
        return Call("POST", f"/v1/users/{_part(user)}/feedback", responses.FeedbackReceipt, body)

    @Method
    def feedback_batch(self, reactions: Iterable[dict[str, Any]]) -> Call[responses.BatchReceipt]:
        """Report many reactions: dictionaries with user, item, value and perhaps event_id, recommendation_id."""
        return Call(
            "POST", "/v1/feedback", responses.BatchReceipt, {"feedback": [_reaction(each) for each in reactions]}
        )

    @Method
    def history(self, user: str, reactions: Iterable[dict[str, Any]]) -> Call[responses.HistoryReceipt]:
        """Report what a user did elsewhere: dictionaries with item, value and perhaps time, kind, event_id."""
        return Call(
            "POST", f"/v1/users/{_part(user)}/history", responses.HistoryReceipt, {"reactions": [*map(dict, reactions)]}
        )

    @Method
    def set_attributes(self, user: str, attributes: dict[str, Any]) -> Call[responses.AttributesReceipt]:
        """Replace a user's attributes; `model()` lists their names."""
        path = f"/v1/users/{_part(user)}/attributes"
        return Call("PUT", path, responses.AttributesReceipt, {"attributes": attributes})

    @Method
    def undo(self, user: str, event_id: str) -> Call[responses.UndoResponse]:
        """Take a reaction back."""
        return Call("DELETE", f"/v1/users/{_part(user)}/feedback/{_part(event_id)}", responses.UndoResponse)

    @Method
    def user(self, user: str, *, cov: bool = False, limit: int = 1_000) -> Call[responses.UserState]:
        """Return history, as many of the latest reactions as `limit` says, and belief."""
        return Call("GET", f"/v1/users/{_part(user)}", responses.UserState, params={"cov": cov, "limit": limit})

    @Method
    def users(self, *, after: str | None = None, limit: int = 1_000) -> Call[responses.UserPage]:
        """Return a page of the users; `after` is the `next` of the page before."""
        return Call("GET", "/v1/users", responses.UserPage, params=_paged(after, limit))

    @Method
    def item_feedback(
        self, item: str, *, after: str | None = None, limit: int = 1_000
    ) -> Call[responses.ItemFeedbackPage]:
        """Return a page of the reactions of all users to one item."""
        path = f"/v1/items/{_part(item)}/feedback"
        return Call("GET", path, responses.ItemFeedbackPage, params=_paged(after, limit))

    @Method
    def forget(self, user: str) -> Call[responses.DeletionResponse]:
        """Delete everything about a user."""
        return Call("DELETE", f"/v1/users/{_part(user)}", responses.DeletionResponse)

    @Method
    def explain(self, user: str, item: str, *, limit: int = 1_000) -> Call[responses.ExplanationResponse]:
        """Return where an expected reward comes from, with the `limit` reactions that matter most."""
        path = f"/v1/users/{_part(user)}/explanations/{_part(item)}"
        return Call("GET", path, responses.ExplanationResponse, params={"limit": limit})

    @Method
    def items(
        self, query: str = "", *, after: str | None = None, limit: int = 50
    ) -> Call[item_responses.CataloguePage]:
        """Return a page of the catalogue."""
        return Call("GET", "/v1/items", item_responses.CataloguePage, params={"query": query} | _paged(after, limit))

    @Method
    def model(self) -> Call[responses.ModelInfo]:
        """Return what is served."""
        return Call("GET", "/v1/model", responses.ModelInfo)

    @Method
    def load_model(self, folder: str, *, force: bool = False) -> Call[responses.ModelLoaded]:
        """Serve another model (admin); `force`: also one of another catalogue."""
        return Call("POST", "/v1/model", responses.ModelLoaded, {"folder": folder, "force": force})

    @Method
    def roll_back(self) -> Call[responses.ModelLoaded]:
        """Serve the previous model again (admin)."""
        return Call("POST", "/v1/model/rollback", responses.ModelLoaded)

    @Method
    def recommend_many(
        self, users: Sequence[str], k: int = 5, *, rules: dict[str, Any] | None = None
    ) -> Call[responses.BatchResponse]:
        """Return the `k` best items for each of at most 1,000 users."""
        body = {"users": list(users), "k": k} | ({} if rules is None else {"rules": rules})
        return Call("POST", "/v1/recommendations", responses.BatchResponse, body)

    @Method
    def merge(self, user: str, visitor: str) -> Call[responses.MergeReceipt]:
        """Let an anonymous visitor become a user: the visitor's reactions count as the user's, once."""
        return Call("POST", f"/v1/users/{_part(user)}/merge", responses.MergeReceipt, {"from": visitor})

    @Method
    def add_items(
        self, items: Iterable[dict[str, Any]], *, event_id: str | None = None
    ) -> Call[item_responses.ItemsStored]:
        """Add items, or describe them anew: all of them or none."""
        body = {"items": [*map(dict, items)], "event_id": event_id or uuid.uuid4().hex}
        return Call("POST", "/v1/items", item_responses.ItemsStored, body)

    @Method
    def change_item(self, /, item: str, **fields: Any) -> Call[item_responses.ItemChanged]:
        """Change fields of an item, such as `title=` or `hidden=`."""
        return Call("PATCH", f"/v1/items/{_part(item)}", item_responses.ItemChanged, fields)

    @Method
    def retire_item(self, item: str) -> Call[item_responses.ItemRetired]:
        """Retire an item."""
        return Call("DELETE", f"/v1/items/{_part(item)}", item_responses.ItemRetired)

    @Method
    def similar(self, item: str, *, limit: int = 10) -> Call[item_responses.SimilarItems]:
        """Return the items that the same people like."""
        return Call("GET", f"/v1/items/{_part(item)}/similar", item_responses.SimilarItems, params={"limit": limit})


def _paged(after: str | None, limit: int) -> dict[str, Any]:
    return {"limit": limit} | ({} if after is None else {"after": after})


def _part(text: str) -> str:
    """Return an id as a part of a path; "." and ".." would lead to another path, however they are written."""
    if text in (".", ".."):
        raise RequestError(f"{text!r} cannot be an id; '.' and '..' by themselves are not allowed")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise RequestError(f"{text!r} cannot be an id; it holds characters that are not text") from None


def _reaction(reaction: dict[str, Any]) -> dict[str, Any]:
    filled = {name: value for name, value in reaction.items() if value is not None}
    return {"event_id": uuid.uuid4().hex} | filled
