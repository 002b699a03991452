"""Results of tools: the state of a run, its outputs, and pieces of large outputs."""

import base64
import codecs
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
"""Most characters of a result in one answer."""
MOST_BYTES: Final = 40_000
"""Most bytes of a piece of an output in one answer."""
MOST_RESOURCE_BYTES: Final = 5_000_000
"""Largest output served as a resource, because several copies are in memory while it is sent."""
MOST_OUTPUTS: Final = 50
MOST_REPEATED: Final = 4_000
"""Most characters of JSON that the text repeats, for hosts that show only text."""

_MOST_CONTINUATION: Final = 3
# Media types of texts in addition to `text/...`; the last is the service's type for unknown files.
_TEXTS: Final = frozenset(
    f"application/{name}"
    for name in (
        *("json", "jsonl", "xml", "yaml", "javascript", "n-quads", "n-triples"),
        *("x-csh", "x-latex", "x-sh", "x-tex", "octet-stream"),
    )
)
_SCHEME: Final = "workflow-output://"


def result_of(
    run: AsyncRun,
    outputs: Sequence[records.Output],
    approvals: Sequence[records.Approval],
    *,
    wait_seconds: int,
    failure_is_error: bool,
) -> CallToolResult:
    """Returns the state of a run, with its result and links to its outputs.

    `wait_seconds` is suggested for the next call. With `failure_is_error` a failed or cancelled run is an error of
    the tool.
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
    """Returns a result with a sentence and a state; the text repeats a short state."""
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
    """Returns the result of a refused call, with the reason; `run_id` is a run that the call had started."""
    state: dict[str, Any] = {"message": str(error)}
    if isinstance(error, ApiError):
        state = {"code": error.code, "message": error.message, "details": error.details, "request_id": error.request_id}
    text = str(error)
    if run_id is not None:
        state |= {"run_id": run_id, "next": _call(RUN_STATUS, {"run_id": run_id})}
        text = f"The run {run_id} was started, but not followed to its end: {text} Ask {RUN_STATUS} later."
    return CallToolResult(content=[TextContent(text=text)], structured_content=state, is_error=True)


def listed(run_id: str, outputs: Sequence[records.Output], offset: int) -> dict[str, Any]:
    """Returns outputs from an offset, as many as fit into one answer, and the call that lists the rest."""
    shown = ("path", "size_bytes", "media_type")
    end = offset + MOST_OUTPUTS
    state: dict[str, Any] = {
        "outputs": [{name: getattr(each, name) for name in shown} for each in outputs[offset:end]],
        "outputs_total": len(outputs),
    }
    if end < len(outputs):
        state["outputs_rest"] = _call(READ_OUTPUT, {"run_id": run_id, "offset": end})
    return state


def window_of(offset: int) -> tuple[int, int]:
    """Returns the first and last offset of the bytes for a piece; a character may begin up to 3 bytes before it."""
    return max(0, offset - _MOST_CONTINUATION), offset + MOST_BYTES


def piece_of(run_id: str, output: records.Output, window: bytes, offset: int) -> CallToolResult:
    """Returns a piece of an output from its window, as text or Base64, and the call that reads on.

    A text begins and ends at whole characters of UTF-8, so it may begin before the offset.
    """
    size, (first, _) = output.size_bytes, window_of(offset)
    begin, end = offset, first + len(window)
    text = _characters(window, offset - first, is_end=end == size) if is_text(output.media_type) else None
    if text is None:
        form, piece = "in Base64", base64.b64encode(window[offset - first :]).decode()
    else:
        form, (start, piece, length) = "as text", text
        begin, end = first + start, first + start + length
    sentence = f"{output.path} ({output.media_type}): bytes {begin} to {end} of {size}, {form}"
    if end < size:
        following = _call(READ_OUTPUT, {"run_id": run_id, "path": output.path, "offset": end})
        sentence += f"; read on with {json.dumps(following, ensure_ascii=False)}"
    return CallToolResult(content=[TextContent(text=f"{sentence}.\n\n{piece}")], structured_content=None)


def is_text(media_type: str) -> bool:
    """Returns whether a media type may be text; the content must be UTF-8 without NUL as well."""
    kind = media_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind.endswith(("+json", "+xml")) or kind in _TEXTS


def _characters(window: bytes, offset: int, *, is_end: bool) -> tuple[int, str, int] | None:
    """Returns the offset, content and byte length of the text around `offset`; None for bytes that are no UTF-8."""
    if b"\0" in window:
        return None
    start = offset
    while 0 < start < len(window) and window[start] & 0xC0 == 0x80:
        start -= 1
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(window[start:], final=is_end)
    except UnicodeDecodeError:
        return None
    return start, text, len(window) - start - len(decoder.getstate()[0])


def uri_of(run_id: str, path: str) -> str:
    """Returns the resource URI of an output."""
    return f"{_SCHEME}{run_id}/{quote(path)}"


URI_TEMPLATE: Final = f"{_SCHEME}{{run_id}}/{{+path}}"


def place_of(uri: str) -> tuple[str, str] | None:
    """Returns run id and path in an output's URI; None for another URI."""
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
