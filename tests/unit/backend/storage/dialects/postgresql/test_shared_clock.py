from typing import cast

import pytest

from backend.storage.database import Database, DatabaseUnavailableError
from backend.storage.dialects.postgresql import shared_clock
from backend.storage.dialects.postgresql.shared_clock import SharedClock
from tests.support.poll import until

FAR_AHEAD_MS = 1_000_000_000_000


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
    monkeypatch.setattr(shared_clock, "_COMPARED_EVERY_SECONDS", 0.01)
    clock = SharedClock(cast(Database, FailingOnce(error)))
    try:
        until(lambda: clock() >= FAR_AHEAD_MS, "the next comparison", seconds=10)
    finally:
        clock.stop()
