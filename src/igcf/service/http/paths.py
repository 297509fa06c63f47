"""Parts of paths, and the errors that every route may answer with."""

from typing import Annotated, Any

from fastapi import Path

from igcf.service.models import requests, responses

User = Annotated[requests.PathId, Path(description="Any name for the user, without '/' and control characters.")]
EventId = Annotated[requests.PathId, Path()]
ItemPath = Annotated[requests.PathItem, Path(description="The item; percent-encode a '/' in it.")]


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Declare the errors of a route, for the OpenAPI document."""
    return {status: {"model": responses.Problem} for status in (400, 401, 403, 408, 413, 415, 422, 503, *statuses)}
