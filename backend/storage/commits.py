"""The effects of a commit on others: names for listeners, and marks of which cached answers it makes wrong."""

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from typing import Final

Listener = Callable[[Collection[str] | None], None]
"""Takes announced names, or None where some may have been missed; it must be quick, and is called from any thread."""

Runs = Collection[tuple[str, str]]
"""The runs that a transaction changes, each with its key; none of them where it may change anything."""

_LOG = logging.getLogger(__name__)
_MOST: Final = 16_384


class Listeners:
    """The listeners of one database in this process, to the names that durable changes announce."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[tuple[Listener, str | None], ...] = ()

    def add(self, listener: Listener, name: str | None = None) -> bool:
        """Adds a listener to one name, or to all; returns whether it is the first."""
        with self._lock:
            first = not self._listeners
            self._listeners = (*self._listeners, (listener, name))
        return first

    def notify(self, names: Collection[str] | None) -> None:
        """Calls every listener to one of the names; all of them where names may have been missed."""
        for listener, name in self._listeners:
            if name is not None and names is not None and name not in names:
                continue
            try:
                listener(names)
            except Exception:  # noqa: BLE001 - the change holds all the same
                _LOG.exception("A listener to changes failed")


class CommitMarks:
    """The number of the last commit that changed each run and the runs of each key, of some recent ones.

    Commits are numbered in their order. Each is marked before it is made, so that nobody takes for unchanged what a
    commit under way changes, and those that read meanwhile remember the one before it.

    One thread marks commits, one after the other; others ask at any time, without a lock. A mark that is forgotten
    raises the number that all which have none count with, so that it can only make something count as changed.
    """

    def __init__(self, most: int = _MOST) -> None:
        """Takes how many marks are kept at least, of twice as many at most."""
        self._most = most
        self._number = 0
        self.ended = 0
        """The number of the last commit that has ended, 0 before the first: to be taken before a read."""
        self._general = 0
        # Marked since the last turn, and in the time before that.
        self._young: dict[str, int] = {}
        self._old: dict[str, int] = {}
        self._floor = 0
        self._turned_at = 0

    def begin(self, transactions: Iterable[Runs]) -> None:
        """Marks what the transactions of a commit change, before it is made."""
        self._number = number = self._number + 1
        for runs in transactions:
            if not runs:
                self._general = number
            for run in runs:
                for changed in run:
                    self._young[changed] = number
        if len(self._young) > self._most:
            # In this order, for those who look meanwhile among the young, then the old, and then at the floor.
            self._floor, self._turned_at = self._turned_at, number
            self._old = self._young
            self._young = {}

    def end(self) -> None:
        """Ends the commit that has begun, whether or not it holds, before anybody gets its results."""
        self.ended = self._number

    def unchanged(self, name: str, since: int) -> bool:
        """Returns whether a run, or the runs of a key, are as they were once the commit of that number had ended."""
        if self._general > since:
            return False
        return (self._young.get(name) or self._old.get(name) or self._floor) <= since
