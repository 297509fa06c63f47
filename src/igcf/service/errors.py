"""What the service refuses, and the HTTP status that says so."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from igcf.errors import (
    ConfigError,
    DataError,
    FeedbackError,
    IgcfError,
    ModelError,
    NoItemsLeftError,
    StoreError,
    UnknownItemError,
)


class RequestError(IgcfError):
    """A request that does not follow the schema."""


class UnknownEventError(IgcfError):
    """A reaction that is not in the log of this user."""


class EventConflictError(IgcfError):
    """An event id under which another reaction is stored."""

    def __init__(self, message: str, stored: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.stored = stored
        """The reaction that is stored."""


class KeyRequiredError(IgcfError):
    """No key was sent, or one that is not known."""


class ForbiddenError(IgcfError):
    """The key is known but may not do this, or a page of another site asks."""


class BadRequestError(IgcfError):
    """An ambiguous request, such as one with conflicting headers."""


class NotFoundError(IgcfError):
    """A path without a route."""


class MethodNotAllowedError(IgcfError):
    """A path that does not take this method."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = ", ".join(sorted(allowed))
        super().__init__(f"this address takes {self.allowed}")


class BodyTooLargeError(IgcfError):
    """A body beyond the limit."""


class BodyTimeoutError(IgcfError):
    """A body that did not arrive in time."""


class UnsupportedMediaTypeError(IgcfError):
    """A body that is not declared as JSON."""


class InternalError(IgcfError):
    """A defect of the service."""


class OverloadedError(IgcfError):
    """More work than this server does at a time."""


class TimeBudgetError(IgcfError):
    """A request that takes longer than one may."""


class RequestCancelledError(IgcfError):
    """A request without a waiting client."""


class CatalogueMismatchError(IgcfError):
    """A model of another catalogue than the one in service."""


class UnknownExperimentError(IgcfError):
    """An experiment that this store has never had."""


class ExperimentConflictError(IgcfError):
    """An experiment that contradicts the one that runs."""


class ModelConflictError(IgcfError):
    """No earlier model, or another one has been announced since."""


class ServiceUnavailableError(StoreError):
    """The client could not reach the service."""


log = logging.getLogger("igcf.service")
STORE_AWAY = "the store did not answer; try again, a reaction with the same event_id counts once"
LONGEST_MESSAGE = 1000
STATUS: dict[type[IgcfError], int] = {
    RequestError: 422,
    ConfigError: 422,
    DataError: 422,
    FeedbackError: 422,
    ModelError: 422,
    UnknownItemError: 404,
    UnknownEventError: 404,
    NoItemsLeftError: 409,
    EventConflictError: 409,
    KeyRequiredError: 401,
    ForbiddenError: 403,
    BadRequestError: 400,
    NotFoundError: 404,
    MethodNotAllowedError: 405,
    BodyTimeoutError: 408,
    BodyTooLargeError: 413,
    UnsupportedMediaTypeError: 415,
    InternalError: 500,
    CatalogueMismatchError: 409,
    ModelConflictError: 409,
    ExperimentConflictError: 409,
    UnknownExperimentError: 404,
    TimeBudgetError: 422,
    RequestCancelledError: 400,
    OverloadedError: 503,
    StoreError: 503,
}


def status_of(error: IgcfError) -> int:
    """The HTTP status of an error or of the nearest class above it."""
    return next((STATUS[each] for each in type(error).__mro__ if each in STATUS), 400)


def problem(error: Exception) -> dict[str, Any]:
    """The one shape of all errors; what ails the store is for the log, not for callers."""
    message = str(error)
    if isinstance(error, StoreError):
        log.error("store failed", extra={"reason": message})
        message = STORE_AWAY
    if len(message) > LONGEST_MESSAGE:  # it may quote what was sent
        message = message[:LONGEST_MESSAGE] + "..."
    name = "StoreError" if isinstance(error, StoreError) else type(error).__name__
    told: dict[str, Any] = {"error": name, "message": message}
    if isinstance(error, EventConflictError) and error.stored is not None:
        told["stored"] = dict(error.stored)
    return told
