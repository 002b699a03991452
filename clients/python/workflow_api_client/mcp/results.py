"""Results of tools: where a run stands, and where what is too large for one answer can be read."""

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import quote, unquote

from mcp_types import CallToolResult, ContentBlock, ResourceLink, TextContent

from workflow_api_client.async_run import AsyncRun
from workflow_api_client.failures import ApiError, WorkflowApiError
from workflow_api_client.generated import records

RUN_STATUS: Final = "run_status"
READ_OUTPUT: Final = "read_output"
RESULT_FILE: Final = "result.json"
MOST_CHARACTERS: Final = 40_000
"""The longest result, and the longest piece of an output, that one answer holds."""
MOST_OUTPUTS: Final = 50
MOST_REPEATED: Final = 4_000
"""Up to this many characters of JSON are part of the text as well, for hosts that show only text."""

_SCHEME: Final = "workflow-output://"


def result_of(
    run: AsyncRun,
    outputs: Sequence[records.Output],
    approvals: Sequence[records.Approval],
    *,
    wait_seconds: int,
    failure_is_error: bool,
) -> CallToolResult:
    """Returns where a run stands, with its result and links to its outputs.

    `wait_seconds` is for the next call. With `failure_is_error` a run that failed or was cancelled is an error of the
    tool.
    """
    record = run.record
    state: dict[str, Any] = {"run_id": run.id, "workflow": record.workflow_name, "status": run.status}
    if approvals:
        state["waits_for"] = [{"title": each.title, "instructions": each.instructions} for each in approvals]
    if not run.is_finished:
        arguments = {"run_id": run.id} if approvals else {"run_id": run.id, "wait_seconds": wait_seconds}
        state["next"] = _call(RUN_STATUS, arguments)
    if record.status == "completed":
        state |= _result(run)
        state |= {"summary": (record.summary_markdown or "")[:MOST_CHARACTERS] or None, "warnings": record.warnings}
    if record.error is not None:
        state["error"] = asdict(record.error)
    if outputs:
        state |= listed(run.id, outputs, 0)
    links = [
        ResourceLink(name=each.path, uri=uri_of(run.id, each.path), mime_type=each.media_type, size=each.size_bytes)
        for each in outputs[:MOST_OUTPUTS]
    ]
    ended_badly = record.status in {"failed", "cancelled"}
    return answered(_sentence(run, approvals), state, links, is_error=failure_is_error and ended_badly)


def answered(
    sentence: str, state: dict[str, Any], links: Iterable[ContentBlock] = (), *, is_error: bool = False
) -> CallToolResult:
    """Returns a sentence and a state, which the text repeats only where it is short."""
    written = json.dumps(state, ensure_ascii=False, default=str)
    if len(written) <= MOST_REPEATED:
        text = f"{sentence}\n\n{written}"
    else:
        calls = [call for name, call in state.items() if name == "next" or name.endswith("_rest")]
        reading = "".join(f" Read on with {json.dumps(call, ensure_ascii=False)}." for call in calls)
        text = f"{sentence} All of it is in the structured content.{reading}"
    return CallToolResult(
        content=[TextContent(text=text), *links], structured_content=json.loads(written), is_error=is_error
    )


def refused(error: WorkflowApiError, run_id: str | None = None) -> CallToolResult:
    """Returns that a call was refused, and why; `run_id` is the run that it had started."""
    state: dict[str, Any] = {"message": str(error)}
    if isinstance(error, ApiError):
        state = {"code": error.code, "message": error.message, "details": error.details, "request_id": error.request_id}
    text = str(error)
    if run_id is not None:
        state |= {"run_id": run_id, "next": _call(RUN_STATUS, {"run_id": run_id})}
        text = f"The run {run_id} was started, but not followed to its end: {text} Ask {RUN_STATUS} later."
    return CallToolResult(content=[TextContent(text=text)], structured_content=state, is_error=True)


def listed(run_id: str, outputs: Sequence[records.Output], offset: int) -> dict[str, Any]:
    """Returns outputs from an offset, as many as one answer holds, and the call that gives the rest."""
    shown = ("path", "size_bytes", "media_type")
    end = offset + MOST_OUTPUTS
    state: dict[str, Any] = {
        "outputs": [{name: getattr(each, name) for name in shown} for each in outputs[offset:end]],
        "outputs_total": len(outputs),
    }
    if end < len(outputs):
        state["outputs_rest"] = _call(READ_OUTPUT, {"run_id": run_id, "offset": end})
    return state


def piece_of(run_id: str, path: str, content: bytes, offset: int) -> CallToolResult:
    """Returns a piece of an output: characters of a text, or bytes of anything else in Base64, and how to read on."""
    whole: str | bytes
    try:
        whole, unit = content.decode(), "characters"
    except UnicodeDecodeError:
        whole, unit = content, "bytes"
    piece = whole[offset : offset + MOST_CHARACTERS]
    end = offset + len(piece)
    state: dict[str, Any] = {"run_id": run_id, "path": path, "offset": offset, "total": len(whole), "unit": unit}
    sentence = f"{path}: {unit} {offset} to {end} of {len(whole)}"
    if end < len(whole):
        state["next"] = _call(READ_OUTPUT, {"run_id": run_id, "path": path, "offset": end})
        sentence += f"; read on with {json.dumps(state['next'], ensure_ascii=False)}"
    if isinstance(piece, bytes):
        piece, state["encoding"] = base64.b64encode(piece).decode(), "base64"
    return CallToolResult(content=[TextContent(text=f"{sentence}.\n\n{piece}")], structured_content=None)


def uri_of(run_id: str, path: str) -> str:
    """Returns the address of an output among the server's resources."""
    return f"{_SCHEME}{run_id}/{quote(path)}"


URI_TEMPLATE: Final = f"{_SCHEME}{{run_id}}/{{+path}}"


def place_of(uri: str) -> tuple[str, str] | None:
    """Returns run and path of an output's address; None for any other."""
    run_id, slash, path = uri.removeprefix(_SCHEME).partition("/")
    return (run_id, unquote(path)) if uri.startswith(_SCHEME) and slash and run_id else None


def _result(run: AsyncRun) -> dict[str, Any]:
    result, stored = run.record.result, run.record.result_json
    written = json.dumps(result, ensure_ascii=False, default=str)
    if len(written) <= MOST_CHARACTERS and (result is not None or stored is None):
        return {"result": result}
    size = stored.size_bytes if stored is not None else len(written.encode())
    rest = _call(READ_OUTPUT, {"run_id": run.id, "path": RESULT_FILE})
    return {"result_bytes": size, "result_rest": rest}


def _call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments}


def _sentence(run: AsyncRun, approvals: Sequence[records.Approval]) -> str:
    if run.status == "waiting_for_approval":
        titles = "; ".join(each.title for each in approvals)
        return (
            f"The run {run.id} waits for a person to decide: {titles}. Only people can approve; ask {RUN_STATUS} later."
        )
    if not run.is_finished:
        return f"The run {run.id} is {run.status} and goes on: call {RUN_STATUS} with this run_id until it has ended."
    if run.error is not None:
        return f"The run {run.id} failed with {run.error.code}: {run.error.message}"
    return f"The run {run.id} is {run.status}."
