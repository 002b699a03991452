"""Range and conditional headers, as fields of the gRPC request (contract 14.15, 18.11, 18.13)."""

import re
from collections.abc import Sequence
from typing import Final

from edge.http.request import HttpRequest
from workflow_api.v1.outputs_pb2 import ByteRange, GetOutputContentRequest, GetOutputsZipRequest
from workflow_api.v1.runs_pb2 import GetRunRequest

# A list of one range; empty elements of the list are ignored (RFC 9110, section 5.6.1).
_RANGE: Final = re.compile(r"(?i:bytes)=[ \t,]*(?:([0-9]+)-([0-9]*)|-([0-9]+))(?:[ \t]*,)*[ \t]*", re.ASCII)
_STRONG_TAG: Final = re.compile(r'"([!#-~]*)"')
_TAG: Final = r'(?:W/)?"([!#-~]*)"'
_TAGS: Final = re.compile(rf"[ \t]*(?:{_TAG})?[ \t]*(?:,[ \t]*(?:{_TAG})?[ \t]*)*")
_ANY_TAG: Final = re.compile(_TAG)
_MAX: Final = 2**63 - 1


def take_conditions(request: HttpRequest, message: GetOutputContentRequest | GetOutputsZipRequest) -> None:
    """Fills `range`, `if_range` and `if_none_match` from the headers; malformed values count as absent."""
    if request.header("Range") is not None:
        byte_range = _parse_range(request.header_values("Range"))
        condition = _parse_if_range(request.header_values("If-Range"))
        if byte_range is not None and condition is not None:
            message.range.CopyFrom(byte_range)
            if condition:
                message.if_range = condition
    take_tags(request, message)


def take_tags(request: HttpRequest, message: GetOutputContentRequest | GetOutputsZipRequest | GetRunRequest) -> None:
    """Fills `if_none_match` from the header; a malformed value counts as absent."""
    values = request.header_values("If-None-Match")
    if values:
        message.if_none_match.extend(_parse_if_none_match(values))


def _parse_range(values: Sequence[str]) -> ByteRange | None:
    """Returns the range of a well-formed header; None for several ranges and for anything else."""
    found = _RANGE.fullmatch(values[0]) if len(values) == 1 else None
    if found is None:
        return None
    first, last, suffix = found.groups()
    if suffix is not None:
        return ByteRange(suffix_length=_number(suffix))
    if not last:
        return ByteRange(first=_number(first))
    if _number(last) < _number(first):
        return None
    return ByteRange(first=_number(first), last=_number(last))


def _parse_if_range(values: Sequence[str]) -> str | None:
    """Returns the strong entity tag, empty without the header; None for a value that never matches, such as a date."""
    if not values:
        return ""
    found = _STRONG_TAG.fullmatch(values[0]) if len(values) == 1 else None
    return (found[1] or None) if found else None


def _parse_if_none_match(values: Sequence[str]) -> list[str]:
    joined = ",".join(values).strip(" \t")
    if joined == "*":
        return ["*"]
    tags = _ANY_TAG.findall(joined) if _TAGS.fullmatch(joined) else []
    # In quotes the asterisk is an ordinary tag, which nothing has.
    return [tag for tag in tags if tag != "*"]


def _number(digits: str) -> int:
    """Returns digits of any length as a number, at most the largest of 64 bits."""
    digits = digits.lstrip("0")
    return min(int(digits or "0"), _MAX) if len(digits) <= 19 else _MAX
