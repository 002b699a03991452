"""A load balancer for connections, as stands in front of several backends."""

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from tests.support.wire import Address


class Balancer:
    """Hands each new connection to the first of the addresses that takes it, beginning with another each time."""

    def __init__(self, addresses: Callable[[], Sequence[Address]]) -> None:
        self._addresses = addresses
        self._turn = 0
        self._joined: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._door = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._door.getsockname()[1]}"
        self._begin(self._take)

    def close(self) -> None:
        """Takes nobody any more, and ends what it has joined."""
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        for joined in self._joined:
            with suppress(OSError):
                joined.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for joined in self._joined:
            joined.close()

    def _begin(self, work: Callable[..., None], *about: object) -> None:
        thread = threading.Thread(target=work, args=about)
        self._threads.append(thread)
        thread.start()

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._door.accept()
                self._joined.append(caller)
                self._join(caller)

    def _join(self, caller: socket.socket) -> None:
        self._turn += 1
        addresses = self._addresses()
        for place in range(len(addresses)):
            with suppress(OSError):
                server = socket.create_connection(addresses[(self._turn + place) % len(addresses)], timeout=5)
                server.settimeout(None)
                self._joined.append(server)
                self._begin(_pump, server, caller)
                self._begin(_pump, caller, server)
                return
        caller.shutdown(socket.SHUT_RDWR)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
