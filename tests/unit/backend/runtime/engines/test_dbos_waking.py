"""The pause of a polling thread ends by a wake, and the thread ends by its event."""

import threading
from queue import SimpleQueue

from backend.runtime.engines.dbos_waking import QueueWaking
from tests.support.poll import LONGEST_WAIT_SECONDS


class _Polling:
    """A thread that polls as DBOS does."""

    def __init__(self, name: str, pause: float) -> None:
        self.stop = threading.Event()
        self.waking = QueueWaking([self.stop], "polls")
        self.polls: SimpleQueue[None] = SimpleQueue()
        self._pause = pause
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self.stop.wait(timeout=self._pause):
            self.polls.put(None)


def test_a_wake_ends_the_pause_each_time() -> None:
    polling = _Polling("polls", LONGEST_WAIT_SECONDS * 10)
    for _ in range(3):
        polling.waking.wake()
        polling.polls.get(timeout=LONGEST_WAIT_SECONDS)
    polling.stop.set()
    polling.waking.wake()
    polling.thread.join(LONGEST_WAIT_SECONDS)
    assert not polling.thread.is_alive()
    assert polling.polls.empty()


def test_without_a_wake_it_polls_by_the_clock_and_sees_the_stop() -> None:
    polling = _Polling("polls", 0.01)
    polling.polls.get(timeout=LONGEST_WAIT_SECONDS)
    polling.stop.set()
    polling.thread.join(LONGEST_WAIT_SECONDS)
    assert not polling.thread.is_alive()


def test_other_threads_that_wait_for_the_event_are_not_woken() -> None:
    polling = _Polling("another", LONGEST_WAIT_SECONDS * 10)
    polling.waking.wake()
    polling.stop.set()
    polling.thread.join(LONGEST_WAIT_SECONDS)
    assert polling.polls.empty()
    assert not polling.thread.is_alive()
