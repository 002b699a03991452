"""When work that failed is tried again, and for how long."""

import asyncio
import logging
import threading

import pytest

from backend.common import retry
from backend.common.retry import Backoff, HaltedError, RetryPolicy, RetryTimes
from backend.runtime.execution import retries


class Store:
    """Fails until `back`, each try taking `seconds` of a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, back: float, seconds: float) -> None:
        self.now = 1_000.0
        self.begun: list[float] = []
        self._back = self.now + back
        self._seconds = seconds
        monkeypatch.setattr(retry, "monotonic", lambda: self.now)
        monkeypatch.setattr(retry, "sleep", self._sleep)

    async def put(self) -> str:
        self.begun.append(self.now - 1_000.0)
        self.now += self._seconds
        if self.now < self._back:
            raise OSError("the store is away")
        return "stored"

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds


def tried(store: Store) -> str:
    return asyncio.run(retries.RESOURCE.run(store.put, "It"))


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


def test_a_store_that_refuses_is_asked_at_growing_distances_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(monkeypatch, back=1_000, seconds=0)
    with pytest.raises(OSError, match="away"):
        tried(store)
    assert store.begun == [0, 1, 3, 7, 15, 31, 60]


def test_a_silent_store_is_not_asked_again_once_the_minute_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(monkeypatch, back=1_000, seconds=40)
    with pytest.raises(OSError, match="away"):
        tried(store)
    assert store.begun == [0, 41, 83]
    assert store.begun[-1] <= 40 + (retries.RESOURCE.seconds or 0), "the minute counts from the first failure"


def test_a_store_that_is_back_within_the_minute_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(Store(monkeypatch, back=59, seconds=0)) == "stored"


def test_a_deadline_from_the_start_counts_the_first_try(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(monkeypatch, back=1_000, seconds=4)
    policy = RetryPolicy(lambda _: True, Backoff(0.5, 0.5), seconds=10.0, from_start=True)
    with pytest.raises(OSError, match="away"):
        asyncio.run(policy.run(store.put, "It"))
    assert store.begun == [0, 4.5, 9]


def test_what_will_not_pass_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(monkeypatch, back=1_000, seconds=0)
    with pytest.raises(OSError, match="away"):
        asyncio.run(RetryPolicy(lambda _: False, Backoff(0, 0)).run(store.put, "It"))
    assert store.begun == [0]


def test_a_policy_with_attempts_makes_no_more() -> None:
    tries: list[None] = []

    def fail() -> None:
        tries.append(None)
        raise OSError

    with pytest.raises(OSError):
        RetryPolicy(lambda _: True, Backoff(0, 0), attempts=3).run_blocking(fail, "It")
    assert len(tries) == 3


def test_a_halt_ends_the_wait_in_a_thread() -> None:
    halt = threading.Event()

    def fail() -> None:
        halt.set()
        raise OSError

    with pytest.raises(HaltedError):
        RetryPolicy(lambda _: True, Backoff(3_600, 3_600)).run_blocking(fail, "It", halt)
    with pytest.raises(HaltedError):
        RetryPolicy(lambda _: True, Backoff(0, 0)).run_blocking(lambda: None, "It", halt)


def test_delays_double_up_to_the_longest() -> None:
    backoff = Backoff(1, 30)
    assert [backoff.delay(failures) for failures in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]
    assert backoff.delay(100_000) == 30


def test_a_jitter_moves_each_delay_by_its_share_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(monkeypatch, back=100, seconds=0)
    asyncio.run(RetryPolicy(lambda _: True, Backoff(8, 8, jitter=0.25)).run(store.put, "It"))
    delays = [after - before for before, after in zip(store.begun, store.begun[1:], strict=False)]
    assert len(delays) >= 10
    assert all(6 <= delay <= 10 for delay in delays)
    assert len(set(delays)) > 1


def test_a_log_line_holds_what_the_policy_words_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    policy = RetryPolicy(lambda _: True, Backoff(1, 1), seconds=60.0, describe=lambda _: "its code")
    asyncio.run(policy.run(Store(monkeypatch, back=1, seconds=0).put, "Reading"))
    assert caplog.messages == ["Reading failed; retrying for up to 60 s: its code"]
    assert "the store is away" not in caplog.text


def test_each_name_is_postponed_by_its_own_failures_until_they_are_forgotten() -> None:
    now = [1_000_000]
    times = RetryTimes(lambda: now[0], Backoff(1, 300))
    assert [times.postpone("one"), times.postpone("one"), times.postpone("other")] == [1, 2, 1]
    now[0] += 1_000
    assert (times.is_due("one"), times.is_due("other"), times.is_due("new")) == (False, True, True)
    now[0] += 1_000
    assert times.is_due("one")
    times.keep_only({"other"})
    assert [times.postpone("one"), times.postpone("other")] == [1, 2]


def test_what_a_clock_that_was_ahead_postponed_may_be_tried_once_it_is_set_back() -> None:
    now = [1_000_000]
    times = RetryTimes(lambda: now[0], Backoff(1, 300))
    times.postpone("one")
    now[0] -= 250_000
    assert not times.is_due("one")
    now[0] -= 350_000
    assert times.is_due("one")
