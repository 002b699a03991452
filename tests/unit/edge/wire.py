"""A caller that says exactly the bytes a test wants."""

import socket
import struct
from typing import Any, NamedTuple, Self, TypeVar

import orjson

from tests.support.poll import LONGEST_WAIT_SECONDS

T = TypeVar("T")


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])


class Wire:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LONGEST_WAIT_SECONDS)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Ends the connection so that the server sees that nobody reads any more."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data: bytes | str) -> Self:
        self.socket.sendall(data.encode() if isinstance(data, str) else data)
        return self

    def call(self, method: str, path: str, *headers: str, body: bytes = b"") -> Reply:
        lines = [f"{method} {path} HTTP/1.1", "Host: test", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        return self.read(head_only=method == "HEAD")

    def read(self, *, head_only: bool = False) -> Reply:
        while b"\r\n\r\n" not in self._rest:
            self._more()
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        assert len(headers) == len(lines), f"a header is repeated: {lines}"
        length = 0 if head_only else int(headers.get("Content-Length", 0))
        while len(self._rest) < length:
            self._more()
        body, self._rest = self._rest[:length], self._rest[length:]
        return Reply(int(status.split()[1]), headers, body)

    def closed(self) -> bool:
        """Wait for the end of what the server says; True when that was clean and nothing was left over."""
        try:
            return self._rest == b"" and self.socket.recv(1) == b""
        except ConnectionResetError:
            return False

    def _more(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError(f"the server closed the connection after {self._rest!r}")
        self._rest += data
