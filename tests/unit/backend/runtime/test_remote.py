"""The runtime of a process whose runs are executed by workers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

from backend.runtime.remote import RemoteRuntime


class FullQueue:
    """A database whose queue always has more to purge."""

    def __init__(self) -> None:
        self.purges = 0
        self.on_purge: Callable[[], None] = lambda: None

    def listen(self, listener: object) -> None: ...

    def read(self, work: object) -> bool:
        return True

    @contextmanager
    def hold(self, name: str) -> Iterator[bool]:
        yield True

    def write(self, work: object, *, lock_key: str) -> int:
        self.purges += 1
        assert self.purges < 10, "it goes on"
        self.on_purge()
        return 1_000


def test_a_stop_ends_the_purge_of_the_queue_after_the_present_batch() -> None:
    database = FullQueue()
    services: Any = Mock(database=database, clock=lambda: 0)
    runtime = RemoteRuntime(services, Mock(), Mock(), Mock())
    database.on_purge = runtime.stop
    runtime._purge()
    assert database.purges == 1
