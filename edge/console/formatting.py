"""How what the services say reads on a page: the words and looks of a status, spans, sizes, and JSON in lines."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from contract.spellings import spellings
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
"""The spelling of each status in the API, which is what a filter takes."""

_STEP_STATUSES: Final = spellings(StepStatus.DESCRIPTOR)
_STEP_KINDS: Final = spellings(StepKind.DESCRIPTOR)
_TRIGGERS: Final = {TRIGGERED_BY_API_KEY: "API key", TRIGGERED_BY_CONSOLE: "console", TRIGGERED_BY_SCHEDULE: "schedule"}
_WORKFLOW_STATUSES: Final = spellings(WorkflowStatus.DESCRIPTOR)

_LOOKS: Final[Mapping[str, str]] = {
    "running": "busy",
    "waiting_for_approval": "warn",
    "completed": "good",
    "failed": "bad",
    "blocked": "bad",
    "active": "good",
    "draft": "warn",
}
_JSON_PART: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')
_INDENT: Final = "  "
_DEEPEST: Final = 20
_UNKNOWN: Final = "unknown"


class Badge(NamedTuple):
    """A word, and the kind of badge that it stands in."""

    text: str
    kind: str = ""


def run_badge(status: int) -> Badge:
    """Return the badge of a run's status."""
    return _badge(RUN_STATUSES.get(status))


def step_badge(status: int) -> Badge:
    """Return the badge of a step's status."""
    return _badge(_STEP_STATUSES.get(status))


def workflow_badge(status: int) -> Badge:
    """Return the badge of a workflow's status."""
    return _badge(_WORKFLOW_STATUSES.get(status))


def step_kind(kind: int) -> str:
    """Return what a step is, in a word."""
    return _words(_STEP_KINDS.get(kind))


def trigger(triggered_by: TriggeredBy.ValueType) -> str:
    """Return what started a run, in words."""
    return _TRIGGERS.get(triggered_by, _UNKNOWN)


def span(milliseconds: int) -> str:
    """Return a time that passed as `412 ms`, `3.2 s`, `4 min 5 s`, `2 h 3 min` or `4 d 2 h`."""
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


def size(count: int) -> str:
    """Return a number of bytes as `812 B`, `4.1 kB` or `25 MB`; a thousand each."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:,.1f} GB"


def json_lines(text: str) -> str:
    """Return JSON in indented lines, with every number and string as it is written; what lies deep stays in one."""
    written: list[str] = []
    depth = 0
    before = ""
    for part in _JSON_PART.findall(text):
        closes = part in ("}", "]")
        depth -= closes
        # Within what lies deep nothing begins a line; nor does the end of what is empty.
        begins = before in ("{", "[") or before == "," or closes
        if begins and depth <= _DEEPEST - closes and not (closes and before in ("{", "[")):
            written.append("\n" + _INDENT * depth)
        elif before == ":":
            written.append(" ")
        written.append(part)
        depth += part in ("{", "[")
        before = part
    return "".join(written)


def _badge(spelling: str | None) -> Badge:
    return Badge(_words(spelling), _LOOKS.get(spelling or "", ""))


def _words(spelling: str | None) -> str:
    return _UNKNOWN if spelling is None else spelling.replace("_", " ")
