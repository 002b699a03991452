"""The Range and conditional headers of a download: from the header lines to the bytes that are sent."""

import itertools
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import cast

from multidict import CIMultiDict

from backend.common.errors import ApiError
from backend.rpc.validation import validate
from backend.services.outputs.rules import Selection, select_bytes
from edge.http.conditional_headers import take_conditions
from edge.http.request import HttpRequest
from tests.fuzz.target import Target
from workflow_api.v1 import errors_pb2
from workflow_api.v1.outputs_pb2 import GetOutputContentRequest

ETAG = "abc"
_HEADERS = {b"r": "Range", b"i": "If-Range", b"n": "If-None-Match"}
_TAG_LETTERS = frozenset(map(chr, (0x21, *range(0x23, 0x7F))))
_Expected = tuple[str, int, int]


def check(data: bytes) -> None:
    """Reads a size of 8 bytes, then header lines: a letter for the header, its value, a line feed."""
    size = int.from_bytes(data[:8], "big") >> 1
    headers = [
        (_HEADERS[line[:1]], line[1:].decode(errors="surrogateescape"))
        for line in data[8:].split(b"\n")
        if line[:1] in _HEADERS
    ]
    assert answered(headers, size) == expected(headers, size), (headers, size)


def answered(headers: Sequence[tuple[str, str]], size: int) -> _Expected:
    """What the service does: `whole`, `part`, `not modified` or `does not fit`, with offset and length."""
    given = CIMultiDict(headers)
    request = SimpleNamespace(header=given.get, header_values=lambda name: given.getall(name, ()))
    message = GetOutputContentRequest(run_id="run_1", output_id="out_1")
    take_conditions(cast("HttpRequest", request), message)
    validate(message)
    try:
        chosen: Selection = select_bytes(message, size, ETAG)
    except ApiError as error:
        assert error.reason == errors_pb2.ERROR_REASON_RANGE_NOT_SATISFIABLE
        assert error.metadata == {"size": str(size)}
        return "does not fit", 0, 0
    if chosen.not_modified:
        return "not modified", 0, 0
    return "part" if chosen.partial else "whole", chosen.offset, chosen.length


def expected(headers: Sequence[tuple[str, str]], size: int) -> _Expected:
    """What RFC 9110 and the contract's rules on ranges say, by plain loops. (contract 18.11, 18.13)"""
    ranges, if_range, none_match = ([value for key, value in headers if key == name] for name in _HEADERS.values())
    if _has_it(none_match):
        return "not modified", 0, 0
    whole = "whole", 0, size
    asked = _range_of(ranges[0]) if len(ranges) == 1 else None
    if asked is None or (if_range and if_range != [f'"{ETAG}"']):
        return whole
    first, last = asked
    if first is None:
        assert last is not None
        if last and not size:
            return whole
        first, last = max(0, size - last), size - 1
    else:
        last = size - 1 if last is None else min(last, size - 1)
    return ("part", first, last - first + 1) if first <= last else ("does not fit", 0, 0)


def _range_of(value: str) -> tuple[int | None, int | None] | None:
    unit, equals, rest = value.partition("=")
    elements = [element for element in (part.strip(" \t") for part in rest.split(",")) if element]
    first, dash, last = elements[0].partition("-") if len(elements) == 1 else ("", "", "")
    if unit.lower() != "bytes" or not equals or not dash or not (first or last):
        return None
    if not all(letter in "0123456789" for letter in first + last):
        return None
    if first and last and _number(last) < _number(first):
        return None
    return (_number(first) if first else None), (_number(last) if last else None)


def _number(digits: str) -> int:
    # In parts, as `int` refuses thousands of digits at once.
    number = 0
    for digit in digits:
        number = min(number * 10 + int(digit), 2**63 - 1)
    return number


def _has_it(values: list[str]) -> bool:
    joined = ",".join(values).strip(" \t")
    if joined == "*":
        return True
    tags = _tags(joined)
    return tags is not None and ETAG in tags


def _tags(text: str) -> list[str] | None:
    """The tags of a list, None where it is not well formed; empty members are allowed."""
    tags: list[str] = []
    at = 0
    while True:
        at = _after_blanks(text, at)
        if text.startswith('W/"', at):
            at += 2
        if text.startswith('"', at):
            opaque = "".join(itertools.takewhile(lambda letter: letter in _TAG_LETTERS, text[at + 1 :]))
            at += 1 + len(opaque)
            if not text.startswith('"', at):
                return None
            tags.append(opaque)
            at = _after_blanks(text, at + 1)
        if at == len(text):
            return tags
        if text[at] != ",":
            return None
        at += 1


def _after_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t":
        at += 1
    return at


def seeds() -> Iterator[bytes]:
    """One of each form, for an empty file, a small one and one beyond what a caller may name."""
    lines = (
        *(b"rbytes=0-0", b"rbytes=5-", b"rbytes=-5", b"rbytes=-0", b"rBytes= 1-2 ", b"rbytes=007-0010", b"rbytes=9-1"),
        *(
            b"rbytes=0-1,3-4",
            b"rbytes=, 0-1 ,",
            b"rbytes=-1",
            b"rbytes=-",
            b"rlines=1-2",
            b"rbytes=0-" + b"9" * 30,
            b"rbytes=" + b"9" * 5_000 + b"-",
        ),
        *(b"rbytes=, 0-1 ,", b"rbytes=-1", b"rbytes=,"),
        *(b'rbytes=0-1\ni"abc"', b'rbytes=0-1\niW/"abc"', b"rbytes=0-1\niWed, 21 Oct 2015 07:28:00 GMT"),
        *(b'n"abc"', b'n W/"x" , ,"abc"', b"n*", b'n"x"\nn"abc"', b'n"abc', b"rbytes=0-1\nrbytes=0-1", b""),
    )
    return (
        (size << 1).to_bytes(8, "big") + line for size, line in itertools.product((0, 1, 10, 2**40, 2**63 - 1), lines)
    )


TARGET = Target(
    name="byte_ranges",
    check=check,
    seeds=seeds,
    words=(b"\nrbytes=", b"\ni", b"\nn", b'"abc"', b'W/"abc"', b"bytes=", b"0-0", b"-1", b" \t", b",", b"*", b"9" * 19),
    longest=512,
)
