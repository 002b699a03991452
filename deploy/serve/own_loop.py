"""Runs a part on an event loop of its own, so that whatever holds that loop up delays no other part of the process."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


@asynccontextmanager
async def on_own_loop(name: str, open_part: Callable[[], AbstractAsyncContextManager[T]]) -> AsyncIterator[T]:
    """Enters and leaves the context of `open_part`, which is called there too, on a new event loop in a new thread.

    Yields what that context yields, and waits until it is left. What it raises is raised here. `name` is the thread's.
    """
    import uvloop

    entered: Future[T] = Future()
    leave: Future[None] = Future()
    left: Future[None] = Future()

    async def hold() -> None:
        async with open_part() as value:
            entered.set_result(value)
            await asyncio.wrap_future(leave)

    def run() -> None:
        try:
            uvloop.run(hold())
        except BaseException as error:  # noqa: BLE001 - it is raised by whoever waits
            left.set_exception(error)
        else:
            left.set_result(None)

    # A second signal ends the process, whatever holds the thread up.
    threading.Thread(target=run, name=name, daemon=True).start()
    ended = asyncio.wrap_future(left)
    try:
        either: list[asyncio.Future[Any]] = [ended, asyncio.wrap_future(entered)]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            yield entered.result()
    finally:
        leave.set_result(None)
        # Raises what kept the context from being entered.
        await asyncio.shield(ended)
