"""Keepalive pings of idle channels, as docs/grpc.md and the options of the stubs let callers send them."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from backend.rpc.server import SHORTEST_PING_SECONDS, GrpcServer
from backend.storage.dialects.sqlite.database import SqliteDatabase
from backend.storage.factory import DataFolder
from tests.support.poll import until
from workflow_api_channel import channel_options

PAGE = (Path(__file__).parents[2] / "docs" / "grpc.md").read_text(encoding="utf-8")
# One more than gRPC takes before it ends a connection with `too_many_pings`, and some.
PINGS: Final = 5
PREFACE: Final = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
PING: Final = 6
GOAWAY: Final = 7
ACK: Final = 1


class Wire:
    """A relay between one channel and a server, which records the bytes of both directions."""

    def __init__(self, port: int) -> None:
        self.sent, self.answered = bytearray(), bytearray()
        self.connections = 0
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            server = socket.create_connection(("127.0.0.1", self._target))
            for source, target, record in ((caller, server, self.sent), (server, caller, self.answered)):
                threading.Thread(target=_copy, args=(source, target, record), daemon=True).start()

    def pings(self) -> int:
        """The pings that the channel sent, without those that answer the server's."""
        return sum(kind == PING and not flags & ACK for kind, flags in frames(self.sent[PREFACE:]))

    def goaways(self) -> int:
        return sum(kind == GOAWAY for kind, _ in frames(self.answered))

    def close(self) -> None:
        self._listener.close()


def _copy(source: socket.socket, target: socket.socket, record: bytearray) -> None:
    try:
        while part := source.recv(65536):
            record += part
            target.sendall(part)
    except OSError:
        pass
    finally:
        source.close()
        target.close()


def frames(recorded: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """Yields type and flags of each whole frame of HTTP/2."""
    place = 0
    while place + 9 <= len(recorded):
        length = int.from_bytes(recorded[place : place + 3], "big")
        yield recorded[place + 3], recorded[place + 4]
        place += 9 + length


def shipped() -> dict[str, Any]:
    """The options of keepalive that come with the stubs."""
    return {name: value for name, value in channel_options() if name.startswith(("grpc.keepalive", "grpc.http2"))}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GrpcServer]:
    folder = DataFolder(tmp_path)
    database = folder.open_database()
    assert isinstance(database, SqliteDatabase)
    server = GrpcServer({}, database, "127.0.0.1:0")
    server.start()
    yield server
    server.stop(0)
    database.close()
    folder.close()


def test_an_idle_channel_may_ping_as_often_as_the_page_says(server: GrpcServer) -> None:
    options = shipped()
    assert options["grpc.keepalive_permit_without_calls"] == 1
    assert options["grpc.keepalive_time_ms"] >= SHORTEST_PING_SECONDS * 1000
    assert f"pings no more often than every {SHORTEST_PING_SECONDS:g} second" in PAGE
    wire = Wire(server.port)
    shortest = {**options, "grpc.keepalive_time_ms": int(SHORTEST_PING_SECONDS * 1000)}
    with grpc.insecure_channel(f"127.0.0.1:{wire.port}", options=list(shortest.items())) as channel:
        grpc.channel_ready_future(channel).result(60)
        until(lambda: wire.pings() >= PINGS or wire.goaways() > 0, f"{PINGS} pings of an idle channel")
        assert (wire.goaways(), wire.connections) == (0, 1)
    wire.close()
