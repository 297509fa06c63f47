"""Bodies of answers that only the page and the dashboard ask for."""

from typing import Literal

from pydantic import BaseModel, Field

from igcf.service.models.experiments import ExperimentState
from igcf.service.models.item_responses import NewItemState
from igcf.service.models.responses import ModelInfo, NamedItem, OfUser, PolicyUsed, ScoredItem

Standing = Literal["liked", "less", "unsure"]
Confidence = Literal["none", "first impression", "fairly sure", "sure"]


class GroupTaste(BaseModel):
    """What is believed about one group of items, compared with the whole catalogue."""

    name: str
    items: int
    lift: float = Field(description="Log odds beyond those of a stranger; positive: liked more than others.")
    hits: int = Field(description="Reactions to items of this group that were successes.")
    misses: int
    unknown: float = Field(description="Share of the population's variance that the reactions have left.")
    standing: Standing


class Taste(BaseModel):
    """What was learned, in words."""

    sentence: str = Field(description="One sentence; empty while nothing is known.")
    confidence: Confidence
    kind: Literal["categories", "items"] = Field(description="Whether groups are categories, or named by their items.")
    unknown: float = Field(description="Share of the population's variance that the reactions have left.")
    groups: list[GroupTaste] = Field(description="The most liked first.")


class Beliefs(OfUser):
    """The items expected to please most, and what was learned."""

    top: list[ScoredItem]
    popular: list[ScoredItem] = Field(description="The first items of the population's order.")
    taste: Taste


class Region(BaseModel):
    """Items that the same people like, named by the best known of them."""

    name: str
    items: list[str]


class Regions(BaseModel):
    """The groups of a catalogue without categories; none where there are categories."""

    model: str
    regions: list[Region]


class Choice(ScoredItem):
    """One item that would be chosen."""

    rank: int
    mean_rank: int
    reason: Literal["please", "learn"]


class Outcome(BaseModel):
    """What would come next after one reaction."""

    value: float | None
    items: list[Choice]


class Choices(OfUser):
    """What would be chosen now, or after each of some reactions to an item."""

    policy: PolicyUsed
    item: str | None
    outcomes: list[Outcome]


class StartingItems(BaseModel):
    """Well-known items that are as different as possible."""

    model: str
    items: list[NamedItem]


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
    new: NewItemState | None = Field(default=None, description="How far an item is known that was not trained on.")


class StoreHealth(BaseModel):
    """The store."""

    kind: Literal["sqlite", "postgresql"]
    schema_: int = Field(alias="schema")
    users: int
    reactions: int
    retracted: int
    recommendations: int
    bytes: int


class Stats(BaseModel):
    """Figures of the store and the model for the dashboard; rates, latencies and queues are in `/metrics`."""

    model: ModelInfo
    generations: list[Generation]
    experiment: ExperimentState | None = Field(description="The one that was started last, unless it has ended.")
    catalogue_changes: list[CatalogueChange]
    store: StoreHealth
