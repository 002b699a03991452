"""Delivers due messages to webhooks, in one thread; several processes may deliver at once."""

import asyncio
import logging
import random
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Final, TypeVar

from backend.common import metrics
from backend.common.clock import Clock
from backend.common.ids import new_id
from backend.services.run_traces import carrier_of_run
from backend.services.webhooks import attempts, delivery_sql, wait_bounds_sql
from backend.services.webhooks.attempts import message_body, signed_headers, valid_secrets
from backend.services.webhooks.delivery_sql import ClaimedMessageRow, DueWebhookRow
from backend.services.webhooks.rules import ANNOUNCED, DeliveryOutcome, delivery_lock, networks
from backend.settings import WebhookSettings
from backend.storage.database import Database, Tx
from backend.storage.outage import RepeatedDatabaseWork
from telemetry import tracing
from telemetry.trace_context import TRACEPARENT

if TYPE_CHECKING:
    from backend.services.webhooks.sender import Sender

T = TypeVar("T")

POLL_SECONDS: Final = 5.0
"""Seconds between rounds without an announcement: a killed process loses its announcements."""

# Gathers announcements, so that many changes make few rounds.
_GATHER_SECONDS: Final = 0.05
_RETRY_SECONDS: Final = 1.0
_DATABASE_THREADS: Final = 4
_NAME_THREADS: Final = 16
# Most attempts of one webhook at once, so that receivers that do not answer leave room for others.
_CONCURRENT_OF_WEBHOOK: Final = 4
# Added to the time-out of an attempt for the time of its claim, to record the outcome.
_CLAIM_ALLOWANCE_SECONDS: Final = 10.0
_GRACE_SECONDS: Final = 2.0
_WAITS_BOUNDED_SECONDS: Final = 30.0

_LOG = logging.getLogger(__name__)


class Deliverer:
    """Claims due messages and sends them; a claim lapses some time after the attempt must have ended.

    So a message is sent at least once even if a process dies, and by one process at a time. Messages of one run to one
    webhook are sent in order, as only the first of them is due.

    A round begins when a change of any process announces messages, when the next one is due, and every `poll_seconds`.

    No message waits longer than its schedule because a clock was ahead when it set the time: waits are bounded again
    when the clock has gone back, and twice a minute, because other processes may have set times too.
    """

    def __init__(
        self, database: Database, clock: Clock, settings: WebhookSettings, poll_seconds: float = POLL_SECONDS
    ) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings
        self._poll_seconds = poll_seconds
        self._private_networks = networks(settings.private_networks)
        self._claim_ms = round((settings.timeout_seconds + _CLAIM_ALLOWANCE_SECONDS) * 1000)
        self._threads = ThreadPoolExecutor(_DATABASE_THREADS, thread_name_prefix="webhooks-database")
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        self._gathering = False
        self._ended = False
        self._sender: Sender | None = None
        self._under_way: dict[asyncio.Task[None], tuple[ClaimedMessageRow, str]] = {}
        self._round_at = 0
        self._rounds = RepeatedDatabaseWork(
            _LOG, "Rounds of webhooks fail", "Rounds of webhooks succeed again", logging.ERROR
        )
        self._bound_waits_at = 0.0

    def start(self) -> None:
        """Starts the thread."""
        self._loop = asyncio.new_event_loop()
        self._thread.start()
        self._database.listen(self._on_announced, ANNOUNCED)

    def stop(self) -> None:
        """Claims no more messages, waits two seconds for attempts to end, and releases the claims of the rest."""
        self._ended = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._woken.set)
            self._thread.join()
            self._loop.close()
            self._loop = None
        self._threads.shutdown(wait=True)

    def _run(self) -> None:
        assert self._loop is not None
        # Name resolution has threads of its own, so that a silent name server blocks no database work.
        self._loop.set_default_executor(ThreadPoolExecutor(_NAME_THREADS, thread_name_prefix="webhooks-names"))
        self._loop.run_until_complete(self._serve())

    def _on_announced(self, _: Collection[str] | None) -> None:
        loop = self._loop
        if loop is None:
            return
        # The loop may end at this moment.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._wake_soon)

    def _wake_soon(self) -> None:
        if not self._gathering:
            self._gathering = True
            asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._wake)

    def _wake(self) -> None:
        self._gathering = False
        self._woken.set()

    async def _serve(self) -> None:
        while not self._ended:
            self._woken.clear()
            try:
                seconds = await self._claim_due()
            except Exception as error:  # noqa: BLE001 - the thread must not end
                metrics.BACKGROUND_FAILURES.add(self._thread.name)
                self._rounds.failed(error)
                seconds = _RETRY_SECONDS
            else:
                self._rounds.succeeded()
            if not self._ended:
                await self._wait(seconds)
        await self._end_attempts()
        if self._sender is not None:
            await self._sender.close()

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._woken.wait(), seconds)
        except TimeoutError:
            return

    async def _claim_due(self) -> float:
        """Claims due messages, up to the limit of concurrent attempts, and begins to send them.

        Returns the seconds until the next round is due, if nothing wakes it before.
        """
        room = self._settings.concurrent - len(self._under_way)
        if room <= 0:
            return self._poll_seconds
        at = self._clock()
        if at < self._round_at or monotonic() >= self._bound_waits_at:
            await self._in_thread(lambda: self._bound_waits(at))
            self._bound_waits_at = monotonic() + _WAITS_BOUNDED_SECONDS
        self._round_at = at
        until = at + round(self._poll_seconds * 1000)
        found = await self._in_thread(lambda: self._database.read(lambda tx: delivery_sql.due_webhooks(tx, until)))
        due = [webhook for webhook in found if webhook.due_at <= at]
        random.shuffle(due)
        busy = Counter(row.webhook_id for row, _ in self._under_way.values())
        for webhook in due:
            most = min(room, _CONCURRENT_OF_WEBHOOK - busy[webhook.webhook_id])
            if most <= 0 or self._ended:
                continue
            claim_id = new_id("clm")
            rows = await self._in_thread(lambda: self._claim(webhook.webhook_id, claim_id, most))  # noqa: B023 - awaited
            room -= len(rows)
            for row in rows:
                task = asyncio.create_task(self._deliver(webhook, row, claim_id))
                self._under_way[task] = row, claim_id
                task.add_done_callback(self._on_done)
        next_at = min((webhook.due_at for webhook in found if webhook.due_at > at), default=until)
        return max(_GATHER_SECONDS, (next_at - at) / 1000)

    def _bound_waits(self, at: int) -> None:
        if self._database.read(lambda tx: wait_bounds_sql.any_waits_too_long(tx, at)):
            self._database.write(lambda tx: wait_bounds_sql.bound_waits(tx, at))

    def _claim(self, webhook_id: str, claim_id: str, most: int) -> list[ClaimedMessageRow]:
        at = self._clock()
        return self._database.write(
            _keeping_caches(lambda tx: delivery_sql.claim(tx, webhook_id, claim_id, at, at + self._claim_ms, most)),
            lock_key=f"webhook {webhook_id}",
        )

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)
        # Another attempt may begin, and the next message of the run may be due.
        self._woken.set()
        if not task.cancelled() and (error := task.exception()):
            # The message's claim lapses, and the message is sent again.
            metrics.BACKGROUND_FAILURES.add(self._thread.name)
            _LOG.error("What came of an attempt could not be recorded", exc_info=error)

    async def _deliver(self, webhook: DueWebhookRow, row: ClaimedMessageRow, claim_id: str) -> None:
        if self._sender is None:
            # Imported here, to spare time and memory of processes without webhooks.
            from backend.services.webhooks.sender import Sender

            self._sender = Sender(self._private_networks, self._settings.timeout_seconds)
        at = self._clock()
        body = message_body(row)
        headers = signed_headers(row.message_id, body, at, valid_secrets(webhook, at))
        outcome = await self._post(self._sender, webhook, row, body, headers)
        metrics.WEBHOOK_ATTEMPTS.add(outcome.error or "delivered")

        def record() -> None:
            at = self._clock()
            self._database.write(
                _keeping_caches(lambda tx: attempts.record_outcome(tx, row, claim_id, outcome, at)),
                lock_key=delivery_lock(row.message_id, row.run_id),
            )

        await self._in_thread(record)

    async def _post(
        self, sender: "Sender", webhook: DueWebhookRow, row: ClaimedMessageRow, body: str, headers: Mapping[str, str]
    ) -> DeliveryOutcome:
        """Makes one attempt, within the trace of the run's start if tracing is on."""
        recording = tracing.active()
        if recording is None:
            return await _timed(sender.post(webhook.url, body, headers))
        run_id = row.run_id
        if run_id is None:
            return await _timed(sender.post(webhook.url, body, headers))
        carrier = await self._in_thread(lambda: carrier_of_run(self._database, run_id))
        attributes = {"workflow_api.run_id": run_id, "workflow_api.webhook_id": webhook.webhook_id}
        with recording.executed("webhook", carrier, attributes, kind=recording.CLIENT) as span:
            # Without `tracestate`, which belongs to the caller's own systems.
            traceparent = {name: value for name, value in recording.carrier().items() if name == TRACEPARENT}
            outcome = await _timed(sender.post(webhook.url, body, {**headers, **traceparent}))
            if outcome.status is not None:
                span.set_attribute("http.response.status_code", outcome.status)
            if outcome.error is not None:
                recording.fail(span, outcome.error)
            return outcome

    async def _end_attempts(self) -> None:
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=_GRACE_SECONDS)
        left = dict(self._under_way)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for row, claim_id in left.values():
            await self._release(row, claim_id)

    async def _release(self, row: ClaimedMessageRow, claim_id: str) -> None:
        def change() -> None:
            at = self._clock()
            self._database.write(
                lambda tx: delivery_sql.release(tx, row, claim_id, at),
                lock_key=delivery_lock(row.message_id, row.run_id),
            )

        try:
            await self._in_thread(change)
        except Exception:  # noqa: BLE001 - the claim lapses all the same
            _LOG.info("A claim could not be given back", exc_info=True)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _keeping_caches(work: Callable[[Tx], T]) -> Callable[[Tx], T]:
    """Wraps work that changes only webhooks and messages, on which no cached answer depends, to keep caches valid."""

    def change(tx: Tx) -> T:
        tx.keeps_caches_valid = True
        return work(tx)

    return change


async def _timed(attempt: Awaitable[DeliveryOutcome]) -> DeliveryOutcome:
    """Awaits an attempt, and measures its duration without the reads before it."""
    began = perf_counter()
    outcome = await attempt
    metrics.WEBHOOK_SECONDS.observe(perf_counter() - began)
    return outcome
