"""Long-poll answers of GET run and GET events (contract 14.16, 14.17, 17.14)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from contract.refusals import Refusal
from edge.admission.call import Call
from edge.waiting.follower import RunChangesFollower
from edge.waiting.long_polls import LongPoll
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_CANCELLED,
    RUN_STATUS_COMPLETED,
    RUN_STATUS_FAILED,
    GetRunRequest,
    ListRunEventsRequest,
    ListRunEventsResponse,
    Run,
    RunSummary,
)

T = TypeVar("T")

Read = Callable[[], Awaitable[T]]

FINISHED: Final = frozenset({RUN_STATUS_COMPLETED, RUN_STATUS_FAILED, RUN_STATUS_CANCELLED})

POLL_SECONDS: Final = 2.0
"""Seconds between two reads of a held call while the edge has no stream of changes."""


# Seconds by which a call may exceed its wait while a read is under way.
_LAST_READ_SECONDS: Final = 1.0


class Waits:
    """Holds calls until their answer is new, or their wait is over."""

    def __init__(self, follower: RunChangesFollower) -> None:
        self._follower = follower

    async def answer(
        self, call: Call, request: GetRunRequest | ListRunEventsRequest, read: Callable[[Message], Awaitable[Any]]
    ) -> Message:
        """Returns the answer to a waiting request, by `run` or `events`."""
        if isinstance(request, GetRunRequest):
            return await self.run(call, request, read)
        return await self.events(call, request, read)

    async def run(self, call: Call, request: GetRunRequest, read: Callable[[GetRunRequest], Awaitable[Run]]) -> Run:
        """Returns the run once its status or counts change, or the caller's tags match no more; raises as `read`."""
        seconds, tags = request.wait.seconds, tuple(request.if_none_match)
        again = GetRunRequest(run_id=request.run_id)
        came: list[RunSummary] = []

        def new(run: Run) -> bool:
            if not came:
                came.append(RunSummary(status=run.summary.status, counts=run.summary.counts))
            return (
                run.summary.status in FINISHED
                or (run.summary.status, run.summary.counts) != (came[0].status, came[0].counts)
                or (bool(tags) and not _has(tags, run))
            )

        run = await self._wait(
            call, request.run_id, seconds, lambda: self._read_run(call, again, read), new, lambda: read(again)
        )
        return Run(etag=run.etag, not_modified=True) if run.etag and _has(tags, run) else run

    async def _read_run(
        self, call: Call, request: GetRunRequest, read: Callable[[GetRunRequest], Awaitable[Run]]
    ) -> Run:
        """Returns the run as any call of the key read it last; reads the run again where it may have changed."""
        if not self._follower.current:
            return await read(request)
        runs = self._follower.latest_runs
        found = runs.find(call.key_id, request.run_id)
        if found is not None:
            return found
        reading = runs.begin(call.key_id, request.run_id)
        run = await read(request)
        # Finished runs are not kept: nobody waits for them.
        if run.summary.status not in FINISHED:
            runs.end(reading, run)
        return run

    async def events(
        self,
        call: Call,
        request: ListRunEventsRequest,
        read: Callable[[ListRunEventsRequest], Awaitable[ListRunEventsResponse]],
    ) -> ListRunEventsResponse:
        """Returns a page with events, or an empty page once the segment or the wait has ended; raises as `read`.

        Where a newer segment began meanwhile, `after_seq` belongs to the old one: the answer is the new segment from
        its beginning, without events.
        """
        again = ListRunEventsRequest()
        again.CopyFrom(request)
        again.ClearField("wait")
        came: list[str] = []

        def new(page: ListRunEventsResponse) -> bool:
            if not came:
                came.append(page.segment_id)
            return (
                bool(page.events)
                or page.run_status in FINISHED
                or page.segment_id != came[0]
                or (bool(request.segment) and _ended(page))
            )

        page = await self._wait(
            call, request.run_id, request.wait.seconds, lambda: read(again), new, lambda: read(again)
        )
        if not came or page.segment_id == came[0] or not again.after_seq:
            return page
        fresh = ListRunEventsResponse()
        fresh.CopyFrom(page)
        fresh.ClearField("events")
        fresh.next_after_seq = 0
        return fresh

    async def _wait(
        self, call: Call, run_id: str, seconds: int, read: Read[T], new: Callable[[T], bool], read_now: Read[T]
    ) -> T:
        poll = self._follower.long_polls.open(call, run_id)
        if poll is None:
            # Without a poll no announcement would correct a shared read.
            return await read_now()
        with poll:
            return await self._read_until_new(poll, asyncio.get_running_loop().time() + seconds, read, new)

    async def _read_until_new(self, poll: LongPoll, until: float, read: Read[T], new: Callable[[T], bool]) -> T:
        """Returns the newest answer; the last one that was read where later reads fail.

        A backend that goes away meanwhile thus does not turn a waiting call into an error.
        """
        loop = asyncio.get_running_loop()
        latest = await read()
        behind = False
        while not new(latest):
            left = until - loop.time()
            if left <= 0 or poll.over:
                break
            woken = await poll.wait(left if self._follower.following and not behind else min(left, POLL_SECONDS))
            if not woken and self._follower.following and not behind:
                break
            if poll.lost or poll.refusal is not None:
                break
            try:
                async with asyncio.timeout(max(_LAST_READ_SECONDS, until - loop.time())):
                    latest = await read()
                behind = False
            except Refusal as refusal:
                if refusal.status < 500:
                    raise
                behind = True
            except TimeoutError:
                behind = True
        if poll.refusal is not None:
            raise poll.refusal
        return latest


def _has(tags: tuple[str, ...], run: Run) -> bool:
    return any(tag in {"*", run.etag} for tag in tags)


def _ended(page: ListRunEventsResponse) -> bool:
    """Returns whether the page's segment has ended."""
    return any(one.segment_id == page.segment_id and one.HasField("ended_at") for one in page.segments)
