"""The requests of the clients, and the types of their answers."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypedDict, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from igcf.service.errors import RequestError
from igcf.service.models import item_responses, model_responses, responses
from igcf.service.models.requests import PolicyName

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


class FeedbackOptions(TypedDict, total=False):
    """What a reaction may say beside its value; see `Feedback`."""

    kind: str | None
    time: float | None
    event_id: str | None
    recommendation_id: str | None


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """One request and the type of its answer."""

    method: str
    path: str
    answer: type[Answer]
    body: dict[str, Any] | None = None
    params: dict[str, Any] | None = None


def recommend_call(user: str, k: int, options: RecommendationOptions) -> Call[responses.RecommendationResponse]:
    """Ask for `k` items; options left at None are not sent."""
    body = {"k": k} | {name: value for name, value in options.items() if value is not None}
    return Call("POST", f"/v1/users/{_part(user)}/recommendations", responses.RecommendationResponse, body)


def feedback_call(
    user: str, item: str, value: float | None, options: FeedbackOptions
) -> Call[responses.FeedbackReceipt]:
    """Report one reaction, under a new event id where none is given."""
    body = _reaction({"item": item, "value": value, **options})
    return Call("POST", f"/v1/users/{_part(user)}/feedback", responses.FeedbackReceipt, body)


def batch_call(reactions: Iterable[dict[str, Any]]) -> Call[responses.BatchReceipt]:
    """Report many reactions, each with user, item and value."""
    return Call("POST", "/v1/feedback", responses.BatchReceipt, {"feedback": [_reaction(each) for each in reactions]})


def history_call(user: str, reactions: Iterable[dict[str, Any]]) -> Call[responses.HistoryReceipt]:
    """Report what a user did elsewhere, each reaction with item and value."""
    return Call(
        "POST", f"/v1/users/{_part(user)}/history", responses.HistoryReceipt, {"reactions": [*map(dict, reactions)]}
    )


def attributes_call(user: str, attributes: dict[str, Any]) -> Call[responses.AttributesReceipt]:
    """Store what is known of a user beside reactions."""
    path = f"/v1/users/{_part(user)}/attributes"
    return Call("PUT", path, responses.AttributesReceipt, {"attributes": attributes})


def undo_call(user: str, event_id: str) -> Call[responses.UndoResponse]:
    """Take a reaction back."""
    return Call("DELETE", f"/v1/users/{_part(user)}/feedback/{_part(event_id)}", responses.UndoResponse)


def user_call(user: str, *, cov: bool = False, limit: int | None = None) -> Call[responses.UserState]:
    """Read a user."""
    return Call("GET", f"/v1/users/{_part(user)}", responses.UserState, params={"cov": cov} | _limited(limit))


def users_call(after: str | None, limit: int) -> Call[responses.UserPage]:
    """List users."""
    return Call("GET", "/v1/users", responses.UserPage, params=_paged(after, limit))


def item_feedback_call(item: str, after: str | None, limit: int) -> Call[responses.ItemFeedbackPage]:
    """List the reactions to an item."""
    path = f"/v1/items/{_part(item)}/feedback"
    return Call("GET", path, responses.ItemFeedbackPage, params=_paged(after, limit))


def _paged(after: str | None, limit: int) -> dict[str, Any]:
    return {"limit": limit} | ({} if after is None else {"after": after})


def forget_call(user: str) -> Call[responses.DeletionResponse]:
    """Delete a user."""
    return Call("DELETE", f"/v1/users/{_part(user)}", responses.DeletionResponse)


def explain_call(user: str, item: str, *, limit: int | None = None) -> Call[responses.ExplanationResponse]:
    """Ask why."""
    path = f"/v1/users/{_part(user)}/explanations/{_part(item)}"
    return Call("GET", path, responses.ExplanationResponse, params=_limited(limit))


def _limited(limit: int | None) -> dict[str, Any]:
    return {} if limit is None else {"limit": limit}


def items_call(query: str, after: str | None, limit: int) -> Call[item_responses.CataloguePage]:
    """Read the catalogue."""
    return Call(
        "GET",
        "/v1/items",
        item_responses.CataloguePage,
        params={"query": query, "limit": limit} | ({} if after is None else {"after": after}),
    )


MODEL_CALL = Call("GET", "/v1/model", model_responses.ModelInfo)


def load_model_call(folder: str, *, force: bool = False) -> Call[model_responses.ModelLoaded]:
    """Serve another model."""
    return Call("POST", "/v1/model", model_responses.ModelLoaded, {"folder": folder, "force": force})


def many_call(users: Sequence[str], k: int, options: dict[str, Any]) -> Call[responses.BatchResponse]:
    """Ask for `k` items for each of many users."""
    body = {"users": list(users), "k": k} | {name: value for name, value in options.items() if value is not None}
    return Call("POST", "/v1/recommendations", responses.BatchResponse, body)


def merge_call(user: str, visitor: str) -> Call[responses.MergeReceipt]:
    """Let a visitor become a user."""
    return Call("POST", f"/v1/users/{_part(user)}/merge", responses.MergeReceipt, {"from": visitor})


def add_items_call(items: Iterable[dict[str, Any]], event_id: str | None) -> Call[item_responses.ItemsStored]:
    """Add items, under a new event id where none is given."""
    body = {"items": [*map(dict, items)], "event_id": event_id or uuid.uuid4().hex}
    return Call("POST", "/v1/items", item_responses.ItemsStored, body)


def change_item_call(item: str, fields: dict[str, Any]) -> Call[item_responses.ItemChanged]:
    """Change fields of an item."""
    return Call("PATCH", f"/v1/items/{_part(item)}", item_responses.ItemChanged, fields)


def retire_item_call(item: str) -> Call[item_responses.ItemRetired]:
    """Retire an item."""
    return Call("DELETE", f"/v1/items/{_part(item)}", item_responses.ItemRetired)


def similar_call(item: str, limit: int) -> Call[item_responses.SimilarItems]:
    """Ask for the neighbours of an item."""
    return Call("GET", f"/v1/items/{_part(item)}/similar", item_responses.SimilarItems, params={"limit": limit})


def _part(text: str) -> str:
    """Return an id as a part of a path; "." and ".." would lead to another path, however they are written."""
    if text in (".", ".."):
        raise RequestError(f"{text!r} cannot be an id; '.' and '..' by themselves are not allowed")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise RequestError(f"{text!r} cannot be an id; it holds characters that are no text") from None


def _reaction(reaction: dict[str, Any]) -> dict[str, Any]:
    filled = {name: value for name, value in reaction.items() if value is not None}
    return {"event_id": uuid.uuid4().hex} | filled
