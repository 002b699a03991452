"""Generates a load of HTTP in a process of its own: `python -m benchmarks.load KIND`, with a job in JSON on its input.

`requests` prints figures. A job is `{"port", "connections", "seconds", "requests": [text, …]}`. Each connection sends
the next request of the list once the previous answer is complete, until the time is over.

With `"follow": {"requests": [text, …], "until": text, "failed": text, "most": number}` each request is followed by the
next of the follow requests, in which `{{name}}` stands for a member of the first answer. It is repeated every two
milliseconds, by all connections together at most `most` times a second, until an answer contains `until`, or `failed`,
which counts as a status. The measured time is from the first request to the last answer.

`flood` opens many connections, which last until standard input ends. A job is one line, `{"port", "connections",
"text", "reads", "again"}`. Every connection sends the text. If `reads` is false, answers are not read; if `again` is
true, another connection follows each one that was answered or closed. Prints a line once all have connected and sent.

`callers` keeps callers waiting until standard input ends, and prints figures then. A job is one line, `{"port",
"requests": [text, …], "spread": seconds}`. Each request has a connection of its own, on which it is sent again once it
is answered; connections are opened over `spread` seconds. Prints a line once all of them wait.
"""

import asyncio
import json
import os
import re
import sys
import time
from collections import Counter
from itertools import cycle
from typing import Any, Final, cast

import uvloop

_PAUSE_SECONDS: Final = 0.002


class Connection(asyncio.Protocol):
    """One keep-alive connection that always has one request under way.

    Requests come in pairs with their follow request, which may be empty.
    """

    def __init__(
        self,
        requests: "cycle[tuple[bytes, str]]",
        ends: tuple[bytes, bytes],
        pause: float,
        until: float,
        times: list[float],
        statuses: Counter[int | str],
    ) -> None:
        self._requests = requests
        self._completed, self._failed = ends
        self._pause = pause
        self._follow = ""
        self._following: bytes | None = None
        self._until = until
        self._times = times
        self._statuses = statuses
        self._buffer = b""
        self._body = 0
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
            self._body = end + 4
            self._need = self._body + int(head[place : line if line > 0 else None])
        if len(self._buffer) >= self._need:
            status, content = int(self._buffer[9:12]), self._buffer[self._body : self._need]
            self._buffer, self._need = b"", -1
            self._answered(status, content)

    def _answered(self, status: int, content: bytes) -> None:
        now = time.perf_counter()
        first = self._following is None
        if first or status >= 400:
            self._statuses[status] += 1
        failed = not first and status < 400 and self._failed in content
        if failed:
            self._statuses["failed"] += 1
        if self._follow and status < 400 and not failed and (first or self._completed not in content):
            if first:
                members = json.loads(content)
                self._following = re.sub(r"{{(\w+)}}", lambda name: str(members[name[1]]), self._follow).encode()
            asyncio.get_running_loop().call_later(self._pause, self._read_again)
            return
        self._following = None
        self._times.append(now - self._sent_at)
        if now < self._until:
            self._send()
        else:
            self._transport.close()

    def _read_again(self) -> None:
        assert self._following is not None
        self._transport.write(self._following)

    def connection_lost(self, _exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _send(self) -> None:
        self._sent_at = time.perf_counter()
        request, self._follow = next(self._requests)
        self._transport.write(request)


async def send_requests() -> None:
    job = json.load(sys.stdin)
    loop = asyncio.get_running_loop()
    follow = job.get("follow") or {"requests": [""], "until": "", "failed": "", "most": 1}
    pairs = zip(job["requests"], cycle(follow["requests"]), strict=False)
    requests = cycle([(request.encode(), following) for request, following in pairs])
    pause = max(_PAUSE_SECONDS, job["connections"] / follow["most"])
    ends = follow["until"].encode(), follow["failed"].encode()
    address = "127.0.0.1", job["port"]
    times: list[float] = []
    statuses: Counter[int | str] = Counter()
    began = time.perf_counter()
    until = began + job["seconds"]
    open_connections = [
        await loop.create_connection(lambda: Connection(requests, ends, pause, until, times, statuses), *address)
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


async def _keep_sending(job: dict[str, Any], data: bytes, *, first: asyncio.Semaphore) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", job["port"])
        except OSError:
            await asyncio.sleep(0.01)
            continue
        try:
            if not job["reads"]:
                writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(data)
            first.release()
            while job["reads"] and await reader.read(1 << 20):
                pass
        except OSError:
            pass
        if not job["again"]:
            await asyncio.Event().wait()
        writer.transport.abort()


async def flood() -> None:
    # The processes that measure have priority.
    os.nice(10)
    job = json.loads(await asyncio.to_thread(sys.stdin.readline))
    first = asyncio.Semaphore(0)
    connections = [
        asyncio.create_task(_keep_sending(job, job["text"].encode("latin-1"), first=first))
        for _ in range(job["connections"])
    ]
    for _ in connections:
        await first.acquire()
    print("all have sent", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    os._exit(0)


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


async def keep_waiting() -> None:
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


KINDS: Final = {"requests": send_requests, "flood": flood, "callers": keep_waiting}


if __name__ == "__main__":
    uvloop.run(KINDS[sys.argv[1]]())
