"""Usage of the API: records of calls, sent to the deployment in batches (contract 27.1), and metrics by key."""

import asyncio
import logging
import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from secrets import token_hex
from typing import Final

from contract.call_groups import NO_COUNTS, NOT_MEASURED, Kind, RecordedCall, group_calls
from contract.channel import Channel
from contract.metadata import ACTOR
from contract.refusals import Refusal
from edge import metrics
from edge.outages import RepeatedCall
from edge.settings import EdgeSettings
from telemetry import Family, NamedCounter
from telemetry.requests import OTHER, method_of
from workflow_api.v1.edge_pb2 import RecordUsageRequest

_METADATA: Final = ((ACTOR, "edge"),)
_RPC: Final = "/workflow_api.v1.EdgeService/RecordUsage"
# Groups cost more than the calls in them: with 120 keys, batches of 10,000 cost half as much as batches of 2,000.
_BATCH_CALLS: Final = 10_000
# Grouping this many calls holds the event loop up for one to four milliseconds.
_CALLS_BETWEEN_PAUSES: Final = 1_000
_LAST_SECONDS: Final = 5.0

SINGLE_REFUSALS: Final = 60
"""Refused calls of a key in a minute with a record each: as many as the default rate limit of a key."""
ADDRESSES: Final = 16
"""Addresses of a key in a minute that have groups of their own; further addresses are `OTHER`."""
# Beyond this many groups in a minute, method and route are `OTHER`.
_GROUPS: Final = 256
_MINUTE_MS: Final = 60_000
_FIRST_REFUSAL: Final = 400

# Exposed where `metrics.keys_and_workflows` is set.
_REQUESTS: Final = NamedCounter("key_requests_total", "Requests with a key.", ("key_id", "status", "code"))
_SECONDS: Final = NamedCounter("key_request_seconds_total", "Time until their answers were ready.", ("key_id",))
_ANSWERED: Final = "none"

_LOG = logging.getLogger(__name__)


class _RefusalGroups:
    """Groups the refused calls of each key in the present minute, beyond `SINGLE_REFUSALS`.

    A caller makes refused calls without any limit, and each record is kept for 90 days.
    """

    def __init__(self) -> None:
        self._minute = -1.0
        self._singles: Counter[str] = Counter()
        self._addresses: defaultdict[str, set[str]] = defaultdict(set)
        self._groups: defaultdict[str, dict[tuple[Kind, str], tuple[RecordedCall, int]]] = defaultdict(dict)
        self._ended: list[tuple[RecordedCall, int]] = []

    def add(self, call: RecordedCall) -> bool:
        """Adds a refused call to its group; returns False where the call gets a record of its own."""
        at_ms, key_id, (method, route, status, reason), address, request_id, _ = call
        self._end_minute(at_ms)
        self._singles[key_id] += 1
        if self._singles[key_id] <= SINGLE_REFUSALS:
            return False
        addresses, groups = self._addresses[key_id], self._groups[key_id]
        if len(addresses) < ADDRESSES:
            addresses.add(address)
        group = (method_of(method), route, status, reason), address if address in addresses else OTHER
        if len(groups) >= _GROUPS and group not in groups:
            group = (OTHER, OTHER, status, reason), OTHER
        last, calls = groups.get(group, (call, 0))
        # A call that waited began before others that have ended.
        at_ms = max(at_ms, last[0])
        groups[group] = (at_ms, key_id, group[0], group[1], request_id, NOT_MEASURED), calls + 1
        return True

    def take(self, now_ms: float) -> list[tuple[RecordedCall, int]]:
        """Removes and returns the groups of minutes that have ended by now, each as one call with their number."""
        self._end_minute(now_ms)
        ended, self._ended = self._ended, []
        return ended

    def take_all(self) -> list[tuple[RecordedCall, int]]:
        """Removes and returns all groups as `take`, including the present minute's."""
        return self.take(math.inf)

    def _end_minute(self, now_ms: float) -> None:
        # Also ends a minute from which the clock was set back.
        if now_ms // _MINUTE_MS == self._minute:
            return
        for groups in self._groups.values():
            self._ended += groups.values()
        self._minute = now_ms // _MINUTE_MS
        for kept in (self._singles, self._addresses, self._groups):
            kept.clear()


class UsageRecorder:
    """Keeps usage records until the deployment has stored them.

    Refused calls of a key in a minute beyond `SINGLE_REFUSALS` share a record with their number for each kind and
    address, which is sent after the minute.

    Records dropped from a full buffer, the oldest first, are counted in `lost`; so are records of calls without a key
    beyond `usage_anonymous_per_minute`.
    """

    def __init__(self, channel: Channel, settings: EdgeSettings, clock: Callable[[], int]) -> None:
        self.lost = 0
        self._channel = channel
        self._settings = settings
        self._clock = clock
        self._refusals = _RefusalGroups()
        self._calls: deque[RecordedCall] = deque()
        self._counts: dict[RecordedCall, int] = {}
        """Number of calls of each record that stands for several."""
        self._batch: list[RecordedCall] = []
        self._sending: RecordUsageRequest | None = None
        self._anonymous_minute, self._anonymous_records = -1, 0
        self._task: asyncio.Task[None] | None = None

    def record(self, call: RecordedCall) -> None:
        """Keeps the record of one call."""
        at_ms, key_id = call[:2]
        if not key_id and not self._may_keep_anonymous(at_ms // 60_000):
            self.lost += 1
            return
        if key_id and call[2][2] >= _FIRST_REFUSAL and self._refusals.add(call):
            return
        self._keep(call)

    def _keep(self, call: RecordedCall) -> None:
        calls = self._calls
        if len(calls) >= self._settings.usage_buffer_records:
            self.lost += self._counts.pop(calls.popleft(), 1)
        calls.append(call)

    def _keep_groups(self, groups: Iterable[tuple[RecordedCall, int]]) -> None:
        """Keeps a record for each group of refused calls."""
        for call, number in groups:
            self._keep(call)
            self._counts[call] = number

    def _may_keep_anonymous(self, minute: int) -> bool:
        if minute != self._anonymous_minute:
            self._anonymous_minute, self._anonymous_records = minute, 0
        self._anonymous_records += 1
        return self._anonymous_records <= self._settings.usage_anonymous_per_minute

    def measured(self) -> list[Family]:
        """Returns the numbers of records that wait and that were dropped."""
        return [metrics.USAGE_PENDING.with_value(self._unsent()), metrics.USAGE_LOST.with_value(self.lost)]

    def _unsent(self) -> int:
        return len(self._calls) + len(self._batch)

    def start(self) -> None:
        """Begins to send."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Sends the remaining records, as far as the backend takes them in time."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._keep_groups(self._refusals.take_all())
        try:
            async with asyncio.timeout(_LAST_SECONDS):
                await self._send_all()
        except (TimeoutError, Refusal) as error:
            self.lost += self._unsent() + sum(number - 1 for number in self._counts.values())
            _LOG.warning("Usage records could not be sent before the stop, %d are lost: %s", self.lost, error)

    async def _run(self) -> None:
        said = 0
        sending = RepeatedCall(_LOG, "Usage records could not be sent and are kept", "Usage records are sent again")
        while True:
            await asyncio.sleep(self._settings.usage_flush_seconds)
            try:
                self._keep_groups(self._refusals.take(self._clock()))
                await self._send_all()
            except Exception as error:  # noqa: BLE001 - whatever breaks, the records are kept and sent later
                sending.failed(error)
            else:
                sending.succeeded()
            if self.lost > 2 * said:  # a flood is logged in few lines
                said = self.lost
                _LOG.warning("%d usage records were dropped so far", said)

    async def _send_all(self) -> None:
        """Sends the calls recorded so far; later calls wait for the next round, so that batches stay large."""
        left = self._unsent()
        while left > 0 and (self._batch or self._calls):
            if self._sending is None:
                self._sending = await self._next_batch()
            # A batch keeps its id over every try, so that a batch that did arrive is not written twice.
            try:
                await self._channel.unary(_RPC, self._sending, _METADATA, self._settings.backend_seconds)
            except Refusal as refusal:
                if refusal.status >= 500:
                    raise
                # Retrying a refused batch would hold up all later ones.
                self.lost += sum(self._counts.get(call, 1) for call in self._batch)
                _LOG.error("A batch of usage records was refused: %s", refusal)
            left -= len(self._batch)
            if self._counts:
                for call in self._batch:
                    self._counts.pop(call, None)
            self._sending, self._batch = None, []

    async def _next_batch(self) -> RecordUsageRequest:
        """Groups the oldest calls, which stay in `_batch` until they are sent."""
        calls = self._calls
        if not self._batch:
            self._batch = [calls.popleft() for _ in range(min(len(calls), _BATCH_CALLS))]
            if self._settings.key_metrics:
                count_by_key(self._batch, self._counts)
        request = RecordUsageRequest(batch_id=token_hex(16))
        since_pause = 0
        for group in group_calls(self._batch, self._counts):
            request.groups.append(group)
            since_pause += len(group.times)
            if since_pause >= _CALLS_BETWEEN_PAUSES:
                since_pause = 0
                await asyncio.sleep(0)
        return request


def count_by_key(calls: Iterable[RecordedCall], counts: Mapping[RecordedCall, int] = NO_COUNTS) -> None:
    """Counts calls by key, without calls that have none. `counts` is as for `group_calls`."""
    numbers: Counter[tuple[str, int, str]] = Counter()
    microseconds: defaultdict[str, int] = defaultdict(int)
    for call in calls:
        _, key_id, (_, _, status, reason), _, _, took = call
        if key_id:
            numbers[key_id, status, reason] += counts.get(call, 1) if counts else 1
            if took != NOT_MEASURED:
                microseconds[key_id] += took
    for (key_id, status, reason), number in numbers.items():
        _REQUESTS.add_many(number, key_id, status, reason or _ANSWERED)
    for key_id, total in microseconds.items():
        _SECONDS.add_many(total / 1_000_000, key_id)


def counted_by_key() -> list[Family]:
    """Returns this process's counts by key."""
    return [_REQUESTS.collect(), _SECONDS.collect()]
