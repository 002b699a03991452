"""Listening sockets that accept many connections in one iteration of the event loop.

asyncio's own servers accept one connection an iteration, so that under load new connections wait for seconds.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_BACKLOG: Final = 1024
_MAX_ACCEPTS: Final = 64
_PAUSE_SECONDS: Final = 0.2
_UNSENT_BYTES: Final = 131_072

_LOG = logging.getLogger(__name__)


def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Returns sockets that listen at every address of the host, all at one port; port 0 is a free one.

    Raises:
        OSError: an address cannot be bound.
    """
    sockets: list[socket.socket] = []
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    try:
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
            bound = (address[0], port, *address[2:])
            listening = socket.create_server(bound, family=family, backlog=_BACKLOG)
            sockets.append(listening)
            port = listening.getsockname()[1]
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            # Accepted sockets inherit this bound; the default keeps megabytes for a caller that reads nothing.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
    except OSError:
        _close(sockets)
        raise
    return sockets


def _close(sockets: list[socket.socket]) -> None:
    for listening in sockets:
        listening.close()
    sockets.clear()


class Listener:
    """Accepts connections from its creation on, in the running loop, and creates a protocol for each."""

    def __init__(self, make_protocol: Callable[[], asyncio.Protocol], sockets: list[socket.socket]) -> None:
        self.port: int = sockets[0].getsockname()[1]
        self._make_protocol = make_protocol
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[None]] = set()
        self._sockets = sockets
        for listening in sockets:
            self._watch(listening)

    async def close(self) -> None:
        """Accepts connections already queued, because the kernel would reset them, and closes the sockets."""
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            while self._accept_some(listening):
                pass
        _close(self._sockets)
        await asyncio.gather(*self._connecting)

    def _watch(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening, self._accept_some, listening)

    def _accept_some(self, listening: socket.socket) -> bool:
        """Accepts a number of connections; returns whether there may be more."""
        for _ in range(_MAX_ACCEPTS):
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return False
            except OSError as error:
                # Most likely the process has reached its limit of open files.
                _LOG.error("No connection can be accepted: %s", error)
                self._loop.remove_reader(listening)
                self._loop.call_later(_PAUSE_SECONDS, self._watch, listening)
                return False
            task = self._loop.create_task(self._connect(connection))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)
        return True

    async def _connect(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        with suppress(OSError):
            await self._loop.connect_accepted_socket(self._make_protocol, connection)
