"""Catalogue, model and operation: what those answers look like."""

from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, Field

from igcf.service.schemas import PolicyUsed, Schema


class CatalogueItem(BaseModel):
    """One item."""

    item: str
    title: str | None
    categories: list[str]
    popularity_rank: int
    x: float
    y: float


class CataloguePage(BaseModel):
    """Some items, the population's favourites first."""

    model: str
    total: int
    offset: int
    items: list[CatalogueItem]


class CatalogueMapPoints(BaseModel):
    """All items on the map, in three columns."""

    model: str
    items: list[str]
    x: list[float]
    y: list[float]


class RewardInfo(BaseModel):
    """How a value becomes a reward."""

    kind: str
    threshold: float = Field(description="A value of at least this is a success.")
    low: float
    high: float


class ModelInfo(BaseModel):
    """What is served."""

    model: str
    items: int
    dim: int
    reward: RewardInfo
    policy: PolicyUsed
    forgetting: float
    limits: dict[str, float]
    metadata: dict[str, Any]
    generation: int


class LoadModel(Schema):
    """Which model to serve next."""

    folder: str = Field(
        min_length=1,
        max_length=4096,
        description="A model folder on the server; `path` is understood too.",
        validation_alias=AliasChoices("folder", "path"),
    )


class ModelLoaded(BaseModel):
    """The model now in service; other workers and servers follow within a second."""

    model: str
    items: int
    generation: int


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
    """A user whose reactions surprise."""

    user: str
    drift: float
    reactions: int


class StoreHealth(BaseModel):
    """The store."""

    kind: Literal["sqlite", "postgresql"]
    ok: bool
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
    drifting_users: list[DriftingUser]
    store: StoreHealth


class Ready(BaseModel):
    """Whether this process can answer."""

    status: Literal["ready", "not ready"]
    model: str
    problems: list[str]
