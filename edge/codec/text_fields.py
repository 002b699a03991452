"""Readers of the fields that arrive as text, in the path, in the query and in headers, and their findings.

A reader is made once per field. It returns the field's value, or `None` when the value is absent or wrong, and adds
problems to the findings.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration

from contract.bounds import NO_NUL, NumberBounds, TextBounds
from contract.fields import INTEGERS, enum_of, is_duration, is_enum_list, is_timestamp, json_name, parse_enum_list
from contract.refusals import Refusal, code_of
from contract.times import duration_of, parse_date_time
from workflow_api.v1.options_pb2 import FieldRules

_CODES_IN_ORDER: Final = ("invalid_filter", "invalid_cursor")

ONCE: Final = "must be given only once"

EMPTY_IS_ABSENT: Final = frozenset({"cursor", "q"})
"""Parameters whose empty value counts as none (contract 4.16)."""

UNUSED_ID: Final = "\ufffd"
"""Replaces an id that nothing can have, such as one with U+0000; the backend answers it as any unknown id."""

_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_RAW: Final = "surrogateescape"  # how the HTTP parser keeps bytes that are not UTF-8


class Findings(list[tuple[str, str, str]]):
    """Problems: the error code, the name of the field, parameter or header, and the reason (contract 5.12, 5.14)."""

    def add(self, code: str, name: str, reason: str) -> None:
        """Records that `name` is not valid; `reason` says what is allowed."""
        self.append((code, name, reason))

    def refusal(self) -> Refusal:
        """Returns the refusal: `invalid_request` with its problems, else `invalid_filter`, else `invalid_cursor`."""
        problems = [{"name": name, "reason": reason} for code, name, reason in self if code not in _CODES_IN_ORDER]
        if problems:
            return Refusal("invalid_request", details=problems)
        code, name, reason = min(self, key=lambda finding: _CODES_IN_ORDER.index(finding[0]))
        return Refusal(code, f"The parameter {name} {reason}.")


Value = str | int | Duration | None
PathReader = Callable[[str, Findings], Value]
QueryReader = Callable[[Sequence[str | None], Findings], Value]
HeaderReader = Callable[[Sequence[str], Findings], Value]
Parser = Callable[[str], Any]


def violation_of(rules: FieldRules) -> str:
    """Returns the error code of a value outside the field's bounds."""
    return code_of(rules.violation) if rules.violation else "invalid_request"


def path_reader(field: FieldDescriptor, rules: FieldRules) -> PathReader:
    """Returns the reader of an id in the path."""
    return _id_reader(field, rules, in_path=True)


def header_reader(rules: FieldRules) -> HeaderReader:
    """Returns the reader of a field that comes from the request header `rules.header`."""
    bounds = TextBounds(rules)
    code = violation_of(rules)

    def read(values: Sequence[str], findings: Findings) -> Value:
        if not values:
            if rules.required:
                findings.add(code, rules.header, "is required")
        elif len(values) > 1:
            findings.add(code, rules.header, ONCE)
        elif not values[0].isascii() or not bounds.accepts(values[0]):
            findings.add(code, rules.header, f"must be {bounds.allowed}")
        else:
            return values[0]
        return None

    return read


def query_reader(field: FieldDescriptor, rules: FieldRules, *, is_id: bool) -> QueryReader:
    """Returns the reader of a query parameter.

    Raises:
        ValueError: a query cannot carry the field's type.
    """
    if field.cpp_type in INTEGERS or is_duration(field):
        return _single_value_reader(field, rules, _number_reader(field, rules))
    if field.type != FieldDescriptor.TYPE_STRING and query_parser(field) is None:
        raise ValueError(
            f"{field.full_name}: a query parameter is a string, an integer, a time, a length of time or a list of enum "
            "values"
        )
    return _single_value_reader(field, rules, _id_reader(field, rules) if is_id else _text_reader(field, rules))


def query_parser(field: FieldDescriptor) -> Parser | None:
    """Returns the parser of a valid query text; None where the text itself is the field's value.

    The parser raises ValueError; the message completes "must be …".
    """
    if is_timestamp(field):
        return parse_date_time
    return partial(parse_enum_list, enum_of(field)) if is_enum_list(field) else None


def _single_value_reader(
    field: FieldDescriptor, rules: FieldRules, read_one: Callable[[str | None, Findings], Value]
) -> QueryReader:
    name = json_name(field, rules)

    def read(values: Sequence[str | None], findings: Findings) -> Value:
        if len(values) == 1:
            return read_one(values[0], findings)
        findings.add("invalid_request", name, ONCE)
        return None

    return read


def _number_reader(field: FieldDescriptor, rules: FieldRules) -> Callable[[str | None, Findings], Value]:
    bounds = NumberBounds(field, rules)
    name, code = json_name(field, rules), violation_of(rules)
    length_of_time = is_duration(field)

    def read(text: str | None, findings: Findings) -> Value:
        if text is not None and _INTEGER.fullmatch(text) and bounds.accepts(int(text)):
            count = bounds.carried(int(text))
            return duration_of(count, rules.unit) if length_of_time else count
        findings.add(code, name, f"must be {bounds.allowed}")
        return None

    return read


def _text_reader(field: FieldDescriptor, rules: FieldRules) -> Callable[[str | None, Findings], Value]:
    bounds = TextBounds(rules)
    name, code = json_name(field, rules), violation_of(rules)

    def read(text: str | None, findings: Findings) -> Value:
        if text is None:
            findings.add(code, name, "must be percent-encoded UTF-8")
        elif "\0" in text:
            findings.add(code, name, NO_NUL)
        elif not text:
            # The wire cannot tell an empty string from an absent one, so an empty filter is checked here.
            if name not in EMPTY_IS_ABSENT:
                findings.add(code, name, "must not be empty")
        elif not bounds.accepts(text):
            findings.add(code, name, f"must be {bounds.allowed}")
        else:
            return text
        return None

    return read


def _id_reader(
    field: FieldDescriptor, rules: FieldRules, *, in_path: bool = False
) -> Callable[[str | None, Findings], Value]:
    bounds = TextBounds(rules)
    name, code = json_name(field, rules), violation_of(rules)

    def read(text: str | None, findings: Findings) -> Value:
        if in_path and text is not None and ("%" in text or not text.isascii()):
            text = decoded(text)
        if not text or "\0" in text:
            return UNUSED_ID
        if bounds.accepts(text):
            return text
        findings.add(code, name, f"must be {bounds.allowed}")
        return None

    return read


def parse_query(raw: str) -> dict[str, list[str | None]]:
    """Returns the values of every parameter in order, `None` for one that is not percent-encoded UTF-8.

    `+` and `%20` are blanks. A parameter without `=` has the empty value. A parameter whose name cannot be decoded is
    left out, because unknown parameters are ignored.
    """
    values: dict[str, list[str | None]] = {}
    for pair in raw.split("&"):
        name, _, value = pair.replace("+", " ").partition("=")
        known = decoded(name)
        if known:
            values.setdefault(known, []).append(decoded(value))
    return values


def decoded(raw: str) -> str | None:
    """Returns the text of a percent-encoded part of a request line, `None` when it is not UTF-8."""
    if "%" not in raw and raw.isascii():
        return raw
    try:
        return unquote_to_bytes(raw.encode(errors=_RAW)).decode()
    except UnicodeDecodeError:
        return None
