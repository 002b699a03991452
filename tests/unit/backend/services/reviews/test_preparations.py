"""Jobs that prepare what people look at: each once, while its callers wait briefly."""

from collections.abc import Iterator
from threading import Event

import pytest

from backend.services.reviews import preparations
from backend.services.reviews.preparations import FAILURE_SECONDS, Preparations


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(preparations, "WAIT_SECONDS", 0.05)
    return Clock()


@pytest.fixture
def jobs(clock: Clock) -> Iterator[Preparations[int]]:
    jobs = Preparations[int]("test", clock)
    yield jobs
    jobs.close()


def test_callers_of_a_slow_job_that_fails_get_its_error_and_not_another_wait(
    jobs: Preparations[int], clock: Clock
) -> None:
    begun = []
    may_fail = Event()

    def fail() -> int:
        begun.append(clock.now)
        may_fail.wait(30)
        raise OSError("gone")

    assert jobs.result("a", fail) is None
    may_fail.set()
    failed = 0
    while not failed:
        try:
            assert jobs.result("a", fail) is None
        except OSError:
            failed = 1
    clock.now += FAILURE_SECONDS - 1
    with pytest.raises(OSError, match="gone"):
        jobs.result("a", fail)
    assert len(begun) == 1
    clock.now += 1
    assert jobs.result("a", lambda: 7) == 7, "the job begins again"


def test_a_result_is_handed_out_once(jobs: Preparations[int]) -> None:
    assert jobs.result("a", lambda: 1) == 1
    assert jobs.result("a", lambda: 2) == 2
