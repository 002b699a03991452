"""Time-ordered ids: a prefix that names the kind, and 26 characters that rise within a process (contract 2.6)."""

import secrets
import threading

from backend.clock import system_clock

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_RANDOM_BITS = 80


class _Sequence:
    """Rising 128-bit numbers: 48 bits of time and 80 random ones, counting up where the clock does not advance."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> int:
        fresh = (system_clock() << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
        with self._lock:
            if fresh >> _RANDOM_BITS <= self._last >> _RANDOM_BITS:
                fresh = self._last + 1 + secrets.randbits(16)
            self._last = fresh
            return fresh


_SEQUENCE = _Sequence()


def new_id(prefix: str) -> str:
    """Returns a new id such as `run_01kaj0…`; later ones of this process sort after it."""
    value = _SEQUENCE.next()
    characters = [_ALPHABET[(value >> shift) & 31] for shift in range(125, -1, -5)]
    return f"{prefix}_{''.join(characters)}"
