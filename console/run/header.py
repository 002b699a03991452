"""The head of a run's page: where it stands, who started it, and the lines that read it."""

from collections.abc import Mapping
from typing import Any

from console.rendering import formatting
from console.rendering.times import now_ms
from console.run.commands import lines_of
from console.run.redaction import sentences
from console.visit import ADMINISTRATORS
from contract.times import milliseconds_of
from workflow_api.v1.runs_pb2 import Run
from workflow_api.v1.users_pb2 import User


def header(run: Run, user: User) -> Mapping[str, Any]:
    """Returns what the head shows."""
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
        "lines": lines_of(run),
        "redaction": sentences(run.pii_redaction) if run.HasField("pii_redaction") else (),
    }
