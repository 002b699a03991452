"""Cache of values derived from rows, invalidated by the table's revision."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final

_MAX_SIZE: Final = 64 * 2**20


@dataclass(frozen=True, slots=True)
class _Entry:
    revision: int
    value: Any
    size: int


class RevisionedCache:
    """Values by name, each of one revision of the data; least recently used ones go once the sizes exceed `max_size`.

    There is one for each database, whose names and revisions are its own.
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
