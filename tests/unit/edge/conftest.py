from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from edge.server import Edge
from edge.settings import EdgeSettings
from tests.support.loop_thread import LoopThread
from tests.unit.edge.services import MemoryChannel
from tests.unit.edge.wire import Wire


class Clock:
    """The time of day as a test wants it."""

    def __init__(self) -> None:
        self.now_ms = 1_790_000_040_000

    def __call__(self) -> int:
        return self.now_ms


class Service:
    """A started edge, the services behind it and the clock it reads."""

    def __init__(self, thread: LoopThread, edge: Edge, channel: MemoryChannel, clock: Clock) -> None:
        self.thread = thread
        self.edge = edge
        self.channel = channel
        self.clock = clock

    def call(self, method: str, path: str, *headers: str, body: bytes = b"") -> Any:
        with Wire(self.edge.port) as wire:
            return wire.call(method, path, *headers, body=body)


@pytest.fixture(name="start", scope="module")
def _start() -> Iterator[Callable[..., Service]]:
    """Starts edges that live until the module's tests are done."""
    with ExitStack() as stack:
        thread = stack.enter_context(LoopThread())

        def start(channel: MemoryChannel | None = None, **settings: Any) -> Service:
            channel = channel or MemoryChannel()
            clock = Clock()
            fast = {
                "port": 0,
                "usage_flush_seconds": 0.01,
                "drain_seconds": 60.0,
                "mirror_first_seconds": 60.0,
                **settings,
            }

            async def begin() -> Edge:
                edge = Edge(EdgeSettings(**fast), channel, clock)
                await edge.start()
                return edge

            edge = thread.run(begin())
            stack.callback(lambda: thread.run(edge.stop()))
            return Service(thread, edge, channel, clock)

        yield start
