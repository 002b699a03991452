"""Follows the ids of changed runs over one stream for all held calls, and wakes those that wait for them."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import Final, cast

from google.protobuf.duration_pb2 import Duration

from contract.metadata import ACTOR
from edge.channel import Channel
from edge.errors import Refusal
from edge.settings import EdgeSettings
from edge.waiting.holds import Holds
from workflow_api.v1.edge_pb2 import RunChanges, WatchRunChangesRequest

_WATCH: Final = "/workflow_api.v1.EdgeService/WatchRunChanges"
_METADATA: Final = ((ACTOR, "edge"),)
_FIRST_DELAY: Final = 0.1
# The stream is kept a while for the next call: opening one costs more than following it.
_IDLE_SECONDS: Final = 60.0

_LOG = logging.getLogger(__name__)


class RunChangesFollower:
    """Keeps the stream open while calls are held."""

    def __init__(self, channel: Channel, settings: EdgeSettings, clock: Callable[[], int]) -> None:
        self.holds = Holds(settings, clock, self._want)
        self.following = False
        """Whether every change wakes who waits for it; otherwise they must look for themselves."""
        self._channel = channel
        self._settings = settings
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Stops following."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _want(self) -> None:
        self._wanted.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        delay = _FIRST_DELAY
        while True:
            await self._wanted.wait()
            try:
                await self._follow()
                delay = _FIRST_DELAY
            except Exception as error:  # noqa: BLE001 - a failure of any kind is retried
                _LOG.info("The stream of changed runs failed: %s", error, exc_info=not isinstance(error, Refusal))
                delay = _FIRST_DELAY if self.following else min(2 * delay, self._settings.mirror_retry_seconds)
            self.following = False
            if not self.holds.count:
                self._wanted.clear()
                continue
            await asyncio.sleep(delay)
            if delay > _FIRST_DELAY:
                # It does not come back at once: those who wait begin to look for themselves.
                self.holds.any_changed()

    async def _follow(self) -> None:
        """Returns once nobody has waited for a while, or the stream has ended."""
        loop = asyncio.get_running_loop()
        heartbeat = self._settings.mirror_heartbeat_seconds
        duration = Duration()
        duration.FromMilliseconds(round(heartbeat * 1000))
        request = WatchRunChangesRequest(heartbeat=duration)
        until = loop.time() + self._settings.mirror_renewal_seconds
        used_at = loop.time()
        async with aclosing(self._channel.stream(_WATCH, request, _METADATA, 3 * heartbeat)) as stream:
            async for message in stream:
                changes = cast("RunChanges", message)
                if changes.missed or not self.following:
                    self.following = True
                    self.holds.any_changed()
                else:
                    self.holds.changed(changes.run_ids)
                now = loop.time()
                if self.holds.count:
                    used_at = now
                elif now - used_at > _IDLE_SECONDS:
                    return
                if now >= until:
                    return
