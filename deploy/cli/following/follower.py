"""Follows a run by its events, over all its segments, until it has ended, and decides its approvals.

Approvals are decided by an option, or by asking at the terminal.
"""

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from types import FrameType
from typing import Any, Final

import typer

from deploy.cli.output.records import record_of
from deploy.cli.output.terminal import printable
from deploy.client.backend import BackendClient
from deploy.failures import CommandError
from workflow_api.v1 import deployment_health_pb2, runs_pb2

PAGE: Final = 500
WATCH_SECONDS: Final = 24 * 3600.0
FOLLOW_SECONDS: Final = 0.5
_DECISION_SECONDS: Final = 5.0
# Codes of a backend that stops, or whose release lacks the stream.
_BROKEN: Final = frozenset({"runtime_unreachable", "runtime_error"})
TERMINAL: Final = frozenset({runs_pb2.RUN_STATUS_COMPLETED, runs_pb2.RUN_STATUS_FAILED, runs_pb2.RUN_STATUS_CANCELLED})


@contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Yields a check that raises KeyboardInterrupt after SIGINT, even if gRPC swallowed the signal's exception."""
    received: list[int] = []

    def handle(number: int, _: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    def check() -> None:
        if received:
            raise KeyboardInterrupt

    former = signal.signal(signal.SIGINT, handle)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, former)


def watched_events(backend: BackendClient, run_id: str, check: Callable[[], None]) -> Iterator[dict[str, Any]]:
    """Yields every event of a run with its `segment_id`, each as soon as it is committed, until the run is terminal.

    `check` is called before each event, and may raise to end it. If the stream breaks, as when the backend restarts,
    further events are polled for.
    """
    read: dict[str, int] = {}
    request = runs_pb2.WatchRunEventsRequest(run_id=run_id)
    try:
        for message in backend.stream(backend.runs.WatchRunEvents, request, WATCH_SECONDS):
            check()
            yield {"segment_id": message.segment_id, **record_of(message)["event"]}
            read[message.segment_id] = message.event.seq
    except CommandError as failed:
        if failed.code not in _BROKEN:
            raise
        yield from all_events(backend, run_id, check, read=read)


def all_events(
    backend: BackendClient,
    run_id: str,
    check: Callable[[], None],
    *,
    seconds: float | None = None,
    on_run: Callable[[runs_pb2.Run], None] = lambda _: None,
    read: dict[str, int] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yields the events of a run as `watched_events` does, but polls for them every `seconds`.

    `on_run` gets the run after each round. `read` has the last seq read of each segment.
    """
    read = {} if read is None else read
    ended = False
    while True:
        check()
        latest = events_after(backend, run_id, "", 0, limit=1)
        for segment in latest.segments:
            while segment.last_seq > read.get(segment.segment_id, 0):
                page = events_after(backend, run_id, segment.segment_id, read.get(segment.segment_id, 0))
                for event in record_of(page)["events"]:
                    yield {"segment_id": segment.segment_id, **event}
                read[segment.segment_id] = page.next_after_seq
        if ended:
            return
        run = backend.call(backend.runs.GetRun, runs_pb2.GetRunRequest(run_id=run_id))
        on_run(run)
        # Events written between the last page and the end of the run are read in one more round.
        ended = run.summary.status in TERMINAL
        if not ended:
            time.sleep(FOLLOW_SECONDS if seconds is None else seconds)


def status_after_decision(backend: BackendClient, run_id: str, *, approved: bool) -> str:
    """Returns the run's status after a decision, once the next segment has begun, else the present status.

    The present status is returned without a wait if no worker takes the segment. A run that waits for another approval
    stays waiting; a rejected run fails.
    """
    # Without a stream, or within the time, the present status is the answer.
    with suppress(CommandError):
        for run in backend.stream(backend.runs.WatchRun, runs_pb2.WatchRunRequest(run_id=run_id), _DECISION_SECONDS):
            status, pending = run.summary.status, run.summary.counts.approvals_pending
            waits = status == runs_pb2.RUN_STATUS_WAITING_FOR_APPROVAL and (not pending or not approved)
            if status in TERMINAL or (approved and not waits) or _queue_stands_still(backend):
                return str(record_of(run)["status"])
    return str(record_of(backend.call(backend.runs.GetRun, runs_pb2.GetRunRequest(run_id=run_id)))["status"])


def _queue_stands_still(backend: BackendClient) -> bool:
    """Returns whether no segment will begin soon, as without a live worker; False if that is unknown."""
    with suppress(CommandError):
        health = backend.call(
            backend.deployment_health.GetDeploymentHealth, deployment_health_pb2.GetDeploymentHealthRequest()
        )
        queue = deployment_health_pb2.HEALTH_TOPIC_QUEUE
        return any(finding.critical and finding.topic == queue for finding in health.findings)
    return False


def events_after(
    backend: BackendClient, run_id: str, segment: str, after_seq: int, *, limit: int = PAGE
) -> runs_pb2.ListRunEventsResponse:
    """Reads one page of events; an empty segment id stands for the latest segment."""
    request = runs_pb2.ListRunEventsRequest(run_id=run_id, segment=segment, after_seq=after_seq, page_size=limit)
    return backend.call(backend.runs.ListRunEvents, request)


APPROVE: Final = ("ask", "yes", "no")

Answer = Callable[[runs_pb2.Approval, Callable[[], None]], bool]
"""Takes an approval and a function that shows its material; returns whether to approve."""

_ANSWERS: Final = {"y": True, "yes": True, "n": False, "no": False}


def answer_from(option: str, *, as_json: bool) -> Answer:
    """Returns the function that decides approvals by `--approve`; with `ask` it raises CommandError off a terminal."""
    if option not in APPROVE:
        raise typer.BadParameter(f"must be one of {', '.join(APPROVE)}, not {option!r}", param_hint="--approve")
    if option != "ask":
        return lambda *_: option == "yes"
    return _no_terminal if as_json or not sys.stdin.isatty() else _ask


def check_answerable(answer: Answer, steps: Sequence[str]) -> None:
    """Checks before a run that its approvals can be decided.

    Raises:
        CommandError: a decision would be asked for, and there is no terminal.
    """
    if steps and answer is _no_terminal:
        raise _needs_terminal(steps[0])


def _needs_terminal(step: str) -> CommandError:
    return CommandError(
        f"The step {step} waits for a decision, and there is no terminal to ask at: "
        "give --approve yes or --approve no.",
        code="approval_needed",
    )


def _no_terminal(approval: runs_pb2.Approval, _: Callable[[], None]) -> bool:
    raise _needs_terminal(approval.step)


def _ask(approval: runs_pb2.Approval, show: Callable[[], None]) -> bool:
    print(f"\n{printable(approval.title)}", file=sys.stderr)
    if approval.HasField("instructions"):
        print(printable(approval.instructions, lines=True), file=sys.stderr)
    with redirect_stdout(sys.stderr):
        show()
    print(file=sys.stderr)
    while True:
        print(f"Approve {printable(approval.step)}? [y/n] ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            raise CommandError(f"The step {approval.step} was not decided.", code="approval_needed")
        answer = _ANSWERS.get(line.strip().lower())
        if answer is not None:
            return answer
