"""What a step tells while it goes on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from backend.runtime.agents.base import OnProgress


def untimed(on_progress: OnProgress, clock: asyncio.Timeout) -> Callable[[str, dict[str, Any]], Awaitable[None]]:
    """Progress whose telling a step's running clock does not count: it may wait long for other runs' sweeps."""

    async def tell(message: str, data: dict[str, Any]) -> None:
        loop, end = asyncio.get_running_loop(), clock.when()
        assert end is not None
        left = end - loop.time()
        clock.reschedule(None)
        try:
            awaitable = on_progress(message, data)
            if awaitable is not None:
                await awaitable
        finally:
            clock.reschedule(loop.time() + left)

    return tell
