"""An event loop in a thread of its own."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Self, TypeVar

import uvloop

from tests.support.poll import LONGEST_WAIT_SECONDS

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread, for servers that a test calls over blocking sockets."""

    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.run(self.loop.shutdown_asyncgens())
        finally:
            # A loop left open would be reported against whatever test runs when it is collected.
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(LONGEST_WAIT_SECONDS)
            self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.submit(work).result(LONGEST_WAIT_SECONDS)

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(work, self.loop)
