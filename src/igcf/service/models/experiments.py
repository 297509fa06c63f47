"""Experiments as files, requests and answers."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from igcf.service.models.requests import Id, Number, PolicyName, Schema, WholeNumber


def _seconds(value: object) -> object:
    """Read a time as TOML and JSON have it; one without a zone is in UTC."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return value


_STRING_OR_NUMBER = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number"}]}, mode="validation")
Moment = Annotated[float, BeforeValidator(_seconds), _STRING_OR_NUMBER]


class ArmDefinition(Schema):
    """What the users of one arm are served."""

    share: Annotated[Number, Field(ge=0, le=1)]
    model: str | None = Field(default=None, description="Folder of the model; required.")
    policy: PolicyName | None = Field(default=None, description="Instead of the server's own.")
    nu: Annotated[Number, Field(ge=0)] | None = None
    explore: Annotated[Number, Field(ge=0, lt=1)] | None = Field(default=None, description="Instead of the server's.")
    rules: dict[str, Any] | None = Field(default=None, description="Instead of the server's own.")


class ExperimentDefinition(Schema):
    """An experiment; the first arm is the control."""

    name: Id
    arms: Annotated[dict[Id, ArmDefinition], Field(min_length=2, max_length=20)]
    start: Moment | None = Field(default=None, description="Seconds since 1970 or ISO 8601; null: at once.")
    end: Moment | None = Field(default=None, description="Seconds since 1970 or ISO 8601; null: when it is stopped.")
    users: Annotated[WholeNumber, Field(ge=1)] = Field(
        default=10_000, description="Planned users of all arms, for whom intervals are narrowest."
    )


class ExperimentRequest(Schema):
    """A change of the experiment that runs."""

    action: Literal["start", "shares", "stop", "promote"]
    experiment: ExperimentDefinition | None = Field(default=None, description="With `start`.")
    shares: dict[Id, Number] | None = Field(default=None, description="With `shares`: the new share of every arm.")
    arm: Id | None = Field(default=None, description="With `promote`: the arm that supplies the model for all users.")


class ExperimentArm(BaseModel):
    """An arm as it is served now."""

    arm: str
    share: float
    model: str
    folder: str


class ExperimentState(BaseModel):
    """An experiment of this store."""

    name: str
    state: Literal["planned", "running", "ended"]
    started: float
    ended: float | None
    arms: list[ExperimentArm]


class ExperimentList(BaseModel):
    """The experiments of a store, the latest first."""

    experiments: list[ExperimentState]


class ReportedArm(BaseModel):
    """What was counted of an arm."""

    arm: str
    users: int
    answers: int
    share: float = Field(description="Of the users who were in one arm all along.")


class ReportedMetric(BaseModel):
    """A metric of an arm beside that of the control; its interval is valid however often one looks."""

    metric: str
    arm: str
    mean: float
    control: float
    difference: float
    low: float | None = Field(description="Null: too few users, or all of them alike.")
    high: float | None
    verdict: Literal["better", "worse", "undecided"]


class ExperimentReport(BaseModel):
    """What an experiment has shown so far, by user."""

    name: str
    state: Literal["planned", "running", "ended"]
    control: str
    arms: list[ReportedArm]
    metrics: list[ReportedMetric]
    assignment: float = Field(description="E-value against the assignment; 1,000 or more: it is broken.")
    is_assignment_sound: bool
    left_out: int = Field(description="Users whose arm has changed.")
