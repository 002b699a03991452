"""Caches in memory: values by recent arguments, and values derived from rows, invalidated by the table's revision.

`RecentValues` may hold data that erasure removes, such as answers to repeated reads, so it keeps no value for longer
than a minute after its last use.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

SECONDS: Final = 30.0
"""Interval of the expiry: a value that is not used throughout one interval is dropped."""


class RecentValues(Generic[K, V]):
    """Cache of immutable values by argument, for arguments that are repeated within seconds. Thread-safe.

    Values of more than an eighth of `max_bytes` are not kept.
    """

    def __init__(self, size: Callable[[V], int], max_bytes: int) -> None:
        """`size` returns the bytes that a value and its argument take; `max_bytes` bounds their sum."""
        self._size = size
        self._half = max_bytes // 2
        # Values used since the last `drop_unused`, and values used only before it.
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._young_bytes = 0
        self._registered = False

    def get(self, argument: K) -> V | None:
        """Returns the value of an argument, or None."""
        value = self._young.get(argument)
        if value is None:
            value = self._old.get(argument)
            if value is not None:
                self.put(argument, value)
        return value

    def put(self, argument: K, value: V) -> None:
        """Keeps the value of an argument."""
        size = self._size(value)
        if size > self._half // 4:
            return
        if self._young_bytes + size > self._half:
            self.drop_unused()
        if not self._registered:
            self._registered = True
            _expire_regularly(self)
        self._young_bytes += size
        self._young[argument] = value

    def discard(self, argument: K) -> None:
        """Forgets the value of an argument."""
        self._young.pop(argument, None)
        self._old.pop(argument, None)

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def drop_unused(self) -> None:
        """Drops the values that were not used since the last call."""
        self._old, self._young, self._young_bytes = self._young, {}, 0


_all: "WeakSet[RecentValues[Hashable, object]]" = WeakSet()
_start: Final = threading.Lock()
_started = False


def _expire_regularly(values: "RecentValues[K, V]") -> None:
    global _started  # noqa: PLW0603 - one thread for all
    with _start:
        _all.add(values)  # type: ignore[arg-type]  # no argument of it is used
        if not _started:
            _started = True
            threading.Thread(target=_expire_all, name="recent-values", daemon=True).start()


def _expire_all() -> None:
    while True:
        time.sleep(SECONDS)
        with _start:
            values = list(_all)
        for each in values:
            each.drop_unused()


_MAX_SIZE: Final = 64 * 2**20


@dataclass(frozen=True, slots=True)
class _Entry:
    revision: int
    value: object
    size: int


class RevisionedCache:
    """Least recently used cache of values by name, each of one revision of the data, of `max_size` in all.

    Each database has a cache of its own, because names and revisions are the database's own.
    """

    def __init__(self, max_size: int = _MAX_SIZE) -> None:
        self._max_size = max_size
        self._lock = threading.Lock()
        # The most recently used entry is at the end.
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._size = 0

    def get(self, name: Hashable, revision: int) -> Any:
        """Returns the value of this revision, or None."""
        with self._lock:
            entry = self._entries.get(name)
            if entry is None or entry.revision != revision:
                return None
            self._entries.move_to_end(name)
            return entry.value

    def newest(self, name: Hashable) -> Any:
        """Returns the value of any revision, or None; for callers that check the revision later."""
        with self._lock:
            entry = self._entries.get(name)
            return None if entry is None else entry.value

    def put(self, name: Hashable, revision: int, value: object, size: int) -> None:
        """Stores a value in place of an older one, unless it alone exceeds `max_size`."""
        with self._lock:
            before = self._entries.pop(name, None)
            self._size -= before.size if before else 0
            if size > self._max_size:
                return
            self._entries[name] = _Entry(revision, value, size)
            self._size += size
            while self._size > self._max_size:
                self._size -= self._entries.popitem(last=False)[1].size
