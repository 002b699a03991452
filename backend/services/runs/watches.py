"""Streams of a run's state and of its events, which continue after each commit."""

from collections.abc import Callable, Iterator
from time import monotonic

from backend.common.errors import ApiError
from backend.common.principal import Principal
from backend.common.states import RUN_TERMINAL
from backend.common.waits import Pause
from backend.services.run_changes import CHECK_SECONDS, RunChanges, Subscription
from backend.services.runs.reads import RunReads
from backend.services.runs.rules import STATUS_NUMBERS
from workflow_api.v1 import errors_pb2, runs_pb2

_FINISHED = frozenset(STATUS_NUMBERS[status] for status in RUN_TERMINAL)


class RunWatches:
    """Streams of runs and events. While a stream waits, it yields the `Pause` that it waits for."""

    def __init__(self, reads: RunReads, changes: RunChanges) -> None:
        self._reads = reads
        self._changes = changes

    def run(
        self, request: runs_pb2.WatchRunRequest, caller: Principal, is_active: Callable[[], bool]
    ) -> Iterator[runs_pb2.Run | Pause]:
        """Yields the run now and after each change of status or counts, until its end; raises as `RunReads.run`.

        Raises:
            ApiError: `runtime_unreachable` when this process ends.
        """
        get = runs_pb2.GetRunRequest(run_id=request.run_id)
        shown = b""
        for pause in self._pauses(request.run_id, is_active):
            if pause is not None:
                yield pause
                continue
            run = self._reads.run(get, caller)
            state = _state(run.summary)
            if state != shown:
                shown = state
                yield run
            if run.summary.status in _FINISHED:
                return

    def events(
        self, request: runs_pb2.WatchRunEventsRequest, key_id: str | None, is_active: Callable[[], bool]
    ) -> Iterator[runs_pb2.WatchRunEventsResponse | Pause]:
        """Yields the events of all segments, new ones as they are committed; raises as `RunReads.events` and `run`."""
        get = runs_pb2.ListRunEventsRequest(run_id=request.run_id, segment=request.segment, after_seq=request.after_seq)
        for pause in self._pauses(request.run_id, is_active):
            if pause is not None:
                yield pause
                continue
            more = True
            while more:
                page = self._reads.events(get, key_id)
                segment_ids = [segment.segment_id for segment in page.segments]
                if not get.segment and segment_ids and page.segment_id != segment_ids[0]:
                    # Without a segment, `RunReads.events` reads the latest one: begin with the first instead.
                    get.segment = segment_ids[0]
                    continue
                for event in page.events:
                    yield runs_pb2.WatchRunEventsResponse(segment_id=page.segment_id, event=event)
                get.segment, get.after_seq = page.segment_id, page.next_after_seq
                more = page.HasField("next_page_token")
                following = segment_ids[segment_ids.index(page.segment_id) + 1 :] if page.segment_id else []
                if not more and following:
                    get.segment, get.after_seq, more = following[0], 0, True
            if page.run_status in _FINISHED:
                return

    def _pauses(self, run_id: str, is_active: Callable[[], bool]) -> Iterator[Subscription | None]:
        """Yields None when the caller shall read, else the subscription to wait for; ends when the client is gone.

        The subscription begins before the first read, so that no later change is missed.
        """
        subscription = self._changes.subscribe(run_id)
        read_at = float("-inf")
        try:
            while is_active():
                run_ids, missed = subscription.take()
                if run_ids or missed or monotonic() - read_at >= CHECK_SECONDS:
                    read_at = monotonic()
                    yield None
                elif subscription.ended:
                    raise ApiError(errors_pb2.ERROR_REASON_RUNTIME_UNREACHABLE)
                else:
                    yield subscription
        finally:
            subscription.close()


def _state(summary: runs_pb2.RunSummary) -> bytes:
    """Returns the serialized status and counts of a run, to detect changes."""
    shown = runs_pb2.RunSummary(status=summary.status, counts=summary.counts)
    return shown.SerializeToString(deterministic=True)
