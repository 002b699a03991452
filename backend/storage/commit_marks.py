"""Marks of commits: which was the last one that may have changed a run, the runs of a key, or anything else.

Commits are numbered in their order. Each is marked before it is made, so that nobody takes for unchanged what a commit
under way changes, and those that read meanwhile remember the one before it.
"""

from collections.abc import Collection, Iterable
from typing import Final

Runs = Collection[tuple[str, str]]
"""The runs that a transaction changes, each with its key; none of them where it may change anything."""

_MOST: Final = 16_384


class CommitMarks:
    """The number of the last commit that changed each run and the runs of each key, of some recent ones.

    One thread marks commits, one after the other; others ask at any time, without a lock. A mark that is forgotten
    raises the number that all which have none count with, so that it can only make something count as changed.
    """

    def __init__(self, most: int = _MOST) -> None:
        """Takes how many marks are kept at least, of twice as many at most."""
        self._most = most
        self._number = 0
        self._ended = 0
        self._general = 0
        # Marked since the last turn, and in the time before that.
        self._young: dict[str, int] = {}
        self._old: dict[str, int] = {}
        self._floor = 0
        self._turned_at = 0

    @property
    def ended(self) -> int:
        """The number of the last commit that has ended, 0 before the first: to be taken before a read."""
        return self._ended

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
        self._ended = self._number

    def unchanged(self, name: str, since: int) -> bool:
        """Returns whether a run, or the runs of a key, are as they were once the commit of that number had ended."""
        if self._general > since:
            return False
        return (self._young.get(name) or self._old.get(name) or self._floor) <= since
