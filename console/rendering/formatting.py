"""Formats values of the services for pages: badges, durations, sizes and JSON."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from google.protobuf.duration_pb2 import Duration

from console.rendering.text import escaped_json
from contract.fields import spellings
from contract.times import approximate, milliseconds_of
from workflow_api.v1.model_usage_pb2 import ModelUse
from workflow_api.v1.reviews_pb2 import ApprovalState
from workflow_api.v1.runs_pb2 import (
    TRIGGERED_BY_API_KEY,
    TRIGGERED_BY_CONSOLE,
    TRIGGERED_BY_SCHEDULE,
    RunStatus,
    StepKind,
    StepStatus,
    TriggeredBy,
)
from workflow_api.v1.workflows_pb2 import WorkflowStatus

ENDED: Final = frozenset({"completed", "failed", "cancelled"})
RUN_STATUSES: Final[Mapping[int, str | None]] = spellings(RunStatus.DESCRIPTOR)
"""The API's spelling of each run status, for filters."""

_APPROVAL_STATES: Final = spellings(ApprovalState.DESCRIPTOR)
_STEP_STATUSES: Final = spellings(StepStatus.DESCRIPTOR)
_STEP_KINDS: Final = spellings(StepKind.DESCRIPTOR)
_TRIGGERS: Final = {TRIGGERED_BY_API_KEY: "API key", TRIGGERED_BY_CONSOLE: "console", TRIGGERED_BY_SCHEDULE: "schedule"}
_WORKFLOW_STATUSES: Final = spellings(WorkflowStatus.DESCRIPTOR)

_BADGE_KINDS: Final[Mapping[str, str]] = {
    "running": "busy",
    "waiting_for_approval": "warn",
    "completed": "good",
    "failed": "bad",
    "blocked": "bad",
    "active": "good",
    "draft": "warn",
    "approved": "good",
    "rejected": "bad",
    "expired": "bad",
}
_JSON_PART: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')
_INDENT: Final = "  "
_MAX_INDENTED_DEPTH: Final = 20
_UNKNOWN: Final = "unknown"


class Badge(NamedTuple):
    """The text of a badge, and its kind, which sets the colour."""

    text: str
    kind: str = ""


def run_badge(status: int) -> Badge:
    """Returns the badge of a run's status."""
    return _badge(RUN_STATUSES.get(status))


def step_badge(status: int) -> Badge:
    """Returns the badge of a step's status."""
    return _badge(_STEP_STATUSES.get(status))


def approval_badge(state: int) -> Badge:
    """Returns the badge of an approval's state."""
    return _badge(_APPROVAL_STATES.get(state))


def workflow_badge(status: int) -> Badge:
    """Returns the badge of a workflow's status."""
    return _badge(_WORKFLOW_STATUSES.get(status))


def outcome_badge(outcome: str) -> Badge:
    """Returns the badge of the outcome of an attempt or a wait."""
    return Badge(outcome, "busy" if outcome == "going on" else _BADGE_KINDS.get(outcome, ""))


def step_kind(kind: int) -> str:
    """Returns the kind of a step as a word."""
    return _words(_STEP_KINDS.get(kind))


def trigger(triggered_by: TriggeredBy.ValueType) -> str:
    """Returns the trigger of a run in words."""
    return _TRIGGERS.get(triggered_by, _UNKNOWN)


def duration(milliseconds: int) -> str:
    """Returns a duration as `412 ms`, `3.2 s`, `4 min 5 s`, `2 h 3 min` or `4 d 2 h`."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    if milliseconds < 60_000:
        return f"{milliseconds // 100 / 10:g} s"
    seconds = milliseconds // 1000
    for large, small, names in ((86_400, 3600, "d h"), (3600, 60, "h min"), (60, 1, "min s")):
        if seconds >= large:
            first, second = names.split()
            return f"{seconds // large} {first} {seconds % large // small} {second}"
    raise AssertionError(milliseconds)


_SHORT_WAIT_MS: Final = 5_000


def start_wait(probable: Duration | None, oldest: Duration | None) -> str:
    """Says how long a run that is started now will probably wait, or that this is unknown; empty for a short wait.

    `oldest` is how long the oldest waiting run has waited, None if none waits.
    """
    if probable is not None and milliseconds_of(probable) > _SHORT_WAIT_MS:
        return f"A run started now will probably wait {approximate(milliseconds_of(probable))}."
    if probable is None and oldest is not None and milliseconds_of(oldest) > _SHORT_WAIT_MS:
        return "Runs wait, and none has begun lately: how long a run started now will wait is not known."
    return ""


def overlap(hours: int) -> str:
    """Returns the overlap of two secrets in words."""
    if hours % 24 == 0 and hours > 24:
        return f"{hours // 24} days"
    return f"{hours} hour{'' if hours == 1 else 's'}"


def size(count: int) -> str:
    """Returns a number of bytes as `812 B`, `4.1 kB` or `25 MB`, in powers of 1,000."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:,.1f} GB"


def cost(use: ModelUse) -> str:
    """Returns the cost in US dollars as text, with the number of calls without a known price."""
    known = f"{use.cost_microusd / 1_000_000:,.6f} USD"
    if not use.unpriced_calls:
        return known
    unpriced = f"{use.unpriced_calls:,} call{'' if use.unpriced_calls == 1 else 's'} without a known price"
    return unpriced if use.unpriced_calls == use.model_calls else f"{known}, and {unpriced}"


def json_lines(text: str) -> str:
    """Returns JSON text indented without a change of value; deeply nested values stay on one line.

    Invisible characters and those that reverse text are escaped, so that a reviewer reads the actual value.
    """
    written: list[str] = []
    depth = 0
    before = ""
    for part in _JSON_PART.findall(escaped_json(text)):
        closes = part in ("}", "]")
        depth -= closes
        # No line break within a deeply nested or an empty value.
        begins = before in ("{", "[") or before == "," or closes
        if begins and depth <= _MAX_INDENTED_DEPTH - closes and not (closes and before in ("{", "[")):
            written.append("\n" + _INDENT * depth)
        elif before == ":":
            written.append(" ")
        written.append(part)
        depth += part in ("{", "[")
        before = part
    return "".join(written)


def _badge(spelling: str | None) -> Badge:
    return Badge(_words(spelling), _BADGE_KINDS.get(spelling or "", ""))


def _words(spelling: str | None) -> str:
    return _UNKNOWN if spelling is None else spelling.replace("_", " ")
