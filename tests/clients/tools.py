"""Tools of a client over MCP, and what they give page by page."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client

from workflow_api_client.mcp.server import WorkflowTools
from workflow_api_client.testing import FakeApi


@asynccontextmanager
async def connected(api: FakeApi) -> AsyncIterator[Client]:
    async with api.async_client() as client, Client(WorkflowTools(client).server()) as tools:
        yield tools


async def pages(tools: Any, arguments: dict[str, Any]) -> list[list[str]]:
    """The ids of runs on each page of a list, which is followed to its end."""
    listed = []
    while True:
        state = (await tools.call_tool("list_runs", arguments)).structured_content
        listed.append([each["run_id"] for each in state["runs"]])
        if "next" not in state:
            return listed
        arguments = state["next"]["arguments"]


async def pieces(tools: Any, arguments: dict[str, Any]) -> list[str]:
    """The pieces of an output from an offset to its end."""
    read = []
    while True:
        answer = await tools.call_tool("read_output", arguments)
        assert len(answer.model_dump_json()) < 60_000
        head, _, piece = answer.content[0].text.partition("\n\n")
        read.append(piece)
        if "read on with " not in head:
            return read
        arguments = json.loads(head.partition("read on with ")[2].rstrip("."))["arguments"]
