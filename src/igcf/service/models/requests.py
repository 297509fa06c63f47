"""Bodies and parameters of requests, checked by pydantic; with `responses` the source of the OpenAPI document."""

import re
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from igcf.service.errors import RequestError
from igcf.service.models.validation_messages import mistake
from igcf.service.settings import ServiceSettings

LONGEST_ID = 256
FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
SLASH = "\x1f"
"""Stands for a percent-encoded slash in a path, which is a part of an id and separates nothing."""
PATTERN = r"^[^\u0000-\u001f\u007f-\u009f/]+$"


def _plain(text: str) -> str:
    if FORBIDDEN.search(text):
        raise ValueError("control characters are not allowed")
    return text


def _one_segment(text: str) -> str:
    if "/" in text or text in (".", ".."):  # could not be a part of a path
        raise ValueError("'/' is not allowed, and neither are '.' and '..' by themselves")
    return text


def _with_slashes(text: object) -> object:
    return text.replace(SLASH, "/") if isinstance(text, str) else text


def _number(value: object) -> object:
    if isinstance(value, str | bytes | bool):  # pydantic would take "5" and true for numbers
        raise PydanticCustomError("number_type", "Input should be a valid number")
    return value


WholeNumber = Annotated[int, BeforeValidator(_number)]
Number = Annotated[float, BeforeValidator(_number)]
Id = Annotated[str, Field(min_length=1, max_length=LONGEST_ID), AfterValidator(_plain)]
"""An item's or a recommendation's id."""
PathItem = Annotated[Id, BeforeValidator(_with_slashes)]
"""An item's id as one segment of a path, its slashes percent-encoded."""
PathId = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_ID, json_schema_extra={"pattern": PATTERN}),
    BeforeValidator(_with_slashes),
    AfterValidator(_plain),
    AfterValidator(_one_segment),
]
"""A user's or an event's id, which is also a part of a path."""


def _list_policies(schema: dict[str, Any]) -> None:
    from igcf.online.policies import POLICIES  # those registered when the document is written

    schema["enum"] = list(POLICIES)


PolicyName = Annotated[str, Field(json_schema_extra=_list_policies)]

LIMITS = ServiceSettings()
NAMES: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
AMOUNTS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "number"}}
RULES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "filter": {
            "type": "object",
            "properties": {
                "any": NAMES | {"minItems": 1}, "all": NAMES, "none": NAMES, "min": AMOUNTS, "max": AMOUNTS,
            },
            "additionalProperties": False,
        },
        "boost": AMOUNTS,
        "caps": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
        "pinned": NAMES,
        "diversity": {"type": "number", "minimum": 0},
        "weight": {"type": "string"},
        "strength": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "additionalProperties": False,
}  # fmt: skip
"""Rules as JSON; `igcf.online.rules` checks them, so that library, command line and service say the same."""


PLAIN: list[dict[str, Any]] = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "null"}]
ATTRIBUTES: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {"anyOf": [*PLAIN, {"type": "array", "items": {"anyOf": PLAIN}}]},
}
"""Attributes as JSON; `igcf.encoding` checks them, so that library, command line and service say the same."""
ATTRIBUTES_TEXT = "Values by the names listed at `GET /v1/model`; they replace all stored attributes."


Context = Annotated[
    dict[str, Any] | None,
    Field(
        description="Features of the request, such as device or time of day, by the names listed at `GET /v1/model`.",
        json_schema_extra={"anyOf": [ATTRIBUTES, {"type": "null"}]},
    ),
]


class Schema(BaseModel):
    """A body; an unknown field is a mistake worth hearing of."""

    model_config = ConfigDict(extra="forbid")


class RecommendationRequest(Schema):
    """What to recommend."""

    k: WholeNumber = Field(default=5, ge=1, le=LIMITS.max_k, description="How many items.")
    fewer: bool = Field(default=False, description="If fewer than `k` items are left, return those instead of a 409.")
    exclude: list[Id] = Field(default=[], max_length=LIMITS.max_list, description="Items to leave out of this answer.")
    candidates: list[Id] | None = Field(
        default=None, max_length=LIMITS.max_list, description="Choose among these only."
    )
    reserve: WholeNumber = Field(
        default=0, ge=0, le=20, description="Further items to return for later use; they do not count as shown."
    )
    policy: PolicyName | None = Field(default=None, description="Instead of the server's own.")
    nu: Number | None = Field(
        default=None, ge=0, le=LIMITS.max_nu, description="Exploration of `ucb`: mean + nu * std."
    )
    rules: dict[str, Any] | None = Field(
        default=None,
        description="Filters, boosts, caps, pinned items, diversity, a weight; in addition to the server's own.",
        examples=[{"filter": {"none": ["War"], "min": {"year": 1990}}, "caps": {"Drama": 2}}],
        json_schema_extra={"anyOf": [RULES, {"type": "null"}]},
    )
    attributes: dict[str, Any] | None = Field(
        default=None,
        description="Attributes of the user for this answer only; they take precedence over stored ones.",
        json_schema_extra={"anyOf": [ATTRIBUTES, {"type": "null"}]},
    )
    context: Context = None


class AttributesRequest(Schema):
    """What is known of a user beside reactions."""

    attributes: dict[str, Any] = Field(description=ATTRIBUTES_TEXT, json_schema_extra=ATTRIBUTES)


class LoggedReaction(Schema):
    """A reaction of a log."""

    item: Id
    value: Any = Field(
        default=None,
        description="In the units of the log (stars, watch ratio, 0/1). Left out (or null) with a `kind`, and where "
        "every reaction of the log counts alike: there a reaction without a value is a success.",
        json_schema_extra={"anyOf": [{"type": "number"}, {"type": "null"}]},
    )
    kind: Id | None = Field(default=None, description="Instead of a value: a kind that `GET /v1/model` lists.")
    time: Number | None = Field(
        default=None, ge=0, le=2**53, description="When it happened, in seconds since 1970; default: now."
    )
    event_id: PathId | None = Field(
        default=None,
        description="Default: derived from user, item, value and time, so that a repeated import counts once.",
    )


class Feedback(LoggedReaction):
    """A reaction to an item."""

    kind: Id | None = Field(
        default=None,
        description="Instead of a value: `shown`, the item drew no reaction; `skip`, not now (no evidence); "
        "or a kind listed at `GET /v1/model`.",
    )
    event_id: PathId | None = Field(
        default=None,
        description="Makes retries safe: the same id counts once; reused for a different reaction, it is a 409.",
    )
    recommendation_id: Id | None = Field(default=None, description="The answer in which the item was shown.")
    context: Context = None


class UserFeedback(Feedback):
    """A reaction in a batch."""

    user: PathId


class History(Schema):
    """What a user did elsewhere: of all items, they came to these."""

    reactions: list[LoggedReaction] = Field(max_length=LIMITS.max_list)


def _or_problems(value: Any, check: ValidatorFunctionWrapHandler) -> list[UserFeedback | RequestError]:
    """Check all entries at once and, where something is wrong with any, one by one."""
    try:
        found: list[UserFeedback | RequestError] = check(value)
        return found
    except ValidationError:
        if not isinstance(value, list) or len(value) > LIMITS.max_batch:
            raise
    return [_or_problem(entry) for entry in value]


def _or_problem(entry: Any) -> UserFeedback | RequestError:
    try:
        return UserFeedback.model_validate(entry)
    except ValidationError as error:
        return mistake(error.errors())


FeedbackList = Annotated[list[UserFeedback], Field(max_length=LIMITS.max_batch), WrapValidator(_or_problems)]
"""Entries that do not fit the schema become a `RequestError` in their place."""


class FeedbackBatch(Schema):
    """Reactions of any users."""

    feedback: FeedbackList


class BatchRequest(RecommendationRequest):
    """What to recommend to many users."""

    users: list[PathId] = Field(min_length=1, max_length=1_000, description="At most 1,000 users, each once.")


class MergeRequest(Schema):
    """Whose reactions become those of the user."""

    visitor: PathId = Field(alias="from", description="The anonymous visitor; this id is empty afterwards.")


NULL: dict[str, Any] = {"type": "null"}
ITEM: dict[str, Any] = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "string", "minLength": 1, "maxLength": LONGEST_ID},
        "title": {"anyOf": [{"type": "string", "maxLength": 1000}, NULL]},
        "categories": {"type": "array", "items": {"type": "string"}},
        "tags": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "object", "additionalProperties": {"type": "number"}},
        "text": {"anyOf": [{"type": "string", "maxLength": 20_000}, NULL]},
        "image": {"anyOf": [{"type": "string", "maxLength": 1000}, NULL]},
        "available_from": {"anyOf": [{"type": "number"}, NULL]},
        "available_until": {"anyOf": [{"type": "number"}, NULL]},
        "hidden": {"type": "boolean"},
    },
    "additionalProperties": False,
}
"""An item as JSON; `igcf.item` checks it, so that library, command line and service say the same."""


class ItemBatch(Schema):
    """Items as they are from now on: new ones, and known ones described anew."""

    items: list[Any] = Field(min_length=1, max_length=LIMITS.max_items, json_schema_extra={"items": ITEM})
    event_id: PathId | None = Field(
        default=None,
        description="Makes retries safe: the same id counts once; reused for different items, it is a 409.",
    )


class ModelRequest(Schema):
    """Which model to serve next."""

    folder: str = Field(
        min_length=1,
        max_length=4096,
        description="A model folder on the server, relative to the folder of `--models`.",
    )
    force: bool = Field(
        default=False,
        description="Accept a model that knows less than half of the items in service, or has another scale.",
    )
