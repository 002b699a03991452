"""Readers of the fields that arrive as text: in the path, in the query and in headers.

A reader is made once per field. It returns the field's value, or `None` when it is absent or wrong; what is wrong it
adds to the findings.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from google.protobuf.descriptor import FieldDescriptor

from contract.bounds import NO_NUL, NumberBounds, TextBounds
from contract.fields import INTEGERS
from contract.reasons import code_of
from edge.codec.findings import Findings
from edge.codec.query import decoded
from workflow_api.v1.options_pb2 import FieldRules

Value = str | int | None
PathReader = Callable[[str, Findings], Value]
QueryReader = Callable[[Sequence[str | None], Findings], Value]
HeaderReader = Callable[[Sequence[str], Findings], Value]

ONCE: Final = "must be given only once"

DATE_TIMES: Final = frozenset({"created_after", "created_before"})
"""Date-times, in which the raw `+` of an offset arrives as a blank. (DECISIONS.md, Routes, scopes, status codes)."""

EMPTY_IS_ABSENT: Final = frozenset({"cursor", "q"})
"""Parameters whose empty value counts as none. (DECISIONS.md, Conventions of the JSON)."""

NOBODYS_ID: Final = "\ufffd"
"""Stands for an id that nothing can have, as one with U+0000: the backend finds nothing by it, in its own order."""

_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_BLANK_OFFSET: Final = re.compile(r"(.*[Tt][0-9:.,]+) ([0-9]{2}(?::?[0-9]{2})?)")


def violation_of(rules: FieldRules) -> str:
    """Return the error code of a value outside the field's bounds."""
    return code_of(rules.violation) if rules.violation else "invalid_request"


def path_reader(field: FieldDescriptor, rules: FieldRules) -> PathReader:
    """Return the reader of an id in the path."""
    read_id = _id_reader(field, rules)
    return lambda segment, findings: read_id(decoded(segment), findings)


def header_reader(rules: FieldRules) -> HeaderReader:
    """Return the reader of a field that comes from the request header `rules.header`."""
    bounds = TextBounds(rules)
    code = violation_of(rules)

    def read(values: Sequence[str], findings: Findings) -> Value:
        if not values:
            if rules.required:
                findings.add(code, rules.header, "is required")
        elif len(values) > 1:
            findings.add(code, rules.header, ONCE)
        elif not values[0].isascii() or not bounds.hold(values[0]):
            findings.add(code, rules.header, f"must be {bounds.allowed}")
        else:
            return values[0]
        return None

    return read


def query_reader(field: FieldDescriptor, rules: FieldRules, *, is_id: bool) -> QueryReader:
    """Return the reader of a query parameter.

    Raises:
        ValueError: a query cannot carry the field's type.
    """
    if field.cpp_type in INTEGERS:
        return _once(field, _number_reader(field, rules))
    if field.type != FieldDescriptor.TYPE_STRING:
        raise ValueError(f"{field.full_name}: a query parameter is a string or an integer")
    return _once(field, _id_reader(field, rules) if is_id else _text_reader(field, rules))


def _once(field: FieldDescriptor, read_one: Callable[[str | None, Findings], Value]) -> QueryReader:
    def read(values: Sequence[str | None], findings: Findings) -> Value:
        if len(values) == 1:
            return read_one(values[0], findings)
        findings.add("invalid_request", field.name, ONCE)
        return None

    return read


def _number_reader(field: FieldDescriptor, rules: FieldRules) -> Callable[[str | None, Findings], Value]:
    bounds = NumberBounds(field, rules)
    code = violation_of(rules)

    def read(text: str | None, findings: Findings) -> Value:
        if text is not None and _INTEGER.fullmatch(text) and bounds.hold(int(text)):
            return bounds.carried(int(text))
        findings.add(code, field.name, f"must be {bounds.allowed}")
        return None

    return read


def _text_reader(field: FieldDescriptor, rules: FieldRules) -> Callable[[str | None, Findings], Value]:
    bounds = TextBounds(rules)
    code = violation_of(rules)
    is_date_time = field.name in DATE_TIMES

    def read(text: str | None, findings: Findings) -> Value:
        if text is None:
            findings.add(code, field.name, "must be percent-encoded UTF-8")
        elif "\0" in text:
            findings.add(code, field.name, NO_NUL)
        elif not text:
            # The wire cannot tell an empty string from an absent one, so an empty filter is judged here.
            if field.name not in EMPTY_IS_ABSENT:
                findings.add(code, field.name, "must not be empty")
        elif not bounds.hold(text):
            findings.add(code, field.name, f"must be {bounds.allowed}")
        else:
            return _BLANK_OFFSET.sub(r"\1+\2", text) if is_date_time else text
        return None

    return read


def _id_reader(field: FieldDescriptor, rules: FieldRules) -> Callable[[str | None, Findings], Value]:
    bounds = TextBounds(rules)
    code = violation_of(rules)

    def read(text: str | None, findings: Findings) -> Value:
        if not text or "\0" in text:
            return NOBODYS_ID
        if bounds.hold(text):
            return text
        findings.add(code, field.name, f"must be {bounds.allowed}")
        return None

    return read
