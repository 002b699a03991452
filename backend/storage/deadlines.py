"""Ends connections whose server says nothing any more: its own time-outs cannot be trusted with that."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

_LOOKS_EVERY_SECONDS: Final = 0.5


class Deadlines:
    """Breaks what connections are at when its time is over; whoever waits for an answer then gets an error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[int, tuple[float, Any]] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="deadlines", daemon=True)
        self._thread.start()

    @contextmanager
    def watched(self, connection: Any, until: float) -> Iterator[None]:
        """Watches a psycopg connection until a time of the monotonic clock, or until the context ends."""
        number = id(connection)
        with self._lock:
            self._watched[number] = (until, connection)
        try:
            yield
        finally:
            # Not while it is being broken: from here on it may be somebody else's.
            with self._lock:
                self._watched.pop(number, None)

    def stop(self) -> None:
        """Watches no more."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOKS_EVERY_SECONDS):
            now = time.monotonic()
            with self._lock:
                for number, (until, connection) in list(self._watched.items()):
                    if until < now:
                        del self._watched[number]
                        _break(connection)


def _break(connection: Any) -> None:
    with suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)
