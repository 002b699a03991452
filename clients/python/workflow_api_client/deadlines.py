"""Deadline over all socket operations of a request.

httpx bounds each operation by itself, so that an answer that arrives in small pieces could take any time.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx


class Deadline(threading.local):
    """The time by which this thread's request must be complete."""

    def __init__(self) -> None:
        self._end: float | None = None

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Bounds the time inside the context, in seconds."""
        self._end = time.monotonic() + seconds
        try:
            yield
        finally:
            self._end = None

    def bounded(self, timeout: float | None, late: type[httpx.TimeoutException]) -> float | None:
        """Returns a time-out that ends by the deadline; raises `late` after the deadline."""
        if self._end is None:
            return timeout
        left = self._end - time.monotonic()
        if left <= 0:
            raise late("the answer took too long")
        return left if timeout is None else min(timeout, left)


def bound(http: httpx.Client) -> Deadline:
    """Makes the connections of a client keep a deadline, except with transports other than httpx's; returns it.

    A client that several callers share is changed once, and has one deadline for each thread.
    """
    # httpcore has an argument for the network backend of a pool, but httpx does not pass one.
    transports = (http._transport, *http._mounts.values())  # noqa: SLF001
    possible: list[Any] = [getattr(one, "_pool", None) for one in transports]
    pools = [pool for pool in possible if hasattr(pool, "_network_backend")]
    present = [pool._network_backend for pool in pools if isinstance(pool._network_backend, _Backend)]  # noqa: SLF001
    deadline = present[0].deadline if present else Deadline()
    for pool in pools:
        if not isinstance(pool._network_backend, _Backend):  # noqa: SLF001
            pool._network_backend = _Backend(pool._network_backend, deadline)  # noqa: SLF001
    return deadline


class _Backend:
    """A `httpcore.NetworkBackend` whose connections keep the deadline."""

    def __init__(self, backend: Any, deadline: Deadline) -> None:
        self._backend = backend
        self.deadline = deadline

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> "BoundedStream":
        timeout = self.deadline.bounded(timeout, httpx.ConnectTimeout)
        return BoundedStream(self._backend.connect_tcp(host, port, timeout, **options), self.deadline)

    def connect_unix_socket(self, path: str, timeout: float | None = None, **options: Any) -> "BoundedStream":
        timeout = self.deadline.bounded(timeout, httpx.ConnectTimeout)
        return BoundedStream(self._backend.connect_unix_socket(path, timeout, **options), self.deadline)

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)


class BoundedStream:
    """A `httpcore.NetworkStream` whose operations end by the deadline."""

    def __init__(self, stream: Any, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Returns bytes that have arrived, none at the end."""
        arrived: bytes = self._stream.read(max_bytes, self._deadline.bounded(timeout, httpx.ReadTimeout))
        return arrived

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Sends bytes."""
        self._stream.write(buffer, self._deadline.bounded(timeout, httpx.WriteTimeout))

    def close(self) -> None:
        """Closes the connection."""
        self._stream.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> "BoundedStream":
        """Returns the connection over TLS."""
        timeout = self._deadline.bounded(timeout, httpx.ConnectTimeout)
        return BoundedStream(self._stream.start_tls(ssl_context, server_hostname, timeout), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        """Returns a property of the socket."""
        return self._stream.get_extra_info(info)
