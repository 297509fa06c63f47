"""Bodies of the answer to `GET /v1/stats`, which the dashboard draws."""

from typing import Literal

from pydantic import BaseModel, Field

from igcf.service.models.item_responses import NewItemState
from igcf.service.models.model_responses import ModelInfo


class RouteTraffic(BaseModel):
    """Requests and latency of one route."""

    route: str
    method: str
    requests: int
    errors: int = Field(description="Status 500 and above.")
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None


class FeedbackMix(BaseModel):
    """Reactions since the start."""

    satisfied: int
    unsatisfied: int
    none: int
    skip: int
    logged: int
    duplicates: int


class SessionCache(BaseModel):
    """How often a user was found in memory."""

    hits: int
    misses: int


class ShownItem(BaseModel):
    """How often an item was shown, and how often in order to learn."""

    item: str
    title: str | None
    times: int
    explored: int


class LikedItem(BaseModel):
    """How often an item pleased."""

    item: str
    title: str | None
    likes: int
    reactions: int


class DriftingUser(BaseModel):
    """A user with enough reactions to say whether their taste changes."""

    user: str
    drift: float = Field(
        description="How much worse the halves of the reactions foretell each other than the population does, in nats "
        "per reaction; above 0 the taste has probably changed."
    )
    reactions: int


class SeriesPoint(BaseModel):
    """What happened in one step of time."""

    time: float = Field(description="End of the step, in seconds since 1970.")
    reactions: int = 0
    hits: int = 0
    skips: int = 0
    logged: int = 0
    answers: int = 0
    learning: int = Field(default=0, description="Answers with an item that was shown in order to learn.")


class Series(BaseModel):
    """Counts over time, oldest first."""

    span_s: float
    step_s: float
    popular_hit_rate: float = Field(description="Estimate for a stranger who is shown everybody's favourites only.")
    points: list[SeriesPoint]


class LoadPoint(BaseModel):
    """What one step of time brought, by the counters of all workers."""

    time: float = Field(description="End of the step, in seconds since 1970.")
    requests: int
    errors: int = Field(description="Status 500 and above.")
    p50_ms: float | None = Field(
        description="Median time to answer with recommendations; null where none was asked for."
    )
    p99_ms: float | None


class Generation(BaseModel):
    """A model that was announced."""

    generation: int
    model: str
    time: float


class CatalogueChange(BaseModel):
    """An item that came, changed or went since the model was trained."""

    item: str
    title: str | None
    state: Literal["new", "changed", "retired"]
    time: float
    reactions: int
    hits: int
    new: NewItemState | None = Field(
        default=None, description="For an item that the model was not trained with: how far it is known."
    )


class StoreHealth(BaseModel):
    """The store."""

    kind: Literal["sqlite", "postgresql"]
    schema_: int = Field(alias="schema")
    users: int
    reactions: int
    retracted: int
    recommendations: int
    bytes: int
    read_ms: float
    audit_waiting: int
    hot_users: int


class Stats(BaseModel):
    """Figures for the dashboard; traffic and mix since the start, of all workers."""

    model: ModelInfo
    uptime_s: float
    workers: int
    traffic: list[RouteTraffic]
    exploration_share: float | None
    feedback: FeedbackMix
    sessions: SessionCache
    most_shown: list[ShownItem]
    most_liked: list[LikedItem]
    drifting_users: list[DriftingUser] = Field(description="Of those seen last, the largest drift first.")
    series: Series
    load: list[LoadPoint] = Field(description="The last half hour, or what there is of it, oldest first.")
    generations: list[Generation]
    catalogue_changes: list[CatalogueChange]
    store: StoreHealth
