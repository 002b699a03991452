"""Interface of a caller's connection, as requests and answers use it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from contract.connections.bounded_connection import WaitKind


class Caller(Protocol):
    """Connection that an answer is sent to."""

    peername: object
    """Address of the other end, as `socket` gives it."""

    on_lost: Callable[[], object] | None
    """Called when the connection ends while a request is being served."""

    on_ended: Callable[[], object] | None
    """Called when the caller has ended its side while a request is being served; it may read the answer."""

    @property
    def ended(self) -> bool:
        """Returns whether the caller sends no more."""
        ...

    @property
    def lost(self) -> bool:
        """Returns whether nothing can be sent any more."""
        ...

    @property
    def broken(self) -> bool:
        """Returns whether nothing that follows can be parsed."""
        ...

    @property
    def closing(self) -> bool:
        """Returns whether the connection serves no further request."""
        ...

    def waiting(self, wait_kind: WaitKind) -> AbstractContextManager[None]:
        """Counts the time inside as the caller's."""
        ...

    def hold(self, size: int) -> bool:
        """Counts bytes for this connection until its request is served; returns whether they may be kept."""
        ...

    def write(self, data: bytes) -> None:
        """Queues bytes for sending.

        Raises:
            ConnectionResetError: the caller has disconnected.
        """
        ...

    async def drain(self) -> None:
        """Waits until the caller has read enough of what is queued.

        Raises:
            ConnectionResetError: the caller has disconnected, or was evicted because it reads too slowly.
        """
        ...

    async def linger(self) -> None:
        """Closes the connection in such a way that a caller that is still sending sees its answer."""
        ...

    def abort(self) -> None:
        """Resets the connection, so that the caller cannot take what it received for complete."""
        ...
