"""Jobs that prepare what people look at: each once, while its callers wait briefly."""

from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import Future
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


@pytest.mark.parametrize("fails", [False, True])
def test_a_caller_who_is_late_does_not_end_the_job_that_began_meanwhile(
    jobs: Preparations[int], clock: Clock, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    waited, may_end, wait = Event(), Event(), futures.wait

    def first() -> int:
        waited.wait(30)
        if fails:
            raise OSError("gone")
        return 1

    def second() -> int:
        may_end.wait(30)
        return 2

    def result(make: Callable[[], int]) -> int | None:
        try:
            return jobs.result("a", make)
        except OSError:
            return -1

    def wait_and_be_overtaken(makings: set[Future[int]], seconds: float) -> None:
        monkeypatch.setattr(preparations, "wait", wait)
        waited.set()
        wait(makings, 30)
        assert result(first) == (-1 if fails else 1)
        clock.now += FAILURE_SECONDS
        assert result(second) is None, "it is under way"

    monkeypatch.setattr(preparations, "wait", wait_and_be_overtaken)
    assert result(first) == (-1 if fails else 1)
    clock.now += FAILURE_SECONDS
    may_end.set()
    made = None
    while made is None:
        made = result(lambda: 3)
    assert made == 2
