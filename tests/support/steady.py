"""Callers that never stop calling, on connections that they keep."""

import http.client
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from tests.support.client import Caller
from tests.support.wire import BASE


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
            threading.Thread(target=steady._call, args=(callers, paths, number, ended)) for number in range(threads)
        ]
        for thread in working:
            thread.start()
        try:
            yield steady
        finally:
            ended.set()
            for thread in working:
                thread.join()

    def _call(self, callers: Sequence[Caller], paths: Sequence[str], number: int, ended: threading.Event) -> None:
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
                kept = True
                while kept and not ended.is_set():
                    number += 1
                    kept = self._one(connection, caller, paths[number % len(paths)])

    def _one(self, connection: http.client.HTTPConnection, caller: Caller, path: str) -> bool:
        """One call; whether the connection may serve another."""
        try:
            connection.request("GET", BASE + path, headers=caller.credentials)
            response = connection.getresponse()
            body = response.read()
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
