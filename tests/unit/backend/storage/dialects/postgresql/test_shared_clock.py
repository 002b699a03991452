import itertools
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from backend.runtime.scheduling.run_reaper import ClockJumpDetector
from backend.storage.database import Database, DatabaseUnavailableError
from backend.storage.dialects.postgresql.database import PostgresqlDatabase
from backend.storage.dialects.postgresql.shared_clock import SharedClock
from tests.support.own_postgresql import OwnPostgresql
from tests.support.poll import until
from tests.support.stepped_clock import SteppedClock, clock_library

FAR_AHEAD_MS = 1_000_000_000_000
START_MS = 1_790_000_000_000
MINUTE_MS = 60_000


class Hurried(threading.Event):
    """An event that is awaited for a moment only, whatever time is given."""

    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(None if timeout is None else 0.01)


class FailingOnce:
    """Stands in for a database that raises at the second comparison; the first is made with the clock."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self._asked = 0

    def now(self) -> int:
        self._asked += 1
        if self._asked == 2:
            raise self._error
        return 0 if self._asked == 1 else FAR_AHEAD_MS


@pytest.mark.parametrize("error", [DatabaseUnavailableError(), LookupError()])
def test_the_clock_is_compared_again_after_any_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as hurried:
        hurried.setattr(threading, "Event", Hurried)
        clock = SharedClock(cast(Database, FailingOnce(error)))
    try:
        until(lambda: clock() >= FAR_AHEAD_MS, "the next comparison")
    finally:
        clock.stop()


class World:
    """A database whose clock is `ahead` of the time that passes here, and takes `answer_ms` to say it."""

    def __init__(self) -> None:
        self.passed = 1_000
        self.ahead = START_MS
        self.answer_ms = 0
        self.clock = SharedClock(cast(Database, self), steady=lambda: self.passed)

    def now(self) -> int:
        told = self.passed + self.ahead
        self.passed += self.answer_ms
        return told

    @property
    def behind(self) -> int:
        """How far the database's clock is behind the shared one."""
        return self.clock() - (self.passed + self.ahead)

    def compare_after(self, seconds: float) -> None:
        self.passed += round(seconds * 1000)
        self.clock.compare()


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.clock.stop()


def test_the_clock_goes_on_while_the_databases_is_behind_and_follows_it_back(world: World) -> None:
    world.ahead -= 10 * MINUTE_MS
    world.compare_after(5)
    times = []
    for _ in range(4):
        times.append(world.clock())
        world.compare_after(3)
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == [3_000] * 3
    world.compare_after(3)
    assert abs(world.behind) <= 1


def test_sweepers_notice_a_step_back_before_any_clock_follows_it_and_again_then(world: World) -> None:
    steps = ClockJumpDetector(world.clock, lambda: world.passed / 1000)
    steps.read()
    world.ahead -= 10 * MINUTE_MS
    world.compare_after(5)
    assert steps.read().ms_since_jump == 0
    assert world.behind > 9 * MINUTE_MS
    world.compare_after(14)
    assert steps.read().ms_since_jump == 14_000
    assert world.behind > 9 * MINUTE_MS
    world.compare_after(1)
    assert steps.read().ms_since_jump == 0


def test_a_clock_that_is_ahead_is_followed_immediately(world: World) -> None:
    world.ahead += 120 * MINUTE_MS
    world.compare_after(5)
    assert abs(world.behind) <= 1


def test_a_small_correction_back_lets_the_clock_stand_still_and_not_go_back(world: World) -> None:
    before = world.clock()
    world.ahead -= 400
    world.compare_after(0.1)
    assert world.clock() == before
    world.passed += 1_000
    assert abs(world.behind) <= 1


def test_a_slow_answer_corrects_nothing(world: World) -> None:
    world.answer_ms = 8_000
    for _ in range(3):
        world.compare_after(5)
    assert world.behind == 0


def test_the_clock_follows_a_postgresql_whose_clock_steps_back() -> None:
    skipped = [0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # The server's user reads its clock there.
        folder.chmod(0o711)
        step = SteppedClock(clock_library(folder), folder / "clock")
        server = OwnPostgresql(step.variables)
        try:
            database = PostgresqlDatabase(server.url, 2)
            clock = SharedClock(database, steady=lambda: time.monotonic_ns() // 1_000_000 + skipped[0])
            ahead = clock()
            step.step(-600)
            clock.compare()
            skipped[0] = 15_000
            clock.compare()
            assert clock() < ahead - 9 * MINUTE_MS
            assert abs(clock() - database.now()) < MINUTE_MS
            clock.stop()
            database.close()
        finally:
            server.close()
