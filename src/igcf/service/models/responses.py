"""Bodies of answers, built by the functions that answer; with `requests` the source of the OpenAPI document.

A field that was not set is not sent, so that `PolicyUsed(name="greedy")` has no `nu` on the wire.
"""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, Field

from igcf.service.evidence import EvidenceKind
from igcf.service.models.page_responses import CHANCE, HIGH, LOW, PolicyUsed, TasteTold

Reason = Literal["please", "learn", "rule"]
PropensityKind = Literal["exact", "estimated", "unknown"]


class RecommendedItem(BaseModel):
    """One recommended item."""

    item: str
    score: float = Field(description="What the policy ranked by.")
    mean: float = Field(description="Expected reward.")
    std: float = Field(description="How unsure that expectation is.")
    chance: float = Field(description=CHANCE)
    low: float = Field(description=LOW)
    high: float = Field(description=HIGH)
    rank: int
    mean_rank: int = Field(description="The rank that the mean alone would have given it.")
    reason: Reason = Field(
        description="`learn`: the mean alone would not have put it in this answer; `rule`: rules rank, too."
    )
    propensity: float | None = Field(
        description="Probability of being in this answer; null in the reserve, and where it is not known."
    )
    popularity_rank: int = Field(description="Place in the population's order of favourites, from 1.")
    title: str | None
    categories: list[str]
    new: bool = Field(
        default=False, description="The model was not trained with it: it is tried out, and learned from reactions."
    )


class RecommendationResponse(BaseModel):
    """An answer; all of it comes from one model and one revision."""

    user: str
    model: str
    revision: int
    recommendation_id: str
    policy: PolicyUsed
    propensity: PropensityKind = Field(
        description="`exact`: nothing is random; `estimated`: by repeating the draw; `unknown`: no item has one."
    )
    items: list[RecommendedItem]
    reserve: list[RecommendedItem] = Field(description="What would come next; not logged, not counted as shown.")
    ignored: list[str] = Field(default=[], description="Values of attributes that the model does not know.")


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
    duplicates: int = Field(description="Stored before.")
    conflicts: list[str] = Field(description="Event ids under which something else is stored; nothing was changed.")
    unknown_items: int = Field(description="Stored reactions to items that the model in service does not know.")


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
    ignored: list[str] = Field(description="One sentence per value that the model in service does not know.")


class PastReaction(BaseModel):
    """A reaction in force."""

    event_id: str
    item: str
    value: float | None
    evidence: EvidenceKind = Field(
        description="`shown`: the item was shown and drew this reaction; `logged`: of all items, the user came to this "
        "one; `skip`: not now, which is no evidence."
    )
    kind: str | None = Field(description="The name under which it was given, such as `purchase`.")
    time: float | None = Field(description="Seconds since 1970; null where unknown.")
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
    known: bool = Field(description="Whether anything is stored about the user, logged or shown.")
    model: str
    revision: int
    drift: float = Field(description="Mean standardised surprise of the last reactions; 1 is as expected.")
    reactions: int = Field(description="How many are in force.")
    history: list[PastReaction] = Field(description="The latest of them, oldest first.")
    attributes: dict[str, Any] = Field(description="What is known beside reactions.")
    belief: BeliefSummary


class BelievedItem(BaseModel):
    """What is believed about one item."""

    item: str
    mean: float
    std: float
    chance: float = Field(description=CHANCE)
    low: float = Field(description=LOW)
    high: float = Field(description=HIGH)
    popularity_rank: int
    title: str | None
    categories: list[str]
    seen: bool


class PopularItem(BaseModel):
    """One of the population's favourites, and what this user would think of it."""

    item: str
    title: str | None
    chance: float = Field(description=CHANCE)
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
    taste: TasteTold
    n_possible: int = Field(description="Unseen items whose 80 % interval reaches the best one's chance.")
    possible: list[str] = Field(description="The most likely of them, at most 1000.")


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


class ExplanationResponse(BaseModel):
    """`prior` plus all amounts plus `rest` plus `absence` is `mean`."""

    user: str
    item: str
    model: str
    revision: int
    title: str | None
    prior: float
    mean: float
    std: float
    chance: float = Field(description=CHANCE)
    low: float = Field(description=LOW)
    high: float = Field(description=HIGH)
    attributes: list[AttributePart] = Field(description="Of the user's attributes.")
    contributions: list[ContributionPart] = Field(description="Of the reactions that matter most, oldest first.")
    rest: float = Field(description="What all other reactions add together.")
    absence: float = Field(description="What it adds that all other items are absent from the user's logged record.")


class MergeReceipt(BaseModel):
    """What became of a merge."""

    user: str
    revision: int
    moved: int = Field(description="Reactions that came from the visitor.")
    known: int = Field(description="Reactions of the visitor that the user's log had already; they count once.")
    duplicate: bool = Field(description="The visitor had been merged before and nothing was left to move.")


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
    """A reaction to an item, and whose it is."""

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
