"""Sends the notifications of the outbox, one target beside the other, in one thread of a backend."""

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar

from backend.common import metrics
from backend.common.clock import HOUR_MS
from backend.common.ids import new_id
from backend.common.json_text import canonical
from backend.services.dependencies import Services
from backend.services.notifications import sql
from backend.services.notifications.rules import ANNOUNCED, AttemptOutcome
from backend.services.notifications.sql import ClaimedNotificationRow, TargetRules
from backend.services.notifications.texts import NotificationText, test_text, text_of
from backend.services.webhooks.rules import networks
from backend.settings import NotificationSettings, NotificationTarget
from backend.storage.database import Tx
from backend.storage.outage import RepeatedDatabaseWork
from backend.storage.sql_expressions import listed

T = TypeVar("T")

POLL_SECONDS: Final = 5.0
BACK_OFF_MS: Final = (5_000, 60_000, 300_000, 900_000, *(hours * HOUR_MS for hours in (1, 2, 4, 8, 8)))
"""Milliseconds before each further attempt; after the last, within a day, a message is given up."""

_MOST_ATTEMPTS: Final = len(BACK_OFF_MS) + 1
_CLAIM_ALLOWANCE_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 1.0
_GRACE_SECONDS: Final = 2.0

_LOG = logging.getLogger(__name__)


class Notifier:
    """Claims due messages and sends them, one at a time for each target, among all processes.

    A claim lapses some time after its attempt must have ended, so that a message is sent at least once even if a
    process dies. Targets wait for each other nowhere.
    """

    def __init__(self, services: Services, settings: NotificationSettings, poll_seconds: float = POLL_SECONDS) -> None:
        self._services = services
        self._settings = settings
        self._poll_seconds = poll_seconds
        self._claim_ms = round((settings.timeout_seconds + _CLAIM_ALLOWANCE_SECONDS) * 1000)
        count = max(1, len(settings.targets))
        self._database_threads = ThreadPoolExecutor(count, thread_name_prefix="notifications-database")
        # A test and an attempt of each target at once.
        self._mail_threads = ThreadPoolExecutor(2 * count, thread_name_prefix="notifications-mail")
        self._thread = threading.Thread(target=self._run, name="notifications", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken: dict[str, asyncio.Event] = {name: asyncio.Event() for name in settings.targets}
        self._stopping = asyncio.Event()
        self._rounds = RepeatedDatabaseWork(
            _LOG, "Rounds of notifications fail", "Rounds of notifications succeed again", logging.ERROR
        )

    def start(self) -> None:
        """Writes the targets of the settings to the database, and starts the thread if there are any."""
        rules = {
            name: TargetRules(canonical(sorted(each.events)), listed(sorted(each.workflows)) or None)
            for name, each in self._settings.targets.items()
        }
        database = self._services.database
        if {row.name: TargetRules(row.events, row.workflows) for row in database.read(sql.targets)} != rules:
            database.write(lambda tx: sql.set_targets(tx, rules), lock_key="notifications")
        if rules:
            self._loop = asyncio.new_event_loop()
            self._thread.start()
            database.listen(self._on_announced, ANNOUNCED)

    def stop(self) -> None:
        """Claims no more messages, and waits two seconds for attempts to end; other claims lapse."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
            self._loop.close()
            self._loop = None
        self._database_threads.shutdown(wait=True)
        self._mail_threads.shutdown(wait=False, cancel_futures=True)

    @property
    def targets(self) -> Mapping[str, NotificationTarget]:
        """The targets by name."""
        return self._settings.targets

    def send_test(self, name: str) -> str | None:
        """Sends a test message now; returns None for success, else a word for the failure. From any thread."""
        loop = self._loop
        if loop is None:
            return "stopped"
        message = test_text(new_id("msg"), self._services.deployment_id)
        attempt = asyncio.run_coroutine_threadsafe(self._attempt(name, message), loop)
        try:
            return attempt.result(self._settings.timeout_seconds + _GRACE_SECONDS).error
        except TimeoutError:
            return "timeout"
        except CancelledError:
            return "stopped"

    def _run(self) -> None:
        assert self._loop is not None
        self._loop.run_until_complete(self._serve())

    def _on_announced(self, _: Collection[str] | None) -> None:
        loop = self._loop
        if loop is not None:
            # The loop may end at this moment.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for event in self._woken.values():
            event.set()

    async def _serve(self) -> None:
        # Imported here, to spare time and memory of processes without targets.
        from backend.services.webhooks.sender import Sender

        self._sender = Sender(networks(self._settings.private_networks), self._settings.timeout_seconds)
        tasks = [asyncio.create_task(self._serve_target(name)) for name in self._settings.targets]
        await self._stopping.wait()
        self._wake()
        await asyncio.wait(tasks, timeout=_GRACE_SECONDS)
        # Test messages are among these.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._sender.close()

    async def _serve_target(self, name: str) -> None:
        woken = self._woken[name]
        while not self._stopping.is_set():
            woken.clear()
            try:
                seconds = await self._send_due(name)
            except Exception as error:  # noqa: BLE001 - the task must not end
                metrics.BACKGROUND_FAILURES.add(self._thread.name)
                self._rounds.failed(error)
                seconds = _RETRY_SECONDS
            else:
                self._rounds.succeeded()
            if seconds and not self._stopping.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), seconds)

    async def _send_due(self, name: str) -> float:
        """Sends the message that is longest due; returns the seconds to wait, 0 if more may be due."""
        at = self._services.clock()
        claim_id = new_id("clm")
        due_at = await self._in_thread(lambda: self._services.database.read(lambda tx: sql.next_due(tx, name)))
        if due_at is None or due_at > at:
            return self._poll_seconds if due_at is None else min(self._poll_seconds, max(0.05, (due_at - at) / 1000))
        row = await self._write(lambda tx: sql.claim(tx, name, claim_id, at, at + self._claim_ms), name)
        if row is None:
            return self._poll_seconds
        if row.attempts > _MOST_ATTEMPTS:
            # No attempt came to an outcome: each failed unexpectedly, or its process died.
            outcome = AttemptOutcome(False, "unfinished")
        else:
            outcome = await self._attempt(name, await self._in_thread(lambda: self._text(row)))
        await self._write(lambda tx: self._record(tx, row, claim_id, outcome), name)
        return 0

    def _text(self, row: ClaimedNotificationRow) -> NotificationText:
        run_id = row.run_id
        step = (
            self._services.database.read(lambda tx: sql.step_of(tx, row.event, run_id)) if run_id is not None else None
        )
        target = self._settings.targets[row.target]
        return text_of(row, target, step, self._services.deployment_id, self._settings.console_url)

    async def _attempt(self, name: str, message: NotificationText) -> AttemptOutcome:
        from backend.services.notifications.attempts import attempt

        target, seconds = self._settings.targets[name], self._settings.timeout_seconds
        outcome = await attempt(target, self._services.secrets, message, self._sender, self._mail_threads, seconds)
        metrics.NOTIFICATION_ATTEMPTS.add(name, "sent" if outcome.taken else "failed")
        return outcome

    def _record(self, tx: Tx, row: ClaimedNotificationRow, claim_id: str, outcome: AttemptOutcome) -> None:
        at = self._services.clock()
        gives_up = row.attempts >= _MOST_ATTEMPTS
        next_at = None if outcome.taken or gives_up else at + BACK_OFF_MS[row.attempts - 1]
        if not sql.settle(tx, row, claim_id, next_at):
            return
        sql.record_outcome(tx, row.target, outcome, at)
        if gives_up and not outcome.taken:
            tx.after_commit(lambda: _LOG.warning("Notification %s to %s is given up", row.message_id, row.target))

    async def _write(self, work: Callable[[Tx], T], name: str) -> T:
        def change(tx: Tx) -> T:
            # No cached answer depends on notifications.
            tx.keeps_caches_valid = True
            return work(tx)

        return await self._in_thread(lambda: self._services.database.write(change, lock_key=f"notifications {name}"))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._database_threads, work)
