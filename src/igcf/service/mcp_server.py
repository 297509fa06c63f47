"""Tools for assistants by the Model Context Protocol: each calls a running service, so its keys and audit apply."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from igcf.errors import IgcfError
from igcf.service.client import AsyncClient
from igcf.service.models import item_responses, responses
from igcf.version import __version__

Answer = TypeVar("Answer")
INSTRUCTIONS = (
    "Recommendations that learn. Call recommend, show the items, then call react with what the person did, passing the "
    "recommendation_id: the next recommend takes it into account. search and similar find items by name and by taste."
)
REASONS = 10  # reactions that an explanation names


def create_server(url: str, *, api_key: str | None = None, user: str | None = None) -> MCPServer[None]:
    """Build an MCP server with tools that call the service at `url`.

    Args:
        url: address of a running `igcf serve`.
        api_key: key of the role `server`, where the service has keys.
        user: the only user whom the tools may act for; None: any user, named in each call.
    """
    client = AsyncClient(url, api_key=api_key)

    @asynccontextmanager
    async def lifespan(_: MCPServer[None]) -> AsyncIterator[None]:
        yield
        await client.close()

    server: MCPServer[None] = MCPServer(
        "igcf", version=__version__, instructions=INSTRUCTIONS, lifespan=lifespan, log_level="WARNING"
    )

    def acting_for(named: str | None) -> str:
        if user is not None and named not in (None, user):
            raise ToolError(f"user {named!r} is not allowed: this server acts for {user!r} only; leave the user out")
        if (found := named or user) is None:
            raise ToolError("no user: none was named; pass the id of the user")
        return found

    @server.tool()
    async def recommend(
        user: str | None = None, k: int = 5, context: dict[str, Any] | None = None, rules: dict[str, Any] | None = None
    ) -> responses.RecommendationResponse:
        """Recommend up to k items to a user, each with its chance to satisfy and the 80 % interval.

        context and rules are those of POST /v1/users/{user}/recommendations.
        """
        return await _ask(client.recommend(acting_for(user), k, fewer=True, context=context, rules=rules))

    @server.tool()
    async def react(
        item: str,
        value: float | None = None,
        kind: str | None = None,
        user: str | None = None,
        recommendation_id: str | None = None,
    ) -> responses.FeedbackReceipt:
        """Report what a user thinks of an item; the next recommendations take it into account.

        value is in the units of the log, such as 1 to 5 stars; leave it out where every reaction is a success. Instead
        of a value, kind is "shown" (no reaction) or "skip" (not now). A new reaction replaces the one before it.
        """
        named = acting_for(user)
        return await _ask(client.feedback(named, item, value, kind=kind, recommendation_id=recommendation_id))

    @server.tool()
    async def explain(item: str, user: str | None = None) -> responses.ExplanationResponse:
        """Explain what an item's expected value for a user is made of: the population plus one amount per reaction."""
        return await _ask(client.explain(acting_for(user), item, limit=REASONS))

    @server.tool()
    async def similar(item: str, limit: int = 10) -> item_responses.SimilarItems:
        """Find the items that the same people like."""
        return await _ask(client.similar(item, limit=limit))

    @server.tool()
    async def search(query: str, limit: int = 10) -> item_responses.CataloguePage:
        """Find items by words of their titles or by id; the most popular first."""
        return await _ask(client.items(query, limit=limit))

    return server


async def _ask(call: Awaitable[Answer]) -> Answer:
    """Await a call of the client; the assistant reads the service's own sentence about what was wrong."""
    try:
        return await call
    except IgcfError as error:
        raise ToolError(str(error)) from error
