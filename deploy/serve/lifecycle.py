"""What every serving process does alike: where its data is, how it is told to stop, and how its start fails."""

import asyncio
import errno
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from deploy.cli.failures import CommandFailed
from deploy.config.addresses import Address
from deploy.config.settings import Settings

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

# Threads take turns often, so that a busy runtime does not hold up the loop that answers calls.
_SWITCH_INTERVAL_SECONDS: Final = 0.0005

# The standard library's JSON counts nesting against this limit, and a body may be nested 1,000 deep.
_RECURSION_LIMIT: Final = 3_000

_UMASK: Final = 0o077


# What a process has open beside connections: the database, steps, objects, the other parts.
_OTHER_FILES: Final = 512
_FEWEST_CONNECTIONS: Final = 16

_LOG = logging.getLogger(__name__)


def default_data(environment: Mapping[str, str], *, demo: bool) -> Path:
    """Return where data is kept when nothing else is said; a demonstration has a folder of its own."""
    home = environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / ("workflow-api-demo" if demo else "workflow-api")


def prepare_process(settings: Settings) -> None:
    """Set what holds for the whole process; before gRPC is imported."""
    from deploy.serve.logs import log_to_stderr

    # What callers sent and agents left is nobody else's on this machine.
    os.umask(_UMASK)
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


def allow_connections(wanted: int) -> int:
    """Let the process have files open for so many connections; return for how many it may."""
    open_files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if open_files < needed:
        open_files = needed if most == resource.RLIM_INFINITY else min(needed, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, most))
    if open_files < needed:
        _LOG.warning("this process may open %d files, which is too few for %d connections", open_files, wanted)
    return min(wanted, max(open_files - _OTHER_FILES, _FEWEST_CONNECTIONS))


def settle_memory() -> None:
    """Take what the start has made out of the sight of the garbage collector.

    A body of many small values sets it off, and to look through all of the process took longer than to parse the body.
    """
    gc.collect()
    gc.freeze()


def cannot_listen(error: OSError, address: Address, what: str = "HTTP") -> CommandFailed:
    """Return the sentence for an address that cannot be bound."""
    if error.errno == errno.EADDRINUSE:
        return CommandFailed(f"The {what} address {address} is in use by another process.", code="address_in_use")
    # asyncio words the system's own message into one of its own.
    reason = os.strerror(error.errno) if error.errno else str(error)
    return CommandFailed(f"The {what} address {address} cannot be bound: {reason}.", code="address_in_use")
