"""Keeps a keyring up to date: by a watch stream, and by polling while the stream is broken (contract 9.10)."""

import asyncio
import logging
from contextlib import aclosing
from time import monotonic
from typing import Final, cast

from google.protobuf.duration_pb2 import Duration

from contract.channel import Channel
from contract.channel.backend_watch import this_process
from contract.metadata import ACTOR
from edge.admission.keyring import Keyring
from edge.outages import RepeatedCall
from edge.settings import EdgeSettings
from workflow_api.v1.edge_pb2 import EdgeProcess, GetKeyMirrorRequest, KeyMirror, WatchKeyMirrorRequest

_WATCH: Final = "/workflow_api.v1.EdgeService/WatchKeyMirror"
_GET: Final = "/workflow_api.v1.EdgeService/GetKeyMirror"
_FIRST_DELAY: Final = 0.1
_METADATA: Final = ((ACTOR, "edge"),)

_LOG = logging.getLogger(__name__)


class KeyMirrorFollower:
    """Applies the deployment's keys to a keyring from `start` to `stop`."""

    def __init__(self, channel: Channel, keyring: Keyring, settings: EdgeSettings) -> None:
        self._channel = channel
        self._keyring = keyring
        self._settings = settings
        self._first = asyncio.Event()
        self._following = RepeatedCall(_LOG, "The keys cannot be followed", "The keys are followed again")
        self._tasks: list[asyncio.Task[None]] = []
        self._process = EdgeProcess()
        self._process.CopyFrom(this_process())

    async def start(self) -> None:
        """Starts to follow the keys and waits a while for the first copy."""
        self._tasks = [asyncio.create_task(self._watch()), asyncio.create_task(self._poll())]
        try:
            async with asyncio.timeout(self._settings.mirror_first_seconds):
                await self._first.wait()
        except TimeoutError:
            _LOG.warning("The keys cannot be read yet; calls with a key are answered 503")

    async def stop(self) -> None:
        """Stops following."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch(self) -> None:
        heartbeat = self._settings.mirror_heartbeat_seconds
        delay = _FIRST_DELAY
        while True:
            try:
                self._process.sent_at.GetCurrentTime()
                request = WatchKeyMirrorRequest(heartbeat=_duration(heartbeat), process=self._process)
                until = monotonic() + self._settings.mirror_renewal_seconds
                async with aclosing(self._channel.stream(_WATCH, request, _METADATA, 3 * heartbeat)) as mirrors:
                    async for mirror in mirrors:
                        delay = _FIRST_DELAY
                        await self._take(cast("KeyMirror", mirror), self._keyring.now())
                        if monotonic() >= until:
                            break
                _LOG.info("The stream of keys ended")
            except Exception as error:  # noqa: BLE001 - a failure of any kind is retried
                self._following.failed(error)
            await asyncio.sleep(delay)
            delay = min(2 * delay, self._settings.mirror_retry_seconds)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._settings.mirror_poll_seconds)
            if self._keyring.age >= self._settings.mirror_poll_seconds:
                try:
                    await self._read()
                except Exception as error:  # noqa: BLE001 - as above
                    self._following.failed(error)

    async def _read(self) -> None:
        # The copy may be as old as the request for it.
        requested_at = self._keyring.now()
        answer = await self._channel.unary(_GET, GetKeyMirrorRequest(), _METADATA, self._settings.backend_seconds)
        await self._take(cast("KeyMirror", answer), requested_at)

    async def _take(self, mirror: KeyMirror, copied_at: float) -> None:
        if self._keyring.take(mirror, copied_at):
            self._first.set()
            self._following.succeeded()
        else:
            await self._read()


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromMilliseconds(round(seconds * 1000))
    return duration
