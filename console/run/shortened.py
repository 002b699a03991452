"""Records of a run's page, shortened so that all of it fits, and the room that their markup takes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from console.rendering.dag import MOST_LINE_CHARS
from console.rendering.page_budget import PageBudget, html_bytes
from console.rendering.step_window import MOST_STEPS
from console.run.attempts import Span
from workflow_api.v1.outputs_pb2 import Output
from workflow_api.v1.reviews_pb2 import Decision
from workflow_api.v1.runs_pb2 import PendingApproval, Run, Step

_MOST_MESSAGE_CHARS: Final = 1_000
_MOST_LISTED_CHARS: Final = 300
_MOST_WARNINGS: Final = 20
_MOST_SPANS: Final = 30
_MOST_SPANS_OF_ALL: Final = 120
_STEPS_BYTES: Final = 66_000
"""Of all that is drawn and listed of the steps that a page shows."""
_WINDOWS: Final = (MOST_STEPS, 20, 10, 5)
_NEEDS_LISTED: Final = 12
# Bytes of markup, of which names and paths come several times.
_OF_STEP: Final = 900
_HANDLES_OF_STEP: Final = 8
_NAMES_OF_STEP: Final = 4
_OF_NEED: Final = 130
_OF_SPAN: Final = 210
_OF_OUTPUT: Final = 600
_OF_APPROVAL: Final = 1_000
_OF_DECISION: Final = 300
_OF_EVENT: Final = 350


def short_run(run: Run, room: PageBudget) -> Run:
    """Returns a copy of a run with its messages and warnings cut."""
    short = Run()
    short.CopyFrom(run)
    for error in ("error", "result_error"):
        if short.HasField(error):
            found = getattr(short, error)
            found.message = room.begin(found.message, _MOST_MESSAGE_CHARS)[0]
    warnings = [room.begin(each, _MOST_LISTED_CHARS)[0] for each in short.summary.warnings[:_MOST_WARNINGS]]
    short.summary.warnings[:] = [each for each in warnings if each]
    return short


def latest_spans(spans: Mapping[str, Sequence[Span]], steps: Sequence[Step]) -> dict[str, Sequence[Span]]:
    """Returns the latest attempts and waits of each of these steps, as many as are drawn."""
    most = min(_MOST_SPANS, _MOST_SPANS_OF_ALL // max(1, len(steps)))
    return {step.step: spans[step.step][-most:] for step in steps if step.step in spans}


def steps_at_once(steps: Sequence[Step]) -> int:
    """Returns how many steps a page shows, so that those with the longest names and the most needs fit."""
    for size in _WINDOWS:
        windows = (steps[first : first + size] for first in range(0, len(steps), size))
        if all(_steps_bytes(window) <= _STEPS_BYTES for window in windows):
            return size
    return _WINDOWS[-1]


def markup_bytes(steps: Sequence[Step], spans: Mapping[str, Sequence[Span]], events: int) -> int:
    """Returns what steps, what is drawn of them, and events take without their long texts."""
    names = {step.step: html_bytes(step.name or step.step) for step in steps}
    drawn = sum((_OF_SPAN + names[step]) * len(each) for step, each in spans.items())
    return _steps_bytes(steps) + drawn + events * _OF_EVENT


def _steps_bytes(steps: Sequence[Step]) -> int:
    handles = {step.step: html_bytes(step.step) for step in steps}
    size = lines = 0
    for step in steps:
        size += _OF_STEP + _HANDLES_OF_STEP * handles[step.step] + _NAMES_OF_STEP * html_bytes(step.name)
        size += sum(html_bytes(need) for need in step.needs[:_NEEDS_LISTED])
        drawn = [handles[need] for need in step.needs if need in handles]
        lines += sum(drawn) + len(drawn) * (_OF_NEED + handles[step.step])
    return size + min(lines, MOST_LINE_CHARS)


def short_steps(steps: Iterable[Step], room: PageBudget) -> list[Step]:
    """Returns copies of steps with their messages cut."""
    found = []
    for step in steps:
        short = Step()
        short.CopyFrom(step)
        if short.HasField("error"):
            short.error.message = room.begin(short.error.message, _MOST_LISTED_CHARS)[0]
        found.append(short)
    return found


def short_approvals(pending: Iterable[PendingApproval], room: PageBudget) -> list[PendingApproval]:
    """Returns copies of the first approvals, as many as there is room for, with their instructions cut."""
    found: list[PendingApproval] = []
    for each in pending:
        if not room.holds(_OF_APPROVAL + html_bytes(each.approval.title + each.approval.step)):
            return found
        short = PendingApproval()
        short.CopyFrom(each)
        if short.approval.HasField("instructions"):
            short.approval.instructions = room.begin(short.approval.instructions, _MOST_MESSAGE_CHARS)[0]
        found.append(short)
    return found


def decisions_shown(decisions: Sequence[Decision], room: PageBudget) -> Sequence[Decision]:
    """Returns the first decisions, as many as there is room for."""
    for number, each in enumerate(decisions):
        if not room.holds(_OF_DECISION + html_bytes(each.title + each.step + each.decided_by)):
            return decisions[:number]
    return decisions


def outputs_shown(outputs: Sequence[Output], most: int, room: PageBudget) -> Sequence[Output]:
    """Returns the first outputs, as many as there is room for."""
    for number, each in enumerate(outputs[:most]):
        if not room.holds(_OF_OUTPUT + 2 * html_bytes(each.path) + html_bytes(each.media_type)):
            return outputs[:number]
    return outputs[:most]
