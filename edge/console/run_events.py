"""Events of a run: a page of one segment, and what is told to who watches it go on."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from edge.console.formatting import ENDED, RUN_STATUSES
from edge.console.visit import Services
from edge.errors import Refusal
from workflow_api.v1.outputs_pb2 import ListOutputsRequest
from workflow_api.v1.runs_pb2 import GetRunRequest, ListRunEventsRequest, ListRunEventsResponse, Run, Segment

PAGE: Final = 200
POLL_SECONDS: Final = 1.0

_SERVICES_FAIL: Final = 500


class Standing(NamedTuple):
    """How far a run has come: its status, and the last event of its latest segment."""

    status: str
    segment: str
    seq: int

    @classmethod
    def of(cls, run: Run, read: ListRunEventsResponse) -> "Standing":
        """Return where a run stands, by a page of its events, whichever it is."""
        latest = read.segments[-1] if read.segments else Segment()
        return cls(RUN_STATUSES.get(run.summary.status) or "", latest.segment_id, latest.last_seq)

    @property
    def ended(self) -> bool:
        """Whether nothing more comes."""
        return self.status in ENDED


@dataclass(frozen=True, slots=True)
class EventPage:
    """A page of the events of one segment.

    Attributes:
        read: The events, with every segment of the run.
        segment: The segment that was read; None where none has begun.
        earlier: `after_seq` of the page before; None on the first.
        later: `after_seq` of the next page; None on the last.
    """

    read: ListRunEventsResponse
    segment: Segment | None
    earlier: int | None
    later: int | None


async def events_page(services: Services, run_id: str, segment: str, after_seq: int | None) -> EventPage:
    """Return a page of events; without `after_seq` the last one, and of the latest segment where none is named.

    Raises:
        Refusal: `segment_not_found`, or as the service refuses.
    """
    request = ListRunEventsRequest(run_id=run_id, segment=segment, after_seq=after_seq or 0, page_size=PAGE)
    read = await services.call("RunsService/ListRunEvents", request)
    found = _segment(read)
    if after_seq is None and found is not None and found.last_seq > PAGE:
        # The segment is named now: a new one that has just begun must not be read from the middle.
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


async def watch(services: Services, run_id: str, seen: Standing) -> AsyncIterator[tuple[str, str]]:
    """Tell of a run that goes on, until it has ended and what it made is open; `seen` is what the page showed of it.

    `refresh` has the page asked for again: there are new events, a new segment or another status. `reload` comes when
    the run cannot be read any more, as after an erasure.

    Raises:
        Refusal: the services cannot be reached.
    """
    withheld = False
    while True:
        try:
            standing = await _standing(services, run_id)
            was_withheld, withheld = withheld, standing.ended and await _is_withheld(services, run_id)
        except Refusal as refusal:
            if refusal.status >= _SERVICES_FAIL:
                raise
            yield "reload", refusal.code
            return
        if standing != seen or (was_withheld and not withheld):
            yield "refresh", f"{standing.status} {standing.segment} {standing.seq}"
            seen = standing
        if standing.ended and not withheld:
            return
        await asyncio.sleep(POLL_SECONDS)


async def _standing(services: Services, run_id: str) -> Standing:
    # The status is read first: what happened before it is then among the events, and the end comes after all of them.
    run: Run = await services.call("RunsService/GetRun", GetRunRequest(run_id=run_id))
    request = ListRunEventsRequest(run_id=run_id, page_size=1)
    read: ListRunEventsResponse = await services.call("RunsService/ListRunEvents", request)
    return Standing.of(run, read)


async def _is_withheld(services: Services, run_id: str) -> bool:
    try:
        await services.call("OutputsService/ListOutputs", ListOutputsRequest(run_id=run_id))
    except Refusal as refusal:
        if refusal.code != "redaction_pending":
            raise
        return True
    return False


def _segment(read: ListRunEventsResponse) -> Segment | None:
    return next((segment for segment in read.segments if segment.segment_id == read.segment_id), None)
