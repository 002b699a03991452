"""Figures of the last days: how many runs ended, and how long they took."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

from backend.clock import DAY_MS, utc_day
from backend.runs import days_sql
from backend.runs.days_sql import DayRow
from backend.services import Services
from backend.storage.database import Tx

NUMBER_OF_DAYS: Final = 30

_FRESH_MS: Final = 10_000
# Within that, a process whose clock is behind may still end a run on the day before.
_SETTLED_MS: Final = 600_000
_WAIT_SECONDS: Final = 0.02
"""How long a reader waits for a count: it takes longer where hundreds of thousands of runs end in a day."""


class RunDays:
    """Counts each day once it is over, and today every ten seconds at most, in a thread of its own. Thread-safe."""

    def __init__(self, services: Services, wait_seconds: float = _WAIT_SECONDS) -> None:
        self._database = services.database
        self._clock = services.clock
        self._wait_seconds = wait_seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="run-days")
        self._lock = threading.Lock()
        self._counting: Future[None] | None = None
        self._counted: tuple[int, list[DayRow]] = (-_FRESH_MS, [])

    def newest(self) -> tuple[list[DayRow], bool]:
        """Returns the figures of the last 30 UTC days, today last, and whether newer ones are being counted.

        The first time of all it may return none yet.
        """
        with self._lock:
            now = self._clock()
            at, rows = self._counted
            if at <= now < at + _FRESH_MS:
                return rows, False
            counting = self._counting
            if counting is None or counting.done():
                counting = self._counting = self._thread.submit(self._count, now)
        wait({counting}, self._wait_seconds)
        if counting.done():
            counting.result()
        with self._lock:
            return self._counted[1], not counting.done()

    def close(self) -> None:
        """Waits for the count under way; may be repeated."""
        self._thread.shutdown()

    def _count(self, now: int) -> None:
        days = range(utc_day(now) - NUMBER_OF_DAYS + 1, utc_day(now) + 1)

        def work(tx: Tx) -> tuple[dict[int, DayRow], dict[int, DayRow]]:
            kept = days_sql.kept(tx, days[0])
            return kept, {day: _counted(tx, day) for day in days if day not in kept or not _is_over(day, now)}

        kept, counted = self._database.snapshot(work)
        over = [row for day, row in counted.items() if _is_over(day, now)]
        # Runs may still end on these: a clock that was ahead had them counted.
        early = [day for day in kept if not _is_over(day, now)]
        if over or early:

            def change(tx: Tx) -> None:
                days_sql.forget(tx, early)
                days_sql.keep(tx, over)

            self._database.write(change, lock_key="run_days")
        with self._lock:
            self._counted = now, [counted.get(day) or kept[day] for day in days]


def _is_over(day: int, now: int) -> bool:
    return (day + 1) * DAY_MS + _SETTLED_MS <= now


def _counted(tx: Tx, day: int) -> DayRow:
    return days_sql.counted(tx, day, day * DAY_MS, (day + 1) * DAY_MS)
