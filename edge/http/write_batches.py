"""What connections write in one turn of the event loop, handed to the kernel together.

The first write to a caller that sleeps wakes it, which takes longer than the write itself. Answers that follow at once
find their caller awake: under load a read takes 0.85 of the processor time, and a fifth more of them are answered.
(`python -m benchmarks`: GET /runs/{run_id}, in turn with the commit before)
"""

import asyncio
from typing import Final

_AT_ONCE_BYTES: Final = 65_536
"""From this size on bytes go to the transport at once: large bodies are not copied, and slow readers are noticed."""


class WriteBatches:
    """The batches of one server that hold something in this turn."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._filled: list[WriteBatch] = []

    def add(self, batch: "WriteBatch") -> None:
        """Flushes a batch at the end of this turn."""
        if not self._filled:
            self._loop.call_soon(self._flush)
        self._filled.append(batch)

    def _flush(self) -> None:
        filled, self._filled = self._filled, []
        for batch in filled:
            batch.flush()


class WriteBatch:
    """What one connection writes in a turn, in order."""

    __slots__ = ("_batches", "_bytes", "_parts", "_transport")

    def __init__(self, transport: asyncio.Transport, batches: WriteBatches) -> None:
        self._transport = transport
        self._batches = batches
        self._parts: list[bytes] = []
        self._bytes = 0

    def write(self, data: bytes) -> None:
        """Sends bytes at the end of this turn; at once where there are many, so that the transport can pause."""
        size = len(data)
        if self._bytes + size >= _AT_ONCE_BYTES:
            self.flush()
            self._transport.write(data)
            return
        if not self._parts:
            self._batches.add(self)
        self._parts.append(data)
        self._bytes += size

    def flush(self) -> None:
        """Hands everything to the transport; nothing goes to one that has been closed meanwhile."""
        parts = self._parts
        if not parts:
            return
        self._parts, self._bytes = [], 0
        if not self._transport.is_closing():
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))
