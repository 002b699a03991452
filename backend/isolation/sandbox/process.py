"""A started step as seen by the worker: its processes, and the bounded log of its output.

A log that is too long keeps its beginning and its end, with a line between them that counts the bytes cut.
"""

import asyncio
import contextlib
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from backend.common.secret_scrubbing import ScrubbedStream, Scrubber
from backend.isolation.sandbox.layer import Launch


class BoundedLog:
    """A log that keeps at most `limit` bytes, also in memory; a longer one keeps as much of its start as of its end."""

    def __init__(self, limit: int) -> None:
        self._head_bytes = limit // 2
        self._tail_bytes = limit - self._head_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._added = 0

    def add(self, part: bytes) -> None:
        """Appends to the log."""
        self._added += len(part)
        fits = self._head_bytes - len(self._head)
        self._head += part[:fits]
        self._tail += part[fits:]
        del self._tail[: -self._tail_bytes]

    def text(self) -> bytes:
        """Returns the log, at most `limit` bytes with the line that counts the missing ones."""
        length = len(self._head) + len(self._tail)
        if length == self._added:
            return bytes(self._head + self._tail)
        # The number of cut bytes has no more digits than the number of all bytes.
        room = length - len(_cut_line(self._added))
        head = self._head[: max(0, room // 2)]
        tail = self._tail[-max(1, room - len(head)) :]
        return bytes(head + _cut_line(self._added - len(head) - len(tail)) + tail)


def bounded(limit: int, *parts: bytes) -> bytes:
    """Returns `parts` as one log of at most `limit` bytes."""
    log = BoundedLog(limit)
    for part in parts:
        log.add(part)
    return log.text()


def _cut_line(count: int) -> bytes:
    return b"\n[%d bytes of the log are cut here]\n" % count


OnText = Callable[[bytes], None]

_READ_BYTES: Final = 64 * 1024
# A pipe holds at most 1 MiB.
_LAST_READS: Final = 32


class StepLog:
    """Collector of a step's output; text beyond the limit is read and dropped, so that the step never blocks."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._log = BoundedLog(1)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_text: OnText = _ignore
        self._scrubbed: ScrubbedStream | None = None
        os.set_blocking(fd, False)

    def start(self, limit: int, on_text: OnText | None = None, scrubber: Scrubber | None = None) -> None:
        """Collects up to `limit` bytes on the running loop until `close`; `on_text` gets all bytes as they come.

        Both get the text without the secrets that the scrubber finds.
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


Excess = Literal["memory", "processes", "workspace"]


class WatchedProcesses(ABC):
    """Processes of a step, or of a template, whose resources are watched."""

    wrapped: bool
    """True if the process `pid` belongs to the layer, as bubblewrap does."""

    def __init__(self, launch: Launch) -> None:
        self.layout = launch.layout
        self.scratch = launch.scratch
        self.exceeded: Excess | None = None
        """The exceeded resource for which the processes were killed, if any."""
        self.root: Path | None = None
        """Path by which the worker opens the step's root folder, once its namespace is known."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """Id of the process that all others descend from."""

    @property
    def excluded_pids(self) -> frozenset[int]:
        """Descendants that are watched on their own, and so are not counted here with their descendants."""
        return frozenset()

    @abstractmethod
    def kill(self) -> None:
        """Kills all of the processes, without waiting for their end. On any thread."""


class StepProcess(WatchedProcesses):
    """A started sandbox whose runner waits for its request on `channel`.

    `end` kills and reaps all processes that the step has started, on any thread; `close` closes the worker's
    descriptors, on the thread of the event loop that used them.
    """

    def __init__(self, launch: Launch, channel: socket.socket, log: StepLog, link: socket.socket) -> None:
        super().__init__(launch)
        self.processes = launch.processes
        self.channel = channel
        self.log = log
        self._link = link

    @property
    def exit_fd(self) -> int | None:
        """A descriptor, readable once every process of the step is dead; None if the layer has none."""
        return None

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Returns whether the process `pid` still runs."""

    @abstractmethod
    def confirm(self) -> None:
        """Examines the step's namespace once its runner is ready; raises OSError if the step has none."""

    @abstractmethod
    def exit_status(self, wait_seconds: float) -> int | None:
        """Returns the exit status, negative for a signal; None if it still runs after that time. Does not reap it."""

    @abstractmethod
    def end(self) -> None:
        """Kills and reaps all processes of the step, and removes its files from the host."""

    def close(self) -> None:
        """Closes the worker's ends of socket, log and link."""
        self.channel.close()
        self.log.close()
        self._link.close()
