"""Follows a run by its events, over all its segments, until it has ended."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from deploy.cli.output.records import record_of
from deploy.client.backend import Backend
from workflow_api.v1 import runs_pb2

FOLLOW_SECONDS: Final = 0.5
PAGE: Final = 500
_DECISION_SECONDS: Final = 5.0
_DECISION_POLL_SECONDS: Final = 0.1
TERMINAL: Final = frozenset({runs_pb2.RUN_STATUS_COMPLETED, runs_pb2.RUN_STATUS_FAILED, runs_pb2.RUN_STATUS_CANCELLED})


@contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Gives a check that raises KeyboardInterrupt after SIGINT, even if gRPC swallowed the exception of the signal."""
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


def all_events(
    backend: Backend,
    run_id: str,
    check: Callable[[], None],
    *,
    seconds: float | None = None,
    on_run: Callable[[runs_pb2.Run], None] = lambda _: None,
) -> Iterator[dict[str, Any]]:
    """Yields every event of a run with its `segment_id`, in the order of segments, until the run is terminal.

    `check` is called before each round, and may raise to end it; `on_run` gets the run as it is after each round, of
    which there is one every `seconds`.
    """
    read: dict[str, int] = {}
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


def status_after_decision(backend: Backend, run_id: str, *, approved: bool) -> str:
    """Returns the status that a decision on an approval leads to, once its segment has begun, or the present one.

    A run that waits for another approval goes on waiting; one that was rejected fails.
    """
    until = time.monotonic() + _DECISION_SECONDS
    while True:
        run = backend.call(backend.runs.GetRun, runs_pb2.GetRunRequest(run_id=run_id))
        status, pending = run.summary.status, run.summary.counts.approvals_pending
        waits = status == runs_pb2.RUN_STATUS_WAITING_FOR_APPROVAL and (not pending or not approved)
        settled = status in TERMINAL or (approved and not waits)
        if settled or time.monotonic() > until:
            return str(record_of(run)["status"])
        time.sleep(_DECISION_POLL_SECONDS)


def events_after(
    backend: Backend, run_id: str, segment: str, after_seq: int, *, limit: int = PAGE
) -> runs_pb2.ListRunEventsResponse:
    """Reads one page of events; an empty segment id stands for the latest segment."""
    request = runs_pb2.ListRunEventsRequest(run_id=run_id, segment=segment, after_seq=after_seq, page_size=limit)
    return backend.call(backend.runs.ListRunEvents, request)
