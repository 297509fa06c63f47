"""Bodies of answers, built by the functions that answer; with `requests` the source of the OpenAPI document.

A field that was not set is not sent, so that `PolicyUsed(name="greedy")` has no `nu` on the wire.
"""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, Field

from igcf.config import Objective
from igcf.encoding import Kind
from igcf.service.models.requests import PolicyName

EvidenceKind = Literal["shown", "logged", "skip", "attributes"]
"""What an event says: `shown`, an item was shown and drew this reaction or none; `logged`, of all items the user came
to this one; `skip`, not now, is no evidence about taste; `attributes`, the user's attributes."""
Reason = Literal["please", "learn", "rule"]
PropensityKind = Literal["exact", "estimated", "unknown"]


class PolicyUsed(BaseModel):
    """How the items were chosen."""

    name: PolicyName
    nu: float | None = None
    explore: float | None = Field(default=None, description="Share of the slots that were drawn; left out where 0.")


class Scores(BaseModel):
    """What is expected of an item."""

    mean: float = Field(description="Expected reward.")
    std: float = Field(description="Standard deviation of that expectation.")
    chance: float = Field(description="Probability that the user is satisfied, if they react to the item.")
    low: float = Field(description="Lower end of the chance's 80 % interval.")
    high: float = Field(description="Upper end of the chance's 80 % interval.")


class NamedItem(BaseModel):
    """An item, for people."""

    item: str
    title: str | None
    categories: list[str]
    popularity_rank: int = Field(description="Place in the population's order of favourites, from 1.")


class ScoredItem(Scores, NamedItem):
    """An item with its expected reward."""


class RecommendedItem(ScoredItem):
    """One recommended item."""

    score: float = Field(description="The policy's score, by which items are ranked.")
    rank: int
    mean_rank: int = Field(description="The rank that the mean alone would have given it.")
    reason: Reason = Field(
        description="`learn`: the mean alone would not have put it in this answer; `rule`: rules rank, too."
    )
    propensity: float | None = Field(
        description="Probability that this slot showed this item, given the items above it; null in the reserve, and "
        "where it is not known."
    )
    slot_propensity: float | None = Field(
        description="The same whatever stood above it; null also where rules choose one item after the other."
    )
    propensity_error: float = Field(default=0.0, description="Standard error of the propensity, where it is estimated.")
    new: bool = Field(
        default=False, description="The model was not trained with it: it is tried out, and learned from reactions."
    )


class OfUser(BaseModel):
    """An answer about a user; all of it comes from one model and one revision."""

    user: str
    model: str
    revision: int


class RecommendationResponse(OfUser):
    """Recommended items."""

    recommendation_id: str
    policy: PolicyUsed
    propensity: PropensityKind = Field(
        description="`exact`: known; `estimated`: by repeating the draw from the belief; `unknown`: no item has one."
    )
    items: list[RecommendedItem]
    reserve: list[RecommendedItem] = Field(description="The items that would come next; they do not count as shown.")
    ignored: list[str] = Field(default_factory=list, description="Attribute values unknown to the model.")
    experiment: str | None = Field(default=None, description="The experiment that runs, if any.")
    arm: str | None = Field(default=None, description="The arm of the user in it.")


class FeedbackReceipt(BaseModel):
    """What became of a reaction; it is durable."""

    revision: int
    duplicate: bool
    event_id: str


class StoredReaction(BaseModel):
    """What is stored under an event id that was used again for something else."""

    item: str
    value: float | None
    evidence: EvidenceKind
    kind: str | None


class Problem(BaseModel):
    """An error."""

    error: str
    message: str
    stored: StoredReaction | None = Field(default=None, description="With a 409 for an event id that is in use.")


class HistoryReceipt(BaseModel):
    """What became of logged reactions; what is stored is durable."""

    user: str
    revision: int
    stored: int
    duplicates: int = Field(description="Already stored.")
    conflicts: list[str] = Field(description="Event ids in use for something else; those reactions were not stored.")
    unknown_items: int = Field(description="Stored reactions to items unknown to the model in service.")


@dataclass(slots=True)  # made in a seventh of the time of a model: a batch has a thousand of them
class BatchEntry:
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


class UndoResponse(BaseModel):
    """The revision after a reaction was taken back."""

    revision: int


class DeletionResponse(BaseModel):
    """How many rows of the log were deleted."""

    user: str
    deleted: int


class AttributesReceipt(BaseModel):
    """The attributes of a user as they are stored; durable."""

    user: str
    revision: int
    attributes: dict[str, Any]
    ignored: list[str] = Field(description="One sentence per value unknown to the model in service.")


class PastReaction(BaseModel):
    """A reaction in force."""

    event_id: str
    item: str
    value: float | None
    evidence: EvidenceKind = Field(
        description="`shown`: the item was shown and drew this reaction; `logged`: of all items, the user came to this "
        "one; `skip`: not now, says nothing about taste."
    )
    kind: str | None = Field(description="The name under which it was given, such as `purchase`.")
    time: float | None = Field(description="Seconds since 1970; null where unknown.")
    title: str | None


class BeliefSummary(BaseModel):
    """The Gaussian belief about a user."""

    mean: list[float]
    std: list[float] = Field(description="Square roots of the covariance's diagonal.")
    trace: float = Field(description="Trace of the covariance: the total remaining uncertainty.")
    prior_trace: float
    cov: list[list[float]] | None = None


class UserState(OfUser):
    """What is known about a user; somebody unknown has revision 0 and the population's belief."""

    known: bool = Field(description="Whether anything is stored about the user, logged or shown.")
    reactions: int = Field(description="How many are in force.")
    history: list[PastReaction] = Field(description="The latest of them, oldest first.")
    attributes: dict[str, Any] = Field(description="Stored attributes.")
    belief: BeliefSummary


class ContributionPart(BaseModel):
    """What one past reaction adds to the expected reward."""

    item: str
    value: float | None
    evidence: Literal["shown", "logged"]
    amount: float
    title: str | None


class AttributePart(BaseModel):
    """What one attribute of the user adds to the expected reward."""

    name: str
    value: Any
    amount: float


class ExplanationResponse(Scores, OfUser):
    """`prior` plus all amounts plus `rest` plus `absence` is `mean`."""

    item: str
    title: str | None
    prior: float
    attributes: list[AttributePart] = Field(description="Of the user's attributes.")
    contributions: list[ContributionPart] = Field(description="Of the reactions that matter most, oldest first.")
    rest: float = Field(description="Total of all other reactions.")
    absence: float = Field(description="Contribution of the items missing from the user's imported history.")


class MergeReceipt(BaseModel):
    """What became of a merge."""

    user: str
    revision: int
    moved: int = Field(description="Reactions moved from the visitor.")
    known: int = Field(description="The visitor's reactions that the user's log already had; they count once.")
    duplicate: bool = Field(description="The visitor was merged before; there was nothing left to move.")


class BatchResult(BaseModel):
    """The answer for one of many users, or an error."""

    user: str
    answer: RecommendationResponse | None = None
    error: str | None = None
    message: str | None = None


class BatchResponse(BaseModel):
    """One entry per user, in the order of the request."""

    results: list[BatchResult]


class ListedUser(BaseModel):
    """A user of whom something is stored."""

    user: str
    revision: int
    updated: float = Field(description="Seconds since 1970.")


class UserPage(BaseModel):
    """Some users, ordered by id."""

    users: list[ListedUser]
    next: str | None = Field(description="`after` of the next page; null on the last one.")


class ItemReaction(BaseModel):
    """A reaction to an item, with its user."""

    user: str
    event_id: str
    value: float | None
    evidence: EvidenceKind
    kind: str | None
    time: float | None = Field(description="Seconds since 1970.")


class ItemFeedbackPage(BaseModel):
    """Reactions to one item, ordered by user."""

    item: str
    reactions: list[ItemReaction]
    next: str | None = Field(description="`after` of the next page; null on the last one.")


class RewardInfo(BaseModel):
    """How a value becomes a reward."""

    kind: str
    threshold: float = Field(description="A value of at least this is a success.")
    low: float
    high: float
    implicit: bool = Field(description="Every reaction of the log is a success, so that one needs no value.")
    typical: list[float] = Field(description="Ordinary values of the log: two failures, two successes; or none.")
    unit: str | None = Field(description="Name of the log's column of values.")


class PolicyInfo(BaseModel):
    """A policy that requests may name."""

    name: str
    label: str = Field(description="Its name on the page.")
    description: str
    parameters: dict[str, float] = Field(description="Names and defaults.")


class AttributeInfo(BaseModel):
    """An attribute of users, or a feature of the moment, that the model understands."""

    name: str
    kind: Kind
    values: list[str] = Field(description="Of a category; `(other)` stands for rarer ones that the model knows.")
    gain: float = Field(description="What it adds to the log-likelihood of a user unknown in training, in nats.")


class ModelInfo(BaseModel):
    """What is served."""

    model: str
    items: int
    dim: int
    reward: RewardInfo
    satisfied: str = Field(description="What counts as a success, in words.")
    kinds: dict[str, float] = Field(description="Names of reactions that may be sent instead of a value.")
    objective: Objective = Field(description="What is ranked by: hit, seen and liked; liking, liked if seen.")
    policy: PolicyUsed
    policies: list[PolicyInfo]
    forgetting: float
    limits: dict[str, float]
    attributes: list[AttributeInfo] = Field(description="Attributes of users that the model understands.")
    context: list[AttributeInfo] = Field(description="Context features that the model understands.")
    metadata: dict[str, Any]
    generation: int


class ModelLoaded(BaseModel):
    """The model now in service; other workers and servers follow within a second."""

    model: str
    items: int
    generation: int


class Ready(BaseModel):
    """Whether this process can answer."""

    status: Literal["ready", "not ready"]
    model: str
    problems: list[str]
