"""Bodies of answers about the model in service: see `responses`."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from igcf.config import Objective
from igcf.encoding import Kind
from igcf.service.models.page_responses import PolicyUsed


class RewardInfo(BaseModel):
    """How a value becomes a reward."""

    kind: str
    threshold: float = Field(description="A value of at least this is a success.")
    low: float
    high: float
    implicit: bool = Field(description="Every reaction of the log is a success, so that one needs no value.")


class PolicyInfo(BaseModel):
    """A policy that requests may name."""

    name: str
    label: str = Field(description="Its name on the page.")
    description: str
    parameters: dict[str, float] = Field(description="Names and defaults.")


class AttributeInfo(BaseModel):
    """An attribute of users that the model understands."""

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
    attributes: list[AttributeInfo] = Field(description="What may be said of users; empty: nothing.")
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
