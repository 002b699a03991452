"""Caches of values that are computed from recent arguments, such as the JSON of a run that is polled.

What erasure removes may be among them, so nothing is kept for longer than a minute after its last use.
"""

import threading
import time
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar
from weakref import WeakSet

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

SECONDS: Final = 30.0
"""Interval after which a value that was not used within it is dropped."""


class RecentValues(Generic[K, V]):
    """Values by arguments that follow one another closely, which nobody may change. Thread-safe.

    Values of more than an eighth of `max_bytes` are not kept.
    """

    def __init__(self, size: Callable[[V], int], max_bytes: int) -> None:
        """Takes what gives the bytes that a value and its argument take, and the bound on their sum."""
        self._size = size
        self._half = max_bytes // 2
        # Used since the last turn, and before that.
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._young_bytes = 0
        self._turning = False

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
            self.turn()
        if not self._turning:
            self._turning = True
            _turn_from_now_on(self)
        self._young_bytes += size
        self._young[argument] = value

    def discard(self, argument: K) -> None:
        """Forgets the value of an argument."""
        self._young.pop(argument, None)
        self._old.pop(argument, None)

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def turn(self) -> None:
        """Forgets what was not used since the last turn."""
        self._old, self._young, self._young_bytes = self._young, {}, 0


def remembering(make: Callable[[K], V], size: Callable[[V], int], max_bytes: int) -> Callable[[K], V]:
    """Returns a function that calls `make` once for equal arguments that follow one another closely.

    Nobody may change what it returns; the rest is as for `RecentValues`.
    """
    values = RecentValues[K, V](size, max_bytes)
    get, put = values.get, values.put

    def remembered(argument: K) -> V:
        value = get(argument)
        if value is None:
            value = make(argument)
            put(argument, value)
        return value

    return remembered


_all: "WeakSet[RecentValues[Hashable, object]]" = WeakSet()
_start: Final = threading.Lock()
_started = False


def _turn_from_now_on(values: "RecentValues[K, V]") -> None:
    global _started  # noqa: PLW0603 - one thread for all
    with _start:
        _all.add(values)  # type: ignore[arg-type]  # no argument of it is used
        if not _started:
            _started = True
            threading.Thread(target=_turn_all, name="recent-values", daemon=True).start()


def _turn_all() -> None:
    while True:
        time.sleep(SECONDS)
        with _start:
            values = list(_all)
        for each in values:
            each.turn()
