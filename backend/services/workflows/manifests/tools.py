"""Schema of the field `tools` of agents that call a model, with its problems and references."""

import re
from collections.abc import Iterator
from typing import Final

from backend.common.json_text import JsonMapping
from backend.services.workflows.agent_tools import ANSWER_FUNCTION, FUNCTIONS, TOOL_WORDS, function_name
from backend.services.workflows.manifests.nodes import DocumentNode, Problem
from backend.services.workflows.manifests.records import NAME, Field, ListOf, Record
from backend.services.workflows.manifests.rules import ResourceReference
from backend.services.workflows.manifests.shapes import (
    HTTP_ADDRESS,
    INVALID,
    SECRET_NAME,
    Flag,
    JsonSchema,
    OneOf,
    Text,
)

_MOST_TOOLS: Final = 20
_MOST_NAMES: Final = 50

_WORD: Final = OneOf(*TOOL_WORDS)
_CONFIRM: Final = Field(
    Flag(), default=False, about="Whether a person must approve each call before it is made.", example=True
)
_AGENT: Final = Record(
    {
        "agent": Field(NAME, required=True, about="Name of an agent of type `python`.", example="exchange-rates"),
        "confirm": _CONFIRM,
    }
)
_SERVER: Final = Record(
    {
        "mcp": Field(
            HTTP_ADDRESS,
            required=True,
            about="Address of an MCP server that speaks streamable HTTP, on a host that the deployment allows.",
            example="https://tools.example.org/mcp",
        ),
        "secret": Field(SECRET_NAME, about="Name of a secret that is sent as bearer token.", example="tools-key"),
        "only": Field(
            ListOf(
                Text(64, pattern=re.compile(r"[A-Za-z0-9_-]+"), must_be="the name of a tool, of A-Z a-z 0-9 _ -"),
                most=_MOST_NAMES,
                least=1,
                unique=True,
            ),
            required=True,
            about="The tools of the server that the model gets.",
            example=["search"],
        ),
        "confirm": _CONFIRM,
    }
)
_FORMS: Final = {"agent": _AGENT, "mcp": _SERVER}
"""Records by the field that an object must have."""


class Tool:
    """Shape of a tool: a word, or an object that names an agent or an MCP server."""

    def read(self, node: DocumentNode, name: str, problems: list[Problem]) -> object:
        """Reads and checks a tool."""
        if not isinstance(node.value, dict):
            if isinstance(node.value, str) and node.value in TOOL_WORDS:
                return node.value
            reason = f"must be one of: {', '.join(TOOL_WORDS)}; or an object with {' or '.join(_FORMS)}"
            problems.append(Problem(node.line, name, reason))
            return INVALID
        form = next((record for field, record in _FORMS.items() if field in node.value), None)
        if form is None:
            problems.append(Problem(node.line, name, f"must have {' or '.join(_FORMS)}"))
            return INVALID
        value = form.read(node, name, problems)
        if value is INVALID or value["confirm"]:
            return value
        # Left out, so that definitions from before this field existed stay equal.
        return {field: given for field, given in value.items() if field != "confirm"}

    def json_schema(self) -> JsonSchema:
        """Returns the JSON Schema: any of the words and objects."""
        return {"anyOf": [_WORD.json_schema(), *(record.json_schema() for record in _FORMS.values())]}


TOOLS: Final = ListOf(Tool(), most=_MOST_TOOLS, unique=True)


def tool_problems(value: JsonMapping, node: DocumentNode) -> Iterator[Problem]:
    """Yields a problem for each tool with a function whose name another tool has too."""
    if value.get("type") != "llm":
        return
    taken: dict[str, int] = {}
    structured = value.get("output_schema") is not None
    for index, tool in enumerate(value.get("tools") or ()):
        for name in _functions(tool):
            if structured and name == ANSWER_FUNCTION:
                reason = f"must not give the model the function {name}, by which it answers with output_schema"
                yield Problem(node.line_of("tools", index), f"tools[{index}]", reason)
            first = taken.setdefault(name, index)
            if first != index:
                reason = f"must not give the model the function {name}, which tools[{first}] gives it too"
                yield Problem(node.line_of("tools", index), f"tools[{index}]", reason)


def _functions(tool: object) -> Iterator[str]:
    match tool:
        case str(word):
            yield from FUNCTIONS[word]
        case {"agent": str(name)}:
            yield function_name(name)
        case {"only": list(names)}:
            yield from (name for name in names if isinstance(name, str))


def tool_references(value: JsonMapping, node: DocumentNode) -> Iterator[ResourceReference]:
    """Yields the references to agents that are tools."""
    for index, tool in enumerate(value.get("tools") or () if value.get("type") == "llm" else ()):
        if isinstance(tool, dict) and tool.get("agent"):
            yield ResourceReference(
                "Agent", tool["agent"], node.line_of("tools", index, "agent"), f"tools[{index}].agent"
            )
