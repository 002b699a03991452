"""Reads the field `tools` of an agent's definition: words for built-in functions, agents and MCP servers."""

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from backend.common.json_text import JsonMapping

TOOL_WORDS: Final = ("inputs", "files", "connectors")
"""Words that name built-in tools."""

FUNCTIONS: Final = {
    "inputs": ("list_inputs", "read_input"),
    "files": ("list_files", "read_file"),
    "connectors": ("list_connector_objects", "read_connector_object"),
}
"""Names of the model's functions, by word."""

ANSWER_FUNCTION: Final = "final_result"
"""Name of the function by which a model answers where its agent has `output_schema`."""

MOST_CALLS: Final = 200
"""Most calls of tools in one attempt."""
DEFAULT_CALLS: Final = 50
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME: Final = 64


def function_name(agent: str) -> str:
    """Returns the name by which a model calls an agent: providers take letters, digits, dashes and underscores."""
    return _OTHER.sub("_", agent)[:_LONGEST_NAME]


def agent_tools(agent: JsonMapping) -> list[str]:
    """Returns the names of the agents that an agent of type `llm` has as tools."""
    return [tool["agent"] for tool in _tool_objects(agent) if "agent" in tool]


def server_tools(agent: JsonMapping) -> list[JsonMapping]:
    """Returns the MCP servers that an agent of type `llm` has as tools, each with `mcp`, `secret` and `only`."""
    return [tool for tool in _tool_objects(agent) if "mcp" in tool]


def confirmed_functions(agent: JsonMapping) -> frozenset[str]:
    """Returns the names of the functions whose calls a person must approve."""
    found: set[str] = set()
    for tool in _tool_objects(agent):
        if tool.get("confirm"):
            found |= {function_name(tool["agent"])} if "agent" in tool else set(tool["only"])
    return frozenset(found)


def is_allowed_server(url: str, hosts: AbstractSet[str]) -> bool:
    """Returns whether an MCP server is on one of the hosts that the deployment allows."""
    # Parsed as the client does; imported here, because commands that start a backend do not need it.
    from yarl import URL

    try:
        host = URL(url).host
    except ValueError:
        return False
    return host is not None and host.lower() in hosts


def words(agent: JsonMapping) -> list[str]:
    """Returns the words in the tools of an agent."""
    return [tool for tool in agent.get("tools") or () if isinstance(tool, str)]


def most_calls(agent: JsonMapping) -> int:
    """Returns the number of calls of tools that one attempt may make.

    Without `max_tool_calls`, an agent that has only words keeps the limit of earlier releases.
    """
    given = agent.get("max_tool_calls")
    if given is not None:
        return int(given)
    return DEFAULT_CALLS if any(_tool_objects(agent)) else MOST_CALLS


def _tool_objects(agent: JsonMapping) -> Iterator[JsonMapping]:
    if agent.get("type") == "llm":
        yield from (tool for tool in agent.get("tools") or () if isinstance(tool, dict))
