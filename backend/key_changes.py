"""Notification of the watch streams of this process when a key or a flag changed."""

import threading


class KeyChanges:
    """A counter of changes that threads wait on; no waiter misses a change after the count that it read."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._changes = 0
        self.ended = False
        """Whether waiting has ended for good."""

    def end(self) -> None:
        """Wakes all waiters for the last time."""
        self.ended = True
        self.notify()

    def notify(self) -> None:
        """Counts a change and wakes all waiters."""
        with self._condition:
            self._changes += 1
            self._condition.notify_all()

    def count(self) -> int:
        """Returns the number of changes so far, to be given to `wait`."""
        with self._condition:
            return self._changes

    def wait(self, count: int, timeout: float) -> None:
        """Returns at the next change after the number `count`, or after `timeout` seconds."""
        with self._condition:
            self._condition.wait_for(lambda: self._changes != count, timeout)
