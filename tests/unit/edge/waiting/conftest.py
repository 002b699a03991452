"""Runs in memory, whose changes a started edge is notified of."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from contract.refusals import Refusal
from tests.support.poll import wait_until
from tests.unit.edge.conftest import Service
from tests.unit.edge.services import CREDENTIALS, EDGE, RUNS, MemoryChannel
from tests.unit.edge.wire import Wire
from workflow_api.v1.edge_pb2 import RunChanges
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_RUNNING,
    Event,
    FindChangedRunsRequest,
    FindChangedRunsResponse,
    GetRunRequest,
    ListRunEventsRequest,
    ListRunEventsResponse,
    Run,
    RunStatus,
    RunSummary,
    Segment,
)

GET_RUN = RUNS + "GetRun"
FIND_CHANGED = RUNS + "FindChangedRuns"
LIST_EVENTS = RUNS + "ListRunEvents"
PATH = "/api/v1/runs/run_1"
_HEARTBEAT_SECONDS = 0.2


class Runs:
    """One run of a backend in memory, and the stream of its changes."""

    def __init__(self, channel: MemoryChannel) -> None:
        self.status: RunStatus.ValueType = RUN_STATUS_RUNNING
        self.events: list[Event] = []
        self.segment_id = "seg_1"
        self.reachable = True
        self.announces = True
        """Whether changes are announced, and heartbeats sent."""
        self._queues: set[asyncio.Queue[RunChanges | None]] = set()
        channel.answers[GET_RUN] = self._get
        channel.answers[FIND_CHANGED] = self._find_changed
        channel.answers[LIST_EVENTS] = self._list
        channel.streams[EDGE + "WatchRunChanges"] = self._watch

    def _get(self, request: GetRunRequest) -> Message:
        self._check()
        return Run(summary=RunSummary(run_id=request.run_id, status=self.status), etag=str(self.status))

    def _find_changed(self, request: FindChangedRunsRequest) -> Message:
        self._check()
        return FindChangedRunsResponse(run_ids=[run.run_id for run in request.runs if run.etag != str(self.status)])

    def _list(self, request: ListRunEventsRequest) -> Message:
        self._check()
        after = [event for event in self.events if event.seq > request.after_seq][: request.page_size or 200]
        return ListRunEventsResponse(
            run_id=request.run_id,
            segment_id=self.segment_id,
            events=after,
            next_after_seq=after[-1].seq if after else request.after_seq,
            segments=[Segment(segment_id=self.segment_id, ordinal=1, started_at=Timestamp(seconds=1))],
            run_status=self.status,
        )

    def _check(self) -> None:
        if not self.reachable:
            raise Refusal("runtime_unreachable")

    async def _watch(self, _: Any) -> AsyncIterator[Message]:
        self._check()
        queue: asyncio.Queue[RunChanges | None] = asyncio.Queue()
        self._queues.add(queue)
        try:
            yield RunChanges()
            while (changes := await self._next(queue)) is not None:
                yield changes
        finally:
            self._queues.discard(queue)
        raise Refusal("runtime_unreachable")

    async def _next(self, queue: asyncio.Queue[RunChanges | None]) -> RunChanges | None:
        """Returns what changed, or a heartbeat unless the backend hangs."""
        while True:
            try:
                async with asyncio.timeout(_HEARTBEAT_SECONDS):
                    return await queue.get()
            except TimeoutError:
                if self.announces:
                    return RunChanges()

    async def change(self, status: RunStatus.ValueType | None = None, *events: Event) -> None:
        """Changes the run, and announces it."""
        self.status = status or self.status
        self.events += events
        if self.announces:
            for queue in self._queues:
                queue.put_nowait(RunChanges(run_ids=["run_1"]))

    async def go_away(self) -> None:
        """Ends the streams of a backend that stops; it answers nothing until it comes back."""
        self.reachable = False
        for queue in self._queues:
            queue.put_nowait(None)

    async def come_back(self) -> None:
        self.reachable = True


class HeldCalls:
    """A service whose calls are held, and its run."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.runs = Runs(service.channel)

    def held(self, number: int) -> None:
        """Returns once so many calls are held."""
        long_polls = self.service.edge.changes.long_polls
        wait_until(lambda: long_polls.count == number)

    def waiting(self) -> None:
        """Returns once a held call has read the run, and waits for a change."""
        long_polls = self.service.edge.changes.long_polls
        wait_until(lambda: any(poll.waiting for poll in long_polls.all()))

    def following(self) -> None:
        wait_until(lambda: self.service.edge.changes.following)

    def send(self, wire: Wire, target: str, *headers: str) -> Wire:
        lines = [f"GET {PATH}{target} HTTP/1.1", "Host: test", *CREDENTIALS, *headers]
        return wire.send("\r\n".join(lines) + "\r\n\r\n")

    def change(self, *arguments: Any) -> None:
        self.service.thread.run(self.runs.change(*arguments))


@pytest.fixture(name="held")
def _held(start: Callable[..., Service]) -> Callable[..., HeldCalls]:
    return lambda **settings: HeldCalls(start(**settings))
