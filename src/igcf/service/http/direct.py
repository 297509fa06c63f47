"""The short way from a request to a route that takes one JSON body and at most one part of its path."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class DirectRoute(APIRoute):
    """Reads what is asked for without the framework's search for dependencies, which costs more than an answer.

    The same fields check the values. Whatever is not plainly right (another content type, no body, text that is not
    JSON, a value out of place) is left to the framework, which says what is wrong.
    """

    def get_route_handler(self) -> Handler:
        """Build the function that answers a request."""
        framework, wanted, body = super().get_route_handler(), self.dependant, self.body_field
        others = (wanted.query_params, wanted.header_params, wanted.cookie_params, wanted.dependencies)
        if body is None or len(wanted.path_params) > 1 or len(wanted.body_params) != 1 or any(others):
            return framework
        paths, endpoint, body_name = wanted.path_params, self.endpoint, wanted.body_params[0].name

        async def answer(request: Request) -> Response:
            if request.headers.get("content-type") != "application/json":
                return await framework(request)
            try:
                content = from_json(await request.body())
            except ValueError:
                return await framework(request)
            said, is_wrong = body.validate(content)
            asked = {body_name: said}
            for path in paths:
                asked[path.name], wrong_path = path.validate(request.path_params[path.name])
                is_wrong = is_wrong or wrong_path
            if is_wrong:
                return await framework(request)
            response: Response = await endpoint(**asked)
            return response

        return answer
