"""Head of a run's page: status, failure, starter, redaction report, and code samples that read or start the run."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from console.rendering import formatting
from console.rendering.audit_sentences import person_of
from console.rendering.text import escaped_json
from console.rendering.times import now_ms
from console.start_form import had_uploads
from console.visit import ADMINISTRATORS
from contract.times import milliseconds_of
from workflow_api.v1.reviews_pb2 import Decision
from workflow_api.v1.runs_pb2 import STEP_STATUS_FAILED, Run, Step
from workflow_api.v1.users_pb2 import User

_MOST_CHARS: Final = 4_000
"""Characters of the longest inputs in a code sample; the page shows longer inputs itself."""

_CREDENTIALS: Final = (
    '-H "Authorization: Bearer $WORKFLOW_API_KEY" -H "X-Service-Key-External-Id: $WORKFLOW_API_EXTERNAL_ID"'
)

_MODES: Final = {
    "redact": "Personal data is replaced by its type in brackets.",
    "detect": "Personal data is counted, and nothing is replaced.",
}
_STAGES: Final = {"inputs": "The inputs", "steps": "What steps leave", "outputs": "The outputs"}
_STATUSES: Final = {
    "pending": "are still to be swept",
    "completed": "were swept",
    "failed": "could not be swept",
    "skipped": "were not there to sweep",
}
_COUNTS: Final = (
    ("withheld_files", "file could not be swept and was withheld", "files could not be swept and were withheld"),
    (
        "unsearched_files",
        "file was released though it could not be searched in full",
        "files were released though they could not be searched in full",
    ),
    (
        "binary_files",
        "file is neither text nor a table: not searched",
        "files are neither text nor tables: unsearched",
    ),
    ("emptied_values", "value was emptied as a whole", "values were emptied as a whole"),
    ("model_calls", "call of a model was made", "calls of a model were made"),
    ("model_skipped", "text was not shown to the model any more", "texts were not shown to the model any more"),
)


def header(run: Run, user: User) -> Mapping[str, Any]:
    """Returns the template context of the head."""
    summary = run.summary
    ended = formatting.RUN_STATUSES.get(summary.status) in formatting.ENDED
    elapsed = 0
    if summary.HasField("started_at") and not ended:
        elapsed = max(0, now_ms() - milliseconds_of(summary.started_at))
    waited = None
    if summary.HasField("started_at"):
        waited = milliseconds_of(summary.started_at) - milliseconds_of(summary.created_at)
    return {
        "badge": formatting.run_badge(summary.status),
        "lasted": formatting.duration(milliseconds_of(summary.duration)) if summary.HasField("duration") else "",
        "elapsed": elapsed,
        "elapsed_text": formatting.duration(elapsed),
        "waited": "" if waited is None else formatting.duration(max(0, waited)),
        "started_by": formatting.trigger(run.triggered_by),
        "links_keys": user.role in ADMINISTRATORS,
        "labels": sorted(summary.labels.items()),
        "redaction": redaction_sentences(run.pii_redaction) if run.HasField("pii_redaction") else (),
    }


class Failure(NamedTuple):
    """Why a run failed in one sentence, and the step that failed; empty for another run."""

    text: str
    step: str = ""


def failure(run: Run, steps: Sequence[Step], rejected: Decision | None = None, comment: str = "") -> Failure:
    """Returns why a run failed: a rejection of `steps`, or an error of one of them, or its own."""
    if not run.HasField("error"):
        return Failure("")
    if rejected is not None:
        said = f": “{comment}”" if comment else ", without a comment"
        return Failure(f"{rejected.title} was rejected by {person_of(rejected.decided_by)}{said}", rejected.step)
    step = next((each for each in steps if each.status == STEP_STATUS_FAILED and not each.optional), None)
    if step is None or run.error.code != "node_failed":
        return Failure(run.error.message)
    return Failure(f"{step.name or step.step} failed: {step.error.message or step.error.code}", step.step)


class CodeSample(NamedTuple):
    """Code to copy: name of its element, purpose, language, and text."""

    name: str
    purpose: str
    language: str
    text: str


def lines_of(run: Run) -> list[CodeSample]:
    """Returns code samples for a run; address and credentials are environment variables, never values."""
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


def redaction_sentences(manifest: str) -> list[str]:
    """Returns sentences about the findings and effects of a run's redaction, from its manifest as JSON."""
    found: dict[str, Any] = json.loads(manifest)
    said = [_MODES.get(found.get("mode", ""), "")]
    if found.get("model"):
        said.append(f"The model {found['model']} is asked too.")
    said += [_stage(stage) for stage in found.get("stages", ())]
    categories = found.get("categories") or {}
    if categories:
        said.append("Found: " + ", ".join(f"{count:,} {name}" for name, count in categories.items()) + ".")
    counts = found.get("counts") or {}
    said += [
        f"{counts[name]:,} {one if counts[name] == 1 else more}." for name, one, more in _COUNTS if counts.get(name)
    ]
    return [sentence for sentence in said if sentence]


def _given(run: Run) -> dict[str, Any] | None:
    """Returns a run's inputs as a start request takes them; None if erased, too long or uploaded."""
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


def _stage(stage: dict[str, Any]) -> str:
    what = _STAGES.get(stage["stage"], stage["stage"])
    status = _STATUSES.get(stage["status"], stage["status"])
    if stage["status"] in {"pending", "skipped"}:
        return f"{what} {status}."
    values, files = stage["values"], stage["files"]
    counted = f"{values:,} value{'' if values == 1 else 's'} found"
    return f"{what} {status}: {counted}" + (f", {files:,} file{'' if files == 1 else 's'} read." if files else ".")
