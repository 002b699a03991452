"""Streams the events of a run as server-sent events (contract 17.15 to 17.18)."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final

import orjson

from contract.fields import spellings
from contract.json_codec.response import ResponseCodec
from contract.refusals import Refusal
from edge.admission.call import Call
from edge.http.request import HttpRequest
from edge.http.response import Answer
from edge.waiting.follower import RunChangesFollower
from edge.waiting.long_polls import LongPoll
from edge.waiting.waits import FINISHED, POLL_SECONDS
from workflow_api.v1.runs_pb2 import Event, ListRunEventsRequest, ListRunEventsResponse, RunStatus

MEDIA_TYPE: Final = "text/event-stream"

ReadPage = Callable[[ListRunEventsRequest], Awaitable[ListRunEventsResponse]]

COMMENT_SECONDS: Final = 15.0
"""Seconds of silence after which a stream sends a comment."""
# Comments after which a stream reads although no change was announced.
_COMMENTS_A_READ: Final = 2
# Events may have 64 KB each; a slow reader keeps one page in memory.
_PAGE_EVENTS: Final = 20
_COMMENT: Final = b": waiting\n\n"
# Milliseconds after which a client reconnects when its edge stopped.
_RETRY: Final = b"retry: 1000\n\n"
_POSITION: Final = re.compile(r"([A-Za-z0-9_-]{1,128}):([0-9]{1,18})")
_STATUSES: Final = spellings(RunStatus.DESCRIPTOR)
_LINE_ENDS: Final = re.compile(rb"\r\n|\r|\n")
_MEDIA_RANGE: Final = re.compile(r"[ \t]*text/event-stream[ \t]*(?:;(?P<parameters>.*))?", re.IGNORECASE)
_NOT_WANTED: Final = re.compile(r"(?:^|;)[ \t]*q[ \t]*=[ \t]*0(?:\.0*)?[ \t]*(?:;|$)", re.IGNORECASE)


def wants_stream(request: HttpRequest) -> bool:
    """Returns whether `Accept` names server-sent events; a range such as `*/*` does not."""
    for value in request.header_values("Accept"):
        for media_range in value.split(","):
            found = _MEDIA_RANGE.fullmatch(media_range)
            if found and not _NOT_WANTED.search(found["parameters"] or ""):
                return True
    return False


def take_position(request: HttpRequest, message: ListRunEventsRequest) -> None:
    """Sets the start of the stream: after `Last-Event-ID`, else as the query says.

    Raises:
        Refusal: `invalid_request`, of a `Last-Event-ID` that no event has.
    """
    message.ClearField("wait")
    message.page_size = _PAGE_EVENTS
    values = request.header_values("Last-Event-ID")
    if not values or values == [""]:
        return
    found = _POSITION.fullmatch(values[0]) if len(values) == 1 else None
    if found is None:
        raise Refusal(
            "invalid_request",
            details=[{"name": "Last-Event-ID", "reason": "must be the id of an event, as <segment_id>:<seq>"}],
        )
    message.segment, message.after_seq = found[1], int(found[2])


class EventStream(Answer):
    """Answer that sends events page by page, each page once the caller has read the one before."""

    __slots__ = ("_at", "_blocked", "_first", "_follower", "_poll", "_quiet_until", "_read")

    def __init__(
        self,
        at: ListRunEventsRequest,
        first: ListRunEventsResponse,
        read: ReadPage,
        follower: RunChangesFollower,
        poll: LongPoll | None,
    ) -> None:
        """Takes the first page, which was read at `at`; without a poll the stream ends after the present events."""
        super().__init__(200, media_type=MEDIA_TYPE, headers=[("X-Accel-Buffering", "no")])
        self._at = at
        self._first: ListRunEventsResponse | None = first
        self._read = read
        self._follower = follower
        self._poll = poll
        self._blocked = False
        self._quiet_until = 0.0

    async def send(self, request: HttpRequest) -> None:
        """Writes events until the run ends, the edge stops, or the key loses access."""
        connection = request.connection
        loop = asyncio.get_running_loop()

        async def write(data: bytes) -> None:
            self._quiet_until = loop.time() + COMMENT_SECONDS
            self.write_part(request, data)
            self._blocked = True
            await connection.drain()
            self._blocked = False

        if self._poll is not None:
            # A caller that does not read gets no clean end either.
            self._poll.on_refused = lambda: connection.abort() if self._blocked else None
        try:
            connection.write(self.head(request, None))
            await write(_RETRY)
            await self._send_all(write)
            self.write_part(request, b"")
            await connection.drain()
        finally:
            if self._poll is not None:
                self._poll.close()

    async def _send_all(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        poll = self._poll
        while True:
            page = await self._next_page(write)
            if page is None:
                return
            for event in page.events:
                await write(_message(page.segment_id, event))
                if poll is not None and poll.over:
                    return
            if self._advance(page):
                continue
            if page.run_status in FINISHED:
                status = orjson.dumps({"run_id": page.run_id, "status": _STATUSES.get(page.run_status)})
                await write(b"event: end\ndata: %b\n\n" % status)
                return
            if poll is None or not await self._wait(poll, write):
                return

    def _advance(self, page: ListRunEventsResponse) -> bool:
        """Moves the position past a page; returns whether more can be read now."""
        at = self._at
        if page.segment_id:
            at.segment, at.after_seq = page.segment_id, page.next_after_seq
        if len(page.events) == _PAGE_EVENTS:
            return True
        segment_ids = [segment.segment_id for segment in page.segments]
        following = segment_ids[segment_ids.index(page.segment_id) + 1 :] if page.segment_id else []
        if following:
            at.segment, at.after_seq = following[0], 0
        return bool(following)

    async def _next_page(self, write: Callable[[bytes], Awaitable[None]]) -> ListRunEventsResponse | None:
        """Returns the next page; None where no page will follow, as after the erasure of the run's data."""
        poll = self._poll
        if self._first is not None:
            page, self._first = self._first, None
            return page
        while True:
            try:
                return await first_page(self._at, self._read)
            except Refusal as refusal:
                if refusal.status < 500 or poll is None or not await self._wait(poll, write, behind=True):
                    return None

    async def _wait(self, poll: LongPoll, write: Callable[[bytes], Awaitable[None]], *, behind: bool = False) -> bool:
        """Returns True when there may be events to read, and False when the stream must end.

        A stream that is `behind`, because its last read failed, reads again soon.
        """
        loop = asyncio.get_running_loop()
        comments = 0
        while not poll.over:
            following = self._follower.following and not behind
            left = self._quiet_until - loop.time()
            if await poll.wait(left if following else min(left, POLL_SECONDS)):
                return not poll.over
            if loop.time() >= self._quiet_until:
                comments += 1
                await write(_COMMENT)
            if not following or comments >= _COMMENTS_A_READ:
                return True
        return False


async def open_event_stream(
    call: Call, at: ListRunEventsRequest, read: ReadPage, follower: RunChangesFollower
) -> Answer:
    """Returns the answer that streams the events of a run from the caller's position.

    Raises:
        Refusal: as `take_position`, and as the first read does.
    """
    take_position(call.request, at)
    poll = follower.long_polls.open(call, at.run_id)
    try:
        return EventStream(at, await first_page(at, read), read, follower, poll)
    except BaseException:
        if poll is not None:
            poll.close()
        raise


async def first_page(at: ListRunEventsRequest, read: ReadPage) -> ListRunEventsResponse:
    """Returns the page at a position, by default of the run's first segment; raises as `read`."""
    from_start = not at.segment and not at.HasField("after_seq")
    page = await read(at)
    if from_start and page.segments and page.segments[0].segment_id != page.segment_id:
        at.segment = page.segments[0].segment_id
        page = await read(at)
    return page


def _message(segment_id: str, event: Event) -> bytes:
    data = _EVENTS.encode(event)
    if b"\n" in data or b"\r" in data:
        # Only white space between the members of an event's data can be a line's end.
        data = _LINE_ENDS.sub(b"\ndata: ", data)
    return b"id: %b:%d\ndata: %b\n\n" % (segment_id.encode(), event.seq, data)


_EVENTS: Final = ResponseCodec(Event.DESCRIPTOR)
