"""The tools of a model as its library has them; each call is measured and recorded. Imported where a model is asked."""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_ai import RunContext, Tool
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool

from backend.common import json_text
from backend.runtime.agents.agent_tools import AgentTools
from backend.runtime.agents.base import ToolCall
from backend.runtime.agents.server_tools import ANY_OBJECT, ServerTool, ServerTools
from backend.runtime.agents.tools import Tool as ToolFunction


@dataclass
class MeasuredTools(WrapperToolset[object]):
    """A set of tools whose calls are recorded by name, duration and sizes, without any content."""

    record: Callable[[ToolCall], Awaitable[None]]

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[object], tool: ToolsetTool[object]
    ) -> Any:
        """Calls a tool; a call that raises is recorded too."""
        began = time.monotonic()
        result: Any = None
        ok = False
        try:
            result = await super().call_tool(name, tool_args, ctx, tool)
            ok = not (isinstance(result, dict) and "error" in result)
        finally:
            milliseconds = round((time.monotonic() - began) * 1_000)
            await self.record(ToolCall(name, milliseconds, _size(tool_args), _size(result), ok))
        return result


def toolset(
    functions: Iterable[ToolFunction],
    agents: AgentTools | None,
    retries: int,
    record: Callable[[ToolCall], Awaitable[None]],
) -> AbstractToolset[object]:
    """Returns the tools of one attempt; a model may correct the arguments of a call so many times."""
    tools: list[Tool[object]] = [Tool(function, takes_ctx=False) for function in functions]
    if agents is not None:
        tools += [_of_agent(agents, function, name) for function, name in agents.names.items()]
    return MeasuredTools(FunctionToolset(tools, max_retries=retries), record)


def toolset_of_servers(
    servers: ServerTools, retries: int, record: Callable[[ToolCall], Awaitable[None]]
) -> AbstractToolset[object]:
    """Returns the tools of MCP servers, as `toolset`."""
    tools: list[Tool[object]] = [_of_server(servers, tool) for tool in servers.tools]
    return MeasuredTools(FunctionToolset(tools, max_retries=retries), record)


def _of_server(servers: ServerTools, tool: ServerTool) -> Tool[object]:
    async def call(**arguments: Any) -> Any:
        return await servers.call(tool, arguments)

    return Tool.from_schema(call, tool.name, tool.description, dict(tool.schema))


def _of_agent(agents: AgentTools, function: str, name: str) -> Tool[object]:
    definition: Mapping[str, Any] = agents.definition(name)
    schema = definition.get("input_schema") or ANY_OBJECT

    async def call(**arguments: Any) -> Any:
        return await agents.call(name, arguments)

    about = schema.get("description")
    description = about if isinstance(about, str) and about else f"Calls the agent {name}."
    return Tool.from_schema(call, function, description, dict(schema))


def _size(value: Any) -> int:
    try:
        return 0 if value is None else len(json_text.write(value).encode(errors="surrogatepass"))
    except (RecursionError, ValueError):
        return 0
