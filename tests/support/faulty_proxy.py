"""TCP proxy on loopback that can refuse, silence or cut connections, or answer them with an error."""

import random
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Final, Self

_CHUNK: Final = 1 << 16
LATEST_SECONDS = 4.0
_ERROR: Final = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>Planned.</Message></Error>'
_NAMES: Final = {500: "InternalError", 503: "SlowDown"}


class FaultMode(StrEnum):
    """What becomes of connections."""

    NOTHING = "nothing"
    """They are handed on."""
    REFUSED = "refused"
    """They are closed at once."""
    SILENT = "silent"
    """They are accepted, and nothing is handed on."""
    ANSWERED_500 = "500"
    ANSWERED_503 = "503"
    LATE = "late"
    """They are handed on, and each part of an answer up to `LATEST_SECONDS` later."""
    CUT = "cut"
    """They break off: before the request is handed on, before its answer comes back, or in the middle of that."""


class FaultyProxy:
    """Listens at `port`; `upstream` gives the port behind it, anew for each connection."""

    def __init__(self, upstream: Callable[[], int], seed: int = 0) -> None:
        self._upstream = upstream
        self._random = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self._mode = FaultMode.NOTHING
        self._passes: list[int | None] = []
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._serving: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, name="faulty-proxy", daemon=True)
        self._accepting.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def spoil(self, mode: FaultMode) -> None:
        """Treats connections so from now on; the ones that are open break."""
        with self._lock:
            self._mode = mode
            for each in self._open:
                _reset(each)

    def cut_one(self, number: int, passing: int) -> None:
        """Breaks the connection with this number, counted from 0, off once so many bytes of answers have passed."""
        self.spoil(FaultMode.NOTHING)
        self._passes = [None] * number + [passing]

    def close(self) -> None:
        _reset(self._listener)
        self._accepting.join()
        self._listener.close()
        self.spoil(FaultMode.REFUSED)
        for thread in self._serving:
            thread.join(timeout=60)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(caller,), daemon=True)
                self._serving = [*(each for each in self._serving if each.is_alive()), thread]
                thread.start()

    def _serve(self, caller: socket.socket) -> None:
        with self._lock:
            self._open.add(caller)
            mode = self._mode
            chance = self._random.random()
            passes = self._passes.pop(0) if self._passes else None
        try:
            match mode:
                case FaultMode.NOTHING:
                    self._hand_on(caller, None, passes)
                case FaultMode.LATE:
                    self._hand_on(caller, None, None, late=LATEST_SECONDS * chance)
                case FaultMode.CUT:
                    # How many bytes of the request and of its answer still pass.
                    self._hand_on(caller, *((0, None) if chance < 0.3 else (None, 0) if chance < 0.7 else (None, 150)))
                case FaultMode.ANSWERED_500 | FaultMode.ANSWERED_503:
                    _refuse(caller, int(mode))
                case FaultMode.SILENT:
                    while caller.recv(_CHUNK):
                        pass
        except (OSError, LookupError):
            # What is behind it is not there.
            pass
        finally:
            self._forget(caller)

    def _hand_on(self, caller: socket.socket, most_out: int | None, most_back: int | None, late: float = 0.0) -> None:
        if most_out == 0:
            caller.recv(_CHUNK)
            return
        with socket.create_connection(("127.0.0.1", self._upstream()), timeout=60) as behind:
            behind.settimeout(None)
            for each in (caller, behind):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open.add(behind)
            try:
                back = threading.Thread(target=_copy, args=(behind, caller, most_back, late), daemon=True)
                back.start()
                _copy(caller, behind, most_out)
                back.join()
            finally:
                self._forget(behind)

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)
        connection.close()


def _copy(source: socket.socket, target: socket.socket, most: int | None, late: float = 0.0) -> None:
    """Hands on what comes, `late` seconds later, and its end; once more than `most` bytes came, both ends break."""
    try:
        while part := source.recv(_CHUNK):
            time.sleep(late)
            if most is not None and len(part) > most:
                target.sendall(part[:most])
                _reset(source)
                _reset(target)
                return
            if most is not None:
                most -= len(part)
            target.sendall(part)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        _reset(source)
        _reset(target)


def _reset(connection: socket.socket) -> None:
    """Breaks a connection, also for whoever waits in it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _refuse(caller: socket.socket, status: int) -> None:
    """Reads one request and answers it with an error, as a store does that is in trouble."""
    with caller.makefile("rb") as file:
        head = b"".join(iter(file.readline, b"\r\n")).lower()
        if b"100-continue" in head:
            caller.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        _, found, rest = head.partition(b"content-length:")
        file.read(int(rest.split(b"\r\n")[0]) if found else 0)
        body = _ERROR.format(code=_NAMES[status]).encode()
        caller.sendall(
            f"HTTP/1.1 {status} Planned\r\nContent-Type: application/xml\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            + body
        )
