"""Breaks connections whose server does not answer in time, where its own time-outs have failed."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol

_INTERVAL_SECONDS: Final = 0.5


class _Socket(Protocol):
    """A connection with a socket, as psycopg's."""

    def fileno(self) -> int:
        """Returns the number of the socket."""


class Deadlines:
    """Breaks watched connections whose deadline has passed; a thread that waits for an answer then gets an error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[int, tuple[float, _Socket]] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="deadlines", daemon=True)
        self._thread.start()

    @contextmanager
    def watched(self, connection: _Socket, until: float) -> Iterator[None]:
        """Watches a connection until a time of the monotonic clock, or until the context ends."""
        number = id(connection)
        with self._lock:
            self._watched[number] = (until, connection)
        try:
            yield
        finally:
            # Under the lock, so that it is not broken after another thread has got it from the pool.
            with self._lock:
                self._watched.pop(number, None)

    def stop(self) -> None:
        """Ends the watching thread."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_INTERVAL_SECONDS):
            now = time.monotonic()
            with self._lock:
                for number, (until, connection) in list(self._watched.items()):
                    if until < now:
                        del self._watched[number]
                        break_connection(connection)


def break_connection(connection: _Socket) -> None:
    """Ends the connection of a thread that waits for its server, which gets an error."""
    with suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)
