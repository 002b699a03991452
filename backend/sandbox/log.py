"""What a step prints, kept within bounds."""

import asyncio
import contextlib
import os
from typing import Final

from backend.bounded_log import BoundedLog

_READ_BYTES: Final = 64 * 1024
# A pipe holds at most 1 MiB.
_LAST_READS: Final = 32


class StepLog:
    """Collects what a step prints; what is over the limit is read and dropped so that the step is never held up."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._kept = BoundedLog(1)
        self._loop: asyncio.AbstractEventLoop | None = None
        os.set_blocking(fd, False)

    def start(self, limit: int) -> None:
        """Collect up to `limit` bytes on the running loop until `close`."""
        self._kept = BoundedLog(limit)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._read_once)

    def text(self, trace: bytes = b"") -> bytes:
        """Everything printed so far and then the trace, within the limit; to be called once."""
        # A step that still prints may fill the pipe as fast as it is read.
        for _ in range(_LAST_READS):
            if not self._read_once():
                break
        self._kept.add(trace)
        return self._kept.text()

    def close(self) -> None:
        """Stop collecting."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _read_once(self) -> bool:
        part = b""
        with contextlib.suppress(BlockingIOError):
            part = os.read(self._fd, _READ_BYTES)
            if not part and self._loop is not None:
                self._loop.remove_reader(self._fd)
        self._kept.add(part)
        return bool(part)
