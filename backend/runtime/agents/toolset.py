"""Toolsets of pydantic-ai from functions, agents and MCP servers; each call is recorded.

Import it only where a model is called, because the import takes long.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic_ai import RunContext, Tool
from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from backend.common import json_text
from backend.runtime.agents.agent_tools import AgentTools
from backend.runtime.agents.base import ToolCall
from backend.runtime.agents.confirmations import Confirmations
from backend.runtime.agents.server_tools import ANY_OBJECT, ServerTool, ServerTools
from backend.runtime.agents.tools import Tool as ToolFunction

_ANY_ARGUMENTS: Final = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))


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
        ok = asked = False
        try:
            result = await super().call_tool(name, tool_args, ctx, tool)
            ok = not (isinstance(result, dict) and "error" in result)
        except ApprovalRequired:
            # It is recorded once it is made.
            asked = True
            raise
        finally:
            if not asked:
                milliseconds = round((time.monotonic() - began) * 1_000)
                await self.record(ToolCall(name, milliseconds, _size(tool_args), _size(result), ok))
        return result


def toolset(
    functions: Iterable[ToolFunction],
    agents: AgentTools | None,
    retries: int,
    record: Callable[[ToolCall], Awaitable[None]],
    confirmations: Confirmations,
) -> AbstractToolset[object]:
    """Makes the toolset of functions and agents; a model may correct the arguments of a call `retries` times.

    Calls that a person must approve wait for that, as `confirmations` says.
    """
    tools: list[Tool[object]] = [Tool(function, takes_ctx=False) for function in functions]
    if agents is not None:
        tools += [_of_agent(agents, function, name, confirmations) for function, name in agents.names.items()]
    return MeasuredTools(FunctionToolset(tools, max_retries=retries), record)


def server_toolset(
    servers: ServerTools,
    retries: int,
    record: Callable[[ToolCall], Awaitable[None]],
    confirmations: Confirmations,
) -> AbstractToolset[object]:
    """Makes the toolset of MCP servers, with `retries` and `confirmations` as in `toolset`."""
    tools: list[Tool[object]] = [_of_server(servers, tool, confirmations) for tool in servers.tools]
    return MeasuredTools(FunctionToolset(tools, max_retries=retries), record)


def _of_server(servers: ServerTools, tool: ServerTool, confirmations: Confirmations) -> Tool[object]:
    async def call(ctx: RunContext[object], /, **arguments: Any) -> Any:
        given, problem = await servers.check(tool, arguments)
        problem = problem or confirmations.failure_of(ctx, tool.name, given)
        return problem or await servers.call(tool, given)

    return _tool(call, tool.name, tool.description, tool.schema)


def _of_agent(agents: AgentTools, function: str, name: str, confirmations: Confirmations) -> Tool[object]:
    definition: Mapping[str, Any] = agents.definition(name)
    schema = definition.get("input_schema") or ANY_OBJECT

    async def call(ctx: RunContext[object], /, **arguments: Any) -> Any:
        given, problem = await agents.check(name, arguments)
        problem = problem or confirmations.failure_of(ctx, function, given)
        return problem or await agents.call(name, given)

    about = schema.get("description")
    description = about if isinstance(about, str) and about else f"Calls the agent {name}."
    return _tool(call, function, description, schema)


def _tool(call: Callable[..., Awaitable[Any]], name: str, description: str, schema: Mapping[str, Any]) -> Tool[object]:
    tool: Tool[object] = Tool.from_schema(call, name, description, dict(schema), takes_ctx=True)
    # By its own validator, arguments that are no object would raise, rather than be corrected by the model.
    tool.function_schema.validator = _ANY_ARGUMENTS
    return tool


def _size(value: Any) -> int:
    try:
        return 0 if value is None else len(json_text.write(value).encode(errors="surrogatepass"))
    except (RecursionError, ValueError):
        return 0
