"""Tools of workflows and the server's own tools: names, and schemas of arguments."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, get_args

from mcp_types import Tool, ToolAnnotations

from workflow_api_client.generated import records
from workflow_api_client.mcp.results import READ_OUTPUT, RUN_STATUS
from workflow_api_client.mcp.schemas import schema_of

INPUT_TEXT: Final = "input_text"
CANCEL_RUN: Final = "cancel_run"
LIST_RUNS: Final = "list_runs"
MOST_RUNS: Final = 50

_LONGEST_NAME: Final = 64
_SUFFIX_LETTERS: Final = 8
_RUN_ID: Final = {"type": "string", "description": "As a tool of a workflow gave it."}

_OFFSET: Final = {
    "type": "integer",
    "minimum": 0,
    "default": 0,
    "description": "Where to read on, as the piece before says: bytes of an output, or entries of the list.",
}
_STATUS: Final = {
    "type": "string",
    "enum": list(get_args(records.RunStatus)),
    "description": "Only runs of this status.",
}
OWN_NAMES: Final = frozenset({RUN_STATUS, CANCEL_RUN, LIST_RUNS, READ_OUTPUT})
"""Names of the server's own tools."""


def own_tools(wait_seconds: int) -> list[Tool]:
    """Returns the server's own tools; `run_status` waits for at most `wait_seconds`."""
    waiting = {
        "type": "integer",
        "minimum": 0,
        "maximum": wait_seconds,
        "default": 0,
        "description": "How long to wait for its end, or until a person is asked.",
    }
    reading = ToolAnnotations(read_only_hint=True)
    return [
        Tool(
            name=RUN_STATUS,
            description="Returns the state of a run, waits for it if asked, and gives its result once there is one.",
            input_schema=_object({"run_id": _RUN_ID, "wait_seconds": waiting}, "run_id"),
            annotations=reading,
        ),
        Tool(
            name=LIST_RUNS,
            description="Lists the runs of this key, newest first, also those that were started elsewhere.",
            input_schema=_object(
                {
                    "status": _STATUS,
                    "workflow": {"type": "string", "description": "Only runs of the workflow with this name or id."},
                    "created_before": {"type": "string", "format": "date-time", "description": "Only older runs."},
                    "cursor": {"type": "string", "description": "Where to read on, as the page before says."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": MOST_RUNS, "default": 20},
                }
            ),
            annotations=reading,
        ),
        Tool(
            name=READ_OUTPUT,
            description="Reads an output of an ended run piece by piece; without a path it lists the outputs.",
            input_schema=_object(
                {
                    "run_id": _RUN_ID,
                    "path": {
                        "type": "string",
                        "description": "As the list of outputs has it, such as `step/name.txt`.",
                    },
                    "offset": _OFFSET,
                },
                "run_id",
            ),
            annotations=reading,
        ),
        Tool(
            name=CANCEL_RUN,
            description="Ends a run that has not ended yet.",
            input_schema=_object({"run_id": _RUN_ID, "reason": {"type": "string", "maxLength": 500}}, "run_id"),
            annotations=ToolAnnotations(destructive_hint=True, idempotent_hint=True),
        ),
    ]


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


class ToolNames:
    """Names of the workflows' tools, made from the workflows' names.

    Equal names get a part of the workflow's id as a suffix. A name with a suffix always finds its workflow, listed or
    not, so that no name changes its meaning when a workflow is added, renamed or removed.

    Attributes:
        listed: Workflows by listed name.
    """

    def __init__(self, workflows: Iterable[records.Workflow]) -> None:
        named = [(_short_name(workflow), workflow) for workflow in workflows]
        self._by_long_name = {_long_name(short, workflow): workflow for short, workflow in named}
        uses = Counter([*(short for short, _ in named), *self._by_long_name, *OWN_NAMES])
        self.listed = {
            short if uses[short] == 1 else _long_name(short, workflow): workflow for short, workflow in named
        }

    def find(self, name: str) -> records.Workflow | None:
        """Returns the workflow of a tool's name, if any."""
        return self.listed.get(name) or self._by_long_name.get(name)


def _short_name(workflow: records.Workflow) -> str:
    return re.sub(r"[^a-z0-9]+", "_", workflow.name.casefold()).strip("_")[:_LONGEST_NAME] or "workflow"


def _long_name(short: str, workflow: records.Workflow) -> str:
    suffix = workflow.workflow_id[-_SUFFIX_LETTERS:]
    return f"{short[: _LONGEST_NAME - len(suffix) - 1]}_{suffix}"


def tool_of(name: str, workflow: records.Workflow, parameters: Sequence[records.Parameter]) -> Tool:
    """Returns the tool of a workflow."""
    properties = {each.name: schema_of(each) for each in parameters}
    if INPUT_TEXT not in properties:
        properties[INPUT_TEXT] = {"type": "string", "maxLength": 20000, "description": "Free text for the run."}
    return Tool(
        name=name,
        title=workflow.name,
        description=f"{workflow.description or workflow.name}\n\nRuns the workflow {workflow.name!r}. It may wait for "
        f"a person's approval, which nobody can give here; {RUN_STATUS} returns its state later.",
        input_schema=_object(properties, *(each.name for each in parameters if each.required)),
        annotations=ToolAnnotations(read_only_hint=False, idempotent_hint=False),
    )


def split_arguments(arguments: Mapping[str, Any], declared: Iterable[records.Parameter]) -> dict[str, Any]:
    """Returns the fields of a start from a tool's arguments."""
    parameters = dict(arguments)
    given: dict[str, Any] = {}
    if INPUT_TEXT not in {each.name for each in declared} and INPUT_TEXT in parameters:
        given[INPUT_TEXT] = parameters.pop(INPUT_TEXT)
    return {**given, "parameters": parameters}
