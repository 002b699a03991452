"""Ports for servers that cannot take a free one by themselves."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port of the loopback that is given to nobody else, and that a server may take all the same."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def answers(port: int) -> bool:
    """Whether something on the loopback accepts connections at a port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    except OSError:
        return False
    return True
