"""Bodies of answers about items: see `responses`."""

from typing import Literal

from pydantic import BaseModel, Field

ItemStatus = Literal["active", "hidden", "retired", "scheduled", "expired", "waiting"]
STATUS = (
    "`active`: may be shown; `hidden`, `retired`: may not; `scheduled`, `expired`: outside its dates; "
    "`waiting`: unknown to the model."
)


class NewItemState(BaseModel):
    """How far an item is known that the model was not trained with."""

    reactions: int = Field(description="Reactions of all users that it was learned from.")
    trials: int = Field(description="Times this process showed it in order to learn.")
    settled: bool = Field(description="Learning about it has ended.")
    expected: float = Field(description="Expected reward over the population.")
    std: float = Field(description="Standard deviation due to what is unknown about the item.")


class CatalogueItem(BaseModel):
    """One item."""

    item: str
    title: str | None
    categories: list[str]
    tags: list[str]
    numbers: dict[str, float]
    text: str | None
    image: str | None
    available_from: float | None = Field(description="Seconds since 1970.")
    available_until: float | None = Field(description="Seconds since 1970.")
    status: ItemStatus = Field(description=STATUS)
    popularity_rank: int | None = Field(description="Place in the population's order; null for a waiting item.")
    x: float | None = Field(description="Place on the map of tastes; null for a waiting item.")
    y: float | None
    new: NewItemState | None = Field(default=None, description="How far an item is known that was not trained on.")
    trend: float | None = Field(
        default=None, description="With `sort=trending`: satisfied users of the last 7 days per those of the 28 before."
    )
    similarity: float | None = Field(
        default=None, description="Correlation with the item asked for, over the population."
    )


class CataloguePage(BaseModel):
    """Some items, the population's favourites first."""

    model: str
    total: int
    next: str | None = Field(description="`after` of the next page; null on the last one.")
    items: list[CatalogueItem]


class SimilarItems(BaseModel):
    """The items that the same people like, most similar first."""

    model: str
    item: str
    items: list[CatalogueItem]


class ItemsStored(BaseModel):
    """What became of a batch of items; it is durable and in force here, on all servers within a second."""

    revision: int = Field(description="Revision of the catalogue that contains the batch.")
    duplicate: bool = Field(description="A batch with this event id was already stored; nothing changed.")
    added: int
    changed: int
    returned: int = Field(description="Retired items that were restored.")
    unchanged: int


class ItemChanged(BaseModel):
    """An item after a change."""

    revision: int
    item: CatalogueItem


class ItemRetired(BaseModel):
    """What became of an item that was to go."""

    item: str
    revision: int
    duplicate: bool = Field(description="It was already retired.")
