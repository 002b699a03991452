"""Messages between a pool and its processes, and the errors of jobs.

A frame is four bytes of length with any descriptors, then JSON text.
"""

import os
import select
import socket
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from backend.common import json_text

Arguments = Mapping[str, Any]
"""Arguments of a job, a JSON object of its caller's choice."""
Answer = dict[str, Any]
"""Answer of an operation, a JSON object."""


class FailureKind(StrEnum):
    """Causes of a failed job."""

    DEADLINE = "deadline"
    """The work exceeded its processor time or the wall-clock limit; its process was killed."""
    MEMORY = "memory"
    """The work needed more memory than it may have; its process was killed."""
    TOO_LARGE = "too large"
    """The job, or its answer, does not fit into a message."""
    DIED = "died"
    """The job's process ended, or sent a malformed answer."""
    UNAVAILABLE = "unavailable"
    """No process could be started for the job; another try may succeed."""
    HALTED = "halted"
    """The caller's `halt` was set."""
    CLOSED = "closed"
    """The pool is closed."""
    FAILED = "failed"
    """The program raised; the message is the program's own."""


class ConfinedError(Exception):
    """A job gave no result; the text is for a person and does not quote the job's data.

    `data` comes from the program's `JobFailedError`, else it is None.
    """

    def __init__(self, kind: FailureKind, message: str, data: object = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.data = data


class JobFailedError(Exception):
    """Raised by operations of programs: the caller of the job gets its message, and `data` as JSON."""

    def __init__(self, message: str, data: object = None) -> None:
        super().__init__(message)
        self.data = data


Message = dict[str, Any]
"""JSON object of a frame: a job with its arguments, or the answer to one."""

LARGEST_FRAME_BYTES: Final = 64 * 2**20
LENGTH_BYTES: Final = 4
MAX_DESCRIPTORS: Final = 16
_BLOCK_BYTES: Final = 256 * 1024
_POLL_MS: Final = 100


class FrameTooLargeError(ValueError):
    """A message does not fit into a frame."""


def encode(message: object) -> bytes:
    """Encodes a message as a frame.

    Raises:
        FrameTooLargeError: it is too large.
        ValueError: it is not JSON.
    """
    text = json_text.write(message).encode(errors="surrogatepass")
    if len(text) > LARGEST_FRAME_BYTES:
        raise FrameTooLargeError(f"a message may have {LARGEST_FRAME_BYTES} bytes, and this one has {len(text)}")
    return len(text).to_bytes(LENGTH_BYTES, "big") + text


def receive(channel: socket.socket) -> tuple[Any, list[int]]:
    """Receives the next message from the pool and its descriptors, in the child.

    Raises:
        EOFError: the pool has ended.
    """
    length, descriptors, _, _ = socket.recv_fds(channel, LENGTH_BYTES, MAX_DESCRIPTORS)
    while len(length) < LENGTH_BYTES:
        length += _receive_some(channel, LENGTH_BYTES - len(length))
    left = int.from_bytes(length, "big")
    text = bytearray()
    while left:
        text += (block := _receive_some(channel, min(left, _BLOCK_BYTES)))
        left -= len(block)
    return json_text.parse(text.decode(errors="surrogatepass")), descriptors


def _receive_some(channel: socket.socket, most: int) -> bytes:
    block = channel.recv(most)
    if not block:
        raise EOFError
    return block


class FrameChannel:
    """The pool's end of the socket to a child, whose messages are untrusted.

    While the channel waits for the child it calls `check` ten times a second, which ends the wait by raising.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end

    def send(self, frame: bytes, descriptors: Sequence[int], check: Callable[[], None]) -> None:
        """Sends a frame; raises ConfinedError if the child has ended."""
        try:
            self._await(select.POLLOUT, check)
            sent = socket.send_fds(self._end, [frame[:_BLOCK_BYTES]], descriptors)
            view = memoryview(frame)[sent:]
            while view:
                self._await(select.POLLOUT, check)
                view = view[self._end.send(view[:_BLOCK_BYTES]) :]
        except OSError:
            raise _died() from None

    def receive(self, check: Callable[[], None]) -> Message:
        """Receives the child's next message; raises ConfinedError if there is none or it is malformed."""
        length = int.from_bytes(self._exactly(LENGTH_BYTES, check), "big")
        if length > LARGEST_FRAME_BYTES:
            raise ConfinedError(FailureKind.DIED, "its answer was larger than allowed")
        text = self._exactly(length, check)
        try:
            message = json_text.parse(text.decode(errors="surrogatepass"))
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise ConfinedError(FailureKind.DIED, "its answer was malformed")
        return message

    def close(self) -> None:
        """Closes the socket, which ends the child."""
        self._end.close()

    def _exactly(self, count: int, check: Callable[[], None]) -> bytearray:
        # The buffer grows with the data received: an announced length reserves no memory.
        received = bytearray()
        while len(received) < count:
            self._await(select.POLLIN, check)
            try:
                block = self._end.recv(min(count - len(received), _BLOCK_BYTES))
            except OSError:
                block = b""
            if not block:
                raise _died()
            received += block
        return received

    def _await(self, event: int, check: Callable[[], None]) -> None:
        waiting = select.poll()
        waiting.register(self._end, event)
        while not waiting.poll(_POLL_MS):
            check()


def _died() -> ConfinedError:
    return ConfinedError(FailureKind.DIED, "its process died")


def close_all(descriptors: Sequence[int]) -> None:
    """Closes descriptors that came with a message."""
    for descriptor in descriptors:
        os.close(descriptor)
