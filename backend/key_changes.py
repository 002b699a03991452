"""Wakes the watch streams of this process when a key or a flag changed."""

import threading


class KeyChanges:
    """A bell: every waiter hears every ring that comes after it began to wait."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._rings = 0
        self.ended = False
        """Whether nobody is to wait any more."""

    def end(self) -> None:
        """Rings for the last time."""
        self.ended = True
        self.notify()

    def notify(self) -> None:
        """Rings."""
        with self._condition:
            self._rings += 1
            self._condition.notify_all()

    def heard(self) -> int:
        """How often it rang so far; give it to `wait`."""
        with self._condition:
            return self._rings

    def wait(self, heard: int, timeout: float) -> None:
        """Returns at the next ring after `heard`, or after `timeout` seconds."""
        with self._condition:
            self._condition.wait_for(lambda: self._rings != heard, timeout)
