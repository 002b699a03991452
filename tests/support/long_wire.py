"""TCP proxy in front of a PostgreSQL server that counts round trips, delays them and can break one.

`python -m tests.support.long_wire HOST PORT` prints the port at which it listens. Each line of standard input sets the
delay of a round trip in milliseconds, and is answered with the number of round trips since the previous line.
"""

import socket
import sys
import threading
import time
from contextlib import suppress
from itertools import count

# libpq asks for a flush after it has sent a Sync, which may already be answered; nothing waits for the flush.
_FLUSH = b"H\x00\x00\x00\x04"


class LongWire:
    """The proxy, with two threads a connection; a round trip begins with the first bytes sent after an answer."""

    def __init__(self, host: str, port: int) -> None:
        """Takes libpq's host and port: a host that is a folder holds the server's socket."""
        self._host, self._port = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._trips = count()
        self._counted = 0
        self._breaks = threading.Event()
        self.one_way_seconds = 0.0
        self.port: int = self._listener.getsockname()[1]

    def serve(self) -> None:
        """Accepts connections until the process ends."""
        while True:
            near, _ = self._listener.accept()
            far = self._connected()
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            answered = threading.Event()
            answered.set()
            threading.Thread(target=self._there, args=(near, far, answered), daemon=True).start()
            threading.Thread(target=self._back, args=(far, near, answered), daemon=True).start()

    def taken(self) -> int:
        """Returns the number of round trips since the last call."""
        now = next(self._trips)
        since, self._counted = now - self._counted, now + 1
        return since

    def break_next_answer(self) -> None:
        """Drops the next answer and closes its connection."""
        self._breaks.set()

    def _connected(self) -> socket.socket:
        if self._host.startswith("/"):
            far = socket.socket(socket.AF_UNIX)
            far.connect(f"{self._host}/.s.PGSQL.{self._port}")
        else:
            far = socket.create_connection((self._host, self._port))
            far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return far

    def _there(self, near: socket.socket, far: socket.socket, answered: threading.Event) -> None:
        while data := _received(near):
            if answered.is_set() and data != _FLUSH:
                answered.clear()
                next(self._trips)
            self._pass_on(data, far)
        _close(far)

    def _back(self, far: socket.socket, near: socket.socket, answered: threading.Event) -> None:
        while data := _received(far):
            if self._breaks.is_set():
                self._breaks.clear()
                break
            self._pass_on(data, near, answered)
        _close(near)

    def _pass_on(self, data: bytes, end: socket.socket, answered: threading.Event | None = None) -> None:
        if self.one_way_seconds:
            time.sleep(self.one_way_seconds)
        if answered is not None:
            answered.set()
        try:
            end.sendall(data)
        except OSError:
            _close(end)


def _received(end: socket.socket) -> bytes:
    try:
        return end.recv(1 << 20)
    except OSError:
        return b""


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def main() -> None:
    wire = LongWire(sys.argv[1], int(sys.argv[2]))
    threading.Thread(target=wire.serve, daemon=True).start()
    _say(wire.port)
    for line in sys.stdin:
        wire.one_way_seconds = float(line) / 2000
        _say(wire.taken())


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
