"""Bounds of FieldRules as checks, and as text for a person."""

import re
from typing import Final

from google.protobuf.descriptor import FieldDescriptor

from edge.codec.rules import INTEGERS, is_enum_list, is_map, is_timestamp
from workflow_api.v1.errors_pb2 import ErrorReason
from workflow_api.v1.options_pb2 import FieldRules

_RANGES: Final = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


class TextBounds:
    """Bounds of a string, lengths in code points; `allowed` completes "must be …"."""

    def __init__(self, rules: FieldRules) -> None:
        self._least = rules.min_length
        self._most = rules.max_length if rules.HasField("max_length") else None
        self._pattern = re.compile(rules.pattern) if rules.pattern else None
        self.allowed = _text_in_words(rules)

    def hold(self, text: str) -> bool:
        """Tell whether a string is within the bounds."""
        return (
            len(text) >= self._least
            and (self._most is None or len(text) <= self._most)
            and (self._pattern is None or self._pattern.fullmatch(text) is not None)
        )


class NumberBounds:
    """Bounds of an integer; `allowed` completes "must be …"."""

    def __init__(self, field: FieldDescriptor, rules: FieldRules) -> None:
        self._least = rules.minimum if rules.HasField("minimum") else None
        self._most = rules.maximum if rules.HasField("maximum") else None
        self._range = _RANGES[field.cpp_type]
        self.allowed = _number_in_words(rules)

    def hold(self, number: int) -> bool:
        """Tell whether an integer is within the bounds."""
        return (self._least is None or number >= self._least) and (self._most is None or number <= self._most)

    def carried(self, number: int) -> int:
        """Return the nearest number that the field's type can hold."""
        least, most = self._range
        return min(max(number, least), most)


def require_bounds(field: FieldDescriptor, rules: FieldRules) -> None:
    """Refuse a request field that a caller may fill without limit.

    Raises:
        ValueError: the field has no bound that fits its type.
    """
    if is_map(field):
        bounded = (
            rules.HasField("max_items") and rules.keys.HasField("max_length") and rules.values.HasField("max_length")
        )
    elif is_timestamp(field) or is_enum_list(field):
        bounded = rules.HasField("max_length")
    elif field.is_repeated:
        bounded = False
    elif field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        # JSON text is bounded by the body, and a cursor by the header lines; the backend proves that it issued it.
        is_cursor = rules.violation == ErrorReason.ERROR_REASON_INVALID_CURSOR
        bounded = rules.raw_json or is_cursor or rules.HasField("max_length")
    else:
        bounded = field.cpp_type in INTEGERS and (rules.HasField("minimum") or rules.HasField("maximum"))
    if not bounded:
        raise ValueError(f"{field.full_name}: a request field of a public route needs bounds")


def _text_in_words(rules: FieldRules) -> str:
    what = rules.pattern_text or "characters"
    if not rules.HasField("max_length"):
        return f"at least {rules.min_length} {what}" if rules.min_length else what
    if rules.min_length:
        return f"{rules.min_length:,} to {rules.max_length:,} {what}"
    return f"at most {rules.max_length:,} {what}"


def _number_in_words(rules: FieldRules) -> str:
    if not rules.HasField("maximum"):
        return f"an integer of at least {rules.minimum:,}" if rules.HasField("minimum") else "an integer"
    if not rules.HasField("minimum"):
        return f"an integer of at most {rules.maximum:,}"
    return f"an integer from {rules.minimum:,} to {rules.maximum:,}"
