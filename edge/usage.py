"""Usage records: one per call, sent to the deployment in batches (contract 27.1)."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from secrets import token_hex
from typing import Final

from contract.metadata import ACTOR
from contract.times import set_milliseconds
from edge import metrics
from edge.channel import Channel
from edge.errors import Refusal
from edge.settings import EdgeSettings
from telemetry import Family
from workflow_api.v1.edge_pb2 import RecordUsageRequest
from workflow_api.v1.usage_pb2 import UsageRecord

_METADATA: Final = ((ACTOR, "edge"),)
_RPC: Final = "/workflow_api.v1.EdgeService/RecordUsage"
_BATCH_RECORDS: Final = 1000
_LAST_SECONDS: Final = 5.0

_LOG = logging.getLogger(__name__)


class UsageRecorder:
    """Keeps records until the deployment has them.

    Records dropped from a full buffer, the oldest first, are counted in `lost`; so are records of calls without a key
    beyond their share of it.
    """

    def __init__(
        self, channel: Channel, settings: EdgeSettings, counted_anonymous: Callable[[], int] | None = None
    ) -> None:
        """Takes what counts the calls without a key of this minute where several edges do it together."""
        self.lost = 0
        self._counted_anonymous = counted_anonymous
        self._channel = channel
        self._settings = settings
        self._batches: deque[RecordUsageRequest] = deque()
        self._pending = 0
        self._sending: RecordUsageRequest | None = None
        self._anonymous_minute, self._anonymous_records = -1, 0
        self._task: asyncio.Task[None] | None = None

    def new_record(self, at_ms: int, key_id: str) -> UsageRecord | None:
        """Returns the record of one call, which the caller completes at once; None where it is dropped.

        It is made in its batch, which takes half the time that making it and copying it there would.
        """
        if not key_id and not self._may_keep_anonymous(at_ms // 60_000):
            self.lost += 1
            return None
        batches = self._batches
        if self._pending >= self._settings.usage_buffer_records:
            self._drop_oldest()
        if not batches or len(batches[-1].records) >= _BATCH_RECORDS:
            batches.append(RecordUsageRequest(batch_id=token_hex(16)))
        self._pending += 1
        record = batches[-1].records.add()
        record.key_id = key_id
        set_milliseconds(record.at, at_ms)
        return record

    def _drop_oldest(self) -> None:
        records = self._batches[0].records
        del records[0]
        if not records:
            self._batches.popleft()
        self._pending -= 1
        self.lost += 1

    def _may_keep_anonymous(self, minute: int) -> bool:
        if self._counted_anonymous is not None:
            return self._counted_anonymous() <= self._settings.usage_anonymous_per_minute
        if minute != self._anonymous_minute:
            self._anonymous_minute, self._anonymous_records = minute, 0
        self._anonymous_records += 1
        return self._anonymous_records <= self._settings.usage_anonymous_per_minute

    def measured(self) -> list[Family]:
        """Returns how many records wait, and how many were left out."""
        return [metrics.USAGE_PENDING.with_value(self._unsent()), metrics.USAGE_LOST.with_value(self.lost)]

    def _unsent(self) -> int:
        sending = self._sending
        return self._pending + (len(sending.records) if sending is not None else 0)

    def start(self) -> None:
        """Begins to send."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Sends what is left, as far as that is possible now."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(_LAST_SECONDS):
                await self._send_all()
        except (TimeoutError, Refusal) as error:
            self.lost += self._unsent()
            _LOG.warning("Usage records could not be sent before the stop, %d are lost: %s", self.lost, error)

    async def _run(self) -> None:
        said = 0
        while True:
            await asyncio.sleep(self._settings.usage_flush_seconds)
            try:
                await self._send_all()
            except Exception as error:  # noqa: BLE001 - whatever breaks, the records are kept and sent later
                _LOG.warning(
                    "Usage records could not be sent and are kept: %s", error, exc_info=not isinstance(error, Refusal)
                )
            if self.lost > 2 * said:  # a flood is logged in few lines
                said = self.lost
                _LOG.warning("%d usage records were dropped so far", said)

    async def _send_all(self) -> None:
        while self._sending is not None or self._batches:
            if self._sending is None:
                self._sending = self._batches.popleft()
                self._pending -= len(self._sending.records)
            # A batch keeps its id over every try: one that did arrive is not written twice.
            try:
                await self._channel.unary(_RPC, self._sending, _METADATA, self._settings.backend_seconds)
            except Refusal as refusal:
                if refusal.status >= 500:
                    raise
                # Tried again it would be refused again, and hold up everything behind it.
                self.lost += len(self._sending.records)
                _LOG.error("A batch of usage records was refused: %s", refusal)
            self._sending = None
