"""Bodies of the answer to `GET /page/stats`, which the dashboard draws."""

from typing import Literal

from pydantic import BaseModel, Field

from igcf.service.models.item_responses import NewItemState
from igcf.service.models.model_responses import ModelInfo


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
    """Figures of the store and the model for the dashboard; rates and latencies are in `/metrics`."""

    model: ModelInfo
    uptime_s: float
    workers: int
    most_shown: list[ShownItem]
    most_liked: list[LikedItem]
    drifting_users: list[DriftingUser] = Field(description="Of those seen last, the largest drift first.")
    generations: list[Generation]
    catalogue_changes: list[CatalogueChange]
    store: StoreHealth
