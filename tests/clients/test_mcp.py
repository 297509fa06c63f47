"""The tools for assistants, called by the client of the SDK: in memory, and through `igcf mcp`."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

pytest.importorskip("mcp", reason="needs igcf[mcp]")
from mcp import Client, StdioServerParameters, stdio_client

from igcf.service.mcp_server import create_server
from tests.service.processes import Server

Talk = Callable[[Client], Awaitable[None]]


def talk(server: Any, conversation: Talk) -> None:
    """Hold a conversation with an MCP server."""

    async def run() -> None:
        async with Client(server) as client:
            await conversation(client)

    asyncio.run(run())


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """Call a tool that must succeed; returns its structured answer."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that must fail; returns what the assistant reads."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return "".join(getattr(part, "text", "") for part in result.content)


def test_a_reaction_by_an_assistant_changes_the_next_answer_and_is_stored(server: Server) -> None:
    async def conversation(client: Client) -> None:
        first = await call(client, "recommend", user="mcp-ann", k=3)
        shown = first["items"][0]["item"]
        identity = first["recommendation_id"]
        receipt = await call(client, "react", user="mcp-ann", item=shown, value=5, recommendation_id=identity)
        second = await call(client, "recommend", user="mcp-ann", k=3)
        assert second["revision"] == receipt["revision"] > first["revision"]
        assert shown not in [each["item"] for each in second["items"]]
        explanation = await call(client, "explain", user="mcp-ann", item=second["items"][0]["item"])
        assert [each["item"] for each in explanation["contributions"]] == [shown]

    talk(create_server(server.url), conversation)
    history = httpx.get(f"{server.url}/v1/users/mcp-ann").json()["history"]
    assert [each["value"] for each in history] == [5]


def test_an_assistant_finds_items_by_name_and_by_taste(server: Server) -> None:
    async def conversation(client: Client) -> None:
        page = httpx.get(f"{server.url}/v1/items").json()["items"]
        found = await call(client, "search", query=page[0]["title"])
        assert page[0]["item"] in [each["item"] for each in found["items"]]
        near = await call(client, "similar", item=page[0]["item"], limit=2)
        assert len(near["items"]) == 2

    talk(create_server(server.url), conversation)


def test_every_tool_says_what_it_does_and_what_it_takes(server: Server) -> None:
    async def conversation(client: Client) -> None:
        tools = (await client.list_tools()).tools
        assert {each.name for each in tools} == {"recommend", "react", "explain", "similar", "search"}
        assert all(each.description and each.input_schema["properties"] and each.output_schema for each in tools)

    talk(create_server(server.url), conversation)


def test_mistakes_are_the_sentence_of_the_service(server: Server) -> None:
    async def conversation(client: Client) -> None:
        assert "no-such-film" in await refusal(client, "react", user="mcp-bob", item="no-such-film", value=5)
        assert "pass the id" in await refusal(client, "recommend")

    talk(create_server(server.url), conversation)


def test_a_server_for_one_user_acts_for_nobody_else(server: Server) -> None:
    async def conversation(client: Client) -> None:
        assert (await call(client, "recommend"))["user"] == "mcp-cem"
        assert "'mcp-cem' only" in await refusal(client, "recommend", user="mcp-dee")

    talk(create_server(server.url, user="mcp-cem"), conversation)


def test_the_command_talks_over_standard_input_and_output(server: Server) -> None:
    command = ["-m", "igcf", "mcp", "--url", server.url, "--user", "mcp-eve"]

    async def conversation(client: Client) -> None:
        assert len((await call(client, "recommend", k=2))["items"]) == 2

    talk(stdio_client(StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))), conversation)
