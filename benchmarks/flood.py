"""Opens many connections, which last until standard input ends; runs in a process of its own.

The job is one line of JSON on standard input: `{"port", "connections", "text", "reads", "again"}`. Every connection
sends the text. Where `reads` is false nothing of the answer is read; where `again` is true another connection follows
each one that was answered or closed. Prints a line once all have connected and sent.
"""

import asyncio
import json
import os
import sys
from typing import Any

import uvloop


async def connect(job: dict[str, Any], data: bytes, *, first: asyncio.Semaphore) -> None:
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


async def main() -> None:
    # The processes that measure have priority.
    os.nice(10)
    job = json.loads(await asyncio.to_thread(sys.stdin.readline))
    first = asyncio.Semaphore(0)
    connections = [
        asyncio.create_task(connect(job, job["text"].encode("latin-1"), first=first)) for _ in range(job["connections"])
    ]
    for _ in connections:
        await first.acquire()
    print("all have sent", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    os._exit(0)


if __name__ == "__main__":
    uvloop.run(main())
