"""Tools of MCP servers that a model may call: reads their descriptions and schemas, and makes the calls."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from yarl import URL

from backend.common import json_text
from backend.common.json_text import JsonMapping
from backend.common.secret_scrubbing import Scrubber
from backend.isolation.sandbox.inside.plain_json import deeper_than
from backend.runtime.agents.agent_tools import INVALID_INPUT, check_arguments, model_error, model_result
from backend.runtime.agents.base import StepFailed, StepRequest, ToolServices, ValueReader
from backend.runtime.agents.failures import plain
from backend.runtime.agents.mcp_client import McpClient, McpError
from backend.runtime.agents.tools import ToolResult
from backend.services.workflows.agent_tools import is_allowed_server, server_tools

_LONGEST_DESCRIPTION: Final = 4_096
_LONGEST_SCHEMA_BYTES: Final = 32 * 1024
_SERVER_ERROR: Final = "ToolServerError"
_TOOL_ERROR: Final = "ToolError"
ANY_OBJECT: Final[JsonMapping] = {"type": "object", "additionalProperties": True}


class ServerTool(NamedTuple):
    """A tool of a server in the form for the model; `problem` says why every call fails, None for a usable tool."""

    name: str
    description: str
    schema: JsonMapping
    client: McpClient
    scrubber: Scrubber
    problem: str | None = None


class ServerTools:
    """The tools of the MCP servers of one agent, in one attempt."""

    def __init__(self, request: StepRequest, services: ToolServices, read_value: ValueReader) -> None:
        self._request = request
        self._services = services
        self._read_value = read_value
        self._clients: list[McpClient] = []
        self.tools: list[ServerTool] = []

    async def open(self) -> None:
        """Reads the tools of each server; those of a server that does not answer are listed, and their calls fail.

        Raises:
            StepFailed: the deployment does not allow a server, or its secret cannot be used.
        """
        for server in server_tools(self._request.agent):
            self.tools += await self._tools_of(server)

    async def close(self) -> None:
        """Ends every session."""
        await asyncio.gather(*(client.close() for client in self._clients))

    async def check(
        self, tool: ServerTool, arguments: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], ToolResult | None]:
        """Returns the arguments of a call as strict JSON, and why the call cannot be made, for the model."""
        given, problem = check_arguments(arguments, self._request.data_limits.json_levels)
        if problem is None:
            problem = await self._services.check_input(tool.schema, given)
        if problem is not None:
            return given, model_error(INVALID_INPUT, problem)
        return given, None if tool.problem is None else model_error(_SERVER_ERROR, tool.problem)

    async def call(self, tool: ServerTool, given: Mapping[str, Any]) -> ToolResult:
        """Returns the result or failure of a call with checked arguments, for the model.

        Raises:
            StepFailed: the step fails, because no other call could succeed.
        """
        try:
            result = await tool.client.call(tool.name, given)
        except McpError as error:
            said = await self._services.redact(tool.scrubber.text(plain(error)))
            return model_error(_SERVER_ERROR, said)
        content = await asyncio.to_thread(lambda: tool.scrubber.value(_content(result)))
        swept = await self._services.redact(content)
        if result.get("isError") is True:
            return model_error(_TOOL_ERROR, plain(json_text.text_of(swept)))
        return model_result(swept)

    async def _tools_of(self, server: JsonMapping) -> list[ServerTool]:
        services, url = self._services, server["mcp"]
        if not is_allowed_server(url, services.mcp_hosts):
            host = plain(URL(url).host or "")
            reason = f"this deployment allows no tools of the MCP server {host} (runtime.mcp_hosts)"
            raise StepFailed("NetworkNotAllowed", reason, final=True)
        token = None if server["secret"] is None else await services.secret(server["secret"])
        client = McpClient(url, token, services.mcp_networks, self._read_value)
        self._clients.append(client)
        scrubber = Scrubber([] if token is None else [token])
        names: Sequence[str] = server["only"]
        try:
            found = await client.tools(names)
        except McpError as error:
            why = scrubber.text(plain(error))
            return [ServerTool(name, f"Not available: {why}", ANY_OBJECT, client, scrubber, why) for name in names]
        return [await self._tool(name, found.get(name), client, scrubber) for name in names]

    async def _tool(
        self, name: str, found: Mapping[str, Any] | None, client: McpClient, scrubber: Scrubber
    ) -> ServerTool:
        if found is None:
            why = "the server has no such tool"
            return ServerTool(name, f"Not available: {why}", ANY_OBJECT, client, scrubber, why)
        schema, problem = scrubber.value(found.get("inputSchema")), None
        if not isinstance(schema, dict):
            problem = "must be a JSON object"
        elif len(payload := json_text.write(schema).encode()) > _LONGEST_SCHEMA_BYTES:
            problem = f"must have at most {_LONGEST_SCHEMA_BYTES:,} bytes"
        elif deeper_than(payload, levels := self._request.data_limits.json_levels):
            problem = f"must be nested at most {levels} levels deep"
        else:
            problem = await self._services.check_schema(schema)
        if problem is not None or not isinstance(schema, dict):
            why = f"the schema of its input is not usable: it {plain(problem)}"
            return ServerTool(name, f"Not available: {why}", ANY_OBJECT, client, scrubber, why)
        about = found.get("description")
        description = scrubber.text(plain(about, _LONGEST_DESCRIPTION)) if isinstance(about, str) else ""
        return ServerTool(name, description or f"Calls the tool {name}.", schema, client, scrubber)


def _content(result: Mapping[str, Any]) -> Any:
    """Returns structured content, or texts, of a result; content of other types is replaced by its type."""
    structured = result.get("structuredContent")
    if isinstance(structured, dict):
        return structured
    parts = result.get("content")
    texts = [_text_of(part) for part in parts] if isinstance(parts, list) else []
    return texts[0] if len(texts) == 1 else texts


def _text_of(part: Any) -> str:
    match part:
        case {"type": "text", "text": str(text)}:
            return plain(text, len(text))
        case {"type": str(kind)}:
            return f"[content of type {plain(kind, 40)} is left out]"
    return "[content is left out]"
