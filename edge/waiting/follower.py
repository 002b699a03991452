"""Follows changed runs over one stream for all held calls, and polls them in case an announcement was lost."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import aclosing
from itertools import islice
from time import monotonic
from typing import Final, cast

from google.protobuf.duration_pb2 import Duration

from contract.channel import Channel
from contract.metadata import ACTOR
from edge.outages import RepeatedCall
from edge.settings import EdgeSettings
from edge.waiting.latest_runs import LatestRuns, Reading
from edge.waiting.long_polls import LongPolls
from workflow_api.v1.edge_pb2 import RunChanges, WatchRunChangesRequest
from workflow_api.v1.runs_pb2 import FindChangedRunsRequest, FindChangedRunsResponse, ReadRun

_METADATA: Final = ((ACTOR, "edge"),)

_WATCH: Final = "/workflow_api.v1.EdgeService/WatchRunChanges"
_FIRST_DELAY: Final = 0.1
# A longer silence may mean a hanging backend: the stream is still followed, but reads are not shared.
_HEARTBEAT_SECONDS: Final = 1.0
_CURRENT_SECONDS: Final = 2.0
# Silent heartbeats after which another backend is followed.
_SILENT_HEARTBEATS: Final = 4
# The stream is kept a while for the next call: opening one costs more than following it.
_IDLE_SECONDS: Final = 60.0

_FIND: Final = "/workflow_api.v1.RunsService/FindChangedRuns"
PAUSE_SECONDS: Final = 1.0
"""Pause between two comparisons."""

_ANSWER_SECONDS: Final = 2.0
# Pause after a failed comparison; runs that were not compared are read again.
_FAILED_SECONDS: Final = 30.0
_RUNS_AT_ONCE: Final = 100

_LOG = logging.getLogger(__name__)


class RunChangesFollower:
    """Keeps the stream of changed runs open while calls are held."""

    def __init__(self, channel: Channel, settings: EdgeSettings, clock: Callable[[], int]) -> None:
        self.long_polls = LongPolls(settings, clock, self._want)
        self.following = False
        """True while every change wakes the run's held calls; otherwise held calls must poll."""
        self.latest_runs = LatestRuns(monotonic)
        """Runs that were read while changes are followed."""
        self._heard_at = 0.0
        self._channel = channel
        self._settings = settings
        self._wanted = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stream = RepeatedCall(
            _LOG, "Changed runs cannot be followed", "Changed runs are followed again", logging.INFO
        )

    @property
    def current(self) -> bool:
        """Returns whether `latest_runs` has dropped every run that changed up to now."""
        return self.following and monotonic() - self._heard_at < _CURRENT_SECONDS

    async def stop(self) -> None:
        """Stops following."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _want(self) -> None:
        self._wanted.set()
        if not self._tasks:
            comparing = keep_current(self._channel, self.latest_runs, self.long_polls, lambda: self.current)
            self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(comparing)]

    async def _run(self) -> None:
        delay = _FIRST_DELAY
        while True:
            await self._wanted.wait()
            try:
                await self._follow()
                delay = _FIRST_DELAY
            except Exception as error:  # noqa: BLE001 - a failure of any kind is retried
                self._stream.failed(error)
                delay = _FIRST_DELAY if self.following else min(2 * delay, self._settings.mirror_retry_seconds)
            self.following = False
            self.latest_runs.clear()
            if not self.long_polls.count:
                self._wanted.clear()
                continue
            await asyncio.sleep(delay)
            if delay > _FIRST_DELAY:
                # The stream did not reopen at once: held calls begin to poll.
                self.long_polls.any_changed()

    async def _follow(self) -> None:
        """Follows one stream; returns once no call has been held for a while, or the stream has ended."""
        loop = asyncio.get_running_loop()
        heartbeat = min(self._settings.mirror_heartbeat_seconds, _HEARTBEAT_SECONDS)
        duration = Duration()
        duration.FromMilliseconds(round(heartbeat * 1000))
        request = WatchRunChangesRequest(heartbeat=duration)
        until = loop.time() + self._settings.mirror_renewal_seconds
        used_at = loop.time()
        async with aclosing(self._channel.stream(_WATCH, request, _METADATA, _SILENT_HEARTBEATS * heartbeat)) as stream:
            async for message in stream:
                changes = cast("RunChanges", message)
                self._heard_at = monotonic()
                self._stream.succeeded()
                if changes.missed or not self.following:
                    self.following = True
                    self.latest_runs.clear()
                    self.long_polls.any_changed()
                else:
                    self.latest_runs.changed(changes.run_ids)
                    self.long_polls.changed(changes.run_ids)
                now = loop.time()
                if self.long_polls.count:
                    used_at = now
                elif now - used_at > _IDLE_SECONDS:
                    return
                if now >= until:
                    return


async def keep_current(channel: Channel, runs: LatestRuns, long_polls: LongPolls, current: Callable[[], bool]) -> None:
    """Compares kept runs with the backend until cancelled; only while `current` says that changes are followed."""
    not_before = 0.0
    comparing = RepeatedCall(_LOG, "Runs were not compared", "Runs are compared again", logging.INFO)
    while True:
        await asyncio.sleep(PAUSE_SECONDS)
        due = runs.due(long_polls.any_waits_for)
        if not (current() and monotonic() >= not_before):
            continue
        try:
            await _compare(channel, runs, long_polls, due)
            comparing.succeeded()
        except Exception as error:  # noqa: BLE001 - one failure does not end the comparison
            comparing.failed(error)
            not_before = monotonic() + _FAILED_SECONDS


async def _compare(channel: Channel, runs: LatestRuns, long_polls: LongPolls, due: Iterable[Reading]) -> None:
    left = iter(due)
    while readings := list(islice(left, _RUNS_AT_ONCE)):
        asked_at = monotonic()
        known = [ReadRun(run_id=each.run_id, etag=each.run.etag) for each in readings if each.run is not None]
        answer = await channel.unary(_FIND, FindChangedRunsRequest(runs=known), _METADATA, _ANSWER_SECONDS)
        changed = set(cast("FindChangedRunsResponse", answer).run_ids)
        runs.confirm((each for each in readings if each.run_id not in changed), asked_at)
        runs.changed(changed)
        long_polls.changed(changed)
