"""The conditional headers of a download, as typed fields of its request. (DECISIONS.md, Run, steps, events …)."""

import re
from collections.abc import Sequence
from typing import Final

from edge.http.request import HttpRequest
from workflow_api.v1.outputs_pb2 import ByteRange, GetOutputContentRequest

_RANGE: Final = re.compile(r"(?i:bytes)=[ \t]*(?:([0-9]+)-([0-9]*)|-([0-9]+))[ \t]*", re.ASCII)
_STRONG_TAG: Final = re.compile(r'"([!#-~]*)"')
_TAG: Final = r'(?:W/)?"([!#-~]*)"'
_TAGS: Final = re.compile(rf"[ \t]*(?:{_TAG})?[ \t]*(?:,[ \t]*(?:{_TAG})?[ \t]*)*")
_EACH_TAG: Final = re.compile(_TAG)
_MOST: Final = 2**63 - 1


def take_conditions(request: HttpRequest, asked: GetOutputContentRequest) -> None:
    """Fill `range`, `if_range` and `if_none_match` from the headers; what is not well formed counts as absent."""
    if request.header("Range") is not None:
        wanted = _parse_range(request.header_values("Range"))
        holds_for = _parse_if_range(request.header_values("If-Range"))
        if wanted is not None and holds_for is not None:
            asked.range.CopyFrom(wanted)
            if holds_for:
                asked.if_range = holds_for
    asked.if_none_match.extend(_parse_if_none_match(request.header_values("If-None-Match")))


def _parse_range(values: Sequence[str]) -> ByteRange | None:
    """Return the one range of a well-formed header; None for several and for anything else."""
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
    """Return the strong entity tag, empty without the header; None for what can never hold, as a date."""
    if not values:
        return ""
    found = _STRONG_TAG.fullmatch(values[0]) if len(values) == 1 else None
    return (found[1] or None) if found else None


def _parse_if_none_match(values: Sequence[str]) -> list[str]:
    joined = ",".join(values).strip(" \t")
    if joined == "*":
        return ["*"]
    tags = _EACH_TAG.findall(joined) if _TAGS.fullmatch(joined) else []
    # In quotes the asterisk is a tag like any other, and none of ours.
    return [tag for tag in tags if tag != "*"]


def _number(digits: str) -> int:
    """Read digits of any length; beyond 64 bits is as far as can be."""
    digits = digits.lstrip("0")
    return min(int(digits or "0"), _MOST) if len(digits) <= 19 else _MOST
