"""Records of a run's page, shortened so that all of it fits, and the room that their markup takes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from edge.console.rendering.page_room import PageRoom, html_bytes
from edge.console.run.attempts import Span
from workflow_api.v1.outputs_pb2 import Output
from workflow_api.v1.runs_pb2 import PendingApproval, Run, Step

_MOST_MESSAGE_CHARS: Final = 1_000
_MOST_LISTED_CHARS: Final = 300
_MOST_WARNINGS: Final = 20
_MOST_SPANS: Final = 30
# Bytes of markup, of which names and paths come several times.
_OF_STEP: Final = 1_000
_NAMES_OF_STEP: Final = 8
_OF_NEED: Final = 130
_NAMES_OF_NEED: Final = 2
_OF_SPAN: Final = 210
_OF_OUTPUT: Final = 600
_OF_APPROVAL: Final = 1_000
_OF_EVENT: Final = 350


def short_run(run: Run, room: PageRoom) -> Run:
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


def latest_spans(spans: Mapping[str, Sequence[Span]]) -> dict[str, Sequence[Span]]:
    """Returns the latest attempts and waits of each step, as many as are drawn."""
    return {step: each[-_MOST_SPANS:] for step, each in spans.items()}


def markup_bytes(
    steps: Iterable[Step], spans: Mapping[str, Sequence[Span]], pending: Iterable[PendingApproval], events: int
) -> int:
    """Returns what steps, what is drawn of them, forms of approvals and events take without their long texts."""
    size = events * _OF_EVENT
    for step in steps:
        size += _OF_STEP + _NAMES_OF_STEP * (html_bytes(step.step) + html_bytes(step.name))
        size += sum(_OF_NEED + _NAMES_OF_NEED * html_bytes(need) + html_bytes(step.name) for need in step.needs)
    size += sum((_OF_SPAN + html_bytes(step)) * len(each) for step, each in spans.items())
    return size + sum(_OF_APPROVAL + html_bytes(each.approval.title) for each in pending)


def short_steps(steps: Iterable[Step], room: PageRoom) -> list[Step]:
    """Returns copies of steps with their messages cut."""
    found = []
    for step in steps:
        short = Step()
        short.CopyFrom(step)
        if short.HasField("error"):
            short.error.message = room.begin(short.error.message, _MOST_LISTED_CHARS)[0]
        found.append(short)
    return found


def short_approvals(pending: Iterable[PendingApproval], room: PageRoom) -> list[PendingApproval]:
    """Returns copies of approvals with their instructions cut."""
    found = []
    for each in pending:
        short = PendingApproval()
        short.CopyFrom(each)
        if short.approval.HasField("instructions"):
            short.approval.instructions = room.begin(short.approval.instructions, _MOST_MESSAGE_CHARS)[0]
        found.append(short)
    return found


def outputs_shown(outputs: Sequence[Output], most: int, room: PageRoom) -> Sequence[Output]:
    """Returns the first outputs, as many as there is room for."""
    for number, each in enumerate(outputs[:most]):
        if not room.holds(_OF_OUTPUT + 2 * html_bytes(each.path) + html_bytes(each.media_type)):
            return outputs[:number]
    return outputs[:most]
