"""Events of a run: pages of one segment, and live updates of a running one."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from console.rendering.formatting import ENDED, RUN_STATUSES
from console.run import bounds
from console.visit import UserServices
from contract.refusals import Refusal
from workflow_api.v1.outputs_pb2 import ListOutputsRequest
from workflow_api.v1.runs_pb2 import (
    GetRunRequest,
    ListRunEventsRequest,
    ListRunEventsResponse,
    Run,
    Segment,
    WatchRunEventsRequest,
)

PAGE: Final = bounds.EVENTS
POLL_SECONDS: Final = 1.0
"""Least seconds between two reads for one page."""
_CHECK_SECONDS: Final = 30.0

_SERVICES_FAIL: Final = 500


class RunPosition(NamedTuple):
    """Progress of a run: its status, and the last event of its latest segment."""

    status: str
    segment: str
    seq: int

    @classmethod
    def of(cls, run: Run, read: ListRunEventsResponse) -> "RunPosition":
        """Returns the progress of a run from the run and any page of its events."""
        latest = read.segments[-1] if read.segments else Segment()
        return cls(RUN_STATUSES.get(run.summary.status) or "", latest.segment_id, latest.last_seq)

    @property
    def ended(self) -> bool:
        """Returns whether the run has ended."""
        return self.status in ENDED


@dataclass(frozen=True, slots=True)
class EventPage:
    """A page of the events of one segment.

    Attributes:
        read: The events, with every segment of the run.
        segment: The segment that was read; None where none has begun.
        earlier: `after_seq` of the previous page; None on the first.
        later: `after_seq` of the next page; None on the last.
    """

    read: ListRunEventsResponse
    segment: Segment | None
    earlier: int | None
    later: int | None


class EventFilter(NamedTuple):
    """Filter of a segment's events by types and step; empty means any."""

    types: Sequence[str] = ()
    step: str = ""


ALL_EVENTS: Final = EventFilter()


async def events_page(
    services: UserServices, run_id: str, segment: str, after_seq: int | None, event_filter: EventFilter = ALL_EVENTS
) -> EventPage:
    """Returns a page of events, by default the last page of the latest segment.

    Filtered events default to the first page, because the start of their last page is unknown.

    Raises:
        Refusal: `segment_not_found`, or as the service refuses.
    """
    request = ListRunEventsRequest(
        run_id=run_id, segment=segment, after_seq=after_seq or 0, page_size=PAGE, types=event_filter.types
    )
    if event_filter.step:
        request.step = event_filter.step
    read = await services.call("RunsService/ListRunEvents", request)
    found = _segment(read)
    if any(event_filter):
        return EventPage(
            read=read,
            segment=found,
            earlier=0 if after_seq else None,
            later=read.next_after_seq if len(read.events) == PAGE else None,
        )
    if after_seq is None and found is not None and found.last_seq > PAGE:
        # By segment id, because a new segment that begins meanwhile must not be read from its middle.
        request.segment, request.after_seq = found.segment_id, found.last_seq - PAGE
        read = await services.call("RunsService/ListRunEvents", request)
        found = _segment(read)
    more = found is not None and read.next_after_seq < found.last_seq
    return EventPage(
        read=read,
        segment=found,
        earlier=max(0, request.after_seq - PAGE) if request.after_seq else None,
        later=read.next_after_seq if more else None,
    )


async def watch(services: UserServices, run_id: str, seen: RunPosition) -> AsyncIterator[tuple[str, str]]:
    """Yields updates of a run until it has ended and its outputs are readable; `seen` is the page's position.

    `refresh` makes the browser fetch the page again after new events, a new segment or another status. `reload`
    follows when the run can no longer be read, as after an erasure.

    Raises:
        Refusal: the services cannot be reached.
    """
    withheld = False
    loop = asyncio.get_running_loop()
    while True:
        read_at = loop.time()
        try:
            progress = await _progress(services, run_id)
            was_withheld, withheld = withheld, progress.ended and await _is_withheld(services, run_id)
        except Refusal as refusal:
            if refusal.status >= _SERVICES_FAIL:
                raise
            yield "reload", refusal.code
            return
        if progress != seen or (was_withheld and not withheld):
            yield "refresh", f"{progress.status} {progress.segment} {progress.seq}"
            seen = progress
        if progress.ended and not withheld:
            return
        if not progress.ended:
            await _wait_for_event(services, run_id, progress)
        await asyncio.sleep(read_at + POLL_SECONDS - loop.time())


async def _wait_for_event(services: UserServices, run_id: str, seen: RunPosition) -> None:
    """Waits for an event that the page does not show, for a bounded time; returns at once if it cannot wait."""
    request = WatchRunEventsRequest(run_id=run_id, segment=seen.segment, after_seq=seen.seq)
    with suppress(Refusal):
        async with aclosing(services.stream("RunsService/WatchRunEvents", request, _CHECK_SECONDS)) as events:
            await anext(events, None)


async def _progress(services: UserServices, run_id: str) -> RunPosition:
    # The status is read before the events: once it says that the run has ended, no event is missed.
    run: Run = await services.call("RunsService/GetRun", GetRunRequest(run_id=run_id))
    request = ListRunEventsRequest(run_id=run_id, page_size=1)
    read: ListRunEventsResponse = await services.call("RunsService/ListRunEvents", request)
    return RunPosition.of(run, read)


async def _is_withheld(services: UserServices, run_id: str) -> bool:
    try:
        await services.call("OutputsService/ListOutputs", ListOutputsRequest(run_id=run_id))
    except Refusal as refusal:
        if refusal.code != "redaction_pending":
            raise
        return True
    return False


def _segment(read: ListRunEventsResponse) -> Segment | None:
    return next((segment for segment in read.segments if segment.segment_id == read.segment_id), None)
