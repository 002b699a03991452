"""Retention: rules of services on how long data are kept, and the job that deletes expired data."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from backend.common.clock import HOUR_MS, Clock, is_due
from backend.storage.database import Database, Tx
from backend.storage.sql_expressions import Purge


class RetentionRule(Protocol):
    """Deletes one kind of expired data, in batches."""

    @property
    def name(self) -> str:
        """The field of `RunUpkeepResponse` that counts the deletions."""

    @property
    def kept_ms(self) -> int | None:
        """Milliseconds for which the data are kept; None for the time in the deployment record."""

    def delete_batch(self, tx: Tx, now: int) -> int:
        """Deletes some expired data; returns the number of deletions, 0 if nothing is left."""


@dataclass(frozen=True, slots=True)
class RowRetention:
    """Rows of one table that are kept for `kept_ms`; a batch is small, so that no other change waits long behind it."""

    name: str
    kept_ms: int
    purge: Purge
    batch: int = 1_000

    def delete_batch(self, tx: Tx, now: int) -> int:
        """Deletes some expired rows; see `RetentionRule.delete_batch`."""
        return self.purge.delete_batch(tx, now - self.kept_ms, self.batch)


class RetentionJob:
    """Runs the registered rules in a thread of its own, because none is urgent and much may be due at once."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._rules: list[RetentionRule] = []
        self._next_expiry = 0
        self._halted = threading.Event()

    @property
    def rules(self) -> tuple[RetentionRule, ...]:
        """The rules in the order of their registration."""
        return tuple(self._rules)

    @property
    def next_round_at(self) -> int:
        """Time of the next run of the rules in this process; 0 before the first."""
        return self._next_expiry

    def register(self, *rules: RetentionRule) -> None:
        """Adds rules, which run in the order of their registration; before the first round."""
        self._rules += rules

    def halt(self) -> None:
        """Ends the deletion under way after its present batch, and starts no other. Thread-safe."""
        self._halted.set()

    def round(self) -> None:
        """Runs every rule once an hour, in one of the processes that share the database; reclaims space every time."""
        now = self._clock()
        if is_due(self._next_expiry, now, HOUR_MS):
            with self._database.try_advisory_lock("upkeep") as is_this_process:
                if is_this_process:
                    self._next_expiry = now + HOUR_MS
                    self.expire()
        self._database.reclaim_space(self._time_left(None))

    def expire(self, seconds: float | None = None) -> dict[str, int]:
        """Runs every rule until nothing is left; returns the number of deletions by name of the rule.

        The entry `more` is 1 if the `seconds` were over, or a halt came, before nothing was left.
        """
        may_go_on = self._time_left(seconds)
        deleted = {rule.name: self._delete(rule, may_go_on) for rule in self._rules}
        return {**deleted, "more": int(not may_go_on())}

    def _time_left(self, seconds: float | None) -> Callable[[], bool]:
        """Returns a function that says whether there is time left: no halt came, and any `seconds` are not over."""
        end = None if seconds is None else time.monotonic() + seconds
        return lambda: not self._halted.is_set() and (end is None or time.monotonic() < end)

    def _delete(self, rule: RetentionRule, may_go_on: Callable[[], bool]) -> int:
        deleted = 0
        while may_go_on() and (count := self._database.write(lambda tx: rule.delete_batch(tx, self._clock()))):
            deleted += count
        return deleted
