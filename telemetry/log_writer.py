"""Writes log lines from a thread, so that nobody who logs ever waits for whoever reads them.

A pipe that is not read takes 64 KB and then blocks its writer. Lines wait in a bounded buffer instead, and those that
find it full are dropped and counted.
"""

import os
import select
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from telemetry.metrics import Counter

DROPPED: Final = Counter("log_lines_dropped_total", "Log lines dropped because whoever reads the log was too slow.")

MOST_LINES: Final = 16_384
"""Lines that wait to be written; further ones are dropped."""

_GATHER_SECONDS: Final = 0.05
"""How long lines are gathered that need not be written at once."""

# Of a write to a pipe up to so many bytes are never interleaved with those of other processes.
_ATOMIC_BYTES: Final = select.PIPE_BUF
_FILE_BYTES: Final = 65_536
_POLL_SECONDS: Final = 0.005


class LogWriter:
    """Writes whole lines to a file descriptor. Thread-safe, without a lock that one who logs could wait for.

    `on_dropped(count)` returns the line that reports the lines dropped since the last one, which is written as soon as
    there is room again.
    """

    def __init__(self, descriptor: int, on_dropped: Callable[[int], bytes], most_lines: int = MOST_LINES) -> None:
        self._descriptor = descriptor
        self._on_dropped = on_dropped
        self._most_lines = most_lines
        self._write_bytes = _FILE_BYTES if stat.S_ISREG(os.fstat(descriptor).st_mode) else _ATOMIC_BYTES
        self._lines: deque[bytes] = deque()
        self._dropped = 0
        self._awake = False
        self._writing = False
        self._closed = False
        self._filled = threading.Event()
        self._urgent = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Queues one line, which ends in a line feed, and has it written at once."""
        self.write_soon(line)
        self._urgent.set()

    def write_soon(self, line: bytes) -> None:
        """Queues one line, which ends in a line feed; it is written with those of the next 50 ms."""
        lines = self._lines
        if len(lines) >= self._most_lines:
            self._dropped += 1
            DROPPED.add()
            return
        lines.append(line)
        if not self._awake:
            self._awake = True
            self._filled.set()

    def flush(self, seconds: float) -> None:
        """Waits until everything queued is written, for up to so many seconds."""
        until = time.monotonic() + seconds
        while (self._lines or self._writing) and time.monotonic() < until:
            self._urgent.set()
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        """Ends the thread once it has written what is queued; nothing may be queued from then on."""
        self._closed = True
        self._urgent.set()
        self._filled.set()
        self._thread.join()

    def _run(self) -> None:
        while self._lines or not self._closed:
            self._filled.wait()
            self._urgent.wait(_GATHER_SECONDS)
            self._writing = True
            self._urgent.clear()
            self._filled.clear()
            # Only then are lines taken: who adds one from now on sets the event again.
            self._awake = False
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            for batch in _batches(lines, self._write_bytes):
                self._write_all(batch)
            self._report_dropped()
            self._writing = False

    def _report_dropped(self) -> None:
        dropped, self._dropped = self._dropped, 0
        if dropped:
            self._write_all(self._on_dropped(dropped))

    def _write_all(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                # Another process has set what they share to not block.
                with suppress(OSError):
                    select.select([], [self._descriptor], [])
            except OSError:
                # Whoever read the log has gone: there is nowhere to say so.
                DROPPED.add_many(data.count(b"\n"))
                return


def _batches(lines: Sequence[bytes], most_bytes: int) -> Iterator[bytes]:
    """Yields whole lines together, up to so many bytes; a longer line alone."""
    first, size = 0, 0
    for place, line in enumerate(lines):
        if size and size + len(line) > most_bytes:
            yield b"".join(lines[first:place])
            first, size = place, 0
        size += len(line)
    if size:
        yield b"".join(lines[first:])
