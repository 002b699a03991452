"""Time-ordered ids: a prefix that names the kind, and 26 characters that rise within a process (contract 2.6)."""

import os
import threading
from time import time_ns
from typing import Final

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
# Two characters at a time, of ten bits: half the steps.
_PAIRS: Final = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHIFTS: Final = range(120, -1, -10)
_RANDOM_BITS: Final = 80
_RANDOM_BYTES: Final = _RANDOM_BITS // 8
_STEP_BYTES: Final = 2
"""Random bytes of the step between two ids of one millisecond."""
_FETCHED_BYTES: Final = 512


class _Ids:
    """Rising 128-bit numbers: 48 bits of time and 80 random ones, counting up where the clock does not advance.

    Random bytes of the system are fetched for many ids at once; a forked process fetches its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._random = b""
        self._used = 0
        os.register_at_fork(after_in_child=self._forget)

    def new(self, prefix: str) -> str:
        """Returns a new id such as `run_01kaj0…`; later ones of this process sort after it."""
        now = time_ns() // 1_000_000
        with self._lock:
            advanced = now > self._last >> _RANDOM_BITS
            begin, end = self._used, self._used + (_RANDOM_BYTES if advanced else _STEP_BYTES)
            if end > len(self._random):
                begin, end = 0, end - begin
                self._random = os.urandom(_FETCHED_BYTES)
            self._used = end
            number = int.from_bytes(self._random[begin:end])
            self._last = value = now << _RANDOM_BITS | number if advanced else self._last + 1 + number
        made = f"{prefix}_"
        for shift in _SHIFTS:
            made += _PAIRS[value >> shift & 1023]
        return made

    def _forget(self) -> None:
        self._random = b""


new_id: Final = _Ids().new
