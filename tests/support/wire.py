"""HTTP over a plain socket: exact bytes sent, exact answer received."""

import http.client
import json
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO, Self

from tests.support.poll import LONGEST_WAIT_SECONDS

Address = tuple[str, int]
BASE = "/api/v1"


@dataclass(frozen=True)
class Answer:
    """One HTTP answer."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = self.json()["error"]
        return error

    @property
    def code(self) -> str | None:
        """The `error.code` of a refusal; None for a success or a body that is no envelope."""
        if self.status < 400:
            return None
        try:
            return str(self.error["code"])
        except (ValueError, KeyError, TypeError):
            return None

    def __repr__(self) -> str:
        return f"<{self.status} {self.body[:600]!r}>"


class Wire:
    """One connection."""

    def __init__(self, address: Address, seconds: float = LONGEST_WAIT_SECONDS) -> None:
        self.socket = socket.create_connection(address, timeout=seconds)
        self._file: BinaryIO = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def interim(self) -> bytes:
        """The head of what comes next, as a `100 Continue`."""
        return b"".join(iter(self._file.readline, b"\r\n"))

    def head(self) -> Answer:
        """The status and headers of the next answer, its body unread."""
        line = self._file.readline()
        if not line:
            raise ConnectionError("the server closed the connection without an answer")
        match = re.fullmatch(rb"HTTP/1\.[01] (\d{3}) [^\r\n]*\r\n", line)
        assert match, line
        return Answer(int(match[1]), http.client.parse_headers(self._file), b"")

    def answer(self, *, body_expected: bool = True) -> Answer:
        """The next answer with its body."""
        head = self.head()
        body = self._body(head) if body_expected and head.status not in {204, 304} else b""
        return Answer(head.status, head.headers, body)

    def closed(self) -> bool:
        """Whether nothing but the end follows."""
        return self._file.read(1) == b""

    def read(self, count: int) -> bytes:
        return self._file.read(count)

    def _body(self, head: Answer) -> bytes:
        if head.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return b"".join(self._chunks())
        length = head.headers.get("Content-Length")
        return self._file.read() if length is None else self._file.read(int(length))

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self._file.readline().split(b";")[0], 16):
            yield self._file.read(size)
            self._file.readline()
        while self._file.readline() not in {b"\r\n", b""}:
            pass


def exchange(address: Address, data: bytes, *, body_expected: bool = True) -> Answer:
    """Sends `data` on a fresh connection and reads one answer."""
    with Wire(address) as wire:
        wire.send(data)
        return wire.answer(body_expected=body_expected)


def request(method: str, path: str, *headers: tuple[str | bytes, str | bytes], body: bytes = b"") -> bytes:
    """The bytes of a request for a path below the base; `Host` is added to its headers, `Content-Length` is not."""
    lines = [f"{method} {BASE}{path} HTTP/1.1".encode(), b"Host: contract.test"]
    lines += [_bytes(name) + b": " + _bytes(value) for name, value in headers]
    return b"\r\n".join([*lines, b"", body])


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1")
