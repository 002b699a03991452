"""Notification of the watch streams of this process when a key or a flag changed."""

import threading


class KeyChanges:
    """Broadcast signal: wakes every waiter at each change after it began to wait."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._changes = 0
        self.ended = False
        """Whether the process stops and nothing may wait any more."""

    def end(self) -> None:
        """Wakes every waiter for the last time."""
        self.ended = True
        self.notify()

    def notify(self) -> None:
        """Wakes every waiter."""
        with self._condition:
            self._changes += 1
            self._condition.notify_all()

    def heard(self) -> int:
        """Returns the number of changes so far, for `wait`."""
        with self._condition:
            return self._changes

    def wait(self, heard: int, timeout: float) -> None:
        """Returns at the next change after `heard`, or after `timeout` seconds."""
        with self._condition:
            self._condition.wait_for(lambda: self._changes != heard, timeout)
