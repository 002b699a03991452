"""English sentences for a run's events, one for each type of event (contract 17.12)."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from console.rendering import formatting
from console.rendering.audit_sentences import person_of

_Data = Mapping[str, Any]

KINDS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "steps": ("Steps", ("step.started", "step.completed", "step.reused", "step.failed", "step.skipped")),
    "items": ("Items", ("step.item_completed", "step.item_failed")),
    "progress": ("Progress", ("step.progress", "step.tool_call")),
    "children": ("Workflows as steps", ("child.started", "child.ended")),
    "approvals": ("Approvals", ("approval.requested", "approval.reminded", "approval.expired", "approval.decided")),
    "outputs": (
        "Files",
        ("inputs.materialised", "output.promoted", "publish.started", "publish.completed"),
    ),
    "problems": ("Failures and warnings", ("run.failed", "step.failed", "step.item_failed", "step.skipped", "warning")),
    "redaction": ("Personal data", ("redaction.started", "redaction.completed")),
    "run": (
        "The run itself",
        ("segment.started", "segment.ended", "run.started", "run.completed", "run.failed", "run.cancelled"),
    ),
}
"""Filters of a run's events: event types by the name of the filter."""


def sentence(kind: str, step: str, data: str) -> str:
    """Returns an event as a sentence; for an unknown type, the type itself."""
    try:
        given = json.loads(data or "{}")
        return _SENTENCES[kind](step, given) if isinstance(given, dict) else kind
    except (KeyError, TypeError, ValueError, RecursionError):
        return f"{kind}: {step}" if step else kind


def failure_text(code: str, message: str) -> str:
    """Returns why a run failed: its message, which erased data no longer has, else its code in words."""
    return message or f"{code.replace('_', ' ').capitalize()}."


def _many(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def _step_started(step: str, data: _Data) -> str:
    return f"{step} began." if data["attempt"] == 1 else f"{step} began attempt {data['attempt']}."


def _step_completed(step: str, data: _Data) -> str:
    left = data["outputs"]
    return f"{step} completed." if not left else f"{step} completed and left {_many(left, 'file')}."


def error_text(kind: str, message: str) -> str:
    """Returns the message of a failure with its type in front, unless the message begins with the type."""
    named = message == kind or message.startswith(f"{kind}:")
    return message if named else ": ".join(part for part in (kind, message) if part)


def _step_failed(step: str, data: _Data) -> str:
    said = f"{step} failed at attempt {data['attempt']}: {error_text(data['type'], data['message'])}"
    if data.get("retry_at"):
        said += f" The next attempt begins at {data['retry_at']}."
    return said


def _item_completed(step: str, data: _Data) -> str:
    if data["attempt"] == 0:
        return f"Item {data['item_index']} of {step} was reused."
    left = data["outputs"]
    return f"Item {data['item_index']} of {step} completed" + (f" and left {_many(left, 'file')}." if left else ".")


def _item_failed(step: str, data: _Data) -> str:
    return _step_failed(f"Item {data['item_index']} of {step}", data)


def _step_progress(step: str, data: _Data) -> str:
    more = {name: value for name, value in data.items() if name != "message"}
    shown = ", ".join(f"{name} {_short(value)}" for name, value in list(more.items())[:4])
    return f"{step}: {data['message']}" + (f" ({shown})" if shown else "")


def _tool_call(step: str, data: _Data) -> str:
    failed = "" if data["ok"] else " without a result"
    return (
        f"{step}{_item_text(data)} called {data['tool']}{failed}: {data['duration_ms']:,} ms, "
        f"{data['input_bytes']:,} bytes in, {data['output_bytes']:,} out."
    )


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:79] + "…"


def _run_failed(_: str, data: _Data) -> str:
    return f"The run failed: {data['code']}" + (f": {data['message']}" if data.get("message") else ".")


def _decided(step: str, data: _Data) -> str:
    by = f" by {person_of(data['decided_by'])}" if data.get("decided_by") else ""
    comment = f": “{data['comment']}”" if data.get("comment") else "."
    filled = ", ".join(f"{name} {_short(value)}" for name, value in list((data.get("form") or {}).items())[:4])
    return f"{step} was {data['decision']}{by}{comment}" + (f" ({filled})" if filled else "")


def _reminded(step: str, data: _Data) -> str:
    until = f", until {data['deadline_at']}" if data.get("deadline_at") else ""
    return f"{step} still waits for a person{until}."


def _expired(step: str, data: _Data) -> str:
    ended = {"reject": "it was rejected", "fail": "the run fails"}[data["on_deadline"]]
    return f"Nobody decided {step} before its deadline: {ended}."


def _promoted(step: str, data: _Data) -> str:
    if "path" not in data:
        return f"A file of {step} became an output." if step else "A file became an output."
    return f"{data['path']} became an output, {formatting.size(data['size_bytes'])}."


def _swept(step: str, data: _Data) -> str:
    found, files = _many(data["values"], "value"), _many(data["files"], "file")
    return f"The sweep of {_scope(step, data)} for personal data found {found} in {files} and in data beside them."


def _scope(step: str, data: _Data) -> str:
    return f"what {step} handed on" if data["stage"] == "steps" else f"the {data['stage']}"


def _published(_: str, data: _Data) -> str:
    return f"{_many(data['triples'], 'triple')} were published in {data['knowledge_graph']}, as {data['graph']}."


def _item_text(data: _Data) -> str:
    return "" if data["item_index"] is None else f", item {data['item_index']},"


_SENTENCES: Final[Mapping[str, Callable[[str, _Data], str]]] = {
    "segment.started": lambda _, data: f"Segment {data['ordinal']} began to execute.",
    "segment.ended": lambda *_: "The segment ended.",
    "run.started": lambda *_: "The run began.",
    "run.completed": lambda *_: "The run completed.",
    "run.failed": _run_failed,
    "run.cancelled": lambda *_: "The run was cancelled.",
    "inputs.materialised": lambda _, data: (
        f"{_many(data['objects'], 'object')} were copied in, {formatting.size(data['bytes'])}."
    ),
    "step.started": _step_started,
    "step.progress": _step_progress,
    "step.tool_call": _tool_call,
    "step.completed": _step_completed,
    "step.failed": _step_failed,
    "step.item_completed": _item_completed,
    "step.item_failed": _item_failed,
    "step.reused": lambda step, data: f"{step} was reused from {data['run_id']}.",
    "child.started": lambda step, data: f"{step}{_item_text(data)} started {data['run_id']}.",
    "child.ended": lambda step, data: f"{data['run_id']}, which {step}{_item_text(data)} started, is {data['status']}.",
    "step.skipped": lambda step, data: f"{step} was skipped: {data['reason']}",
    "approval.requested": lambda step, data: f"{step} waits for a person: {data['title']}",
    "approval.reminded": _reminded,
    "approval.expired": _expired,
    "approval.decided": _decided,
    "output.promoted": _promoted,
    "redaction.started": lambda step, data: f"The sweep of {_scope(step, data)} for personal data began.",
    "redaction.completed": _swept,
    "publish.started": lambda _, data: f"Publishing in {data['knowledge_graph']} began.",
    "publish.completed": _published,
    "warning": lambda step, data: f"Warning{f' of {step}' if step else ''}: {data['message']}",
}
