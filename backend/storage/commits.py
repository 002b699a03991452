"""Notices of commits: names announced to listeners, and marks that invalidate cached answers."""

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from typing import Final

Listener = Callable[[Collection[str] | None], None]
"""Takes announced names, or None if some may have been missed. Must be quick; called from any thread."""

ChangedRuns = Collection[tuple[str, str]]
"""The runs that a transaction changes, each with its key; empty if it may change anything."""

_LOG = logging.getLogger(__name__)
_MOST: Final = 16_384


class Listeners:
    """The listeners of one database in this process, to the names that durable changes announce."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[tuple[Listener, str | None], ...] = ()

    def add(self, listener: Listener, name: str | None = None) -> bool:
        """Adds a listener to one name, or to all; returns whether the listener is the first."""
        with self._lock:
            first = not self._listeners
            self._listeners = (*self._listeners, (listener, name))
        return first

    def notify(self, names: Collection[str] | None) -> None:
        """Calls the listeners to these names; all listeners if names may have been missed."""
        for listener, name in self._listeners:
            if name is not None and names is not None and name not in names:
                continue
            try:
                listener(names)
            except Exception:  # noqa: BLE001 - the change holds all the same
                _LOG.exception("A listener to changes failed")


class CommitMarks:
    """The number of the last commit that changed each run and the runs of each key, for recently changed ones.

    Commits are numbered in their order. A commit is marked before it is made, so that rows that it is changing do not
    count as unchanged; readers meanwhile remember the commit before. One thread marks commits, one after the other;
    others ask at any time, without a lock. When marks are dropped, names without a mark count as changed by the latest
    of the dropped commits.
    """

    def __init__(self, most: int = _MOST) -> None:
        """`most` marks are kept at least, twice as many at most."""
        self._most = most
        self._number = 0
        self.ended = 0
        """The number of the last commit that has ended, 0 before the first; taken before a read."""
        self._general = 0
        # Marks since the last change of generations, and marks of the generation before.
        self._young: dict[str, int] = {}
        self._old: dict[str, int] = {}
        self._floor = 0
        self._old_until = 0

    def begin(self, transactions: Iterable[ChangedRuns]) -> None:
        """Marks the runs that the transactions of a commit change, before the commit is made."""
        self._number = number = self._number + 1
        for runs in transactions:
            if not runs:
                self._general = number
            for run in runs:
                for changed in run:
                    self._young[changed] = number
        if len(self._young) > self._most:
            # In this order, because readers look among the young, then the old, then at the floor, without a lock.
            self._floor, self._old_until = self._old_until, number
            self._old = self._young
            self._young = {}

    def end(self) -> None:
        """Ends the commit under way, whether or not it succeeded, before anybody gets its results."""
        self.ended = self._number

    def unchanged(self, name: str, since: int) -> bool:
        """Returns whether a run, or the runs of a key, are unchanged since the commit of the number `since` ended."""
        if self._general > since:
            return False
        return (self._young.get(name) or self._old.get(name) or self._floor) <= since
