"""Checks of the bounds that the protos state for fields, with the words that report a violation."""

import re
from collections.abc import Iterable
from typing import Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from contract.fields import INTEGERS, is_duration, is_enum_list, is_map, is_timestamp
from contract.times import count_of, unit_name
from workflow_api.v1.errors_pb2 import ErrorReason
from workflow_api.v1.options_pb2 import FieldRules

NO_NUL: Final = "must not contain U+0000"

_RANGES: Final = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


class TextBounds:
    """Bounds of a string, lengths in code points; `allowed` completes "must be …"."""

    def __init__(self, rules: FieldRules) -> None:
        most = str(rules.max_length) if rules.HasField("max_length") else ""
        length = f"(?s:.{{{rules.min_length},{most}}})"
        self.accepts = re.compile(f"(?={length}\\Z)(?:{rules.pattern})" if rules.pattern else length).fullmatch
        """Returns a match where a string is within the bounds, else None."""
        self.allowed = _text_in_words(rules)

    def violation(self, text: str) -> str | None:
        """Returns the problem of a string, or None."""
        if "\0" in text:
            return NO_NUL
        return None if self.accepts(text) else f"must be {self.allowed}"


class _Counts:
    """Least, greatest and allowed values of an integer."""

    def __init__(self, rules: FieldRules) -> None:
        self._least = rules.minimum if rules.HasField("minimum") else None
        self._most = rules.maximum if rules.HasField("maximum") else None
        self._choices = frozenset(rules.choices)

    def accepts(self, number: int) -> bool:
        """Returns whether an integer is within the bounds."""
        return (
            (self._least is None or number >= self._least)
            and (self._most is None or number <= self._most)
            and (not self._choices or number in self._choices)
        )


class NumberBounds(_Counts):
    """Bounds of an integer, or of a length of time in its unit; `allowed` completes "must be …"."""

    def __init__(self, field: FieldDescriptor, rules: FieldRules) -> None:
        super().__init__(rules)
        self._range = _RANGES[FieldDescriptor.CPPTYPE_INT64 if is_duration(field) else field.cpp_type]
        self.allowed = _number_in_words(rules, "an integer")

    def violation(self, number: int) -> str | None:
        """Returns the problem of an integer, or None."""
        return None if self.accepts(number) else f"must be {self.allowed}"

    def carried(self, number: int) -> int:
        """Returns the nearest number that the field's type can carry."""
        least, most = self._range
        return min(max(number, least), most)


class DurationBounds:
    """Bounds of a duration, in whole units."""

    def __init__(self, rules: FieldRules) -> None:
        self._unit = rules.unit
        self._counts = _Counts(rules)
        unit = unit_name(rules.unit)
        words = _number_in_words(rules, f"a whole number of {unit}")
        self._message = f"must be {words} {unit}" if rules.choices else f"must be {words}"

    def violation(self, duration: Duration) -> str | None:
        """Returns the problem of a duration, or None."""
        count = count_of(duration, self._unit)
        return None if count is not None and self._counts.accepts(count) else self._message


class ItemBounds:
    """Bound on the entries of a repeated field or the pairs of a map."""

    def __init__(self, rules: FieldRules, noun: str) -> None:
        self._most = rules.max_items
        self._noun = noun

    def violation(self, count: int) -> str | None:
        """Returns the problem of a number of entries, or None."""
        return None if count <= self._most else f"must have at most {self._most:,} {self._noun}, not {count:,}"


class SizeBounds:
    """Bound on the bytes of all messages of a repeated field together."""

    def __init__(self, rules: FieldRules) -> None:
        self.most = rules.max_bytes

    def violation(self, messages: Iterable[Message]) -> str | None:
        """Returns the problem of the messages' size, or None."""
        size = sum(message.ByteSize() for message in messages)
        return None if size <= self.most else f"must have at most {self.most:,} bytes together; these have {size:,}"


def require_bounds(field: FieldDescriptor, rules: FieldRules) -> None:
    """Refuses a request field that a caller may fill without limit.

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
        # The body bounds JSON text, and the header lines bound a cursor, whose signature the backend verifies.
        is_cursor = rules.violation == ErrorReason.ERROR_REASON_INVALID_CURSOR
        bounded = rules.raw_json or is_cursor or rules.HasField("max_length")
    else:
        bounded = (field.cpp_type in INTEGERS or is_duration(field)) and (
            rules.HasField("minimum") or rules.HasField("maximum")
        )
    if not bounded:
        raise ValueError(f"{field.full_name}: a request field of a public route needs bounds")


def _text_in_words(rules: FieldRules) -> str:
    what = rules.pattern_text or "characters"
    if not rules.HasField("max_length"):
        return f"at least {rules.min_length} {what}" if rules.min_length else what
    if rules.min_length:
        return f"{rules.min_length:,} to {rules.max_length:,} {what}"
    return f"at most {rules.max_length:,} {what}"


def _number_in_words(rules: FieldRules, noun: str) -> str:
    if rules.choices:
        *others, last = map(str, rules.choices)
        return f"{', '.join(others)} or {last}" if others else last
    if not rules.HasField("maximum"):
        return f"{noun} of at least {rules.minimum:,}" if rules.HasField("minimum") else noun
    if not rules.HasField("minimum"):
        return f"{noun} of at most {rules.maximum:,}"
    return f"{noun} from {rules.minimum:,} to {rules.maximum:,}"
