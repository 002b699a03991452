"""Reads a range of an object from a bucket as a stream."""

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from botocore.exceptions import BotoCoreError

from backend.storage.objects.interface import PART_BYTES, ObjectStoreError

_MAX_FAILURES: Final = 3


class Body(Protocol):
    """The body of a response."""

    def read(self, size: int, /) -> bytes:
        """Returns at most so many bytes; none at the end."""

    def close(self) -> None:
        """Ends the connection if the body has not been read to its end."""


class BucketRange(Iterator[bytes]):
    """A range of an object; if the connection is lost, the rest is requested again.

    `open_at` opens the object for an offset and a length. Closing ends the connection.
    """

    def __init__(self, open_at: Callable[[int, int], Body], offset: int, length: int) -> None:
        self._closed = True
        self._open_at = open_at
        self._offset = offset
        self._left = length
        self._failures = 0
        self._body = open_at(offset, length)
        self._closed = False

    def __next__(self) -> bytes:
        if self._closed and self._left:
            raise ValueError("read of a closed file")
        if not self._left:
            self.close()
            raise StopIteration
        part = self._read()
        if not part:
            self.close()
            raise EOFError(f"the object ended {self._left} bytes early")
        self._offset += len(part)
        self._left -= len(part)
        return part

    def _read(self) -> bytes:
        while True:
            try:
                return self._body.read(min(PART_BYTES, self._left))
            except (BotoCoreError, OSError) as error:
                self._failures += 1
                self._body.close()
                if self._failures > _MAX_FAILURES:
                    raise ObjectStoreError(f"Reading failed {self._left} bytes before the end: {error}") from error
            try:
                self._body = self._open_at(self._offset, self._left)
            except KeyError:
                raise ObjectStoreError("The object was removed while it was read.") from None

    def close(self) -> None:
        """Ends the connection if the body has not been read to its end."""
        if not self._closed:
            self._closed = True
            self._body.close()

    def __del__(self) -> None:
        self.close()
