"""Callers that never stop calling, on connections that they keep."""

import http.client
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from tests.support.client import Caller
from tests.support.wire import BASE

_WAITED_FOR_SECONDS = 1.0
"""How long an edge that stops waits for a connection's next call."""


class Steady:
    """What became of the calls: how many were answered, and those that failed."""

    def __init__(self) -> None:
        self.answered = 0
        self.refused = 0
        self.failures: list[str] = []
        self._lock = threading.Lock()

    @classmethod
    @contextmanager
    def calling(cls, callers: Sequence[Caller], paths: Sequence[str], threads: int = 4) -> Iterator["Steady"]:
        """Calls go on while the context lasts; one whose connection is refused is made at the next address."""
        steady, ended = cls(), threading.Event()
        working = [
            threading.Thread(target=steady.call, args=(callers, paths, number, ended)) for number in range(threads)
        ]
        for thread in working:
            thread.start()
        try:
            yield steady
        finally:
            ended.set()
            for thread in working:
                thread.join()

    def call(self, callers: Sequence[Caller], paths: Sequence[str], number: int, ended: threading.Event) -> None:
        place = number
        while not ended.is_set():
            caller = callers[place % len(callers)]
            with closing(http.client.HTTPConnection(*caller.address, timeout=60)) as connection:
                try:
                    connection.connect()
                except ConnectionRefusedError:
                    place += 1
                    with self._lock:
                        self.refused += 1
                    continue
                kept, before = True, float("inf")
                while kept and not ended.is_set():
                    number += 1
                    begun = time.monotonic()
                    kept = self._one(connection, caller, paths[number % len(paths)], before)
                    before = begun

    def _one(self, connection: http.client.HTTPConnection, caller: Caller, path: str, before: float) -> bool:
        """Makes one call after one that began at `before`; returns whether the connection may serve another.

        An edge that stops waits for the next call of a connection, but not for ever: a caller that this machine kept
        from calling for so long has its connection closed, and calls again on another, as every client of HTTP does.
        """
        sent: float | None = None
        try:
            connection.request("GET", BASE + path, headers=caller.credentials)
            sent = time.monotonic()
            response = connection.getresponse()
            body = response.read()
        except ConnectionError as error:
            if (sent or time.monotonic()) - before < _WAITED_FOR_SECONDS:
                self._count(f"{path}: {error!r}")
            return False
        except (OSError, http.client.HTTPException) as error:
            self._count(f"{path}: {error!r}")
            return False
        self._count(None if response.status == 200 else f"{path}: {response.status} {body[:200]!r}")
        return response.getheader("Connection") != "close"

    def _count(self, failure: str | None) -> None:
        with self._lock:
            self.answered += failure is None
            if failure is not None:
                self.failures.append(failure)
