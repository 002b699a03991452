"""Framing of HTTP requests: finds where each begins and ends, so that aiohttp's parser gets one at a time.

aiohttp alone loses the good requests in front of a malformed one in the same segment, refuses methods that it does not
know, bounds no head as a whole, and does not report broken chunks of a body. Its input is the caller's, except that
unknown methods are replaced, blank lines before a head are dropped, and a refused head is made malformed.
"""

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from aiohttp.http import RawRequestMessage
from multidict import CIMultiDict

MAX_LINE_BYTES: Final = 32_768
"""Longest request target, and longest single header (contract 4.19)."""

MAX_HEAD_BYTES: Final = 2 * MAX_LINE_BYTES
"""Most bytes of a request line and all headers together."""

MAX_HEADERS: Final = 8_192

_TARGET_BOUND: Final = f"must have a target of at most {MAX_LINE_BYTES:,} bytes in its request line"
_HEADER_BOUND: Final = f"must have headers of at most {MAX_LINE_BYTES:,} bytes each"
_HEADERS_BOUND: Final = f"must have at most {MAX_HEADERS:,} headers"
_HEAD_BOUND: Final = f"must have a request line and headers of at most {MAX_HEAD_BYTES:,} bytes together"

_END: Final = b"\r\n\r\n"
_BLANK: Final = re.compile(rb"[\r\n]*")
_REQUEST_LINE: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}) [^ \r\n]+ HTTP/1\.[01]\r\n")
_PARSED_METHODS: Final = (b"GET ", b"POST ", b"DELETE ", b"OPTIONS ", b"HEAD ", b"PUT ", b"PATCH ", b"CONNECT ")
_BEGINNING: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}(?: [^ \r\n]*(?: [HTP/1.0]{0,8}\r?)?)?")
_SUBSTITUTE: Final = b"PATCH"
_VERSIONS: Final = (b" HTTP/1.1", b" HTTP/1.0")
# No head may have this byte.
_MALFORMED: Final = b"\0"
_HEADER_LINE: Final = re.compile(rb"\r\n([A-Za-z0-9-]+):[ \t]*([^\x00-\x1f\x7f]*?)[ \t]*(?=\r\n)")
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[!-~]*)?\r\n")
# Chunks of one byte each cost the parser a thousand times their size.
_CHUNKED_PIECE_BYTES: Final = 16_384

NO_REQUEST: Final = "UNKNOWN"
"""Method that aiohttp gives to a head that it could not parse."""


class Part(Enum):
    """Part of a connection's input that the next byte belongs to."""

    HEAD = auto()
    PARSED = auto()
    """The parser has a head whose request has not begun."""
    BODY = auto()
    CHUNKS = auto()
    DISCARDED = auto()
    """Further input belongs to no request."""


IN_BODY: Final = frozenset({Part.BODY, Part.CHUNKS})


class BrokenChunksError(Exception):
    """Raised where a body is not framed in chunks as its headers say."""


class RequestFraming:
    """Splits the input of one connection into requests."""

    __slots__ = (
        "_at",
        "_begun",
        "_blank",
        "_chunks",
        "_head",
        "_last",
        "_left",
        "_method",
        "_parse",
        "_rest",
        "has_rest",
        "part",
    )

    def __init__(self, parse: Callable[[bytes], None]) -> None:
        """Takes the function that gives bytes to aiohttp's parser."""
        self._parse = parse
        self.part = Part.HEAD
        self.has_rest = False
        """True while input waits for the request ahead of it to begin."""
        self._rest, self._at = b"", 0
        self._head = b""
        self._begun = False
        """True once the parser has a part of the head."""
        self._blank = 0
        self._method = ""
        self._left = 0
        self._chunks = _Chunks()
        self._last = False

    @property
    def in_head(self) -> bool:
        """Returns whether a request line or headers have begun and not ended."""
        return self.part is Part.HEAD and bool(self._head or self._blank)

    @property
    def keeps_input(self) -> bool:
        """Returns whether input is kept of requests that have not begun."""
        return self.part is not Part.DISCARDED and bool(self._head or self._blank or self.has_rest)

    @property
    def kept_bytes(self) -> int:
        """Returns the bytes kept of requests that have not begun, without blank lines before a head."""
        return 0 if self.part is Part.DISCARDED else len(self._rest) - self._at + len(self._head)

    def take(self, data: bytes = b"") -> None:
        """Gives the parser the input of one request, and keeps the rest.

        Called without `data` to go on with the rest: once the request ahead has begun, or after a piece of chunks.

        Raises:
            BrokenChunksError: the body under way cannot be read; nothing that follows is parsed.
        """
        if data:
            self._rest, self._at = self._rest[self._at :] + data if self.has_rest else data, 0
        while self._at < len(self._rest):
            if self.part is Part.HEAD:
                self._take_head()
            elif self.part is Part.BODY:
                self._take_body()
            elif self.part is Part.CHUNKS:
                self._take_chunks()
                break
            else:
                break
        self.has_rest = self._at < len(self._rest) and self.part is not Part.DISCARDED
        if not self.has_rest:
            self._rest, self._at = b"", 0

    def begin(self, message: RawRequestMessage) -> str:
        """Notes that the request ahead begins; returns the request's method as sent."""
        if message.method in {NO_REQUEST, "CONNECT"}:
            self.close()
            return message.method
        method, self._method = self._method or message.method, ""
        self._last = message.should_close or message.upgrade
        length = message.headers.get("Content-Length")
        self._head, self._blank, self._begun = b"", 0, False
        if message.chunked:
            self.part, self._chunks = Part.CHUNKS, _Chunks()
        elif length is not None and int(length):
            self.part, self._left = Part.BODY, int(length)
        else:
            self.part = Part.DISCARDED if self._last else Part.HEAD
        return method

    def close(self) -> None:
        """Drops all input, now and later."""
        self.part, self.has_rest = Part.DISCARDED, False
        self._rest, self._at = b"", 0

    def malformed(self) -> tuple[str, "CIMultiDict[str]"]:
        """Returns the bound that the refused head exceeds, empty where none, and the headers found in the head."""
        headers = CIMultiDict[str]()
        for name, value in _HEADER_LINE.findall(self._head.partition(_END)[0] + b"\r\n"):
            headers.add(name.decode(), value.decode("utf-8", "surrogateescape"))
        return self._exceeded_bound(), headers

    def _exceeded_bound(self) -> str:
        if self._blank + len(self._head) > MAX_HEAD_BYTES:
            return _HEAD_BOUND
        request_line, *headers = self._head.split(b"\r\n")
        if max(map(len, request_line.split(b" "))) > MAX_LINE_BYTES:
            return _TARGET_BOUND
        if max(map(len, headers), default=0) > MAX_LINE_BYTES:
            return _HEADER_BOUND
        return _HEADERS_BOUND if len(headers) > MAX_HEADERS else ""

    def _take_head(self) -> None:
        rest = self._rest
        if not self._head:
            begins = _BLANK.match(rest, self._at).end()  # type: ignore[union-attr]  # it matches anywhere
            self._blank += begins - self._at
            self._at = begins
        before = self._head[-len(_END) + 1 :]
        end = (before + rest[self._at :] if before else rest).find(_END, 0 if before else self._at)
        stop = len(rest) if end < 0 else end + len(_END) + (self._at - len(before) if before else 0)
        piece, self._at = rest[self._at : stop], stop
        self._head += piece
        if not piece and self._blank <= MAX_HEAD_BYTES:
            return
        if end >= 0:
            self.part = Part.PARSED
        # The parser accepts longer heads and other versions, and waits for more input after HTTP/2's preface.
        size = self._blank + len(self._head)
        accepted = size <= MAX_HEAD_BYTES
        if end >= 0:
            known = self._head.partition(b"\r\n")[0].endswith(_VERSIONS)
            accepted = known and (size <= MAX_LINE_BYTES or not self._exceeded_bound())
        if not accepted:
            self.part = Part.PARSED
            piece = _MALFORMED
        elif not self._begun:
            piece = self._head
            if not piece.startswith(_PARSED_METHODS):
                line = _REQUEST_LINE.match(piece)
                if line is not None:
                    self._method = line[1].decode()
                    piece = _SUBSTITUTE + piece[line.end(1) :]
                elif _BEGINNING.fullmatch(piece):
                    return
        self._begun = True
        self._parse(piece)

    def _take_body(self) -> None:
        piece = self._rest[self._at : self._at + self._left]
        self._at += len(piece)
        self._left -= len(piece)
        if not self._left:
            self._end_body()
        self._parse(piece)

    def _take_chunks(self) -> None:
        piece = self._rest[self._at : self._at + _CHUNKED_PIECE_BYTES]
        try:
            size = self._chunks.follow(piece)
        except BrokenChunksError:
            self.close()
            raise
        self._at += size
        if self._chunks.ended:
            self._end_body()
        self._parse(piece[:size])

    def _end_body(self) -> None:
        self.part = Part.DISCARDED if self._last else Part.HEAD


class _Chunks:
    """Parser of the chunk lines of a body (RFC 9112, section 7.1)."""

    __slots__ = ("_framing_bytes", "_left", "_line", "_read_line", "ended")

    def __init__(self) -> None:
        self.ended = False
        self._left = 0
        self._line = b""
        self._read_line: Callable[[bytes], None] = self._read_size
        self._framing_bytes = 0

    def follow(self, data: bytes) -> int:
        """Returns how many of these bytes belong to the body.

        Raises:
            BrokenChunksError: the bytes are not valid chunks, or a chunk's extension or the trailers are too long.
        """
        at = 0
        while at < len(data) and not self.ended:
            if self._left:
                size = min(self._left, len(data) - at)
                at += size
                self._left -= size
                self._framing_bytes = 0
                continue
            end = data.find(b"\n", at) + 1 or len(data)
            self._line += data[at:end]
            self._framing_bytes += end - at
            at = end
            if self._framing_bytes > MAX_HEAD_BYTES:
                raise BrokenChunksError
            if self._line.endswith(b"\n"):
                line, self._line = self._line, b""
                self._read_line(line)
        return at

    def _read_size(self, line: bytes) -> None:
        found = _CHUNK_LINE.fullmatch(line)
        if found is None:
            raise BrokenChunksError
        self._left = int(found[1], 16)
        self._read_line = self._read_end if self._left else self._read_trailer

    def _read_end(self, line: bytes) -> None:
        if line != b"\r\n":
            raise BrokenChunksError
        self._read_line = self._read_size

    def _read_trailer(self, line: bytes) -> None:
        self.ended = line == b"\r\n"
