"""Frames between a step and its worker: their kinds and limits, the step's end of the socket, and progress events.

Events of one attempt are limited, and those that are dropped are counted.
"""

from __future__ import annotations

import _thread
import marshal
import os

from backend.isolation.sandbox.inside.plain_json import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


READY, REQUEST, PROGRESS, FILE, RESULT, FAILURE, SKIPPED, DROPPED = 1, 2, 3, 4, 5, 6, 7, 8
HEADER_BYTES = 5

MAX_MESSAGE_CHARACTERS = 2_000
MAX_TRACEBACK_CHARACTERS = 64 * 1024
MAX_PATH_BYTES = 1_024

SHARED = "shared"
FOLDERS = ("outputs", SHARED)
"""The folders whose files are sent, in this order; a FILE frame names its file's folder."""

SYMLINK, PIPE, SOCKET, DEVICE = "symlink", "pipe", "socket", "device"
OVER_FILES, OVER_DIRECTORIES, OVER_LEVELS = "over_files", "over_directories", "over_levels"
SKIPPED_KINDS = (SYMLINK, PIPE, SOCKET, DEVICE, OVER_FILES, OVER_DIRECTORIES, OVER_LEVELS)
"""Reasons why entries of these folders are not sent; a SKIPPED frame counts entries by reason."""


def note(text: str) -> None:
    """Writes a line to the step's log, even if the agent has replaced its streams."""
    os.write(2, f"{text}\n".encode(errors="backslashreplace"))


class StepChannel:
    """The step's end of its socket to the worker; `runner` describes the frames."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self._fd = fd
        self._lock = _thread.allocate_lock()

    def receive(self) -> Any:
        """Receives the request of the step."""
        kind, *length = self._exactly(HEADER_BYTES)
        if kind != REQUEST:
            raise SystemExit(f"expected a request, not a frame of kind {kind}")
        return marshal.loads(self._exactly(int.from_bytes(length, "big")))  # noqa: S302 - the worker made it

    def send(self, kind: int, payload: bytes = b"") -> None:
        """Sends one frame. Thread-safe."""
        view = memoryview(kind.to_bytes() + len(payload).to_bytes(4, "big") + payload)
        with self._lock:
            while view:
                view = view[os.write(self._fd, view) :]

    def send_file(self, folder: str, path: str, fd: int, size: int) -> None:
        """Sends the announcement of a file of a folder, then its bytes by `sendfile`."""
        self.send(FILE, encode({"folder": folder, "path": path, "size": size}))
        sent = 0
        while sent < size:
            part = os.sendfile(self._fd, fd, sent, size - sent)
            if part == 0:
                raise SystemExit(f"{path} shrank while it was read")
            sent += part

    def wait(self) -> None:
        """Waits until the worker closes its end."""
        os.read(self._fd, 1)

    def _exactly(self, count: int) -> bytes:
        parts = []
        while count:
            part = os.read(self._fd, min(count, 1024 * 1024))
            if not part:
                raise SystemExit(0)
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


class EventBudget:
    """The limits of the events of one attempt; `dropped` counts its dropped events by the limit that each exceeded.

    An event that is too large is dropped alone; once one of the other two limits is exceeded, every later event is.
    Runner and worker each have a budget, and decide alike.
    """

    def __init__(self, event_bytes: int, events: int, event_data_bytes: int) -> None:
        self.dropped = {"event_bytes": 0, "events": 0, "event_data_bytes": 0}
        self.counted_to_the_end = True
        """True where `dropped` is exact; it is a lower bound if the attempt ended before it sent the final count."""
        self._event_bytes = event_bytes
        self._events_left = events
        self._bytes_left = event_data_bytes
        self._exhausted: str | None = None

    def admit(self, size: int) -> bool:
        """Counts an event of that many bytes, and returns whether it is within the limits."""
        exceeded = self._exhausted or self._limit_exceeded_by(size)
        if exceeded is None:
            self._events_left -= 1
            self._bytes_left -= size
            return True
        if exceeded != "event_bytes":
            self._exhausted = exceeded
        self.dropped[exceeded] += 1
        return False

    @property
    def dropped_events(self) -> int:
        """Returns the number of dropped events."""
        return sum(self.dropped.values())

    def _limit_exceeded_by(self, size: int) -> str | None:
        if size > self._event_bytes:
            return "event_bytes"
        if not self._events_left:
            return "events"
        return "event_data_bytes" if size > self._bytes_left else None


class EventReporter:
    """Sends the events of a step to its worker within the budget, until it is closed.

    It reports the number of dropped events whenever that is a power of two, so that the worker knows of them if the
    step is killed, and the exact number at the end.
    """

    def __init__(self, channel: StepChannel, budget: EventBudget) -> None:
        self._channel = channel
        self._budget = budget
        self._lock = _thread.allocate_lock()
        self._closed = False

    def send(self, payload: bytes) -> None:
        """Sends one event, or counts it as dropped."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the step has returned and reports no more progress")
            if self._budget.admit(len(payload)):
                self._channel.send(PROGRESS, payload)
                return
            dropped = self._budget.dropped_events
            if dropped & (dropped - 1) == 0:
                self._send_dropped(final=False)

    def close(self) -> None:
        """Sends the exact number of dropped events if there are any; later events raise."""
        with self._lock:
            if not self._closed and self._budget.dropped_events:
                self._send_dropped(final=True)
            self._closed = True

    def _send_dropped(self, *, final: bool) -> None:
        self._channel.send(DROPPED, encode({"final": final, **self._budget.dropped}))
