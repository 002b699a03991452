import pytest
from httptools import HttpParserCallbackError

from edge.http.body import BodyFailure
from edge.http.message import RequestMessage
from edge.http.parser import MAX_HEAD_BYTES, MAX_LINE_BYTES, RequestParser

GET = b"GET /%d HTTP/1.1\r\nHost: t\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: t\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


def parser_of(*pieces: bytes) -> RequestParser:
    parser = RequestParser(1000)
    for piece in pieces:
        parser.feed(piece)
    return parser


def one(*pieces: bytes) -> RequestMessage:
    (message,) = taken(parser_of(*pieces))
    return message


def taken(parser: RequestParser) -> list[RequestMessage]:
    """Every message, taken one after the other as a connection does."""
    messages = []
    while parser.messages:
        messages.append(parser.messages.popleft())
        parser.feed_rest()
    return messages


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_pieces_of_any_size_make_the_same_request(size: int) -> None:
    data = POST + b"X-A: 1\r\nx-a:  2 \t\r\nContent-Length: 3\r\n\r\nabc"
    message = one(*(data[start : start + size] for start in range(0, len(data), size)))
    assert (message.method, message.target, message.keep_alive) == ("POST", "/", True)
    assert message.headers["x-a"] == ["1", "2"]
    assert message.body is not None
    assert (message.body.complete, message.body.take()) == (True, b"abc")


@pytest.mark.parametrize("head", [GET % 1, POST + b"Content-Length: 0\r\n\r\n", POST + b"Content-Length: 000\r\n\r\n"])
def test_no_body_is_announced(head: bytes) -> None:
    assert one(head).body is None


def test_pipelined_requests_are_parsed_a_few_at_a_time() -> None:
    parser = parser_of(b"".join(GET % number for number in range(1000)))
    assert 0 < len(parser.messages) < 200
    assert parser.has_rest
    assert [message.target for message in taken(parser)] == [f"/{number}" for number in range(1000)]
    assert not parser.has_rest


def test_input_that_follows_a_waiting_request_is_not_parsed() -> None:
    parser = parser_of(GET % 1, GET % 2)
    assert [message.target for message in parser.messages] == ["/1"]
    assert [message.target for message in taken(parser)] == ["/1", "/2"]


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * MAX_LINE_BYTES + b" HTTP/1.1\r\nHost: t\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: t\r\nX: " + b"a" * MAX_LINE_BYTES + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: t\r\n" + b"X: y\r\n" * 9_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: t\r\n" + b"X: yyyyyyyyyyyyyyyy\r\n" * 4_000 + b"\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: t\r\nhost: t\r\n\r\n",
        b"GET * HTTP/1.1\r\nHost: t\r\n\r\n",
        b"GET http:///x HTTP/1.1\r\nHost: t\r\n\r\n",
        b"GET http://h:99999/x HTTP/1.1\r\nHost: t\r\n\r\n",
        b"CONNECT a:b HTTP/1.1\r\nHost: t\r\n\r\n",
    ],
    ids=lambda head: repr(head[:50]),
)
@pytest.mark.parametrize("size", [500, 1_000_000])
def test_a_head_beyond_the_bounds_or_without_a_host_is_malformed(head: bytes, size: int) -> None:
    parser = parser_of(*(head[start : start + size] for start in range(0, len(head), size)))
    assert parser.broken
    assert [bool(message.malformed) for message in parser.messages] == [True]


@pytest.mark.parametrize(
    ("start", "endless"),
    [
        (b"GET / HTTP/1.1\r\n", b"X: " + b"y" * 995 + b"\r\n"),
        (b"GET / HTTP/1.1\r\nX:", b"y" * 1000),
        (b"", b"\r\n" * 500),
    ],
    ids=["headers", "header", "blank lines"],
)
def test_a_head_without_end_is_malformed_as_soon_as_it_is_too_long(start: bytes, endless: bytes) -> None:
    parser, fed = parser_of(start), 0
    while not parser.broken:
        parser.feed(endless)
        assert parser.in_head or parser.broken
        fed += len(endless)
    assert fed < 2 * MAX_HEAD_BYTES
    assert [bool(message.malformed) for message in parser.messages] == [True]


@pytest.mark.parametrize("endless", [b"1;" + b"x" * 1000, b"0\r\nT: " + b"x" * 1000], ids=["extension", "trailer"])
def test_framing_without_end_breaks_the_body(endless: bytes) -> None:
    parser = parser_of(CHUNKED)
    body = parser.messages.popleft().body
    assert body is not None
    parser.feed(endless)
    fed = 0
    while not parser.broken:
        parser.feed(b"x" * 1000)
        fed += 1000
    assert body.failure is BodyFailure.MALFORMED
    assert fed < 2 * MAX_HEAD_BYTES


def test_trailers_are_ignored() -> None:
    parser = parser_of(CHUNKED + b"1\r\nx\r\n0\r\nX-Request-Id: late\r\n\r\n", GET % 2)
    first, second = taken(parser)
    assert "x-request-id" not in first.headers
    assert first.body is not None
    assert first.body.take() == b"x"
    assert second.target == "/2"


def test_a_malformed_request_behind_good_ones_spoils_only_itself() -> None:
    parser = parser_of(GET % 1 + GET % 2 + b"NONSENSE\r\n\r\n" + GET % 3)
    assert [(message.target, bool(message.malformed)) for message in parser.messages] == [
        ("/1", False),
        ("/2", False),
        ("/", True),
    ]


def test_what_can_be_recognized_of_a_malformed_head_is_kept() -> None:
    message = one(b"GET / HTTP/9.9\r\nX-Request-Id: mine\r\nbad header\r\nOrigin:  http://o \r\n\r\n")
    assert message.malformed
    assert message.headers == {"x-request-id": ["mine"], "origin": ["http://o"]}


def test_the_reason_of_a_malformed_request_does_not_quote_it() -> None:
    message = one(b"GET / HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer secret\x00\r\n\r\n")
    assert message.malformed
    assert "secret" not in message.malformed


@pytest.mark.parametrize("cut", [100, 14])
def test_an_unknown_method_may_have_any_name(cut: int) -> None:
    data = b"BREW / HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n\r\nx"
    cut = data.index(b"\r\n") + 2 if cut == 14 else cut
    message = one(data[:cut], data[cut:])
    assert (message.method, message.malformed) == ("BREW", "")
    assert message.body is not None
    assert message.body.complete


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 3\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"]
)
@pytest.mark.parametrize("size", [1, 1000])
def test_the_body_of_a_request_for_an_upgrade_is_read(framing: bytes, size: int) -> None:
    data = POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\n" + framing
    parser = parser_of(*(data[start : start + size] for start in range(0, len(data), size)))
    (message,) = taken(parser)
    assert not message.keep_alive
    assert message.body is not None
    assert (message.body.complete, message.body.take()) == (True, b"abc")


def test_nothing_is_parsed_after_a_tunnel_was_asked_for() -> None:
    parser = parser_of(b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n" + GET % 1)
    (message,) = taken(parser)
    assert (message.method, message.keep_alive, message.body) == ("CONNECT", False, None)


def test_a_defect_is_no_malformed_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr("edge.http.parser._announces_body", fails)
    with pytest.raises(HttpParserCallbackError, match="callback error"):
        parser_of(GET % 1)
