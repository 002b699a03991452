from types import SimpleNamespace
from typing import Any

import pytest

from backend.common.clock import HOUR_MS
from backend.runtime.outcomes import CANCEL, reason_to_stop


def _run(**columns: Any) -> Any:
    return SimpleNamespace(**{"cancel_requested_at": None, "max_run_hours": None, "started_at": 1_000} | columns)


@pytest.mark.parametrize(
    ("run", "now", "code"),
    [
        (_run(), 10**15, None),
        (_run(max_run_hours=0.25), 1_000 + HOUR_MS // 4 - 1, None),
        (_run(max_run_hours=0.25), 1_000 + HOUR_MS // 4, "wall_clock_limit_reached"),
        (_run(max_run_hours=1, started_at=None), 10**15, None),
    ],
)
def test_the_time_limit_counts_from_the_start_of_the_run(run: Any, now: int, code: str | None) -> None:
    reason = reason_to_stop(run, now)
    assert (reason.code if reason else None) == code


def test_a_cancel_comes_before_the_time_limit() -> None:
    assert reason_to_stop(_run(cancel_requested_at=5, max_run_hours=1), 10**15) is CANCEL
