"""How long a run waits for an object store."""

import asyncio
import logging

import pytest

from backend import retry


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
    return asyncio.run(retry.patiently(store.put, "It"))


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
    assert store.begun[-1] <= 40 + retry.SECONDS, "the minute counts from the first failure"


def test_a_store_that_is_back_within_the_minute_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(Store(monkeypatch, back=59, seconds=0)) == "stored"
