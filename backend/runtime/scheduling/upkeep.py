"""Erases and deletes what is kept for a time and then no longer, and folders that were left over."""

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from backend.clock import DAY_MS, HOUR_MS
from backend.runs.retention import Retention
from backend.runs.runtime_port import Runtime
from backend.runs.start.service import RECORD_LIFE_MS
from backend.runtime.scheduling import upkeep_sql
from backend.services import Services
from backend.users.rules import SESSION_MS, TRIES_KEPT_MS

# SPEC.md, Request and payload bounds, and Workflow and resource limits of the product.
KEPT_MS: Final[Mapping[str, int]] = {
    "idempotency_records": RECORD_LIFE_MS,
    "usage_records": 90 * DAY_MS,
    "usage_hours": 400 * DAY_MS,
    "audit_records": 400 * DAY_MS,
    "sessions": SESSION_MS,
    "sign_in_tries": TRIES_KEPT_MS,
}

_MOST_AT_ONCE: Final = 1_000


class Upkeep:
    """Works in a thread of its own, for nothing here is urgent and much of it may be due at once.

    `runtime` hears of what was erased.
    """

    def __init__(self, services: Services, runtime: Runtime) -> None:
        self._services = services
        self._retention = Retention(services, runtime)
        self._next_expiry = 0
        self._halted = threading.Event()

    def halt(self) -> None:
        """Has whatever is going on end after the batch it is at, and nothing begin any more; from any thread."""
        self._halted.set()

    def round(self) -> None:
        """Every hour, ends what is past its time; where processes share the database, one of them does.

        Every time, gives back the disk space of what was erased.
        """
        now = self._services.clock()
        if now >= self._next_expiry:
            with self._services.database.hold("upkeep") as mine:
                if mine:
                    self._next_expiry = now + HOUR_MS
                    self.expire()
        self._services.database.reclaim_space(self._until(None))

    def expire(self, seconds: float | None = None) -> dict[str, int]:
        """Erases run data and deletes records past their time; returns how many, as `runs_erased` and by table.

        `more` among them is 1 where the `seconds` were over, or a halt came, before it was known that nothing is left.
        """
        may_go_on = self._until(seconds)
        done = {"runs_erased": self._retention.enforce(may_go_on)}
        done |= {table: self._delete(table, may_go_on) for table in KEPT_MS}
        return {**done, "more": int(not may_go_on())}

    def _until(self, seconds: float | None) -> Callable[[], bool]:
        """Whether there is time left: no halt came, and the seconds, where given, are not over."""
        end = None if seconds is None else time.monotonic() + seconds
        return lambda: not self._halted.is_set() and (end is None or time.monotonic() < end)

    def _delete(self, table: str, may_go_on: Callable[[], bool]) -> int:
        """Deletes in batches, so that no other change waits long behind them."""
        before = self._services.clock() - KEPT_MS[table]
        batch = partial(upkeep_sql.purge, table=table, before=before, most=_MOST_AT_ONCE)
        deleted = 0
        while may_go_on() and (count := self._services.database.write(batch)):
            deleted += count
        return deleted
