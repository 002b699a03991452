"""Sends frames from a step to its worker."""

from __future__ import annotations

import _thread
import marshal
import os

from backend.sandbox.inside.plain_json import encode
from backend.sandbox.inside.protocol import FILE, HEADER_BYTES, REQUEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def note(text: str) -> None:
    """Writes a line to the step's log, even if the agent has replaced its streams."""
    os.write(2, f"{text}\n".encode(errors="backslashreplace"))


class Channel:
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
