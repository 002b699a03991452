"""Workflows as tools: names, schemas of their arguments, and what a call gives back."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import quote, unquote

from mcp_types import CallToolResult, ResourceLink, TextContent, Tool, ToolAnnotations

from workflow_api_client.async_run import AsyncRun
from workflow_api_client.failures import ApiError, WorkflowApiError
from workflow_api_client.generated import records

INPUT_TEXT: Final = "input_text"
RUN_STATUS: Final = "run_status"
CANCEL_RUN: Final = "cancel_run"
LONGEST_WAIT_SECONDS: Final = 600
MOST_LINKS: Final = 50

_SCHEME: Final = "workflow-output://"
_LONGEST_NAME: Final = 64
_SUFFIX_LETTERS: Final = 8
_TYPES: Final[Mapping[str, Mapping[str, Any]]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "json": {},
    "s3_prefix": {"type": "string", "pattern": "^s3://"},
}
_BOUNDS: Final = {
    "enum": "enum",
    "minimum": "minimum",
    "maximum": "maximum",
    "min_length": "minLength",
    "max_length": "maxLength",
}
_RUN_ID: Final = {"type": "string", "description": "As a tool of a workflow gave it."}

OWN_TOOLS: Final = (
    Tool(
        name=RUN_STATUS,
        description="Returns the state of a run, waits for it if asked, and gives its result once there is one.",
        input_schema={
            "type": "object",
            "properties": {
                "run_id": _RUN_ID,
                "wait_seconds": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": LONGEST_WAIT_SECONDS,
                    "default": 0,
                    "description": "How long to wait for its end, or until a person is asked.",
                },
            },
            "required": ["run_id"],
            "additionalProperties": False,
        },
        annotations=ToolAnnotations(read_only_hint=True),
    ),
    Tool(
        name=CANCEL_RUN,
        description="Ends a run that has not ended yet.",
        input_schema={
            "type": "object",
            "properties": {"run_id": _RUN_ID, "reason": {"type": "string", "maxLength": 500}},
            "required": ["run_id"],
            "additionalProperties": False,
        },
        annotations=ToolAnnotations(destructive_hint=True, idempotent_hint=True),
    ),
)


class ToolNames:
    """Names of the tools of workflows: their own, as far as letters allow.

    Where two would have the same, all of them end with a part of the workflow's id. Such a name always finds its
    workflow, whether or not it is listed, so that no name means another workflow when one is added, renamed or removed.

    Attributes:
        listed: The workflows by the names that are shown.
    """

    def __init__(self, workflows: Iterable[records.Workflow]) -> None:
        named = [(_short_name(workflow), workflow) for workflow in workflows]
        self._by_long_name = {_long_name(short, workflow): workflow for short, workflow in named}
        uses = Counter([*(short for short, _ in named), *self._by_long_name, *(tool.name for tool in OWN_TOOLS)])
        self.listed = {
            short if uses[short] == 1 else _long_name(short, workflow): workflow for short, workflow in named
        }

    def find(self, name: str) -> records.Workflow | None:
        """Returns the workflow of a tool."""
        return self.listed.get(name) or self._by_long_name.get(name)


def _short_name(workflow: records.Workflow) -> str:
    return re.sub(r"[^a-z0-9]+", "_", workflow.name.casefold()).strip("_")[:_LONGEST_NAME] or "workflow"


def _long_name(short: str, workflow: records.Workflow) -> str:
    suffix = workflow.workflow_id[-_SUFFIX_LETTERS:]
    return f"{short[: _LONGEST_NAME - len(suffix) - 1]}_{suffix}"


def tool_of(name: str, workflow: records.Workflow, parameters: Sequence[records.Parameter]) -> Tool:
    """Returns the tool of a workflow."""
    properties = {each.name: _schema_of(each) for each in parameters}
    if INPUT_TEXT not in properties:
        properties[INPUT_TEXT] = {"type": "string", "maxLength": 20000, "description": "Free text for the run."}
    return Tool(
        name=name,
        title=workflow.name,
        description=f"{workflow.description or workflow.name}\n\nRuns the workflow {workflow.name!r}. It may wait for "
        f"a person's approval, which nobody can give here; {RUN_STATUS} returns its state later.",
        input_schema={
            "type": "object",
            "properties": properties,
            "required": [each.name for each in parameters if each.required],
            "additionalProperties": False,
        },
        annotations=ToolAnnotations(read_only_hint=False, idempotent_hint=False),
    )


def split_arguments(arguments: Mapping[str, Any], declared: Iterable[records.Parameter]) -> dict[str, Any]:
    """Returns what a start is given, of a tool's arguments."""
    parameters = dict(arguments)
    given: dict[str, Any] = {}
    if INPUT_TEXT not in {each.name for each in declared} and INPUT_TEXT in parameters:
        given[INPUT_TEXT] = parameters.pop(INPUT_TEXT)
    return {**given, "parameters": parameters}


def result_of(
    run: AsyncRun, outputs: Sequence[records.Output], approvals: Sequence[records.Approval]
) -> CallToolResult:
    """Returns where a run stands, with its result and links to its outputs."""
    record = run.record
    state: dict[str, Any] = {"run_id": run.id, "workflow": record.workflow_name, "status": run.status}
    if approvals:
        state["waits_for"] = [{"title": each.title, "instructions": each.instructions} for each in approvals]
    if record.status == "completed":
        state |= {"result": record.result, "summary": record.summary_markdown, "warnings": record.warnings}
    if record.error is not None:
        state["error"] = asdict(record.error)
    if outputs:
        shown = ("path", "size_bytes", "media_type")
        state["outputs"] = [{name: getattr(each, name) for name in shown} for each in outputs]
    links = [
        ResourceLink(name=each.path, uri=uri_of(run.id, each.path), mime_type=each.media_type, size=each.size_bytes)
        for each in outputs[:MOST_LINKS]
    ]
    text = TextContent(text=f"{_sentence(run, approvals)}\n\n{json.dumps(state, ensure_ascii=False, default=str)}")
    return CallToolResult(
        content=[text, *links], structured_content=state, is_error=record.status in {"failed", "cancelled"}
    )


def refused(error: WorkflowApiError, run_id: str | None = None) -> CallToolResult:
    """Returns that a call was refused, and why; `run_id` is the run that it had started."""
    state: dict[str, Any] = {"message": str(error)}
    if isinstance(error, ApiError):
        state = {"code": error.code, "message": error.message, "details": error.details, "request_id": error.request_id}
    text = str(error)
    if run_id is not None:
        state["run_id"] = run_id
        text = f"The run {run_id} was started, but not followed to its end: {text} Ask {RUN_STATUS} later."
    return CallToolResult(content=[TextContent(text=text)], structured_content=state, is_error=True)


def uri_of(run_id: str, path: str) -> str:
    """Returns the address of an output among the server's resources."""
    return f"{_SCHEME}{run_id}/{quote(path)}"


def place_of(uri: str) -> tuple[str, str] | None:
    """Returns run and path of an output's address; None for any other."""
    run_id, slash, path = uri.removeprefix(_SCHEME).partition("/")
    return (run_id, unquote(path)) if uri.startswith(_SCHEME) and slash and run_id else None


def _schema_of(parameter: records.Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = dict(_TYPES.get(parameter.type, {}))
    if parameter.description:
        schema["description"] = parameter.description
    if parameter.default is not None:
        schema["default"] = parameter.default
    for name, keyword in _BOUNDS.items():
        if getattr(parameter, name) is not None:
            schema[keyword] = getattr(parameter, name)
    if parameter.pattern is not None:
        # The declared pattern matches the whole value.
        schema["pattern"] = f"^(?:{parameter.pattern})$"
    return schema


def _sentence(run: AsyncRun, approvals: Sequence[records.Approval]) -> str:
    if run.status == "waiting_for_approval":
        titles = "; ".join(each.title for each in approvals)
        return f"The run waits for a person to decide: {titles} (only people can approve; ask {RUN_STATUS} later)."
    if not run.is_finished:
        return f"The run is {run.status}. Ask {RUN_STATUS} later."
    if run.error is not None:
        return f"The run failed with {run.error.code}: {run.error.message}"
    return f"The run is {run.status}."
