"""What requests and answers look like; the source of the OpenAPI document."""

import re
from typing import Annotated, Any, Literal

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

from igcf.service.errors import RequestError, invalid
from igcf.service.settings import ServiceSettings

LONGEST_ID = 256
FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
PATTERN = r"^[^\u0000-\u001f\u007f-\u009f/]+$"


def _plain(text: str) -> str:
    if FORBIDDEN.search(text):
        raise ValueError("control characters are not allowed")
    return text


def _one_segment(text: str) -> str:
    if "/" in text or text in (".", ".."):  # could not be a part of a path
        raise ValueError("'/' is not allowed, and neither are '.' and '..' by themselves")
    return text


def _number(value: object) -> object:
    if isinstance(value, str | bytes | bool):  # pydantic would take "5" and true for numbers
        raise ValueError("a number is expected")
    return value


WholeNumber = Annotated[int, BeforeValidator(_number)]
Number = Annotated[float, BeforeValidator(_number)]
Id = Annotated[str, Field(min_length=1, max_length=LONGEST_ID), AfterValidator(_plain)]
"""An item's or a recommendation's id."""
PathId = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_ID, json_schema_extra={"pattern": PATTERN}),
    AfterValidator(_plain),
    AfterValidator(_one_segment),
]
"""A user's or an event's id, which is also a part of a path."""
PolicyName = Literal["ucb", "info-ucb", "thompson", "greedy"]
Reason = Literal["please", "learn"]

LIMITS = ServiceSettings()


class Schema(BaseModel):
    """A body; an unknown field is a mistake worth hearing of."""

    model_config = ConfigDict(extra="forbid")


class RecommendAsk(Schema):
    """What to recommend."""

    k: WholeNumber = Field(5, ge=1, le=LIMITS.max_k, description="How many items.")
    exclude: list[Id] = Field([], max_length=LIMITS.max_list, description="Items not to show now.")
    candidates: list[Id] | None = Field(None, max_length=LIMITS.max_list, description="Choose among these only.")
    reserve: WholeNumber = Field(0, ge=0, le=20, description="Further items to keep, not shown now.")
    policy: PolicyName | None = Field(None, description="Instead of the server's own.")
    nu: Number | None = Field(None, ge=0, le=LIMITS.max_nu, description="Exploration of `ucb`: mean + nu * std.")


class PolicyUsed(BaseModel):
    """How the items were chosen."""

    name: PolicyName
    nu: float | None = None


class RecommendedItem(BaseModel):
    """One recommended item."""

    item: str
    score: float = Field(description="What the policy ranked by.")
    mean: float = Field(description="Expected reward.")
    std: float = Field(description="How unsure that expectation is.")
    rank: int
    mean_rank: int = Field(description="The rank that the mean alone would have given it.")
    reason: Reason = Field(description="`learn`: the mean alone would not have put it in this answer.")
    propensity: float | None = Field(description="Probability of being in this answer; null in the reserve.")
    popularity_rank: int = Field(description="Place in the population's order of favourites, from 1.")
    title: str | None
    categories: list[str]


class Recommended(BaseModel):
    """An answer; all of it comes from one model and one revision."""

    user: str
    model: str
    revision: int
    recommendation_id: str
    policy: PolicyUsed
    propensity: Literal["exact", "estimated"] = Field(description="`estimated`: by repeating the draw.")
    items: list[RecommendedItem]
    reserve: list[RecommendedItem] = Field(description="What would come next; not logged, not counted as shown.")


class Feedback(Schema):
    """A reaction to an item."""

    item: Id
    value: Any = Field(
        description="In the units of the log (stars, watch ratio, 0/1); null: shown, drew no reaction.",
        json_schema_extra={"anyOf": [{"type": "number"}, {"type": "null"}]},
    )
    event_id: PathId | None = Field(None, description="Makes a retry safe: the same id twice counts once.")
    recommendation_id: Id | None = Field(None, description="The answer in which the item was shown.")


class UserFeedback(Feedback):
    """A reaction in a batch."""

    user: PathId


def _or_problem(value: Any, check: ValidatorFunctionWrapHandler) -> UserFeedback | RequestError:
    try:
        found: UserFeedback = check(value)
        return found
    except ValidationError as error:
        first = error.errors()[0]
        return invalid(first["loc"], first["msg"])


FeedbackList = Annotated[list[Annotated[UserFeedback, WrapValidator(_or_problem)]], Field(max_length=LIMITS.max_batch)]
"""Entries that do not fit the schema become a `RequestError` in their place."""


class FeedbackBatch(Schema):
    """Reactions of any users."""

    feedback: FeedbackList


class FeedbackReceipt(BaseModel):
    """What became of a reaction; it is durable."""

    revision: int
    duplicate: bool
    event_id: str


class Problem(BaseModel):
    """An error."""

    error: str
    message: str


class BatchEntry(BaseModel):
    """What became of one entry of a batch: a receipt or an error."""

    revision: int | None = None
    duplicate: bool | None = None
    event_id: str | None = None
    error: str | None = None
    message: str | None = None


class BatchReceipt(BaseModel):
    """One entry per reaction, in the order of the request."""

    stored: int
    duplicates: int
    failed: int
    results: list[BatchEntry]


class Retracted(BaseModel):
    """The revision after a reaction was taken back."""

    revision: int


class Forgotten(BaseModel):
    """How many rows of the log were deleted."""

    user: str
    deleted: int


class PastReaction(BaseModel):
    """A reaction in force."""

    event_id: str
    item: str
    value: float | None
    time: float = Field(description="Seconds since 1970.")
    title: str | None


class BeliefSummary(BaseModel):
    """The Gaussian belief about a user."""

    mean: list[float]
    std: list[float] = Field(description="Square roots of the covariance's diagonal.")
    trace: float = Field(description="Of the covariance: what is still unknown in all.")
    prior_trace: float
    cov: list[list[float]] | None = None


class UserState(BaseModel):
    """What is known about a user; somebody unknown has revision 0 and the population's belief."""

    user: str
    known: bool
    model: str
    revision: int
    drift: float = Field(description="Mean standardised surprise of the last reactions; 1 is as expected.")
    history: list[PastReaction]
    belief: BeliefSummary


class BelievedItem(BaseModel):
    """What is believed about one item."""

    item: str
    mean: float
    std: float
    popularity_rank: int
    title: str | None
    categories: list[str]
    seen: bool


class PopularItem(BaseModel):
    """One of the population's favourites, and what this user would think of it."""

    item: str
    title: str | None
    chance: float = Field(description="Probability that it satisfies the user, as believed now.")
    seen: bool


class Ellipse(BaseModel):
    """A belief on the map; the population is the unit circle around the origin."""

    mean: list[float]
    cov: list[list[float]]


class Beliefs(BaseModel):
    """The items expected to please most, and the belief on the map."""

    user: str
    model: str
    revision: int
    drift: float
    top: list[BelievedItem]
    popular: list[PopularItem] = Field(description="The first items of the population's order.")
    map: Ellipse


class ContributionPart(BaseModel):
    """What one past reaction adds to the expected reward."""

    item: str
    value: float | None
    amount: float
    title: str | None


class Explained(BaseModel):
    """`prior` plus all amounts is `mean`."""

    user: str
    item: str
    model: str
    revision: int
    title: str | None
    prior: float
    mean: float
    std: float
    contributions: list[ContributionPart]
