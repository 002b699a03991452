"""What a step prints, kept within bounds."""

import asyncio
import contextlib
import os

MAX_LOG_BYTES = 1024 * 1024
_READ_BYTES = 64 * 1024


class StepLog:
    """Collects what a step prints, up to 1 MiB; the rest is read and dropped so that the step is never held up."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._kept = bytearray()
        self._dropped = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        os.set_blocking(fd, False)

    def start(self) -> None:
        """Collect on the running loop until `close`."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._read_once)

    def text(self) -> bytes:
        """Everything printed so far, with a last line that says what is missing."""
        # A step that still prints may fill the pipe as fast as it is read.
        for _ in range(2 * MAX_LOG_BYTES // _READ_BYTES):
            if not self._read_once():
                break
        kept = bytes(self._kept)
        if self._dropped:
            kept += b"\n[the log is cut here: %d more bytes]\n" % self._dropped
        return kept

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
        fits = MAX_LOG_BYTES - len(self._kept)
        self._kept += part[:fits]
        self._dropped += len(part[fits:])
        return bool(part)
