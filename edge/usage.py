"""Usage records: one per call, sent to the deployment in batches (contract 27.1)."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from itertools import islice
from secrets import token_hex
from typing import Final

from contract.metadata import ACTOR
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
        self._records: deque[UsageRecord] = deque()
        self._batch: RecordUsageRequest | None = None
        self._anonymous_minute, self._anonymous_records = -1, 0
        self._task: asyncio.Task[None] | None = None

    def record(self, record: UsageRecord) -> None:
        """Keeps the record of one call until the next batch."""
        if not record.key_id and not self._may_keep_anonymous(record.at.seconds // 60):
            self.lost += 1
            return
        if len(self._records) >= self._settings.usage_buffer_records:
            self._records.popleft()
            self.lost += 1
        self._records.append(record)

    def _may_keep_anonymous(self, minute: int) -> bool:
        if self._counted_anonymous is not None:
            return self._counted_anonymous() <= self._settings.usage_anonymous_per_minute
        if minute != self._anonymous_minute:
            self._anonymous_minute, self._anonymous_records = minute, 0
        self._anonymous_records += 1
        return self._anonymous_records <= self._settings.usage_anonymous_per_minute

    def measured(self) -> list[Family]:
        """Returns how many records wait, and how many were left out."""
        batch = self._batch
        pending = len(self._records) + (len(batch.records) if batch is not None else 0)
        return [metrics.USAGE_PENDING.with_value(pending), metrics.USAGE_LOST.with_value(self.lost)]

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
            self.lost += len(self._records) + (len(self._batch.records) if self._batch else 0)
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
        while self._batch is not None or self._records:
            if self._batch is None:
                self._batch = RecordUsageRequest(records=islice(self._records, _BATCH_RECORDS), batch_id=token_hex(16))
                for _ in self._batch.records:
                    self._records.popleft()
            # A batch keeps its id over every try: one that did arrive is not written twice.
            try:
                await self._channel.unary(_RPC, self._batch, _METADATA, self._settings.backend_seconds)
            except Refusal as refusal:
                if refusal.status >= 500:
                    raise
                # Tried again it would be refused again, and hold up everything behind it.
                self.lost += len(self._batch.records)
                _LOG.error("A batch of usage records was refused: %s", refusal)
            self._batch = None
