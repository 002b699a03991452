"""Start and stop of a serving process: data folder, signals, process limits and bind failures."""

import asyncio
import errno
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy.config.addresses import Address
from deploy.config.settings import Settings
from deploy.failures import CommandError

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

# Threads switch often, so that a busy runtime does not hold up the event loop that answers calls.
_SWITCH_INTERVAL_SECONDS: Final = 0.0005

# The standard library's JSON counts nesting against this limit, and a body may be nested 1,000 deep.
_RECURSION_LIMIT: Final = 3_000

_UMASK: Final = 0o077

# Files that a process opens besides connections: the database, steps, objects, the other parts.
OTHER_FILES: Final = 512
_YOUNG_OBJECTS: Final = 10_000
"""Net new objects after which the garbage collector looks for cycles."""
_MIN_CONNECTIONS: Final = 16

_LOG = logging.getLogger(__name__)


def default_data(environment: Mapping[str, str], *, demo: bool) -> Path:
    """Returns the default data folder; a demonstration has a folder of its own."""
    home = environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / ("workflow-api-demo" if demo else "workflow-api")


def prepare_process(settings: Settings, part: str) -> None:
    """Sets the process-wide options and the log, where `part` names the process; must run before gRPC is imported."""
    from deploy.serve.log_settings import open_log

    # Callers' data and agents' files are private to this user.
    os.umask(_UMASK)
    # Steps are processes, and gRPC's fork handlers would pause all threads for each of them.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
    sys.setrecursionlimit(_RECURSION_LIMIT)
    open_log(settings, part)


def run_until_stopped(serve: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Runs `serve(stop)` on a new event loop; SIGTERM or SIGINT sets `stop`, and a second signal ends the process."""
    import uvloop

    from deploy.serve.log_settings import log_stopping

    async def main() -> None:
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()

        def on_signal() -> None:
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)
            log_stopping()
            stop.set()

        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, on_signal)
        await serve(stop)

    uvloop.run(main())


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Makes SIGTERM end a command as SIGINT does, so that it can clean up."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def raise_open_files_limit(connections: int) -> int:
    """Raises the limit of open files for `connections`; returns the number of connections that it then allows."""
    open_files, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + OTHER_FILES
    if open_files < needed:
        open_files = needed if maximum == resource.RLIM_INFINITY else min(needed, maximum)
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, maximum))
    if open_files < needed:
        _LOG.warning("This process may open %d files, too few for %d connections", open_files, connections)
    return min(connections, max(open_files - OTHER_FILES, _MIN_CONNECTIONS))


def freeze_startup_objects() -> None:
    """Exempts the objects that exist now from garbage collection.

    A request body of many small values triggers a collection, and scanning the whole process took longer than parsing
    the body. Later collections begin only when more objects live than 32 concurrent requests have: scanning these
    repeatedly was a twelfth of a start's time on the event loop. (`python -m benchmarks`: POST start.)
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS)


def bind_failure(error: OSError, address: Address, what: str = "HTTP") -> CommandError:
    """Returns the failure for an address that cannot be bound; `what` names it in the message."""
    if error.errno == errno.EADDRINUSE:
        return CommandError(f"The {what} address {address} is in use by another process.", code="address_in_use")
    # asyncio wraps the operating system's message in one of its own.
    reason = os.strerror(error.errno) if error.errno else str(error)
    return CommandError(f"The {what} address {address} cannot be bound: {reason}.", code="address_in_use")
