"""What routes share: parts of paths, declared errors, and the short way from a body to an answer in JSON."""

import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Annotated, Any

from fastapi import Path, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic_core import from_json

from igcf.service.http.guard import headers_of
from igcf.service.lanes import in_lane
from igcf.service.models import requests, responses

User = Annotated[requests.PathId, Path(description="Any name for the user, without '/' and control characters.")]
EventId = Annotated[requests.PathId, Path()]
ItemPath = Annotated[requests.PathItem, Path(description="The item; percent-encode a '/' in it.")]


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Declare the errors of a route, for the OpenAPI document."""
    return {status: {"model": responses.Problem} for status in (400, 401, 403, 408, 413, 415, 422, 503, *statuses)}


def json_response(content: BaseModel, status: int = 200, *, nulls: bool = True) -> Response:
    """Serialise an answer; a field that was not set is not sent, nor, without `nulls`, one that is None."""
    body = content.__pydantic_serializer__.to_json(content, by_alias=True, exclude_unset=True, exclude_none=not nulls)
    return Response(body, status, headers_of(status), media_type="application/json")


class JsonRoute(APIRoute):
    """A route that returns its response model: FastAPI declares it, and sends what `json_response` makes of it.

    A route that is not a coroutine runs in a thread of the lane of its request.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        is_coroutine, nulls = inspect.iscoroutinefunction(endpoint), not options.get("response_model_exclude_none")

        @wraps(endpoint)
        async def answer(*args: Any, **kwargs: Any) -> Response:
            if is_coroutine:
                return json_response(await endpoint(*args, **kwargs), nulls=nulls)
            return await in_lane(lambda: json_response(endpoint(*args, **kwargs), nulls=nulls))

        super().__init__(path, answer, **options)


class DirectRoute(JsonRoute):
    """Check the body and the user in the path without the framework's search for dependencies.

    That search takes a sixth of the processor time of a recommendation. Whatever is not plainly right is left to the
    framework, which says what is wrong.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Build the function that answers a request."""
        framework, wanted, body = super().get_route_handler(), self.dependant, self.body_field
        if body is None or len(wanted.path_params) != 1 or len(wanted.body_params) != 1 or wanted.query_params:
            return framework
        path, endpoint, body_name = wanted.path_params[0], self.endpoint, wanted.body_params[0].name

        async def answer(request: Request) -> Response:
            try:
                said, wrong_body = body.validate(from_json(await request.body()))
            except ValueError:
                return await framework(request)
            name, wrong_path = path.validate(request.path_params[path.name])
            if wrong_body or wrong_path:
                return await framework(request)
            response: Response = await endpoint(**{body_name: said, path.name: name})
            return response

        return answer
