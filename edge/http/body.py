"""Body of one request: bytes that arrive while the request is already being served."""

import asyncio
from enum import Enum, auto


class BodyFailure(Enum):
    """Why a body can no longer be read."""

    TOO_LARGE = auto()
    MALFORMED = auto()
    """Its framing contradicts the headers."""
    LATE = auto()
    INCOMPLETE = auto()
    """The caller disconnected before the end."""
    NO_MEMORY = auto()
    """The server's bound on buffered bytes is reached."""


class RequestBody:
    """Collects the bytes of a body up to a limit; the first failure is final and drops what was collected."""

    __slots__ = ("_chunks", "_discarded", "_limit", "_waiter", "complete", "failure", "size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: list[bytes] = []
        self.size = 0
        self._discarded = False
        self._waiter: asyncio.Future[None] | None = None
        self.complete = False
        """Whether all bytes have arrived."""
        self.failure: BodyFailure | None = None

    def feed(self, data: bytes) -> None:
        """Appends bytes that arrived."""
        if self._discarded or self.failure is not None:
            return
        self.size += len(data)
        if self.size > self._limit:
            self.fail(BodyFailure.TOO_LARGE)
        else:
            self._chunks.append(data)

    def finish(self) -> None:
        """Marks the body as complete."""
        self.complete = True
        self._wake()

    def fail(self, failure: BodyFailure) -> None:
        """Drops the body and wakes the task that waits for it."""
        self.failure = self.failure or failure
        self._chunks.clear()
        self._wake()

    def discard(self) -> None:
        """Drops what has arrived and what still arrives."""
        self._discarded = True
        self._chunks.clear()

    async def settled(self) -> None:
        """Waits until the body is complete or has failed."""
        while not (self.complete or self.failure):
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def take(self) -> bytes:
        """Removes and returns all collected bytes."""
        chunks, self._chunks = self._chunks, []
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
