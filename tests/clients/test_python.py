"""The Python client: what it needs, what it sends again, what it refuses to send."""

import asyncio
import subprocess
import sys
from collections.abc import Callable

import httpx
import pytest
from pydantic import BaseModel

from igcf.service import client_calls as calls
from igcf.service.client import AsyncClient, Client
from igcf.service.errors import OverloadedError, RequestError, ServiceUnavailableError
from igcf.service.models import requests

CODE = """
import sys
for name in "fastapi starlette uvicorn sqlalchemy psycopg prometheus_client polars scipy torch".split():
    sys.modules[name] = None
from igcf.service import client_calls as calls
from igcf.service.client import AsyncClient, Client
Client("http://127.0.0.1:9").close()
"""


def test_the_client_is_imported_without_the_dependencies_of_the_server() -> None:
    result = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


Answer = Callable[[httpx.Request], httpx.Response]


def send_by(kind: str, answer: Answer) -> None:
    """Report a reaction with a client whose requests get these answers."""
    transport = httpx.MockTransport(answer)
    if kind == "sync":
        with Client("http://service", pauses_s=[0.0, 0.0]) as client:
            client._http = httpx.Client(base_url="http://service", transport=transport)
            client.feedback("ann", "tea", 5)
        return

    async def send() -> None:
        async with AsyncClient("http://service", pauses_s=[0.0, 0.0]) as client:
            client._http = httpx.AsyncClient(base_url="http://service", transport=transport)
            await client.feedback("ann", "tea", 5)

    asyncio.run(send())


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_a_service_that_is_busy_or_behind_a_proxy_that_misses_it_is_asked_again(kind: str, status: int) -> None:
    bodies = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content)
        return httpx.Response(status, text="<html>")

    with pytest.raises(OverloadedError, match=str(status)):
        send_by(kind, answer)
    assert len(bodies) == 3
    assert len(set(bodies)) == 1  # one event id


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("page", ["<html>", "{}", ""])
def test_another_service_under_the_address_is_told_as_such(kind: str, page: str) -> None:
    with pytest.raises(ServiceUnavailableError, match=r"feedback answered POST .* is igcf served there"):
        send_by(kind, lambda request: httpx.Response(200, text=page))


@pytest.mark.parametrize("odd", [".", "..", "\ud800"])
def test_an_id_that_would_lead_to_another_path_is_refused_before_anything_is_sent(odd: str) -> None:
    with Client("http://service") as client:
        client._http = httpx.Client(transport=httpx.MockTransport(lambda request: pytest.fail(str(request.url))))
        with pytest.raises(RequestError, match="cannot be an id"):
            client.undo("ann", odd)
        with pytest.raises(RequestError, match="cannot be an id"):
            client.forget(odd)


@pytest.mark.parametrize(
    ("options", "own", "body"),
    [
        (calls.RecommendationOptions, {"k"}, requests.RecommendationRequest),
        (calls.FeedbackOptions, {"item", "value"}, requests.Feedback),
    ],
)
def test_the_options_of_a_call_are_the_fields_of_its_request(
    options: type, own: set[str], body: type[BaseModel]
) -> None:
    assert options.__annotations__.keys() | own == body.model_fields.keys()
