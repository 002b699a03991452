"""Bounded log of what a step prints."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Final

from backend.bounded_log import BoundedLog
from backend.secret_scrubbing import Scrubber
from backend.secret_stream import ScrubbedStream

OnText = Callable[[bytes], None]

_READ_BYTES: Final = 64 * 1024
# A pipe holds at most 1 MiB.
_LAST_READS: Final = 32


class StepLog:
    """Collector of what a step prints; text beyond the limit is read and dropped, so that the step never blocks."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._log = BoundedLog(1)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_text: OnText = _ignore
        self._scrubbed: ScrubbedStream | None = None
        os.set_blocking(fd, False)

    def start(self, limit: int, on_text: OnText | None = None, scrubber: Scrubber | None = None) -> None:
        """Collects up to `limit` bytes on the running loop until `close`; `on_text` gets all bytes as they come.

        What the scrubber finds is in neither.
        """
        self._log = BoundedLog(limit)
        self._scrubbed = ScrubbedStream(scrubber) if scrubber else None
        self._on_text = on_text or _ignore
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._read_once)

    def text(self, trace: bytes = b"") -> bytes:
        """Returns the text printed so far and then the trace, within the limit; to be called once."""
        # Bounded, because a step that still prints may fill the pipe as fast as it is read.
        for _ in range(_LAST_READS):
            if not self._read_once():
                break
        self._add(trace)
        if self._scrubbed is not None:
            self._take(self._scrubbed.finish())
        return self._log.text()

    def close(self) -> None:
        """Stops collecting."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _read_once(self) -> bool:
        part = b""
        with contextlib.suppress(BlockingIOError):
            part = os.read(self._fd, _READ_BYTES)
            if not part and self._loop is not None:
                self._loop.remove_reader(self._fd)
        self._add(part)
        return bool(part)

    def _add(self, part: bytes) -> None:
        self._take(part if self._scrubbed is None else self._scrubbed.add(part))

    def _take(self, part: bytes) -> None:
        self._log.add(part)
        self._on_text(part)


def _ignore(_: bytes) -> None:
    pass
