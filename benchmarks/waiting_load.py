"""Keeps callers waiting in a process of its own: reads a job as JSON from standard input, prints figures at its end.

A job is `{"port", "requests": [text, …], "spread": seconds}`. Each request has a connection of its own, on which it is
sent again once it is answered; connections are opened over `spread` seconds. The process prints a line once all of
them wait, and ends with its standard input.
"""

import asyncio
import json
import sys
from collections import Counter
from typing import cast

import uvloop


class Caller(asyncio.Protocol):
    """One connection that always waits for an answer."""

    def __init__(self, request: bytes, statuses: Counter[str]) -> None:
        self._request = request
        self._statuses = statuses
        self._buffer = b""
        self.closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) >= length:
            self._statuses[head[9:12].decode()] += 1
            self._buffer = b""
            self._transport.write(self._request)

    def connection_lost(self, _exc: Exception | None) -> None:
        if not self.closing:
            self._statuses["lost"] += 1


async def main() -> None:
    job = json.loads(sys.stdin.readline())
    loop = asyncio.get_running_loop()
    statuses: Counter[str] = Counter()
    callers: list[Caller] = []
    began = loop.time()
    for number, request in enumerate(job["requests"]):
        await asyncio.sleep(began + number * job["spread"] / len(job["requests"]) - loop.time())
        caller = Caller(request.encode(), statuses)
        await loop.create_connection(lambda caller=caller: caller, "127.0.0.1", job["port"])  # type: ignore[misc]
        callers.append(caller)
    print(json.dumps({"waiting": len(callers)}), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    for caller in callers:
        caller.closing = True
    print(json.dumps(statuses))


if __name__ == "__main__":
    uvloop.run(main())
