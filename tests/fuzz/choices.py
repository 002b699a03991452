"""Bytes as a sequence of choices, for targets whose inputs are generated rather than parsed."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Gives the bytes one by one, and zeros after the last one."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def below(self, bound: int) -> int:
        """A number below a bound of at most 65,536."""
        return (self.byte() if bound <= 256 else self.byte() << 8 | self.byte()) % bound

    def one_of(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]
