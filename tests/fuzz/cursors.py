"""Cursors: issued ones are read back, and nothing else is accepted."""

from collections.abc import Iterator

from backend.common.errors import ApiError
from backend.common.paging import Cursors
from tests.fuzz.target import Target
from workflow_api.v1 import errors_pb2

_CURSORS = Cursors(b"fuzz")
_ISSUED_NONE = Cursors(b"silent")
_ROUTES = ("ListRuns", "ListWorkflows")
_KEYS = ("ak_1", "ak_2", None)
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def check(data: bytes) -> None:
    """Reads the first byte as how to go on; see the functions."""
    {0: _any_text, 1: _comes_back, 2: _changed, 3: _elsewhere}[data[0] % 4 if data else 0](data[1:])


def _any_text(data: bytes) -> None:
    """No text is a cursor where none was issued: a fuzzer sees those that others issued, and tries them."""
    assert _read(data.decode(errors="replace"), of=_ISSUED_NONE) is None


def _comes_back(data: bytes) -> None:
    """A position of any name and number comes back as it was, as text that needs no escape in a URL."""
    position = _position(data)
    cursor = _CURSORS.issue(_ROUTES[0], _KEYS[0], position)
    assert set(cursor) <= _LETTERS
    assert _read(cursor) == list(position)


def _changed(data: bytes) -> None:
    """A cursor changed in a few places is refused: pairs of a place and a letter, then what the position is of."""
    changes, position = data[1 : 1 + 2 * (data[0] % 4 + 1)] if data else b"", data[9:]
    issued = _CURSORS.issue(_ROUTES[0], _KEYS[0], _position(position))
    letters = list(issued)
    for place, letter in zip(changes[::2], changes[1::2], strict=False):
        if letter < 128:
            letters[place % len(letters)] = chr(letter)
        else:
            letters[place % len(letters)] = ["", "=", "==", "\n", "A", " ", "%3D", "é"][letter % 8]
    changed = "".join(letters)
    assert (_read(changed) is not None) == (changed == issued), changed


def _elsewhere(data: bytes) -> None:
    """A cursor is good only for the list and the key that it was issued to."""
    cursor = _CURSORS.issue(_ROUTES[0], _KEYS[0], _position(data))
    for route in _ROUTES:
        for key_id in _KEYS:
            assert (_read(cursor, route, key_id) is not None) == ((route, key_id) == (_ROUTES[0], _KEYS[0]))


def _position(data: bytes) -> tuple[int, str]:
    return int.from_bytes(data[:8], "big", signed=True), data[8:].decode(errors="replace")


def _read(
    cursor: str, route: str = _ROUTES[0], key_id: str | None = _KEYS[0], of: Cursors = _CURSORS
) -> list[str | int] | None:
    try:
        return of.read(route, key_id, cursor)
    except ApiError as error:
        assert error.reason == errors_pb2.ERROR_REASON_INVALID_CURSOR
        return None


def seeds() -> Iterator[bytes]:
    """Text, positions and changes of each kind."""
    yield from (b"\0", b"\0AAAA", b"\0=", b"\0" + "é".encode(), b"\0" + b"A" * 200, b"\0%%%%")
    cursor = _CURSORS.issue(_ROUTES[0], "ak_3", (1, "run_1")).encode()
    yield b"\0" + cursor
    for kind in (b"\1", b"\2\3", b"\3"):
        yield kind + (1_790_000_000_000).to_bytes(8, "big") + "run_01é".encode()
    yield b"\2\0\xff\xff" + b"\0" * 20
    yield b"\2\3" + bytes([40, 65, 41, 66, 0, 0x81, 1, 0x83]) + b"\0" * 20


TARGET = Target(
    name="cursors",
    check=check,
    seeds=seeds,
    words=(b"=", b"==", b"\n", b"-", b"_", b"+", b"/", b"\0", b"\1", b"\2", b"\3"),
    longest=256,
)
