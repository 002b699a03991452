"""Generates a load of HTTP requests in a process of its own: reads a job as JSON from standard input, prints figures.

A job is `{"port", "connections", "seconds", "requests": [text, …]}`. Each connection sends the next request of the list
once the previous answer is complete, until the time is over.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from itertools import cycle
from typing import cast

import uvloop


class Connection(asyncio.Protocol):
    """One keep-alive connection that always has one request under way."""

    def __init__(self, requests: "cycle[bytes]", until: float, times: list[float], statuses: Counter[int]) -> None:
        self._requests = requests
        self._until = until
        self._times = times
        self._statuses = statuses
        self._buffer = b""
        self._need = -1
        self._sent_at = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._need < 0:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._buffer[:end].lower()
            place = head.index(b"content-length:") + 15
            line = head.find(b"\r\n", place)
            self._need = end + 4 + int(head[place : line if line > 0 else None])
        if len(self._buffer) >= self._need:
            now = time.perf_counter()
            self._times.append(now - self._sent_at)
            self._statuses[int(self._buffer[9:12])] += 1
            self._buffer, self._need = b"", -1
            if now < self._until:
                self._send()
            else:
                self._transport.close()

    def connection_lost(self, _exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _send(self) -> None:
        self._sent_at = time.perf_counter()
        self._transport.write(next(self._requests))


async def main() -> None:
    job = json.load(sys.stdin)
    loop = asyncio.get_running_loop()
    requests = cycle([request.encode() for request in job["requests"]])
    times: list[float] = []
    statuses: Counter[int] = Counter()
    began = time.perf_counter()
    until = began + job["seconds"]
    open_connections = [
        await loop.create_connection(lambda: Connection(requests, until, times, statuses), "127.0.0.1", job["port"])
        for _ in range(job["connections"])
    ]
    await asyncio.gather(*(protocol.done for _, protocol in open_connections))
    took = time.perf_counter() - began
    times.sort()
    print(
        json.dumps(
            {
                "requests": len(times),
                "per_second": len(times) / took,
                "p50_ms": times[len(times) // 2] * 1000,
                "p99_ms": times[int(len(times) * 0.99)] * 1000,
                "statuses": statuses,
            }
        )
    )


if __name__ == "__main__":
    uvloop.run(main())
