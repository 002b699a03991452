"""What every serving process does alike: where its data is, how it is told to stop, and how its start fails."""

import asyncio
import errno
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from deploy.addresses import Address
from deploy.failures import CommandFailed
from deploy.settings import Settings

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

# Threads take turns often, so that a busy runtime does not hold up the loop that answers calls.
_SWITCH_INTERVAL_SECONDS: Final = 0.0005

# The standard library's JSON counts nesting against this limit, and a body may be nested 1,000 deep.
_RECURSION_LIMIT: Final = 3_000


def default_data(environment: Mapping[str, str], *, demo: bool) -> Path:
    """Return where data is kept when nothing else is said; a demonstration has a folder of its own."""
    home = environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / ("workflow-api-demo" if demo else "workflow-api")


def prepare_process(settings: Settings) -> None:
    """Set what holds for the whole process; before gRPC is imported."""
    from deploy.logs import log_to_stderr

    # Steps are processes, and gRPC's fork handlers would stop the world for each of them.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
    sys.setrecursionlimit(_RECURSION_LIMIT)
    log_to_stderr(settings.log_level)


def run_until_stopped(serve: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run `serve(stop)` on a loop of its own; `stop` is set by SIGTERM or SIGINT, and a second signal ends at once."""
    import uvloop

    async def main() -> None:
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()

        def on_signal() -> None:
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)
            stop.set()

        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, on_signal)
        await serve(stop)

    uvloop.run(main())


def cannot_listen(error: OSError, address: Address) -> CommandFailed:
    """Return the sentence for an address that cannot be bound."""
    if error.errno == errno.EADDRINUSE:
        return CommandFailed(f"The HTTP address {address} is in use by another process.", code="address_in_use")
    # asyncio words the system's own message into one of its own.
    reason = os.strerror(error.errno) if error.errno else str(error)
    return CommandFailed(f"The HTTP address {address} cannot be bound: {reason}.", code="address_in_use")
