"""Reads the events of a run: those so far, or live until its end."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from workflow_api_client.core import Core
from workflow_api_client.decoding import decode, decode_event
from workflow_api_client.exchange import Answer, Close, Emit, Pause, Read, Steps, TransportError
from workflow_api_client.failures import ConnectionFailedError, UnexpectedAnswerError
from workflow_api_client.generated import records, routes
from workflow_api_client.operations.pacing import HELD_SECONDS, POLL_SECONDS, PollPacer
from workflow_api_client.operations.reading import body_of
from workflow_api_client.operations.server_sent import Message, Parser
from workflow_api_client.operations.waiting import TERMINAL, RunWatch

SILENT_SECONDS: Final = 45.0
"""Silence after which a stream counts as broken; the service sends a comment every 15 seconds."""
PAGE: Final = 500

_ID: Final = re.compile(r"([!-9;-~]{1,128}):([0-9]{1,18})")
_STREAM: Final = "text/event-stream"
_AGAIN_SECONDS: Final = 0.5


@dataclass
class Position:
    """Position in the events: the last event that was emitted."""

    segment_id: str | None = None
    seq: int = 0

    @classmethod
    def of(cls, event_id: str | None) -> "Position":
        """Returns the position of an event's `id`.

        Raises:
            ValueError: the text is no id of an event.
        """
        if event_id is None:
            return cls()
        found = _ID.fullmatch(event_id)
        if found is None:
            raise ValueError("`after` must be the `id` of an event, `<segment_id>:<seq>`.")
        return cls(found[1], int(found[2]))

    def __str__(self) -> str:
        """Returns the position as an event's `id`."""
        return f"{self.segment_id}:{self.seq}"


def events(core: Core, run_id: str, *, live: bool, after: str | None) -> Steps[None]:
    """Emits the events after `after`, by default all; with `live` also future events, to the end of the run."""
    position = Position.of(after)
    if live and core.streams and (yield from _stream(core, run_id, position)):
        return
    yield from _pages(core, run_id, position, live=live)


def _stream(core: Core, run_id: str, position: Position) -> Steps[bool]:
    """Emits the events of the stream, reopened when it breaks; returns False if the service has no streams."""
    failed_since: float | None = None
    while True:
        begun = core.clock.now()
        answer = yield from core.call(
            routes.LIST_RUN_EVENTS,
            {"run_id": run_id},
            headers={"Accept": _STREAM, **({"Last-Event-ID": str(position)} if position.segment_id else {})},
            idle=SILENT_SECONDS,
        )
        if not answer.headers.get("content-type", "").startswith(_STREAM):
            yield Close()
            core.streams = False
            return False
        before = str(position)
        try:
            if (yield from _messages(position)):
                yield Close()
                return True
            failure: TransportError | None = None
        except TransportError as error:
            failure = error
        yield Close()
        now = core.clock.now()
        if failure is None or str(position) != before:
            failed_since = None
        elif failed_since is None:
            failed_since = begun
        elif now - failed_since > core.retry_seconds + SILENT_SECONDS:
            raise ConnectionFailedError(str(failure), sent=True) from failure
        # A service that is shutting down ends streams at once; a pause keeps reconnects rare.
        yield Pause(max(_AGAIN_SECONDS, POLL_SECONDS - (now - begun)))


def _messages(position: Position) -> Steps[bool]:
    """Emits the events of one opened stream; returns True at the end of the run."""
    parser = Parser()
    while True:
        piece: bytes = yield Read()
        if not piece:
            return False
        for message in parser.feed(piece):
            if message.kind == "end":
                return True
            event = _event_of(message)
            reached = Position.of(event.id)
            if reached.segment_id == position.segment_id and reached.seq <= position.seq:
                continue
            position.segment_id, position.seq = reached.segment_id, reached.seq
            yield Emit(event)


def _event_of(message: Message) -> records.AnyEvent:
    try:
        value: Any = json.loads(message.data)
        position = Position.of(message.id)
    except ValueError as error:
        raise UnexpectedAnswerError("The stream has a message that is no event.") from error
    return decode_event(value, position.segment_id or "")


def _pages(core: Core, run_id: str, position: Position, *, live: bool) -> Steps[None]:
    """Emits events page by page, and segment by segment; with `live` waits for more at the last page."""
    pace, watch = PollPacer(core.clock, None), RunWatch(core, run_id)
    ended = not live
    waits = False
    while True:
        seconds = pace.begin() if waits else pace.begin(held=False)
        page = yield from _page(core, run_id, position, seconds)
        for event in page.events:
            position.segment_id, position.seq = event.id.rpartition(":")[0], event.seq
            yield Emit(event)
        pause = pace.pause_after(news=bool(page.events))
        present = next((one for one in page.segments if one.segment_id == page.segment_id), None)
        if present is not None and position.segment_id is None:
            position.segment_id = present.segment_id
        waits = False
        if present is not None and position.seq < present.last_seq:
            continue
        following = _after(page, position.segment_id)
        if following is not None:
            position.segment_id, position.seq = following, 0
        elif ended:
            return
        elif present is not None and present.ended_at is None:
            # The segment goes on: the next event is worth waiting for.
            yield Pause(pause)
            waits = True
        else:
            # No step runs: the run has ended, or waits. Its last events are read once more.
            run = yield from watch.look(held=watch.seen)
            while run.status not in TERMINAL and not watch.changed:
                run = yield from watch.look()
            ended = run.status in TERMINAL


def _after(page: "_Page", segment_id: str | None) -> str | None:
    """Returns the segment after `segment_id`, if it has begun."""
    ids = [one.segment_id for one in page.segments]
    if segment_id not in ids:
        return ids[0] if ids else None
    place = ids.index(segment_id) + 1
    return ids[place] if place < len(ids) else None


@dataclass(frozen=True)
class _Page:
    segment_id: str | None
    events: list[records.AnyEvent]
    segments: list[records.Segment]


def _page(core: Core, run_id: str, position: Position, wait_seconds: int) -> Steps[_Page]:
    query: dict[str, object] = {"limit": PAGE, "wait_seconds": wait_seconds or None}
    if position.segment_id:
        query |= {"segment": position.segment_id, "after_seq": position.seq}
    answer: Answer = yield from core.call(
        routes.LIST_RUN_EVENTS, {"run_id": run_id}, query=query, held=min(wait_seconds, HELD_SECONDS)
    )
    body = body_of(answer)
    page = decode(records.ListRunEventsResponse, {**body, "events": []})
    if position.segment_id is None and page.segments and page.segments[0].segment_id != page.segment_id:
        # Without a segment the answer has the latest segment, but events begin with the first.
        position.segment_id = page.segments[0].segment_id
        return (yield from _page(core, run_id, position, 0))
    segment_id = page.segment_id or ""
    return _Page(page.segment_id, [decode_event(one, segment_id) for one in body["events"]], page.segments)
