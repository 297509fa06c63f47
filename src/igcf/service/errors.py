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

log = logging.getLogger("igcf.service")
STORE_AWAY = "the store did not answer; try again, a reaction with the same event_id counts once"
LONGEST_MESSAGE = 1000
STATUS: dict[type[IgcfError], int] = {
    **dict.fromkeys((ConfigError, DataError, FeedbackError, ModelError), 422),
    UnknownItemError: 404,
    NoItemsLeftError: 409,
    StoreError: 503,
}


class ServiceError(IgcfError):
    """A refusal that the service adds to those of the library."""

    def __init_subclass__(cls, *, status: int) -> None:
        STATUS[cls] = status


class RequestError(ServiceError, status=422):
    """A request that does not follow the schema."""


class UnknownEventError(ServiceError, status=404):
    """A reaction that is not in the log of this user."""


class EventConflictError(ServiceError, status=409):
    """An event id under which another reaction is stored."""

    def __init__(self, message: str, stored: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.stored = stored  # the reaction that is stored


class KeyRequiredError(ServiceError, status=401):
    """No key was sent, or one that is not known."""


class ForbiddenError(ServiceError, status=403):
    """The key is known but may not do this, or a page of another site asks."""


class BadRequestError(ServiceError, status=400):
    """An ambiguous request, such as one with conflicting headers."""


class NotFoundError(ServiceError, status=404):
    """A path without a route."""


class MethodNotAllowedError(ServiceError, status=405):
    """A path that does not take this method."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = ", ".join(sorted(allowed))
        super().__init__(f"this address takes {self.allowed}")


class BodyTooLargeError(ServiceError, status=413):
    """A body beyond the limit."""


class BodyTimeoutError(ServiceError, status=408):
    """A body that did not arrive in time."""


class UnsupportedMediaTypeError(ServiceError, status=415):
    """A body that is not declared as JSON."""


class InternalError(ServiceError, status=500):
    """A defect of the service."""


class OverloadedError(ServiceError, status=503):
    """More work than this server does at a time."""


class TimeBudgetError(ServiceError, status=422):
    """A request that takes longer than one may."""


class RequestCancelledError(ServiceError, status=400):
    """A request without a waiting client."""


class CatalogueMismatchError(ServiceError, status=409):
    """A model of another catalogue than the one in service."""


class UnknownExperimentError(ServiceError, status=404):
    """An experiment that this store has never had."""


class ExperimentConflictError(ServiceError, status=409):
    """An experiment that contradicts the one that runs."""


class ModelConflictError(ServiceError, status=409):
    """No earlier model, or another one has been announced since."""


class ServiceUnavailableError(StoreError):
    """The client could not reach the service."""


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
