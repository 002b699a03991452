"""Code samples, for a shell and for Python, that read a run, and that start one like it."""

import json
import shlex
from typing import Any, Final, NamedTuple

from console.rendering.marks import escaped_json
from console.start.earlier_run import had_uploads
from workflow_api.v1.runs_pb2 import Run

_MOST_CHARS: Final = 4_000
"""Longer inputs are not written into lines; the run shows them."""

_CREDENTIALS: Final = (
    '-H "Authorization: Bearer $WORKFLOW_API_KEY" -H "X-Service-Key-External-Id: $WORKFLOW_API_EXTERNAL_ID"'
)


class CodeSample(NamedTuple):
    """Text to copy: an id for its element, what it does, its language, and the text."""

    name: str
    purpose: str
    language: str
    text: str


def lines_of(run: Run) -> list[CodeSample]:
    """Returns the lines of a run. The address and the credentials are environment variables, never values."""
    run_id = run.summary.run_id
    shown = [
        CodeSample("read-shell", "Read this run", "curl", _curl(f"/runs/{run_id}")),
        CodeSample("read-python", "Read this run", "Python", _python(f"run = client.runs.get({run_id!r})")),
        CodeSample("read-command", "Read this run", "as an administrator", f"workflow-api runs show {run_id}"),
    ]
    given = _given(run)
    if given is None:
        return shown
    body = escaped_json(json.dumps(given, ensure_ascii=False))
    start = (
        _curl(f"/workflows/{run.summary.workflow_id}/runs")
        + ' \\\n  -H "Content-Type: application/json" -H "Idempotency-Key: $(uuidgen)"'
        + f" \\\n  -d {shlex.quote(body)}"
    )
    arguments = "".join(f",\n        {name}={value!r}" for name, value in given.items())
    python = _python(f"run = client.runs.start(\n        {run.summary.workflow_id!r}{arguments},\n    )")
    return [
        *shown,
        CodeSample("start-shell", "Start a run like it", "curl", start),
        CodeSample("start-python", "Start a run like it", "Python", python),
    ]


def _given(run: Run) -> dict[str, Any] | None:
    """Returns the inputs of a run as the start of one takes them; None where they are erased, long or uploaded."""
    if run.HasField("data_purged_at") or had_uploads(run) or len(run.parameters) + len(run.input_text) > _MOST_CHARS:
        return None
    given: dict[str, Any] = {}
    if parameters := json.loads(run.parameters or "{}"):
        given["parameters"] = parameters
    if run.HasField("input_text"):
        given["input_text"] = run.input_text
    given["version"] = run.summary.version
    return given


def _curl(path: str) -> str:
    return f'curl -sS "$WORKFLOW_API_URL/api/v1{path}" {_CREDENTIALS}'


def _python(line: str) -> str:
    return (
        "from workflow_api_client import Client\n\n"
        "with Client.from_env() as client:\n"
        f"    {line}\n"
        "    print(run.status, run.id)\n"
    )
