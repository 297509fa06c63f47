"""Answers as bytes: a declared response model goes to JSON in one step, without being checked a second time."""

import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar, overload

from fastapi.responses import Response
from pydantic import BaseModel

from igcf.service.http.guard import headers_of
from igcf.service.lanes import in_lane

P = ParamSpec("P")
Model = TypeVar("Model", bound=BaseModel)


def json_response(content: BaseModel, status: int = 200, *, nulls: bool = True) -> Response:
    """Serialise an answer; a field that was not set is not sent, nor, without `nulls`, one that is None."""
    body = content.__pydantic_serializer__.to_json(content, by_alias=True, exclude_unset=True, exclude_none=not nulls)
    return Response(body, status, headers_of(status), media_type="application/json")


@overload
def as_json(route: Callable[P, Coroutine[Any, Any, Model]]) -> Callable[P, Coroutine[Any, Any, Response]]: ...
@overload
def as_json(route: Callable[P, Model]) -> Callable[P, Coroutine[Any, Any, Response]]: ...
def as_json(route: Callable[P, Any]) -> Callable[P, Any]:
    """Let a route return its response model: FastAPI declares it, and sends what `json_response` makes of it.

    A route that is not a coroutine runs in a thread of the lane of its request.
    """
    if inspect.iscoroutinefunction(route):

        @wraps(route)
        async def answer_async(*args: P.args, **kwargs: P.kwargs) -> Response:
            return json_response(await route(*args, **kwargs))

        return answer_async

    @wraps(route)
    async def answer(*args: P.args, **kwargs: P.kwargs) -> Response:
        return await in_lane(lambda: json_response(route(*args, **kwargs)))

    return answer
