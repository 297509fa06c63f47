"""Bodies of answers that the page draws: what was learned in words, what would be chosen, where to begin."""

from typing import Literal

from pydantic import BaseModel, Field

from igcf.service.models.requests import PolicyName

CHANCE = "Probability that the user is satisfied, if they react to the item."
LOW = "Lower end of the chance's 80 % interval."
HIGH = "Upper end of the chance's 80 % interval."


class PolicyUsed(BaseModel):
    """How the items were chosen."""

    name: PolicyName
    nu: float | None = None


class CategoryTold(BaseModel):
    """What is believed about one category, compared with the whole catalogue."""

    category: str
    items: int
    lift: float = Field(description="Log odds beyond those of a stranger; positive: liked more than others.")
    hits: int = Field(description="Reactions to items of this category that were successes.")
    misses: int
    standing: Literal["liked", "less", "unsure"]


class TasteTold(BaseModel):
    """What was learned, in words; silent while nothing is known."""

    sentence: str
    confidence: Literal["none", "first impression", "fairly sure", "sure"]
    categories: list[CategoryTold] = Field(description="The most liked first.")


class Choice(BaseModel):
    """One item that would be chosen."""

    item: str
    title: str | None
    categories: list[str]
    mean: float
    std: float
    chance: float = Field(description=CHANCE)
    low: float = Field(description=LOW)
    high: float = Field(description=HIGH)
    rank: int
    mean_rank: int
    reason: Literal["please", "learn"]
    popularity_rank: int


class Outcome(BaseModel):
    """What would come next after one reaction."""

    value: float | None
    items: list[Choice]


class Choices(BaseModel):
    """What would be chosen now, or after each of some reactions to an item; nothing was shown."""

    user: str
    model: str
    revision: int
    policy: PolicyUsed
    item: str | None
    outcomes: list[Outcome]


class StartingItem(BaseModel):
    """One item to begin with."""

    item: str
    title: str | None
    categories: list[str]


class StartingItems(BaseModel):
    """Well-known items that are as different as possible."""

    model: str
    items: list[StartingItem]
