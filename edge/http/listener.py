"""The door: takes callers many at a time.

The event loop by itself takes one caller in each of its rounds, so that under load newcomers wait for seconds.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_BACKLOG: Final = 1024
_AT_ONCE: Final = 64
_PAUSE_SECONDS: Final = 0.2
_UNSENT_BYTES: Final = 131_072

_LOG = logging.getLogger(__name__)


class Listener:
    """Listens from the moment it is made, in the running loop, and makes a protocol for every caller."""

    def __init__(self, make: Callable[[], asyncio.Protocol], host: str, port: int, *, shared: bool = False) -> None:
        """Take port 0 for a free one, and `shared` to let other processes listen at the same port.

        Raises:
            OSError: the address cannot be bound.
        """
        self.port = port
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._taking: set[asyncio.Task[None]] = set()
        self._sockets: list[socket.socket] = []
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
                place = (address[0], self.port, *address[2:])
                door = socket.create_server(place, family=family, backlog=_BACKLOG, reuse_port=shared)
                self._sockets.append(door)
                self.port = door.getsockname()[1]
                door.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                # Those who are taken inherit it. Otherwise the kernel keeps megabytes for each that reads nothing.
                door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        except OSError:
            self._close_sockets()
            raise
        for door in self._sockets:
            door.setblocking(False)
            self._open(door)

    async def close(self) -> None:
        """Take who waits already, for the kernel turns them away, and nobody else."""
        for door in self._sockets:
            self._loop.remove_reader(door)
            while self._take_some(door):
                pass
        self._close_sockets()
        await asyncio.gather(*self._taking)

    def _open(self, door: socket.socket) -> None:
        if door.fileno() >= 0:
            self._loop.add_reader(door, self._take_some, door)

    def _take_some(self, door: socket.socket) -> bool:
        """Take a number of callers; return whether there may be more."""
        for _ in range(_AT_ONCE):
            try:
                caller, _ = door.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return False
            except OSError as error:
                # Most likely the process has as many files open as it may.
                _LOG.error("no caller can be taken: %s", error)
                self._loop.remove_reader(door)
                self._loop.call_later(_PAUSE_SECONDS, self._open, door)
                return False
            task = self._loop.create_task(self._connect(caller))
            self._taking.add(task)
            task.add_done_callback(self._taking.discard)
        return True

    async def _connect(self, caller: socket.socket) -> None:
        caller.setblocking(False)
        with suppress(OSError):
            await self._loop.connect_accepted_socket(self._make, caller)

    def _close_sockets(self) -> None:
        for door in self._sockets:
            door.close()
        self._sockets.clear()
