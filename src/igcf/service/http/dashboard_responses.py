"""Bodies of the answer to `GET /v1/stats`, which the dashboard draws."""

from typing import Literal

from pydantic import BaseModel, Field

from igcf.service.http.responses import ModelInfo


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
